#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same job in four ways - one process without servers, one trainer, three trainers by hand over TCP, and numpy - has the
# same cost in each of the first 50 batches (1e-4 relative); held-out perplexity falls to the level of the reference; two runs
# give the same bits, with overlap and without; the gradients of the template's network are those of its cost.
# both
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
[ -e /usr/share/wordnet/data.noun ] || skip "no WordNet here (Debian: wordnet-base)"
/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "no numpy for /usr/bin/python3"
unset OPENBLAS_CORETYPE

cp -R "$TOP/workspace_template/word2vec" "$TMP/ws"
cd "$TMP/ws" || exit 1
"$BIN/paddlectl" prepare --format=wordnet --out=. --shards=3 --holdout=20 --share="${TEST_SHARE:-0.08}" --min_word_freq=10 \
    /usr/share/wordnet/data.noun /usr/share/wordnet/data.verb /usr/share/wordnet/data.adj /usr/share/wordnet/data.adv ||
    die "prepare"
OPTIONS="--n_streams=3 --batch_size=384 --save_initial=1 --log_period=1 --num_passes=1 --seed=7"
costs() { sed -n 's/.*Pass 1\/1, Batch \([0-9]*\), Cost \([^ ]*\) .*/\1 \2/p' "$1" | head -50; }
perplexity() { sed -n "s/.*Test $2 pass 1\/1: .*perplexity \([0-9.]*\),.*/\1/p" "$1"; }

by_hand() { # by_hand NAME SERVERS TRAINERS SAVE_DIR [OPTION...]: servers and trainers over TCP on loopback, as README shows
    local name=$1 servers=$2 trainers=$3 dir=$4 list='' i tpids=()
    shift 4
    for ((i = 0; i < servers; i++)); do
        start "$name-s$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --num_gradient_servers="$trainers"
        wait_for 30 "pserver $i listens" grep -q '^pserver listens' "$TMP/$name-s$i.log"
        list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\);.*/127.0.0.1:\1/p' "$TMP/$name-s$i.log")
    done
    for ((i = 0; i < trainers; i++)); do
        # shellcheck disable=SC2086
        start "$name-t$i" "$WORKER" trainer --pservers="${list#,}" --trainer_id=$i --num_gradient_servers="$trainers" \
            $OPTIONS --save_dir="$dir" "$@"
        tpids+=("$PID")
    done
    for p in "${tpids[@]}"; do wait "$p" || die "$name: a trainer failed: $(tail -3 "$TMP/$name"-t*.log)"; done
    for p in "${PIDS[@]}"; do wait "$p" || die "$name: a pserver failed: $(tail -3 "$TMP/$name"-s*.log)"; done
    PIDS=()
}

expect 0 "$WORKER" trainer --job=checkgrad
has "ok"
has_not WRONG

# shellcheck disable=SC2086
"$WORKER" trainer --local=1 $OPTIONS --save_dir=out-local >"$TMP/local.log" 2>&1 || die "local: $(tail -3 "$TMP/local.log")"
by_hand one 1 1 out-one
by_hand three 3 3 out-three
by_hand again 3 3 out-again
by_hand behind 3 3 out-behind --overlap=0

/usr/bin/python3 "$TOP/tests/support/ref_ngram.py" --model=out-local/pass-init --data=train_data_dir --test=test_data_dir \
    --dict=dict.txt --streams=3 --batch=384 --batches=100000 >"$TMP/ref.log" 2>&1 || die "reference: $(tail -3 "$TMP/ref.log")"
head -50 "$TMP/ref.log" >"$TMP/ref.costs"
reached=$(sed -n 's/^test //p' "$TMP/ref.log")
for run in local one-t0 three-t0; do
    costs "$TMP/$run.log" >"$TMP/$run.costs"
    paste "$TMP/ref.costs" "$TMP/$run.costs" | awk -v run="$run" '
        { if ($1 != $3) { print run ": batch " $1 " against " $3; bad = 1; exit }
          d = ($4 - $2) / $2; d = d < 0 ? -d : d; if (d > worst) { worst = d; at = $1 } n++ }
        END { printf "%s: %d batches, largest relative difference %.2g (batch %d)\n", run, n, worst, at; exit bad || n != 50 || worst > 1e-4 }' ||
        die "$run does not agree with the numpy reference"
done

diff -r out-three out-again >/dev/null || die "two runs of the same job saved different bits"
diff -r out-three out-behind >/dev/null || die "with overlap = 0 the same job saved different bits"
for run in local one-t0 three-t0; do
    before=$(perplexity "$TMP/$run.log" before) after=$(perplexity "$TMP/$run.log" after)
    echo "$run: held-out perplexity $before -> $after; numpy reaches $reached"
    # It starts near the vocabulary's size, falls, and ends where numpy's float64 ends.
    awk -v b="$before" -v a="$after" -v r="$reached" -v v="$(wc -l <dict.txt)" \
        'BEGIN { d = a / r - 1; exit !(b > 0.5 * v && b < 2 * v && a < 0.5 * b && d < 1e-3 && d > -1e-3) }' ||
        die "$run: held-out perplexity $before -> $after, numpy $reached"
done
