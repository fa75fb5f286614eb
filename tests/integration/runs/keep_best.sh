#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# keep_best: which models of a job are there at its end, next to the costs that it printed. early_stopping_passes ends it. Both are the same
# in one process and in four, after a stop and after the loss of a trainer.
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1

# Noise is learnt by heart: the test gets better, then worse.
mkdir train test
awk 'BEGIN { srand(5); for (i = 0; i < 3000; i++) { a = int(rand() * 300); b = int(rand() * 300)
    y = rand() < 1 / (1 + exp(-((a % 5) - 2 + (b % 3) - 1)))
    print a "," b "," (y ? 1 : 0) > (i < 1200 ? "train/part-" i % 2 : "test/part-" i % 2) } }'
cat >train.ini <<'END'
[data]
format = csv
train = train/*
test = test/*
columns = a b y
fields = a:id b:id y:label
[field a]
vocabulary = 300
[field b]
vocabulary = 300
[layer e]
type = embedding
inputs = a b
size = 8
sparse_update = true
init_std = 0.1
[layer h]
type = fc
inputs = e
size = 32
act = tanh
[layer p]
type = fc
inputs = h
size = 1
act = sigmoid
[cost c]
type = binary_cross_entropy
input = p
label = y
[evaluator auc]
type = auc
input = p
label = y
[optimizer]
type = adagrad
learning_rate = 0.02
[train]
batch_size = 100
num_passes = 12
n_streams = 2
seed = 3
END

train() { # train NAME OPTION...: NAME.log, models in NAME
    local name=$1
    shift
    "$WORKER" trainer --local=1 --save_dir="$name" "$@" >"$name.log" 2>&1 || die "$name: $(tail -n 3 "$name.log")"
}
costs() { sed -n "s/.*Test after pass \([0-9]*\)\/.*: cost \([0-9.]*\), auc \([0-9.]*\),.*/\1 \2 \3/p" "$1.log"; }
best_of() { costs "$1" | sort -s -k2,2g | awk 'NR == 1 { printf "pass-%05d", $1 - 1 }'; } # the first of equal ones
models() { (cd "$1" && echo pass-*); }
best_in() { sed -n '/"best"/,/}/ s/.*"pass": \([0-9]*\).*/\1/p' "$1/manifest.json"; }

