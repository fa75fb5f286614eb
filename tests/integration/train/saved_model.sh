#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A saved model in use: job = test says of it what the training said; paddlectl infer gives for each line the outputs that a plain
# program computes from the exported parameters, from a file, a pipe and in any batch; every export is read back.
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
CTL=$BIN/paddlectl
PYTHON=/usr/bin/python3
"$PYTHON" -c 'import numpy' 2>/dev/null || skip "no numpy for /usr/bin/python3"
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
mkdir ws && cd ws || exit 1
mkdir train test
seq 0 39 | sed 's/^/word/' >dict.txt
# y follows from a and b, mostly
awk 'BEGIN { srand(4); for (i = 0; i < 3000; i++) { a = int(rand() * 39); b = int(rand() * 39);
    print a, b, rand() < 0.9 ? (3 * a + b) % 5 : int(rand() * 5) > (i % 10 ? i % 4 ? "train/part-0" : "train/part-1" : i % 20 ? "test/part-0" : "test/part-1") } }'
cat >train.ini <<'INI'
[data]
format = ids
train = train/*
test = test/*
fields = a b y
vocabulary_file = dict.txt
[layer ea]
type = embedding
inputs = a
param = emb
size = 6
sparse_update = true
init_std = 0.3
[layer eb]
type = embedding
inputs = b
param = emb
size = 6
sparse_update = true
init_std = 0.3
[layer both]
type = concat
inputs = ea eb
[layer hidden]
type = fc
inputs = both
size = 24
act = tanh
[layer out]
type = fc
inputs = hidden
size = vocabulary
act = softmax
[cost c]
type = cross_entropy
input = out
label = y
[evaluator error]
type = classification_error
input = out
label = y
[evaluator loss]
type = log_loss
input = out
label = y
[evaluator second]
type = precision_recall
input = out
label = y
positive = 2
[optimizer]
type = adagrad
learning_rate = 0.2
[train]
batch_size = 64
num_passes = 3
seed = 3
INI
tested() { sed -n "s|^Test $1: ||p" "$2"; }
"$WORKER" trainer --local=1 >"$TMP/train.log" 2>&1 || die "training: $(tail -3 "$TMP/train.log")"
model=output/pass-00002
grep -q '^Pass 3/3 done: .*, error 0\.[0-9]*, loss [0-9.]*, second.precision [0-9.]*, second.recall [0-9.]*, second.f1 [0-9.]*$' "$TMP/train.log" ||
    die "the pass says nothing of the evaluators: $(grep Pass "$TMP/train.log")"

# --- job = test, alone and with two trainers and two servers: the same figures
"$WORKER" trainer --local=1 --job=test --init_model_path=$model >"$TMP/test.log" 2>&1 || die "test: $(tail -3 "$TMP/test.log")"
want=$(tested 'after pass 3/3' "$TMP/train.log")
[ -n "$want" ] && [ "$(tested 'of the saved model' "$TMP/test.log")" = "$want" ] || die "job = test: $(cat "$TMP/test.log"), training: $want"
list=
for i in 0 1; do
    start "s$i" "$WORKER" pserver --nics=127.0.0.1 --port=0 --num_gradient_servers=2
    wait_for 30 "pserver $i listens" grep -q '^pserver listens' "$TMP/s$i.log"
    list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\);.*/127.0.0.1:\1/p' "$TMP/s$i.log")
done
for i in 0 1; do
    start "t$i" "$WORKER" trainer --job=test --init_model_path=$model --pservers="${list#,}" --trainer_id=$i --num_gradient_servers=2
    tpids[i]=$PID
done
for p in "${tpids[@]}"; do wait "$p" || die "a trainer failed: $(tail -3 "$TMP"/t?.log)"; done
for p in "${PIDS[@]}"; do wait "$p" || die "a pserver failed: $(tail -3 "$TMP"/s?.log)"; done
PIDS=()
same_figures 5 "$(tested 'of the saved model' "$TMP/t0.log")" "$want" ||
    die "two trainers: $(cat "$TMP/t0.log"), one: $want"

