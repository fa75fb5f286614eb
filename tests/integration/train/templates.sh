#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every template, end to end as its README says it: `paddlectl init`, its prepare with the data that it makes up, a job on this machine
# with `paddlectl run`, and its metric becomes better; then its saved model answers.
. "$(dirname "$0")/../../support/lib.sh"
CTL=$BIN/paddlectl
export PADDLECTL=$CTL
cd "$TMP" || exit 1

# last METRIC FILE: of the last evaluation; first: of the one before the training
last() { sed -n "s/.*Test after pass.*[ ,]$1 \([-0-9.naief+]*\),.*/\1/p" "$2" | tail -1; }
first() { sed -n "s/.*Test before pass 1\/.*[ ,]$1 \([-0-9.naief+]*\),.*/\1/p" "$2" | head -1; }
# try NAME METRIC CONDITION PREPARE RUN: x is the metric after the training, a before it
try() {
    local name=$1 metric=$2 condition=$3 prepare=$4 run=$5
    rm -rf one && mkdir one
    (cd one && "$CTL" init --template="$name" >/dev/null) || die "$name: init"
    # shellcheck disable=SC2086
    sh "one/$name/workspace/prepare" --shards=2 $prepare >"$name.prepare" 2>&1 || die "$name: prepare: $(cat "$name.prepare")"
    # shellcheck disable=SC2086
    (cd "one/$name" && "$CTL" run --root_dir="$TMP/root%n" --port=0 --nic=lo $run >"$TMP/$name.log" 2>&1) || die "$name: $(tail -5 "$TMP/$name.log")"
    local a x
    a=$(first "$metric" "$name.log") x=$(last "$metric" "$name.log")
    [ -n "$a" ] && [ -n "$x" ] || die "$name: no $metric in: $(cat "$name.log")"
    holds "$condition" a="$a" x="$x"
    echo "$name $run: $metric $a -> $x"
}

# An option behind a file is not taken for a file
for t in census ctr fit_a_line recognize_digits recommendation skip_gram word2vec; do
    expect 2 sh "$TOP/workspace_template/$t/prepare" file --shards=2
    has "options come before the files: --shards=2"
done

