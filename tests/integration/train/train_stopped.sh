#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A trainer or a pserver of a job is stopped (SIGSTOP), so that all its connections stand. After
# heartbeat_timeout it has failed: the job ends with its name, or is started again, or that trainer
# alone is (on_trainer_lost = wait), to the same bits. Steps that take longer are no loss.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$TMP/node"; }
on_cleanup() { wait_for 30 "no process of a job is left" nothing_left; }

tiny_data ws/train
tiny_model train='train/*' vocabulary=300 hidden=12 optimizer=adam rate=0.02 <<END >ws/train.ini
batch_size = 48
num_passes = 3
log_period = 1
n_streams = 6
saving_period_by_batches = 4
heartbeat_timeout = 3
END
cat >conf.ini <<END
[cluster]
hosts = local*2
root_dir = $TMP/node%n
port = 0
[job]
job_dispatch_package = ws
outputs = $TMP/out
max_restarts = 3
END
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
started() { sed -n "s/.*$2 $1 runs as process \([0-9]*\),.*/\1/p" node"$1"/JOB*/log/paddle_agent.INFO | tail -1; }
# By then, at 80 ms a step, each trainer has told its agent of progress, which it does once a second:
# it may be started again alone.
batches() { [ "$(cat node0/JOB*/log/train.log 2>/dev/null | grep -c 'Batch [0-9]')" -ge 20 ]; }
saved() { grep -qs 'Saved output/pass-' node0/JOB*/log/train.log; }
# stop_one NODE ROLE [OPTION...]: runs the job, and stops that process in the middle of it; status in $STATUS, output in $OUT
stop_one() {
    local node=$1 role=$2 pid
    shift 2
    rm -rf node[0-9] out
    start run "$ctl" run --conf=conf.ini "$@"
    local run=$PID
    wait_for 120 "some batches" batches
    wait_for 120 "a checkpoint" saved
    pid=$(started "$node" "$role")
    [ -n "$pid" ] && kill -STOP "$pid" || die "no $role on node $node: $(cat node*/JOB*/log/paddle_agent.INFO)"
    wait "$run"
    STATUS=$?
    OUT=$(cat run.log)
    PIDS=()
    ! kill -CONT "$pid" 2>/dev/null || die "process $pid outlived the job: $OUT"
}

# --- nothing happens, and each step of one trainer takes longer than a silence may last
expect 0 "$ctl" run --conf=conf.ini
want=$(digest out/latest)
[ ${#want} = 64 ] || die "no model: $OUT"
cp conf.ini long.ini && printf '[host local.1]\nenv.PADDLE_FAULT = slow.train.compute:4500\n' >>long.ini
rm -rf node[0-9] out
expect 0 "$ctl" run --conf=long.ini --num_passes=1 --batch_size=480
has "Pass 1/1 done: " && has_not "no sign of life" && has_not "is gone"
printf '[env]\nPADDLE_FAULT = slow.train.step:80\n' >>conf.ini

# --- the stall is shown with the process that the job waits for; the job ends with its name
for who in trainer pserver; do
    stop_one 1 $who --heartbeat_timeout=8
    [ $STATUS = 1 ] || die "exit status $STATUS, not 1: $OUT"
    # Its agent and its peers find out within the same second: either may be the first.
    grep -qE "$who 1 was stopped \(SIGSTOP\) for 8 s|is gone in step [0-9]*: no sign of life for 8 s" run.log || die "not named: $OUT"
    awaited=local.1
    [ $who = trainer ] || awaited="pserver 1 on 127[.0-9]*"
    grep -q "^progress | stalled [5-8] s, waiting for $awaited\$" run.log || die "no stall, or another process: $OUT"
    wait_for 30 "no process of a job is left" nothing_left
done

# --- all begin again; only the trainer does
for who in trainer pserver; do
    stop_one 1 $who --on_failure=restart
    [ $STATUS = 0 ] || die "$who: exit status $STATUS, not 0: $OUT"
    has "restart 1 of 3" && has "Resuming from output/pass-"
    [ "$(digest out/latest)" = "$want" ] || die "$who: other bits"
done
stop_one 1 trainer --on_failure=restart --on_trainer_lost=wait
[ $STATUS = 0 ] || die "exit status $STATUS, not 0: $OUT"
has "restart 1 of 3 after trainer 1" && has "Restarted: resuming in pass" && has_not "Resuming from"
[ "$(digest out/latest)" = "$want" ] || die "trainer alone: other bits"
