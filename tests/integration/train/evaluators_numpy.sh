#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of a test are those that numpy computes from the test data and from the answers of infer: log loss and normalized entropy;
# gauc, ndcg and recall by user, with ties as scikit-learn's ndcg_score has them.
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker CTL=$BIN/paddlectl PYTHON=/usr/bin/python3
"$PYTHON" -c 'import numpy' 2>/dev/null || skip "no numpy for /usr/bin/python3"
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
mkdir train test
# 300 users, some with one sample; few different x and items, so that samples of a user have equal outputs
awk 'BEGIN { srand(3); for (i = 0; i < 5000; i++) { u = int(300 * rand() * rand()); x = int(rand() * 4); item = int(rand() * 6)
    y = rand() < 1 / (1 + exp(2 - x / 2 - (item % 3) + (u % 4) / 2))
    print "u" u "," x ",item" item "," x "," (y ? 1 : 0) > (i < 2500 ? "train/part-0" : "test/part-0") } }'
{
    printf '%s\n' '[data]' 'format = csv' 'train = train/*' 'test = test/*' 'columns = user x item z y' \
        'fields = user:category x:category item:category z:dense y:label' \
        '[layer e]' 'type = embedding' 'inputs = x item' 'combine = sum' 'size = 1' 'sparse_update = true' 'init_std = 0.3' \
        '[layer p]' 'type = addto' 'inputs = e' 'act = sigmoid' '[cost c]' 'type = binary_cross_entropy' 'input = p' 'label = y' \
        '[optimizer]' 'type = adagrad' 'learning_rate = 0.1'
    evaluator() { printf '%s\n' "[evaluator $1]" "type = $2" 'input = p' 'label = y' "${@:3}"; }
    evaluator log_loss log_loss
    evaluator entropy normalized_entropy
    evaluator entropy_of_0 normalized_entropy 'positive = 0'
    evaluator gauc gauc 'group = user'
    evaluator gauc_of_0 gauc 'group = user' 'positive = 0'
    evaluator gauc_clicks gauc 'group = user' 'group_weight = positives'
    evaluator ndcg ndcg 'group = user' 'k = 5'
    evaluator ndcg_samples ndcg 'group = user' 'group_weight = samples'
    evaluator recall recall 'group = user' 'k = 3'
} >train.ini
"$WORKER" trainer --local=1 --num_passes=1 --batch_size=100 >log 2>&1 || die "train: $(tail -n 3 log)"
"$CTL" infer --model=output/pass-00000 --data=test/part-0 >scores 2>err || die "infer: $(cat err)"
said=$(sed -n 's/.*Test after pass 1\/1: //p' log)
[ -n "$said" ] || die "no test: $(tail -n 3 log)"
"$PYTHON" - "$said" <<'PY' || die "the figures of numpy are others than: $said"
import sys

import numpy as np

said = dict(f.split() for f in sys.argv[1].split(", ") if not f.endswith("samples"))
lines = [line.strip().split(",") for line in open("test/part-0")]
user = np.array([line[0] for line in lines])
label = np.array([int(line[4]) for line in lines])
score = np.loadtxt("scores").astype(np.float32)
p = score.astype(np.float64)


def log_loss(y, q):
    return -np.mean(y * np.log(np.maximum(q, 1e-7)) + (1 - y) * np.log(np.maximum(1 - q, 1e-7)))


def entropy(y):
    return -np.mean(y) * np.log(np.mean(y)) - np.mean(1 - y) * np.log(np.mean(1 - y))


def auc(y, s, k):
    difference = s[y == 1][:, None] - s[y == 0][None, :]
    return np.mean((difference > 0) + 0.5 * (difference == 0)) if difference.size else None


def ndcg(y, s, k):
    discount = 1 / np.log2(np.arange(len(y)) + 2)
    discount[k:] = 0
    _, at, counts = np.unique(-s, return_inverse=True, return_counts=True)
    gains = np.zeros(len(counts))
    np.add.at(gains, at, y)
    sums = np.diff(np.concatenate([[0], np.cumsum(discount)[np.cumsum(counts) - 1]]))
    return (gains / counts * sums).sum() / (np.sort(y)[::-1] * discount).sum() if y.any() else None


def recall(y, s, k):
    found = 0
    for i in np.flatnonzero(y):
        before, equal = (s > s[i]).sum(), (s == s[i]).sum()
        found += min(max(k - before, 0), equal) / equal
    return found / y.sum() if y.any() else None


def mean(name, of, y=label, s=score, k=10, weight="equal"):
    groups = [(y[user == u], s[user == u]) for u in np.unique(user)]
    values = [(of(a, b, k), {"equal": 1, "samples": len(a), "clicks": a.sum()}[weight], len(a)) for a, b in groups]
    values = [v for v in values if v[0] is not None]
    assert 50 < len(values) < len(groups)
    same(name, sum(v * w for v, w, _ in values) / sum(w for _, w, _ in values))
    same(name + ".share", sum(n for _, _, n in values) / len(y))


def same(name, want):
    assert abs(float(said[name]) - want) < 1e-5 * abs(want) + 1e-6, (name, said[name], want)


assert len(np.unique(score)) < 100
same("log_loss", log_loss(label, p))
same("entropy", log_loss(label, p) / entropy(label))
same("entropy_of_0", log_loss(label, p) / entropy(label))
mean("gauc", auc, weight="samples")
mean("gauc_of_0", auc, 1 - label, -score, weight="samples")
mean("gauc_clicks", auc, weight="clicks")
mean("ndcg", ndcg, k=5)
mean("ndcg_samples", ndcg, weight="samples")
mean("recall", recall, k=3)
PY

# What does not fit is an error with its line.
refused() { # refused TEXT SED_SCRIPT
    sed "$2" train.ini >bad.ini
    expect 2 "$WORKER" trainer --local=1 --config=bad.ini --num_passes=1
    has "$1"
}
refused "evaluator 'gauc': gauc needs group = FIELD, the user or query of a sample" '/^\[evaluator gauc\]/,/^group/{/^group/d}'
refused "evaluator 'gauc': its group 'usr' is not a field, did you mean 'user'?" '/^\[evaluator gauc\]/,/^group/s/= user/= usr/'
refused "evaluator 'gauc': its group 'z' is a dense field, but it needs one id a sample" '/^\[evaluator gauc\]/,/^group/s/= user/= z/'
refused "evaluator 'entropy': normalized_entropy takes no key 'k'" '/^type = normalized_entropy/s/$/\nk = 2/'
refused "evaluator 'entropy': normalized_entropy needs an input with act = sigmoid or softmax, but 'e' " '/^\[evaluator entropy\]/,/^input/s/^input = p/input = e/'
refused "k is a whole number from 1 to 1048576, not '0'" 's/^k = 5/k = 0/'
