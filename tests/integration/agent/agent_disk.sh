#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The disk of a node is full or read-only when the job ends there. The room for result.json was taken at the start, so the
# node reports how the job ended, and why. If the file cannot be written at all, `status` names the disk.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
[ "$(id -u)" = 0 ] || skip "only root can mount a small disk"
cd "$TMP" || die cd
mkdir ws node0
on_cleanup() {
    end_jobs conf.ini node1/JOB* node0/JOB*
    umount -l "$TMP/node0" 2>/dev/null
}
mount -t tmpfs -o size=16m none node0 2>mount.log || skip "$(cat mount.log)"
{ local_nodes 2; cat; } >conf.ini <<E
pservers = none
[job]
job_dispatch_package = ws
trainer_command = ./fill.sh
detach_lease = 5
E
# node 0 fills its disk; both wait for the test
cat >ws/fill.sh <<E
#!/bin/sh
[ "\$PADDLE_NODE_ID" = 1 ] || { cat /dev/zero >fill 2>/dev/null; : >"$TMP/filled"; }
until [ -e "$TMP/end" ]; do sleep 0.1; done
E
chmod +x ws/fill.sh
# begin: $job runs, and the disk of node 0 is full
begin() {
    rm -f filled end
    expect 0 "$ctl" run --conf=conf.ini --detach
    job=$(cd node0 && ls -d JOB* | tail -1)
    wait_for 60 "a full disk" test -e filled
}
# over STATUS: waits for the end of the job, as node 0 has kept it
over() {
    wait_for 60 "the end on node 0" test ! -e "node0/$job/.agent/sock"
    wait_for 60 "the end on node 1" test ! -e "node1/$job/.agent/sock"
    wait_for 60 "the result of node 0" test -s "node0/$job/result.json" # its guardian may write it
    grep -q "\"status\": \"$1\"" "node0/$job/result.json" ||
        die "not $1: $(cat "node0/$job/result.json")"
    expect 0 "$ctl" status --conf=conf.ini "$job"
}

# --- the job ends well
begin
: >end
over done
[ ! -e "node0/$job/.agent/result" ] || die "the reserved room is left"
has_not lost
rm -rf "node0/$job"

# --- the agent is killed: its guardian writes why
begin
kill -9 "$(cat "node0/$job/.agent/pid")"
over failed
grep -q "the agent was killed by signal 9" "node0/$job/result.json" || die "$(cat "node0/$job/result.json")"
rm -rf "node0/$job"

# --- the file cannot be written: the agent does not end with success, and the disk is named
begin
rm "node0/$job/.agent/result"
cat /dev/zero >node0/rest 2>/dev/null
: >end
wait_for 60 "the end on node 0" test ! -e "node0/$job/.agent/sock"
grep -q "cannot .*result.json.*: No space left" "node0/$job/log/paddle_agent.INFO" || die "$(tail -3 "node0/$job/log/paddle_agent.INFO")"
over failed # by its guardian: the end has made a little room
grep -q "the agent ended with status 1 and left no result: its disk is full" "node0/$job/result.json" || die "$(cat "node0/$job/result.json")"

# --- no result at all
rm "node0/$job/result.json"
expect 0 "$ctl" status --conf=conf.ini "$job"
has "the job's agent is gone and left no result: its disk is full"
rm node0/rest
mount -o remount,ro node0 || die remount
expect 0 "$ctl" status --conf=conf.ini "$job"
has "the job's agent is gone and left no result: its disk is read-only"
exit 0
