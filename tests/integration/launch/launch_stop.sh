#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The end of a job by its user: Ctrl-C, a killed paddlectl, paddlectl stop. All its processes go, those of another job stay.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
ssh_hosts 3
mkdir -p "$TMP/ws"
cp "$TOP/tests/support/own-server.py" "$TMP/ws/"
# A trainer with children, one of which ignores TERM.
cat >"$TMP/ws/train.sh" <<'END'
#!/bin/sh
sh -c 'trap "" TERM; while :; do sleep 1; done' &
setsid sleep 1000 &
echo "trainer $PADDLE_TRAINER_ID is up"
while :; do sleep 1; done
END
chmod +x "$TMP/ws/train.sh"
# A range of its own: a user's own server binds a port that was only looked up, and other tests look for ports too.
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[cluster]
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
trainer_command = ./train.sh
pserver_command = /usr/bin/python3 own-server.py
attach_lease = 2
END
cd "$TMP" || die cd

of_job() { # the processes of a job, by its id in their environment
    local p
    for p in /proc/[0-9]*; do
        grep -qszx "PADDLE_JOB_ID=$1" "$p/environ" && echo "${p#/proc/}"
    done
}
gone() { [ -z "$(of_job "$1")" ]; }
# begin NAME: a job in the background; JOB, RUN (pid of paddlectl)
begin() {
    : >"$1.log"
    start "$1" "$ctl" run --conf=conf.ini
    RUN=$PID
    wait_for 60 "$1: three trainers: $(cat "$1.log")" bash -c "[ \$(grep -c 'is up' '$1.log') = 3 ]"
    JOB=$(grep -o 'JOB[0-9]*-[0-9a-f]*' "$1.log" | head -1)
    [ "$(of_job "$JOB" | wc -l)" -ge 12 ] || die "processes of $JOB: $(of_job "$JOB")"
}
ms() { echo $(($(date +%s%N) / 1000000)); }

begin other
other=$JOB other_run=$RUN

for sig in INT TERM; do
    begin sig$sig
    t=$(ms)
    kill -$sig "$RUN"
    wait "$RUN"
    status=$?
    t=$(($(ms) - t))
    [ $status = 130 ] || die "status $status after SIG$sig: $(cat sig$sig.log)"
    echo "$t ms after SIG$sig"
    [ $t -lt 15000 ] || die "$t ms after SIG$sig: $(cat sig$sig.log)"
    gone "$JOB" || die "left after SIG$sig: $(of_job "$JOB" | xargs ps -o pid,args -p)"
    gone "$other" && die "SIG$sig ended another job"
done

# twice: no grace
begin twice
kill -INT "$RUN"
kill -INT "$RUN"
wait "$RUN"
[ $? = 130 ] || die "twice: $(cat twice.log)"
gone "$JOB" || die "left after two Ctrl-C"

# kill -9 of paddlectl: within attach_lease (2 s) + 2 s
begin killed
t=$(ms)
kill -KILL "$RUN"
wait_for 30 "the job of a killed paddlectl ends" gone "$JOB"
echo "$(($(ms) - t)) ms after kill -9"

# paddlectl stop, with and without the job's name
expect 2 "$ctl" stop --conf=conf.ini JOB20200101000000-0000
has "no host of conf.ini has a job"
begin stopped
expect 2 "$ctl" stop --conf=conf.ini
has "2 jobs are running"
has "$JOB"
expect 0 "$ctl" stop --conf=conf.ini "${JOB#JOB}" # the beginning or the end of an id suffices
has "$JOB: stopped on 3 nodes"
wait "$RUN"
status=$?
[ $status = 130 ] || die "run ended with $status after paddlectl stop: $(cat stopped.log)"
gone "$JOB" || die "left after stop"
gone "$other" && die "stop ended another job"
expect 2 "$ctl" stop --conf=conf.ini JOB20
has "' matches "
expect 0 "$ctl" stop --conf=conf.ini --json "${JOB#*-}"
has '"was_running": false'
# a host that can't be reached is named and does not stop the rest
sed 's/^\(hosts = .*\)/\1, 127.0.0.9:1/' conf.ini >four.ini
expect 3 "$ctl" stop --conf=four.ini
has "$other: stopped on 3 nodes"
has "127.0.0.9: cannot connect to port 1"
wait "$other_run"
gone "$other" || die "left after the last stop"
expect 2 "$ctl" stop --conf=conf.ini
has "no job is running"
wait_for 60 "no process is left" "$fixture" left "$fx"
exit 0
