#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Word vectors of the skip_gram template on real text, WordNet's glosses, beside the original algorithm (bench/peers/word2vec.c) on
# the same lines: held-out loss, and how well they tell what WordNet relates. Then other programs read the exported vectors.
# release only
. "$(dirname "$0")/../../support/lib.sh"
export PADDLECTL=$BIN/paddlectl
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
[ -r "${WORDNET:-/usr/share/wordnet}/data.noun" ] || skip "WordNet is not there (Debian: wordnet-base)"
PYTHON=/usr/bin/python3
"$PYTHON" -c 'import numpy' 2>/dev/null || skip "$PYTHON has no numpy (Debian: python3-numpy)"
judge() { "$PYTHON" "$TOP/tests/support/word_vectors.py" "$@" || die "word_vectors.py $*"; }
value() { sed -n "s/.*\<$1 \([-0-9.]*\).*/\1/p" <<<"$2"; }
# check WHAT VALUE CONDITION: x is the value
check() {
    echo "$1: $2 (wanted: $3)"
    holds "$3" x="$2"
}

cp -R "$TOP/workspace_template/skip_gram" ws && sh ws/prepare --shards=1 --share=0.4 >prepare.log 2>&1 || die "$(cat prepare.log)"
cd ws || exit 1
${CC:-gcc} -O3 -march=native -ffast-math -std=gnu11 -D_GNU_SOURCE "$TOP/bench/peers/word2vec.c" -o word2vec -lm || die "word2vec.c"
./word2vec counts.txt theirs passes=3 -- train_data_dir/* || die "word2vec"
"$BIN/paddle_worker" trainer --local=1 --num_passes=3 --save_state=0 >log 2>&1 || die "$(tail -3 log)"
for p in emb out; do
    "$PADDLECTL" export --model=output/pass-00002 --format=word2vec-binary --param=$p --out=ours.$p >/dev/null || die "export $p"
done
"$PADDLECTL" export --model=output/pass-00002 --format=word2vec --param=emb --vocabulary=dict.txt --out=words.txt >/dev/null || die "export"
"$PADDLECTL" export --model=output/pass-00002 --format=word2vec-binary --param=emb --vocabulary=dict.txt --out=words.bin >/dev/null || die "export"

theirs=$(judge loss theirs.in theirs.out counts.txt test_data_dir/*) ours=$(judge loss ours.emb ours.out counts.txt test_data_dir/*)
check "held-out loss of a pair" "$(value loss "$ours")" "x <= 1.01 * $(value loss "$theirs")"
theirs=$(judge relations theirs.in dict.txt counts.txt) ours=$(judge relations words.bin dict.txt counts.txt)
check "WordNet's relations against pairs of the same frequency: AUC" "$(value auc "$ours")" "x > 0.65 && x >= $(value auc "$theirs") - 0.01"
judge neighbours words.txt dict.txt king red music

judge same words.txt words.bin
if "$PYTHON" -c 'import gensim' 2>/dev/null; then
    "$PYTHON" - <<'E2' || die "gensim does not read the vectors"
from gensim.models import KeyedVectors
text, binary = KeyedVectors.load_word2vec_format("words.txt"), KeyedVectors.load_word2vec_format("words.bin", binary=True)
assert text.index_to_key == binary.index_to_key and abs(text.vectors - binary.vectors).max() < 1e-6
print("gensim: king is near", ", ".join(w for w, _ in text.most_similar("king", topn=5)))
E2
else
    echo "skipped: $PYTHON has no gensim (Debian: python3-gensim) to read the vectors too"
fi
