#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A trainer is killed in the middle of a job. on_trainer_lost = wait: it is started again and goes on where it was, and the model is that of
# an undisturbed job, bit for bit; continue: the other one goes on, reports and saves; fail: the job ends with its name.
# both
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1

mkdir data && awk 'BEGIN { for (b = 0; b < 30000; b++) print (b * 7919) % 4000, (b * 31) % 400 }' >data/a
awk 'BEGIN { for (b = 0; b < 30000; b++) print (b * 104729) % 4000, (b * 17) % 400 }' >data/b
mkdir held; head -500 data/a >held/a; head -700 data/b >held/b
cat >train.ini <<'END'
[data]
format = ids
train = data/*
test = held/*
fields = x y
vocabulary = 4000
[layer e]
type = embedding
inputs = x
size = 16
init_std = 0.1
sparse_update = true
[layer h]
type = fc
inputs = e
size = 32
act = tanh
[layer p]
type = fc
inputs = h
size = vocabulary
act = softmax
[cost c]
type = cross_entropy
input = p
label = y
[optimizer]
type = adagrad
learning_rate = 0.05
[train]
log_period = 10
num_passes = 3
batch_size = 400
seed = 3
END

servers() { # servers NAME POLICY [OPTION...]
    local i
    LIST=''
    for i in 0 1; do
        start "$1-s$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --ports_num=2 --ports_num_for_sparse=2 --num_gradient_servers=2 \
            --on_trainer_lost="$2" --reconnect_timeout=1 "${@:3}"
        wait_for 60 "a pserver listens" grep -q '^pserver listens' "$1-s$i.log"
        LIST=$LIST,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$1-s$i.log")
    done
    LIST=${LIST#,}
}
trainer() { # trainer NAME ID LOG POLICY [OPTION...]
    local id=$2 log=$3 policy=$4 name=$1
    shift 4
    start "$name-$log" "$WORKER" trainer --pservers="$LIST" --trainer_id="$id" --num_gradient_servers=2 --save_dir="$TMP/$name" --on_trainer_lost="$policy" "$@"
}
ends() { # ends STATUS PID WHAT
    wait "$2"
    local got=$?
    [ $got -eq "$1" ] || die "$3 ended with $got, not $1: $(tail -n 4 "$TMP"/*.log)"
}
servers_end() { for p in "${PIDS[@]:0:2}"; do ends "$1" "$p" "a pserver"; done; PIDS=(); }
state_of() { sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"; }
# All that it can do without the other, which is stopped, is done: it only sleeps. (One that is starved is runnable.)
rests() {
    local k
    for k in 1 2 3 4 5 6 7 8 9 10; do
        [ "$(state_of "$1")" = S ] || return 1
        sleep 0.1
    done
}
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }

servers calm fail
trainer calm 0 t0 fail; a=$PID
trainer calm 1 t1 fail; b=$PID
ends 0 "$a" "trainer 0"; ends 0 "$b" "trainer 1"
servers_end 0
want=$(digest calm)

for when in 'Pass 1/3, Batch 20,' 'Pass 2/3, Batch 10,'; do
    [[ $BIN != *san-* || $when != 'Pass 1/3'* ]] || continue
    for try in 1 2 3 4 5; do
        rm -rf again again-*.log
        servers again wait --heartbeat_timeout=0 # who is stopped here comes back
        trainer again 0 t0 wait; a=$PID
        trainer again 1 t1 wait; b=$PID
        wait_for 120 "$when" grep -q "$when" again-t0.log
        kill -STOP "$a"
        grep -q 'Pass 3/3, Batch' again-t0.log || break
        echo "too late, again" # this script was not given the CPU for so long
        [ $try -lt 5 ] || die "too late five times"
        kill -CONT "$a"
        ends 0 "$a" "trainer 0"; ends 0 "$b" "trainer 1"
        servers_end 0
    done
    wait_for 60 "trainer 1 waits for the other" rests "$b"
    kill -KILL "$b"
    wait "$b" # until then its connections are open, and its place is taken
    kill -CONT "$a"
    trainer again 1 t1b wait; c=$PID
    ends 0 "$a" "trainer 0"; ends 0 "$c" "trainer 1, started again"
    ends 137 "$b" "trainer 1"
    servers_end 0
    grep -q "Restarted: resuming in pass [0-9]/[0-9] after" again-t1b.log || die "it did not say where: $(cat again-t1b.log)"
    # What the lost process had added up is in the pass's totals.
    grep -o 'Pass [0-9]/[0-9] done: .*' calm-t0.log | sed 's/ in [0-9.]* s ([0-9]* samples.s)//' >calm.said
    grep -o 'Pass [0-9]/[0-9] done: .*' again-t0.log | sed 's/ in [0-9.]* s ([0-9]* samples.s)//' >again.said
    [ "$(wc -l <calm.said)" = 3 ] && cmp -s calm.said again.said || die "other totals: $(cat again.said), not $(cat calm.said)"
    got=$(digest again)
    echo "$got  killed at: $when"
    [ "$got" = "$want" ] || die "another model: $got, not $want"
done

servers without continue
trainer without 0 t0 continue --num_passes=10; a=$PID
trainer without 1 t1 continue --num_passes=10; b=$PID
wait_for 120 "some batches" grep -q 'Batch 20,' without-t0.log
kill -KILL "$a"
ends 137 "$a" "trainer 0"; ends 0 "$b" "trainer 1"
servers_end 0
[ -e without/pass-00009/manifest.json ] || die "trainer 1 did not save: $(cat without-t1.log)"
grep -q 'left out from here on' without-s0.log || die "the pserver did not say so: $(cat without-s0.log)"

servers over fail
trainer over 0 t0 fail --num_passes=10; a=$PID
trainer over 1 t1 fail --num_passes=10; b=$PID
wait_for 120 "some batches" grep -q 'Batch 20,' over-t0.log
kill -KILL "$a"
ends 137 "$a" "trainer 0"; ends 1 "$b" "trainer 1"
servers_end 1
grep -q 'trainer 0 (127.0.0.1:[0-9]*) is gone in step' over-t1.log || die "not named: $(cat over-t1.log)"

# A trainer that fails before it connects is known to nobody: the others wait for it for start_timeout, and end with its name.
servers never fail --start_timeout=3
trainer never 0 t0 fail; a=$PID
trainer never 1 t1 fail --config=nowhere.ini; b=$PID
wait "$b" && die "trainer 1 ran without a train.ini"
ends 3 "$a" "trainer 0"
servers_end 3
for log in never-t0 never-s0 never-s1; do
    grep -q 'trainer 1 of 2 never connected: no new trainer for 3 s (start_timeout)' $log.log || die "not named in $log: $(cat $log.log)"
done

# A process that is stopped keeps its connections. Its heartbeats tell: a trainer's to the pservers, a pserver's to the trainers.
servers still fail --heartbeat_timeout=2
trainer still 0 t0 fail --num_passes=1000 --heartbeat_timeout=2; a=$PID
trainer still 1 t1 fail --num_passes=1000 --heartbeat_timeout=2; b=$PID
wait_for 120 "some batches" grep -q 'Batch 20,' still-t0.log
kill -STOP "$b"
ends 1 "$a" "trainer 0"
for p in "${PIDS[@]:0:2}"; do ends 1 "$p" "a pserver"; done
kill -CONT "$b"
wait "$b" && die "trainer 1, stopped and given up, ended well"
PIDS=()
for log in still-t0 still-s0; do
    grep -q 'trainer 1 (127.0.0.1:[0-9]*) is gone in step [0-9]*: no sign of life for 2 s' $log.log || die "not named in $log: $(cat $log.log)"
done

servers frozen fail --heartbeat_timeout=2
trainer frozen 0 t0 fail --num_passes=1000 --heartbeat_timeout=2; a=$PID
trainer frozen 1 t1 fail --num_passes=1000 --heartbeat_timeout=2; b=$PID
wait_for 120 "some batches" grep -q 'Batch 20,' frozen-t0.log
kill -STOP "${PIDS[1]}"
ends 1 "$a" "trainer 0"; ends 1 "$b" "trainer 1"
ends 1 "${PIDS[0]}" "pserver 0"
kill -KILL "${PIDS[1]}"
ends 137 "${PIDS[1]}" "pserver 1"
PIDS=()
named=0
for log in frozen-t0 frozen-t1; do # the first that notices tells the other, by way of the pserver that runs
    ! grep -q "pserver ${LIST#*,} is gone in step [0-9]*: no sign of life for 2 s" $log.log || named=$((named + 1))
done
[ $named -gt 0 ] || die "not named: $(cat frozen-t?.log)"

# Without a barrier a trainer's own pushes may be lost, when others have changed the values too often since it pulled them: that is said.
late() { # late NAME RATIO
    servers "$1" fail
    trainer "$1" 0 t0 fail --update=async --num_passes=1 --async_lagged_grad_discard_ratio="$2"; a=$PID
    PADDLE_FAULT=slow.train.compute:15 trainer "$1" 1 t1 fail --update=async --num_passes=1 --async_lagged_grad_discard_ratio="$2"; b=$PID
    ends 0 "$a" "trainer 0"; ends 0 "$b" "trainer 1"
    servers_end 0
}
late late 0.4
# Each trainer gives 75 steps to each of 8 threads.
grep -q 'Pass 1/1: [1-9][0-9]* of 1200 pushes ([0-9.e+]* %) came too late and were dropped (async_lagged_grad_discard_ratio)' late-t0.log ||
    die "nothing was dropped, or it was not said: $(cat late-t0.log)"
grep -q 'came too late' late-t1.log && die "trainer 1 said it, too"
late taken 0
! grep 'came too late' taken-t?.log || die "said where nothing is dropped"
