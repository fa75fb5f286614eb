#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the templates reach on real data and on planted clicks, with a margin: docs/results.md has the figures. The real data is not in the
# repository: it is looked for in ../shared/data and $PADDLE_TEST_DATA; what is missing there is skipped aloud.
# QUALITY="digits glosses": only these of the parts census, ratings, digits, glosses, clicks.
# limit 1800
# release only
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
export PADDLECTL=$BIN/paddlectl
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
ran=0
part() { [[ " ${QUALITY:-census ratings digits glosses clicks} " == *" $1 "* ]]; }
need() { # need FILE...: in the folder of data; else the part is skipped
    for f in "$@"; do
        [ -r "$SHARED/$f" ] || { echo "skipped: $SHARED/$f is not there"; return 1; }
    done
    ran=$((ran + 1))
}
# train TEMPLATE OPTIONS...: in its folder, in this process; the last evaluation is in $OUT
train() {
    local name=$1
    shift
    (cd "$name" && "$WORKER" trainer --local=1 --save_dir=out "$@") >"$name.log" 2>&1 || die "$name: $(tail -3 "$name.log")"
    blas_used "$name.log"
    OUT=$(grep '^Test after' "$name.log" | tail -1)
}
value() { sed -n "s/.*[ ,]$1 \([-0-9.e+]*\),.*/\1/p" <<<"$OUT"; }
check() { # check WHAT VALUE CONDITION: x is the value
    echo "$1: $2 (wanted: $3)"
    holds "$3" x="$2"
}
template() { cp -R "$TOP/workspace_template/$1" "$1" && sh "$1/prepare" --shards=3 "${@:2}" >"$1.prepare" 2>&1 || die "$1: $(cat "$1.prepare")"; }

if part census && need adult.data; then # 26,049 records to learn from, 6,512 held out
    template census "$SHARED/adult.data"
    for seed in 1 2; do
        train census --seed=$seed
        check "census, seed $seed: AUC" "$(value auc)" "x >= 0.908"
        check "census, seed $seed: error" "$(value error)" "x <= 0.15"
    done
fi

# Of each user the newest tenth is held out.
if part ratings && need ml-latest-small/ratings.csv ml-latest-small/movies.csv; then
    template recommendation "$SHARED/ml-latest-small"
    # mu + b_user + b_item: means in turn, with 5 added to the counts, which is better than plain means
    baseline=$(cat recommendation/train_data_dir/* recommendation/test_data_dir/* | awk -F:: -v held="$(cat recommendation/test_data_dir/* | wc -l)" '
        { u[NR] = $1; m[NR] = $2; r[NR] = $3 }
        END {
            n = NR - held
            for (i = 1; i <= n; i++) mu += r[i] / n
            for (turn = 0; turn < 10; turn++) {
                split("", s); split("", c)
                for (i = 1; i <= n; i++) { s[m[i]] += r[i] - mu - bu[u[i]]; c[m[i]]++ }
                for (k in s) bm[k] = s[k] / (c[k] + 5)
                split("", s); split("", c)
                for (i = 1; i <= n; i++) { s[u[i]] += r[i] - mu - bm[m[i]]; c[u[i]]++ }
                for (k in s) bu[k] = s[k] / (c[k] + 5)
            }
            for (i = n + 1; i <= NR; i++) { d = r[i] - mu - bu[u[i]] - bm[m[i]]; sum += d * d }
            printf "%.6f", sqrt(sum / held)
        }')
    check "ratings: RMSE of mu + b_user + b_item" "$baseline" "x > 0.8 && x < 1"
    train recommendation
    check "ratings: RMSE" "$(value rmse)" "x <= 0.98 * $baseline"
fi

# 2,999 images; 1,797 held out, of other writers.
if part digits && need optdigits.tra optdigits.tes; then
    template recognize_digits "$SHARED/optdigits.tra" "$SHARED/optdigits.tes"
    train recognize_digits
    check "digits, perceptron: error" "$(value error)" "x <= 0.055"
    train recognize_digits --config=lenet.ini
    check "digits, LeNet: error" "$(value error)" "x <= 0.048"
fi

if ! part glosses; then
    :
elif [ -r /usr/share/wordnet/data.noun ]; then
    # The original demo's word model against the same model in PyTorch (tests/goldens/perplexity.py).
    read -r golden _ words _ samples _ _ held <"$TOP/tests/goldens/wordnet.perplexity"
    cp -R "$TOP/workspace_template/word2vec" word2vec
    sh word2vec/prepare --shards=3 --share=0.1 --min_word_freq=20 --holdout=20 >word2vec.prepare || die "word2vec: prepare"
    if [ "$(wc -l <word2vec/dict.txt)" = "$words" ]; then
        train word2vec --n_streams=3
        grep -q " $samples samples in" word2vec.log && [[ $OUT == *" $held samples" ]] || die "not $samples and $held samples: $(tail -n 5 word2vec.log)"
        check "glosses: perplexity" "$(value perplexity)" "x >= 0.99 * $golden && x <= 1.01 * $golden"
        ran=$((ran + 1))
    else
        echo "skipped: this WordNet has other words than that of the golden: make goldens"
    fi
else
    echo "skipped: no WordNet here (Debian: wordnet-base)"
fi

best() { sed -n "s/^best possible.*$1 \([0-9.]*\).*/\1/p" ctr.prepare; }
# 200,000 made-up clicks to learn from, 40,000 held out. The best possible result is that of the
# planted probabilities.
if part clicks; then
    template ctr
    check "clicks: best possible AUC" "$(best AUC)" "x > 0.8 && x < 0.9"
    train ctr --config=train-deepfm.ini
    check "clicks, DeepFM: AUC" "$(value auc)" "x >= $(best AUC) - 0.005 && x < $(best AUC) + 0.001"
    check "clicks, DeepFM: log loss" "$(value log_loss)" "x <= $(best 'log loss') + 0.007"
    train ctr --config=train-lr.ini # a model without products: DeepFM's gain comes from them
    check "clicks, logistic regression: AUC" "$(value auc)" "x >= 0.81 && x < $(best AUC) - 0.02"
    ran=$((ran + 1))
fi
[ $ran -gt 0 ] || skip "nothing of this is here"

echo "quality: $ran data sets"