train plain
[ "$(models plain)" = pass-00011 ] && [ -z "$(best_in plain/pass-00011)" ] || die "plain: $(models plain)"
train best --keep_best=test.cost
cmp <(costs plain) <(costs best) || die "keep_best changes what is computed"
want=$(best_of plain)
n=$((10#${want#pass-}))
echo "the best test is after $want: $(costs plain | tr '\n' ';')"
[ $n -ge 2 ] && [ $n -le 7 ] || die "the data has no best pass in the middle: $n"
[ "$(models best)" = "$want pass-00011" ] || die "kept: $(models best)"
for m in best/$want best/pass-00011; do
    [ "$(best_in $m)" = $n ] || die "$m: best is $(best_in $m), not $n"
done
# It is the model of that pass: tested, it has the cost.
"$WORKER" trainer --local=1 --job=test --keep_best=test.auc --init_model_path="best/$want" >test.log 2>&1 || die "$(cat test.log)"
grep -q "Test of the saved model: cost $(costs plain | sed -n "$((n + 1))s/^[0-9]* \([^ ]*\) .*/\1/p")," test.log || die "$(cat test.log)"

train one --keep_best=test.cost --save_only_one=1 --saving_period=1
[ "$(models one)" = "$want pass-00011" ] || die "save_only_one: $(models one)"
train period --keep_best=test.cost --saving_period=4
[ "$(models period)" = "$(printf '%s\n' pass-00003 pass-00007 pass-00011 "$want" | sort -u | xargs)" ] || die "saving_period: $(models period)"
# auc: more is better
train auc --keep_best=test.auc
most=$(costs auc | sort -s -k3,3gr | awk 'NR == 1 { printf "pass-%05d", $1 - 1 }')
[ "$(models auc)" = "$(printf '%s\n' "$most" pass-00011 | sort -u | xargs)" ] || die "auc: $(models auc), not $most"

# --- the end of a job that does not improve
last=$(printf 'pass-%05d' $((n + 2)))
early() { # early NAME: it has ended two passes after the best
    grep -q "Early stopping: test.cost has not been better than [0-9.]* (pass $((n + 1))/12) for 2 passes" "$1.log" || die "$1: $(tail -n 3 "$1.log")"
    [ "$(models "$1")" = "$want $last" ] || die "$1: $(models "$1")"
}
digest() { "$TOP/tests/support/model-digest" "$1" | cut -d' ' -f1; }
train early --keep_best=test.cost --early_stopping_passes=2
early early
costs early | cmp - <(costs plain | head -n $((n + 3))) || die "it trained something else"
# It goes on after a stop: with what the checkpoint knows.
train again --keep_best=test.cost --early_stopping_passes=2 --num_passes=$((n + 2))
train again --keep_best=test.cost --early_stopping_passes=2 --resume=latest
grep -q "Resuming from" again.log || die "$(cat again.log)"
# The first part ended with the pass after the best, and saved it.
rm -r "again/$(printf 'pass-%05d' $((n + 1)))" || die "$(models again)"
early again
[ "$(digest again/$last)" = "$(digest early/$last)" ] || die "another model after a stop"

# --- two servers, two trainers; trainer 0 is killed when the best model is saved, and started again
cluster() { # cluster NAME KILLED OPTION...
    local name=$1 killed=$2 list='' i
    shift 2
    PIDS=()
    for i in 0 1; do
        start "$name-s$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --num_gradient_servers=2 "$@"
        wait_for 60 "pserver $i listens" grep -q '^pserver listens' "$name-s$i.log"
        list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$name-s$i.log")
    done
    one() { # one ID LOG
        start "$2" "$WORKER" trainer --pservers="${list#,}" --trainer_id="$1" --num_gradient_servers=2 --save_dir="$TMP/$name" \
            --keep_best=test.cost --early_stopping_passes=2 "${@:3}"
    }
    if [ "$killed" ]; then
        PADDLE_FAULT=kill.train.saved:$killed one 0 "$name-first" "$@"
        first=$PID
        one 1 "$name-other" "$@"
        other=$PID
        wait "$first"
        [ $? = 137 ] || die "$name: it was not killed: $(tail -n 3 "$name-first.log")"
        one 0 "$name" "$@"
    else
        one 1 "$name-other" "$@"
        other=$PID
        one 0 "$name" "$@"
    fi
    wait "$PID" || die "$name: $(tail -n 3 "$name.log")"
    wait "$other" || die "$name: trainer 1: $(tail -n 3 "$name-other.log")"
    for i in "${PIDS[@]:0:2}"; do wait "$i" || die "$name: a pserver"; done
    PIDS=()
}
cluster four ''
early four
cluster lost $((n + 1)) --on_trainer_lost=wait
grep -q "Restarted: resuming in pass" lost.log || die "$(cat lost.log)"
# The killed process had no time to remove the best model before.
grep -q "Early stopping: test.cost has not been better than [0-9.]* (pass $((n + 1))/12) for 2 passes" lost.log || die "$(tail -n 3 lost.log)"
[ "$(digest lost/$last)" = "$(digest four/$last)" ] || die "another model after the loss of a trainer"

# --- paddlectl names the best pass by the same value, says how to keep it, and brings its model
ctl=$BIN/paddlectl
mkdir ws && cp -R train test train.ini ws
printf '%s\n' '[cluster]' 'hosts = local*2' "root_dir = $TMP/node%n" 'port = 0' '[job]' 'job_dispatch_package = ws' >conf.ini
expect 0 "$ctl" run --outputs=not
has ", not saved (--keep_best=test.auc saves it)"
expect 0 "$ctl" run --outputs=kept --keep_best=test.cost --early_stopping_passes=2
has "paddlectl | best pass $((n + 1))/12: cost "
has ", kept/$(readlink kept/latest)/$want"
[ -s "kept/latest/$want/manifest.json" ] || die "the best model did not come: $(ls kept/latest)"
rm -r kept
expect 0 "$ctl" fetch --outputs=kept --pass=best
[ -s "kept/latest/$want/manifest.json" ] || die "fetch --pass=best: $(ls kept/*)"

# --- mistakes
refused() { # refused TEXT OPTION...
    local text=$1
    shift
    "$WORKER" trainer --local=1 --save_dir=none "$@" >refused.log 2>&1
    [ $? = 2 ] || die "status: $*: $(cat refused.log)"
    grep -qF -e "$text" refused.log || die "no '$text' in $(cat refused.log)"
    [ ! -e none ] || die "it trained"
}
refused "keep_best is a value of the test data" --keep_best=auc
refused "keep_best = test.nosuch: train.ini has no evaluator" --keep_best=test.nosuch
refused "early_stopping_passes needs keep_best" --early_stopping_passes=3
sed '/^test =/d' train.ini >no-test.ini
refused "keep_best = test.cost needs test data" --keep_best=test.cost --config=no-test.ini