try fit_a_line rmse "x < 2.4 && a > 10" --rows=1000 ""
best=$(sed -n 's/.*standard deviation \([0-9]*\).*/\1/p' fit_a_line.prepare)
holds "rmse > 0.8 * noise" rmse="$(last rmse fit_a_line.log)" noise="$best"
head -20 one/fit_a_line/workspace/test_data_dir/test.txt-00000 >houses
model=$(ls -d one/fit_a_line/output/latest/*/pass-00019 one/fit_a_line/output/latest/pass-00019 2>/dev/null | head -1)
"$CTL" infer --model="$model" --data=houses >prices || die "infer"
error=$(paste -d, houses prices | awk -F, '{ d = $14 - $15; s += d * d } END { print s / NR }')
holds "n == 20 && error < 16" n="$(wc -l <prices)" error="$error"
try census auc "x > 0.75 && x > a + 0.2" --rows=3000 --num_passes=3
# Where `run` worked, infer finds the newest model and the workspace, and prints labels
answer() { (cd one/census && "$CTL" infer "$@" 2>"$TMP/found"); }
answer --data='workspace/test_data_dir/*' >labels || die "infer in the folder of run: $(cat found)"
grep -qE '^paddlectl: model .*output/JOB[^/]*/.*pass-00002, workspace .*workspace$' found ||
    die "what infer found: $(cat found)"
answer --data='workspace/test_data_dir/*' --ids >numbers || die "infer --ids: $(cat found)"
head -1 labels | grep -qE '^(<=|>)50K:[0-9.e-]+ (<=|>)50K:[0-9.e-]+$' || die "labels: $(head -1 labels)"
awk 'NR == FNR { p[NR] = $1; next }
    { best = p[FNR] > 0.5 ? ">50K" : "<=50K"; x = p[FNR] > 0.5 ? p[FNR] : 1 - p[FNR]
      split($1, a, ":"); d = a[2] - x; if (a[1] != best || d * d > 1e-6) bad = 1 }
    END { exit bad || FNR < 100 }' numbers labels || die "labels: $(head -3 labels), numbers: $(head -3 numbers)"
# A model that lacks a part is not chosen, and without any model the folder is named
mkdir one/census/output/JOB20200101000000-0000
cp -R one/census/output/latest/pass-00002 one/census/output/JOB20200101000000-0000/
(cd one/census/output/latest/ && rm -f "$(find . -path '*pass-00002/*.bin' | head -1)")
answer --data='workspace/test_data_dir/*' >labels || die "infer after a loss: $(cat found)"
grep -q 'output/JOB20200101000000-0000/pass-00002, workspace' found || die "a model without a part was chosen: $(cat found)"
rm -r one/census/output
answer --data='workspace/test_data_dir/*' && die "infer without a model"
grep -qE '^paddlectl: no model given, and .*output has none: use --model=FOLDER$' found ||
    die "without a model: $(cat found)"
try ctr auc "x > 0.7 && x > a + 0.1" "--rows=12000 --holdout=3000" "--num_passes=1 --batch_size=128"
best=$(sed -n 's/.*AUC \([0-9.]*\),.*/\1/p' ctr.prepare)
holds "auc < planted + 0.02" auc="$(last auc ctr.log)" planted="$best"
try ctr auc "x > 0.65 && x > a + 0.1" "--rows=12000 --holdout=3000" "--num_passes=1 --batch_size=128 --config=train-lr.ini"
try ctr auc "x > 0.7 && x > a + 0.1" "--rows=12000 --holdout=3000" "--num_passes=1 --batch_size=128 --config=train-deepfm.ini"
try skip_gram cost "x < 0.8 * a" "--share=0.06" "--num_passes=2 --batch_size=128"
# A model of vectors predicts nothing: what is proposed is an export, and it works as it stands
next=$(sed -n 's/^paddlectl | next: paddlectl //p' skip_gram.log)
[[ $next == "export --model=output/JOB"*"/pass-00001 --format=word2vec --param=emb --vocabulary="*"workspace/dict.txt --out=words.txt" ]] ||
    die "skip_gram: next: $next"
# shellcheck disable=SC2086
(cd one/skip_gram && "$CTL" $next >"$TMP/export.log" 2>&1) || die "skip_gram: $next: $(cat export.log)"
[ "$(($(wc -l <one/skip_gram/words.txt) - 1))" -gt 100 ] || die "skip_gram: $(wc -l <one/skip_gram/words.txt) words"
grep -q "^paddlectl | next: paddlectl infer --model=" census.log || die "census: no next command"
(cd one/skip_gram && expect 2 "$CTL" infer --data='workspace/test_data_dir/*' && has "the network predicts nothing, since its cost 'near' is layer 'pairs' itself")
try recommendation rmse "x < 0.95 && x < 0.5 * a" "" --num_passes=2
try recognize_digits error "x < 0.12 && a > 0.6" "" --num_passes=6
try recognize_digits error "x < 0.12 && a > 0.6" "" "--num_passes=3 --config=lenet.ini"
# Folders that keep coming: every node of the job has them, each is tested with before it is trained
rm -rf one && mkdir one
(cd one && "$CTL" init --template=online_ctr >/dev/null) || die "online_ctr: init"
(cd one/online_ctr/workspace && ./prepare --days=2 --minutes=3) >online.prepare 2>&1 || die "online_ctr: prepare: $(cat online.prepare)"
(cd one/online_ctr && "$CTL" run --root_dir="$TMP/root%n" --port=0 --nic=lo --online_idle=2 >"$TMP/online.log" 2>&1) || die "online_ctr: $(tail -5 online.log)"
auc() { sed -n "s/.*Test before pass $1 .* auc \([0-9.]*\),.*/\1/p" online.log; }
holds "last > 0.6 && last > first + 0.05" last="$(auc 6)" first="$(auc 1)"
[ -s one/online_ctr/output/latest/online/latest.json ] || die "online_ctr: no done-file came back"
echo "online_ctr: auc $(auc 1) -> $(auc 6)"
# MNIST's own files, made up: ten noisy patterns of 28 x 28
mkdir mnist
python3 - mnist <<'END' || die "idx files"
import random, struct, sys
r = random.Random(5)
strokes = [[r.random() < 0.2 for _ in range(784)] for _ in range(10)]
for kind, n in (("train", 400), ("t10k", 100)):
    digits = [r.randrange(10) for _ in range(n)]
    with open(f"{sys.argv[1]}/{kind}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">4I", 2051, n, 28, 28))
        for d in digits:
            f.write(bytes(r.randrange(100, 256) if s and r.random() < 0.8 or r.random() < 0.05 else 0 for s in strokes[d]))
    with open(f"{sys.argv[1]}/{kind}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">2I", 2049, n) + bytes(digits))
END
for config in train-mnist.ini lenet-mnist.ini; do try recognize_digits error "x < 0.2 && a > 0.6" "$PWD/mnist" "--num_passes=2 --config=$config"; done
"$CTL" clean --help >/dev/null
echo "all templates learn"
