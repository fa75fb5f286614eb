#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# reproducible = topology: how much longer is a pass than with reproducible = run?
#
# The demo's network and data; topology-local: one process without servers; topology-job-T: T trainers (TRAINERS="2 3 4") and one parameter
# server on this machine. Rounds alternate, and the median of the ratios of neighbours counts: a machine that is busy for a while disturbs
# both of a pair. The ratio is topology's time over run's; the line before it has the same of the CPU time of all processes, which
# other programs on the machine disturb less.
set -eu
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
WORKER=$PWD/build/release/paddle_worker ROUNDS=${ROUNDS:-5} SHARE=${SHARE:-0.1} TMP=$(mktemp -d build/bench-XXXXXX)
TMP=$PWD/$TMP
PIDS=()
cleanup() {
    for p in ${PIDS[@]+"${PIDS[@]}"}; do kill "$p" 2>/dev/null || true; done
    rm -rf "$TMP"
}
trap cleanup EXIT
[ -e /usr/share/wordnet/data.noun ] || { echo "bench topology: no /usr/share/wordnet/data.noun (Debian: wordnet-base)" >&2; exit 1; }
cp -R workspace_template/word2vec "$TMP/ws"
build/release/paddlectl prepare --format=wordnet --out="$TMP/ws" --shards=12 --holdout=400 --share="$SHARE" --min_word_freq=7 \
    /usr/share/wordnet/data.noun /usr/share/wordnet/data.verb /usr/share/wordnet/data.adj /usr/share/wordnet/data.adv >"$TMP/prepare.log"
rm -rf "$TMP"/ws/test_data_dir
sed -i '/^test = /d' "$TMP/ws/train.ini"
cd "$TMP/ws"
OPTIONS="--batch_size=1536 --n_streams=12 --num_passes=1 --log_period=100000"
rate() { sed -n 's/.*Pass 1\/1 done: .* in .* s (\([0-9]*\) words.s).*/\1/p' "$1" | head -1; }

local_run() { # WHICH
    # shellcheck disable=SC2086
    "$WORKER" trainer --local=1 $OPTIONS --reproducible="$1" --save_dir="$TMP/out" >"$TMP/local-$1.log" 2>/dev/null
    rate "$TMP/local-$1.log"
}
job_run() { # WHICH
    local i port='' tpids=()
    : >"$TMP/server.log" # here, not in the background: the last round's port must be gone before it is looked for
    "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --num_gradient_servers="$TRAINERS_NOW" >"$TMP/server.log" 2>&1 &
    PIDS=($!)
    for ((i = 0; i < 600; i++)); do
        port=$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/\1/p' "$TMP/server.log")
        [ -z "$port" ] || break
        sleep 0.05
    done
    for ((i = 0; i < TRAINERS_NOW; i++)); do
        # shellcheck disable=SC2086
        "$WORKER" trainer --pservers="127.0.0.1:$port" --trainer_id=$i --num_gradient_servers="$TRAINERS_NOW" $OPTIONS --reproducible="$1" \
            --save_dir="$TMP/out" >"$TMP/job-$1-$i.log" 2>&1 &
        tpids+=($!)
        PIDS+=($!)
    done
    for i in "${tpids[@]}" "${PIDS[0]}"; do wait "$i" || { kill "${PIDS[@]}" 2>/dev/null || true; return 1; }; done
    PIDS=()
    rate "$TMP/job-$1-0.log"
}
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

measure() { # WHAT WHICH: "RATE CPU-SECONDS"
    local TIMEFORMAT='%3U %3S'
    { time "${1}_run" "$2" >"$TMP/rate"; } 2>"$TMP/cpu"
    echo "$(cat "$TMP/rate") $(tail -1 "$TMP/cpu" | awk '{ print $1 + $2 }')"
}

for name in local $(printf 'job-%s ' ${TRAINERS:-2 3 4}); do
    what=${name%-*} TRAINERS_NOW=${name#*-}
    for ((k = 0; k < ROUNDS; k++)); do
        if ((k % 2)); then t=$(measure $what topology) r=$(measure $what run); else r=$(measure $what run) t=$(measure $what topology); fi
        echo "$r $t" >>"$TMP/$name.pairs" # rate and CPU of run, of topology
    done
    awk '{ print $1, $3 }' "$TMP/$name.pairs" >"$TMP/$name.rates"
    ratio=$(awk '{ printf "%.4f\n", $1 / $2 }' "$TMP/$name.rates" | median)
    echo "$name: CPU time of topology over run $(awk '{ printf "%.3f\n", $4 / $2 }' "$TMP/$name.pairs" | median), $ROUNDS rounds"
    printf 'bench topology-%s ratio %.3f target <=1.15 peer "reproducible = run" ours %.0f words/s theirs %.0f words/s\n' "$name" "$ratio" \
        "$(awk '{ print $2 }' "$TMP/$name.rates" | median)" "$(awk '{ print $1 }' "$TMP/$name.rates" | median)"
done