# --- infer: a file, a pipe, one by one; the largest outputs only; another layer
cat test/part-0 test/part-1 >lines
"$CTL" infer --model=$model --data=lines --ids >scores || die "infer"
[ "$(wc -l <scores)" = "$(wc -l <lines)" ] || die "infer: $(wc -l <scores) lines of $(wc -l <lines)"
"$CTL" infer --model=$model --data=- --ids --batch_size=7 --verify=false <lines >piped || die "infer from standard input"
(cd / && "$CTL" infer --model="$TMP/ws/$model" --data="$TMP/ws/lines" --workspace="$TMP/ws" --top=3 --ids) >top || die "infer --top"
"$CTL" infer --model=$model --data='test/*' --layer=hidden >hidden || die "infer --layer"
cat lines | "$CTL" infer --model=$model --data=- --ids >again || die "infer from a pipe"
cmp scores again || die "a pipe gives other scores than the file"
coproc ASK { exec "$CTL" infer --model=$model --data=- --ids --batch_size=1; }
asked=$ASK_PID
PIDS+=("$asked")
for i in 1 2 3; do # a question, its answer, the next question
    sed -n "${i}p" lines >&"${ASK[1]}"
    read -r -t 120 answer <&"${ASK[0]}" || die "no answer to line $i"
    echo "$answer" >>one-by-one
done
exec {ASK[1]}>&-
wait "$asked" || die "infer after its input has ended"
head -3 scores | "$PYTHON" -c 'import sys, numpy as np; assert np.abs(np.loadtxt(sys.stdin) - np.loadtxt("one-by-one")).max() < 1e-5' || die "one by one"
# Words in place of numbers: the 5 most probable by default, the best first, equal to the numbers
"$CTL" infer --model=$model --data=lines >words || die "infer with words"
"$CTL" infer --model=$model --data=lines --ids --top=5 >ids || die "infer --ids --top"
awk 'NR == FNR { want[NR] = $0; next }
    { split($0, a, / /); split(want[FNR], b, / /)
      for (i = 1; i <= 5; i++) {
          split(a[i], x, ":"); split(b[i], y, ":"); d = x[2] - y[2]
          if (x[1] != "word" y[1] || d * d > 1e-6) bad = 1 }
      if (a[6] != "") bad = 1 }
    END { exit bad || NR < 10 }' ids words || die "words: $(head -2 words), numbers: $(head -2 ids)"
expect 0 "$CTL" infer --model=$model --data=lines --top=1
grep -qvE '^word[0-9]+:[0-9.e-]+$' <<<"$OUT" && die "--top=1: $OUT"
# Without --model: the newest model here, and what was chosen is said
expect 0 "$CTL" infer --data=lines
has "paddlectl: model output/pass-00002, workspace ."
grep -v '^paddlectl' <<<"$OUT" | cmp - words || die "the model that infer found gives other words"
expect 0 "$CTL" infer --model=output --data=lines
grep -v '^paddlectl' <<<"$OUT" | cmp - words || die "the newest model of the folder output"
mkdir -p "$TMP/elsewhere"
expect 2 eval 'cd "$TMP/elsewhere" && "$CTL" infer --data="$TMP/ws/lines"'
has "no model given, and output has none: use --model=FOLDER"
expect 2 eval 'cd "$TMP/elsewhere" && "$CTL" infer --data="$TMP/ws/lines" --model="$TMP/ws/$model"'
has "'.' is not the model's workspace, use --workspace=FOLDER: the train.ini of model $TMP/ws/$model: ./train.ini:6: cannot open vocabulary_file ./dict.txt"
expect 2 "$CTL" infer --model=$model
has "no data given: use --data=FILE"
expect 2 "$CTL" infer --model=$model --data=lines --layer=nope
has "the network has no layer 'nope'"
expect 2 "$CTL" infer --model=nowhere --data=lines
has "nowhere"
expect 2 "$CTL" infer --model=$model --data=lines --top=41
has "layer 'out' has 40 outputs, not 41"
printf '1 2 3\n1\n' >bad
expect 1 "$CTL" infer --model=$model --data=bad
has "bad:2: 1 ids, but there are 3 fields, or 2 without the label"
# a damaged model is told before anything is said
cp -R $model damaged && printf x | dd of="$(echo damaged/*.bin)" bs=1 seek=3000 conv=notrunc 2>/dev/null
expect 1 "$CTL" infer --model=damaged --data=lines
has "is damaged"

