#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Who keeps an attached job alive: the paddlectl that started it; logs and status never do. attach keeps it when that one is gone, says so, and
# leaves it detached. A paddlectl that stood still meanwhile looks on, and fetches the outputs. Of two that claim the job at once one wins; the
# other one names the winner, and keeps the job when the winner is gone, too.
# release only (time)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
cd "$TMP" || die cd
mkdir ws
on_cleanup() { end_jobs conf.ini node0/JOB* node1/JOB*; }
{ local_nodes 2; cat; } >conf.ini <<E
pservers = none
[job]
job_dispatch_package = ws
trainer_command = ./t.sh
attach_lease = 3
E
# The attach_lease of conf.ini is not the job's.
sed 's/^attach_lease.*/attach_lease = 60/' conf.ini >other.ini
cat >ws/t.sh <<E
#!/bin/sh
echo up
until [ -e "$TMP/end" ]; do sleep 0.1; done
echo result >output/result
E
chmod +x ws/t.sh
# begin COMMAND...: the job $job of the process $run, and with it a second paddlectl $PID, whose output is in second.log
begin() {
    rm -rf end output
    start run "$ctl" run --conf=conf.ini
    run=$PID
    wait_for 60 "the trainers" grep -q 'trainer | up' run.log
    job=$(sed -n 's/.*\(JOB[0-9]*-[0-9a-f]*\) on 2 nodes.*/\1/p' run.log)
    start second "$@"
    wait_for 60 "the second paddlectl follows" grep -q up second.log
}
agents_live() { [ -e "node0/$job/.agent/sock" ] && [ -e "node1/$job/.agent/sock" ]; }
over() { [ ! -e "node0/$job/.agent/sock" ] && [ ! -e "node1/$job/.agent/sock" ]; }
is() { grep -q "\"status\": \"$1\"" "node0/$job/result.json" || die "not $1: $(cat "node0/$job/result.json")"; }

# --- somebody reads its logs, and asks what it does: the job ends with its paddlectl
begin "$ctl" logs -f --conf=other.ini
kill -9 "$run"
for _ in 1 2 3; do
    "$ctl" status --conf=other.ini "$job" >/dev/null 2>&1
    sleep 0.5
done
wait_for 20 "the end by the lease" over
is failed
wait "$PID"

# --- attach: the job goes on, and goes on detached when attach leaves, too
begin "$ctl" attach --conf=other.ini
sleep 3.5
grep -q 'keeps it now' second.log && die "the paddlectl of the job lives: $(cat second.log)"
kill -9 "$run"
wait_for 20 "attach keeps the job" grep -q 'the paddlectl that kept the job is gone: this one keeps it now' second.log
sleep 4
agents_live || die "the job has ended, although attach keeps it: $(cat second.log)"
expect 0 "$ctl" status --conf=conf.ini "$job"
has ", attached"
kill -INT "$PID"
wait "$PID"
sleep 4
agents_live || die "the job has ended with attach"
expect 0 "$ctl" status --conf=conf.ini "$job"
has ", detached"
: >end
wait_for 20 "the end" over
is done

# --- attach is killed, too: the lease ends the job
begin "$ctl" attach --conf=other.ini
kill -9 "$run"
wait_for 20 "attach keeps the job" grep -q 'this one keeps it now' second.log
kill -9 "$PID"
wait_for 20 "the end by the lease" over
is failed

# --- the paddlectl of the job stands still, and comes back after attach has claimed the job
begin "$ctl" attach --conf=other.ini
kill -STOP "$run"
wait_for 20 "attach keeps the job" grep -q 'this one keeps it now' second.log
kill -CONT "$run"
wait_for 20 "the first looks on" grep -q "another paddlectl on $(hostname) (process $PID) keeps the job now; this one looks on" run.log
sleep 4
agents_live || die "the job has ended: $(cat run.log second.log)"
: >end
wait "$run" || die "status $?: $(cat run.log)"
wait "$PID" || die "status $?: $(cat second.log)"
is done
[ -s output/latest/result ] || die "no outputs: $(cat run.log)"

# --- two attaches at once
one_keeps() { [ "$(cat second.log third.log | grep -c 'this one keeps it now')" -eq 1 ]; }
for _ in 1 2 3; do
    begin "$ctl" attach --conf=other.ini
    second=$PID
    start third "$ctl" attach --conf=other.ini
    third=$PID
    wait_for 60 "the third paddlectl follows" grep -q up third.log
    sleep 1 # each hears who keeps the job
    kill -9 "$run"
    wait_for 20 "one attach keeps the job" one_keeps
    if grep -q 'this one keeps it now' second.log; then
        winner=$second loser=$third log=third.log
    else
        winner=$third loser=$second log=second.log
    fi
    wait_for 20 "the other one names the winner" \
        grep -q "another paddlectl on $(hostname) (process $winner) keeps the job now; this one looks on" $log
    sleep 4
    one_keeps && agents_live || die "the job has ended, or both keep it: $(cat second.log third.log)"
    kill -9 "$winner"
    wait_for 20 "the other one keeps the job" grep -q 'this one keeps it now' $log
    sleep 4
    agents_live || die "the job has ended, although attach keeps it: $(cat $log)"
    : >end
    wait "$loser" || die "status $?: $(cat $log)"
    is done
done
exit 0
