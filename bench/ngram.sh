#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo's network: how many words/s in one process and in a job of three nodes?
#
# Same data, same batch (384, as 3 streams), same optimizer. ngram-local: one process and one
# thread on both sides. ngram-job: three trainers and three parameter servers on this machine
# against PyTorch with 1 or 2 threads of its own x 1 or 2 of OpenBLAS: a brief trial of each
# (TRIAL_S=2 seconds), then rounds with the two fastest. Rounds alternate, so that both see the
# same machine; the best round of each counts. SECONDS_EACH=8: of each round of PyTorch.
# SHARE=0.16: of the text.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX) ROUNDS=${ROUNDS:-3} SECONDS_EACH=${SECONDS_EACH:-8}
unset ${!OPENBLAS_@} ${!OMP_@} # the caller's core type or number of threads
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

rate() { sed -n 's/.*Pass 1\/1 done: .*(\([0-9]*\) words\/s).*/\1/p' "$1" | head -1; }
cost() { sed -n 's/.*Pass 1\/1 done: .* cost \([0-9.]*\).*/\1/p' "$1" | head -1; }
torch() { # SECONDS OPTION...: lines "RATE THREADS-OF-PYTORCH THREADS-OF-OPENBLAS"
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/peers/ngram_torch.py --dict="$TMP/ws/dict.txt" --batch=384 --seconds="$1" "${@:2}" \
        "$TMP"/ws/train_data_dir/* | awk '{ print $2, $4, $6 }'
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

torch "${TRIAL_S:-2}" --try >"$TMP/tried"
[ -s "$TMP/tried" ] || { echo "bench ngram: PyTorch failed" >&2; exit 1; }
echo "PyTorch's trials, words/s, threads of PyTorch, threads of OpenBLAS: $(paste -sd';' "$TMP/tried")"
t1=0 best=0 lo=0 jo=0 setting=
for ((i = 0; i < ROUNDS; i++)); do
    r=$(local_run) lo=$(max "$lo" "$r")
    r=$(torch "$SECONDS_EACH") t1=$(max "$t1" "${r%% *}")
    r=$(job_run) jo=$(max "$jo" "$r")
    while read -r _ t b; do
        r=$(torch "$SECONDS_EACH" --threads="$t" --blas="$b") r=${r%% *}
        [ "$r" -le "$best" ] || best=$r setting="$t and $b"
    done < <(head -2 "$TMP/tried")
done
[ "$t1" -le "$best" ] || best=$t1 setting="1 and 1"
echo "vocabulary $words; mean cost of the pass: local $(cost "$TMP/local.log"), job $(cost "$TMP/job.log")"
line() { # NAME TARGET PEER OURS THEIRS
    awk -v n="$1" -v t="$2" -v p="$3" -v o="$4" -v h="$5" 'BEGIN { printf "bench %s ratio %.2f target >=%s peer \"%s\" ours %d words/s theirs %d words/s\n", n, o / h, t, p, o, h }'
}
line ngram-local 1.00 "PyTorch, 1 thread" "$lo" "$t1"
line ngram-job 1.00 "PyTorch, its best threads: $setting of OpenBLAS" "$jo" "$best"