# --- export
"$CTL" export --model=$model --out=model.npz >export.log || die "export npz"
"$CTL" export --model=$model --format=word2vec --vocabulary=dict.txt --param=emb --out=words.txt >>export.log || die "export word2vec"
"$CTL" export --model=$model --format=word2vec-binary --vocabulary=dict.txt --param=emb --out=words.bin >>export.log || die "export word2vec-binary"
"$CTL" export --model=$model --format=original --out=original >>export.log || die "export original"
expect 0 "$CTL" export --model=$model --out=again.npz --json
has '"rows": '
cmp model.npz again.npz || die "two exports of a model differ"
# Without --model: the newest model, as infer takes it
expect 0 "$CTL" export --out=newest.npz
has "paddlectl: model output/pass-00002, workspace ."
cmp model.npz newest.npz || die "the model that export found is another one"
expect 0 "$CTL" export --model=output --out=newest.npz
cmp model.npz newest.npz || die "the newest model of the folder output"
expect 2 eval 'cd "$TMP/elsewhere" && "$CTL" export --out=none'
has "no model given, and output has none: use --model=FOLDER"
[ ! -e "$TMP/elsewhere/none" ] || die "an export without a model"
expect 2 "$CTL" export --model=$model
has "use --out=FILE"
expect 2 "$CTL" export --model=$model --format=pickle --out=x
has "there is no format 'pickle'"
"$PYTHON" - <<'PY' || die "the exports and the predictions disagree"
import numpy as np
z = np.load("model.npz")
emb = np.zeros((40, 6), "<f4")
emb[z["emb.ids"]] = z["emb"]
assert (np.diff(z["emb.ids"].astype(np.int64)) > 0).all() and len(z["emb.ids"]) >= 38
# word2vec, text and binary, as the tool's readers do it
words = open("dict.txt").read().split()
with open("words.txt") as f:
    n, dim = map(int, f.readline().split())
    text = {w: np.array(v, "<f4") for w, *v in (line.split() for line in f)}
assert n == len(text) and dim == 6
binary = {}
with open("words.bin", "rb") as f:
    assert f.readline() == b"%d %d\n" % (n, dim)
    for _ in range(n):
        w = b""
        while (c := f.read(1)) != b" ":
            assert c
            w += c if c != b"\n" else b""
        binary[w.decode()] = np.frombuffer(f.read(4 * dim), "<f4")
    assert f.read() in (b"", b"\n")
for i in z["emb.ids"]:
    assert (text[words[i]] == emb[i]).all() and (binary[words[i]] == emb[i]).all()
# the original format
for name in z.files:
    if not name.endswith(".ids"):
        b = open("original/" + name, "rb").read()
        want = emb if name == "emb" else z[name]
        assert b[:16] == np.array([0, 4], "<u4").tobytes() + np.array([want.size], "<u8").tobytes()
        assert b[16:] == want.astype("<f4").tobytes(), name
# the network by hand
x = np.loadtxt("lines", dtype=int)
h = np.tanh(np.hstack([emb[x[:, 0]], emb[x[:, 1]]]).astype(float) @ z["hidden.w"] + z["hidden.b"])
o = h @ z["out.w"] + z["out.b"]
p = np.exp(o - o.max(1, keepdims=True))
p /= p.sum(1, keepdims=True)
got = np.loadtxt("scores")
assert got.shape == p.shape and np.abs(got - p).max() < 1e-5, np.abs(got - p).max()
assert np.abs(np.loadtxt("piped") - p).max() < 1e-5
assert np.abs(np.loadtxt("hidden") - h).max() < 1e-5
for line, row in zip(open("top"), got):
    pairs = [v.split(":") for v in line.split()]
    assert [int(k) for k, _ in pairs] == list(np.argsort(-row, kind="stable")[:3]), (line, np.argsort(-row)[:3])
# what the training said of this data
said = dict(v.rsplit(" ", 1) for v in open("../train.log").read().split("Test after pass 3/3: ")[1].split("\n")[0].split(", ") if " " in v)
wrong = (p.argmax(1) != x[:, 2]).mean()
loss = -np.log(np.maximum(p[np.arange(len(x)), x[:, 2]], 1e-7)).mean()
assert abs(float(said["error"]) - wrong) < 1e-5 and abs(float(said["loss"]) - loss) < 1e-4, (said, wrong, loss)
tp = ((p.argmax(1) == 2) & (x[:, 2] == 2)).sum()
assert abs(float(said["second.precision"]) - tp / (p.argmax(1) == 2).sum()) < 1e-5, said
assert abs(float(said["second.recall"]) - tp / (x[:, 2] == 2).sum()) < 1e-5, said
assert wrong < 0.4, wrong
PY
echo "a saved model: tested, asked and exported"
