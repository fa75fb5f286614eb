#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# engine = slurm where Slurm holds its jobs in cgroups: a job has the CPUs and the memory of its
# allocation, and nothing stays after its end, Ctrl-C, or a killed paddlectl.
. "$(dirname "$0")/../../support/lib.sh"
export SLURM_FIXTURE_CGROUPS=1
. "$TOP/tests/support/engines/slurm.sh" <<<"engine = slurm"
expect 0 inside "$ctl" exec --conf=conf.ini 'echo "$(nproc) CPU"; grep -q slurm /proc/self/cgroup && echo "in a group"'
has "1 CPU"
has "in a group"
none_left
expect 0 "$ctl" run --conf=conf.ini --nodes=3 --trainer_count=auto --slurm.options=--mem=400M
has "3 nodes"
none_left
expect 1 timeout 120 "$ctl" run --conf=conf.ini --nodes=3 --set layer.e.size=100000 --slurm.options=--mem=60M
[[ $OUT =~ need\ .*\ on\ .*,\ which\ has\ 0.0629[0-9]*\ GB ]] || die "no reason in: $OUT"
none_left
printf '#!/bin/sh\nexec sleep 306.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
for signal in INT KILL; do
    start run "$ctl" run --conf=conf.ini --nodes=3 --trainer_command=./wait.sh --attach_lease=5 \
        --slurm.options=--mem=400M
    wait_for 60 "three trainers" eval '[ "$(pgrep -fc "^sleep 306.$$")" = 3 ]'
    kill -$signal "$PID"
    wait "$PID" 2>/dev/null
    none_left
done
printf '%s\n' "\"$ctl\" run --conf=conf.ini --trainer_command=./wait.sh --detach; sleep 2" \
    "\"$ctl\" ps --conf=conf.ini; \"$ctl\" stop --conf=conf.ini latest" >own.sh
OUT=$(inside sh own.sh 2>&1)
has "running"
has "stopped on 3 nodes"
none_left
