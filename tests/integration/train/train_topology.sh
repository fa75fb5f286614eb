#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# reproducible = topology: the same job with n_streams = 12 on 1 to 5 trainers, 1 or 2 servers with 1 or 2 threads of each kind, and
# without servers, with 1 to 5 threads in a trainer, saves models of equal values, bit for bit, and prints equal costs. Streams end at different steps, the network
# has dropout, l2 and clip_norm. Under reproducible = run three trainers end elsewhere: this test can tell.
# both
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
[ -e /usr/share/wordnet/data.noun ] || skip "no WordNet here (Debian: wordnet-base)"
unset OPENBLAS_CORETYPE

cp -R "$TOP/workspace_template/word2vec" "$TMP/ws"
cd "$TMP/ws" || exit 1
"$BIN/paddlectl" prepare --format=wordnet --out=. --shards=12 --holdout=20 --share="${TEST_SHARE:-0.01}" --min_word_freq=10 \
    /usr/share/wordnet/data.noun /usr/share/wordnet/data.verb /usr/share/wordnet/data.adj /usr/share/wordnet/data.adv >/dev/null ||
    die "prepare"
k=0
for f in train_data_dir/*; do # the first has one sentence, the fourth none
    case $k in 0) sed -i '2,$d' "$f" ;; 3) : >"$f" ;; 7) sed -i '1,9d' "$f" ;; esac
    k=$((k + 1))
done
sed -i -e 's/^; \[layer drop\]/[layer drop]/; s/^; type = dropout/type = dropout/; s/^; inputs = hidden/inputs = hidden/; s/^; rate = .*/rate = 0.3/' \
    -e 's/^inputs = hidden$/inputs = drop/' -e 's/^learning_rate = .*/&\nclip_norm = 0.5\nl2 = 0.001/' train.ini
sed -i '/^\[layer drop\]/,/^\[/s/^inputs = drop/inputs = hidden/' train.ini
grep -q '^inputs = drop' train.ini && grep -q '^rate = 0.3' train.ini && grep -q '^clip_norm' train.ini || die "train.ini is not what this test edits"
OPTIONS="--n_streams=12 --batch_size=200 --log_period=5 --num_passes=2 --seed=7 --reproducible=topology"

by_hand() { # by_hand NAME TRAINERS SERVERS THREADS [OPTION...]
    local name=$1 trainers=$2 servers=$3 threads=$4 list='' i tpids=()
    shift 4
    for ((i = 0; i < servers; i++)); do
        start "$name-s$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --ports_num="$threads" --ports_num_for_sparse="$threads" \
            --num_gradient_servers="$trainers"
    done
    for ((i = 0; i < servers; i++)); do
        wait_for 60 "pserver $i listens" grep -q '^pserver listens' "$TMP/$name-s$i.log"
        list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$TMP/$name-s$i.log")
    done
    for ((i = 0; i < trainers; i++)); do
        # shellcheck disable=SC2086
        start "$name-t$i" "$WORKER" trainer --pservers="${list#,}" --trainer_id=$i --num_gradient_servers="$trainers" $OPTIONS \
            --save_dir="$TMP/$name" "$@"
        tpids+=("$PID")
    done
    for p in "${tpids[@]}"; do wait "$p" || die "$name: a trainer failed: $(tail -3 "$TMP/$name"-t*.log)"; done
    for p in "${PIDS[@]}"; do wait "$p" || die "$name: a pserver failed: $(tail -3 "$TMP/$name"-s*.log)"; done
    PIDS=()
}
# What trainer 0 prints, without times.
said() { grep -E 'Batch|done|Test' "$1" | sed 's/.*\(Pass\|Test\)/\1/; s/ in [0-9.]* s ([0-9]* words.s)//; s/, [0-9]* words.s$//'; }
digest() { "$TOP/tests/support/model-digest" "$1/pass-00001" | cut -d' ' -f1; }

few='1 1 1 5
1 2 2 1
2 1 2 2
2 2 1 1
3 1 1 3
3 2 2 1
4 1 1 2
4 2 2 1
5 2 1 1'
[[ $BIN != *san-* ]] || few='3 2 2 2' # the code of every case is in this one

# shellcheck disable=SC2086
"$WORKER" trainer --local=1 $OPTIONS --save_dir="$TMP/local" >"$TMP/local.log" 2>&1 || die "local: $(tail -3 "$TMP/local.log")"
want=$(digest "$TMP/local")
said "$TMP/local.log" >"$TMP/local.said"
[ "$(grep -c Batch "$TMP/local.said")" -gt 4 ] || die "too few batches: $(cat "$TMP/local.log")"
echo "$want  local"
while read -r trainers servers threads count; do
    name=t$trainers-s$servers-n$threads-c$count
    by_hand "$name" "$trainers" "$servers" "$threads" --trainer_count="$count"
    got=$(digest "$TMP/$name")
    echo "$got  $trainers trainers, $servers servers, $threads + $threads threads, trainer_count $count"
    [ "$got" = "$want" ] || die "$name saved other values: $("$TOP/tests/support/model-digest" --names "$TMP/local/pass-00001" "$TMP/$name/pass-00001")"
    said "$TMP/$name-t0.log" >"$TMP/$name.said" # not the batches in which only others had data
    if grep -vxFf "$TMP/local.said" "$TMP/$name.said"; then die "$name printed other costs"; fi
    [ "$(grep -vc Batch "$TMP/$name.said")" = "$(grep -vc Batch "$TMP/local.said")" ] || die "$name: $(cat "$TMP/$name.said")"
done <<<"${TOPOLOGIES:-$few}"

# Under reproducible = run the threads cut each batch: the same bits again with as many, other ones with another number.
for name in threads again; do
    # shellcheck disable=SC2086
    "$WORKER" trainer --local=1 $OPTIONS --reproducible=run --trainer_count=3 --save_dir="$TMP/$name" >"$TMP/$name.log" 2>&1 ||
        die "$name: $(tail -3 "$TMP/$name.log")"
done
[ "$(digest "$TMP/threads")" = "$(digest "$TMP/again")" ] || die "three threads, twice: other bits"
[ "$(said "$TMP/threads.log")" = "$(said "$TMP/again.log")" ] || die "three threads, twice: other costs"
[ "$(digest "$TMP/threads")" != "$want" ] || die "three threads under reproducible = run have the bits of topology: this test tests nothing"
[ "$(grep -c Batch "$TMP/threads.log")" = "$(grep -c Batch "$TMP/local.said")" ] || die "three threads: $(cat "$TMP/threads.log")"

by_hand other 3 1 1 --reproducible=run
[ "$(digest "$TMP/other")" != "$want" ] || die "three trainers under reproducible = run have the same bits: this test tests nothing"

expect 2 "$WORKER" trainer --local=1 --reproducible=topology
has "needs n_streams"
expect 2 "$WORKER" trainer --local=1 --reproducible=topology --n_streams=12 --update=async
has "needs update = sync"
