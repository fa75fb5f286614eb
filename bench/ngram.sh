#!/usr/bin/env bash
# words/s of the demo's n-gram network: one process, and a job of three nodes on this machine, against PyTorch
#
# Same data, same batch (384, as 3 streams), same optimizer. ngram-local: one process and one thread on both sides. ngram-job: three
# trainers and three parameter servers on this machine against PyTorch with as many threads as there are cores, or
# one, whichever is faster. Rounds alternate, so that both see the same machine; the best round of each counts.
set -eu
cd "$(dirname "$0")/.."
BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX) ROUNDS=${ROUNDS:-3} SECONDS_EACH=${SECONDS_EACH:-8}
TMP=$PWD/$TMP
trap 'rm -rf "$TMP"' EXIT
for f in /usr/share/wordnet/data.noun; do [ -e $f ] || { echo "bench ngram: no $f (Debian: wordnet-base)" >&2; exit 1; }; done
cp -R workspace_template/word2vec "$TMP/ws"
"$BIN/paddlectl" prepare --format=wordnet --out="$TMP/ws" --shards=3 --holdout=400 --share="${SHARE:-0.16}" --min_word_freq=7 \
    /usr/share/wordnet/data.noun /usr/share/wordnet/data.verb /usr/share/wordnet/data.adj /usr/share/wordnet/data.adv >"$TMP/prepare.log"
words=$(wc -l <"$TMP/ws/dict.txt")
cat >"$TMP/conf.ini" <<E2
[cluster]
hosts = local*3
root_dir = $TMP/node%n
[job]
job_dispatch_package = $TMP/ws
outputs = $TMP/output
E2

rate() { sed -n 's/.*Pass 0 done: .*(\([0-9]*\) words\/s).*/\1/p' "$1" | head -1; }
cost() { sed -n 's/.*Pass 0 done: .* cost \([0-9.]*\).*/\1/p' "$1" | head -1; }
torch() { # THREADS
    env -u OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS="$1" /usr/bin/python3 bench/ngram_torch.py --dict="$TMP/ws/dict.txt" \
        --batch=384 --threads="$1" --seconds="$SECONDS_EACH" "$TMP"/ws/train_data_dir/* | awk '{ print $2 }'
}
local_run() {
    (cd "$TMP/ws" && "$BIN/paddle_worker" trainer --local=1 --n_streams=3 --num_passes=1 --log_period=100000 >"$TMP/local.log" 2>/dev/null)
    rate "$TMP/local.log"
}
job_run() {
    "$BIN/paddlectl" run --conf="$TMP/conf.ini" --num_passes=1 --log_period=100000 >"$TMP/job.log" 2>&1 || { tail -5 "$TMP/job.log" >&2; exit 1; }
    rate "$TMP/job.log"
}
max() { [ "$1" -gt "$2" ] && echo "$1" || echo "$2"; }

t1=0 tn=0 lo=0 jo=0
for ((i = 0; i < ROUNDS; i++)); do
    r=$(local_run) lo=$(max "$lo" "$r")
    r=$(torch 1) t1=$(max "$t1" "$r")
    r=$(job_run) jo=$(max "$jo" "$r")
    r=$(torch "$(nproc)") tn=$(max "$tn" "$r")
done
best=$(max "$t1" "$tn")
echo "vocabulary $words; mean cost of the pass: local $(cost "$TMP/local.log"), job $(cost "$TMP/job.log")"
line() { # NAME TARGET PEER OURS THEIRS
    awk -v n="$1" -v t="$2" -v p="$3" -v o="$4" -v h="$5" 'BEGIN { printf "bench %s ratio %.2f target >=%s peer \"%s\" ours %d words/s theirs %d words/s\n", n, o / h, t, p, o, h }'
}
line ngram-local 1.00 "PyTorch, 1 thread" "$lo" "$t1"
line ngram-job 1.00 "PyTorch, best of 1 and $(nproc) threads" "$jo" "$best"
