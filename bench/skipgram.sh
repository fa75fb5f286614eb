#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Word vectors: how many words a CPU second against word2vec's algorithm in C, at equal loss?
#
# The skip_gram template as it is (one process, one trainer thread), and bench/peers/word2vec.c with word2vec's own settings and the
# same size, window, subsampling and passes, on the same lines of WordNet's glosses; rounds alternate, the best CPU time of each
# counts: all of our process, readers, held-out tests and saving included; of the peer reading and training. The ratio only counts if
# our held-out loss (tests/support/word_vectors.py) is not above the peer's. SHARE=0.1: of a tenth of the text, where nothing is said about that.
set -eu
cd "$(dirname "$0")/.."
BIN=$PWD/build/release TOP=$PWD PASSES=${PASSES:-3} ROUNDS=${ROUNDS:-2} PYTHON=/usr/bin/python3
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
trap 'rm -rf "$TMP"' EXIT
unset OPENBLAS_CORETYPE
[ -r "${WORDNET:-/usr/share/wordnet}/data.noun" ] || { echo "bench skipgram: no WordNet (Debian: wordnet-base)" >&2; exit 1; }
cp -R workspace_template/skip_gram "$TMP/ws"
PADDLECTL=$BIN/paddlectl sh "$TMP/ws/prepare" --shards=1 >/dev/null
gcc -O3 -march=native -ffast-math -std=gnu11 -D_GNU_SOURCE bench/peers/word2vec.c -o "$TMP/word2vec" -lm
cd "$TMP/ws"
words=$(awk -v p="$PASSES" '{ n += NF } END { print n * p }' train_data_dir/*)
least() { awk -v a="$1" -v b="$2" 'BEGIN { print a + 0 == 0 || b < a ? b : a }'; }
ours=0 theirs=0
for ((i = 0; i < ROUNDS; i++)); do
    theirs=$(least "$theirs" "$("$TMP/word2vec" counts.txt theirs passes="$PASSES" -- train_data_dir/* | awk '{ print $4 }')")
    rm -rf output
    t=$({ TIMEFORMAT='%U %S'; time "$BIN/paddle_worker" trainer --local=1 --num_passes="$PASSES" --log_period=100000 --save_state=0 >log 2>/dev/null; } 2>&1)
    ours=$(least "$ours" "$(awk '{ print $1 + $2 }' <<<"$t")")
done
model=$(echo output/pass-*)
for p in emb out; do "$BIN/paddlectl" export --model="$model" --format=word2vec-binary --param=$p --out=ours.$p >/dev/null; done
loss() { "$PYTHON" "$TOP/tests/support/word_vectors.py" loss "$1" "$2" counts.txt test_data_dir/* | awk '{ print $2 }'; }
auc() { "$PYTHON" "$TOP/tests/support/word_vectors.py" relations "$1" dict.txt counts.txt | awk '{ print $2 }'; }
lo=$(loss ours.emb ours.out) lt=$(loss theirs.in theirs.out)
echo "$PASSES passes of $((words / PASSES)) words, $(wc -l <dict.txt) in the vocabulary; held-out loss of a pair: ours $lo, theirs $lt; AUC of WordNet's relations: $(auc ours.emb), $(auc theirs.in)"
[ "${SHARE:-1}" != 1 ] || awk -v a="$lo" -v b="$lt" 'BEGIN { exit !(a <= b) }' || { echo "bench skipgram: our loss is higher" >&2; exit 1; }
awk -v w="$words" -v o="$ours" -v t="$theirs" \
    'BEGIN { printf "bench skipgram ratio %.2f target >=1.50 peer \"word2vec algorithm in C\" ours %.0f words/CPU s theirs %.0f words/CPU s\n", t / o, w / o, w / t }'
