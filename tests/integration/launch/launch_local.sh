#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 40 nodes on this machine are asked through the sockets of their agents: ps, status, top, logs and
# stop start no process, and no relay runs beside a job. One node is killed and another stopped: each
# command still says the truth, within its deadline.
# limit 400
# both
. "$(dirname "$0")/../../support/lib.sh"
ctl=$BIN/paddlectl
mkdir "$TMP/ws" "$TMP/noexec"
cd "$TMP" || die cd
printf '#!/bin/sh\necho "trainer $PADDLE_TRAINER_ID is up"\nexec sleep 1000\n' >ws/say.sh
chmod +x ws/say.sh
cat >conf.ini <<E
[cluster]
hosts = local*40
pservers = none
root_dir = $TMP/n/%n
[job]
job_workspace = $TMP/ws
attach_lease = 20
on_failure = restart
max_restarts = 1
trainer_command = ./say.sh
E
on_cleanup() {
    # shellcheck disable=SC2086
    [ -z "${stopped:-}" ] || kill -CONT $stopped 2>/dev/null
    end_jobs conf.ini n/0/JOB*
}
# asked SECONDS STATUS COMMAND...: the command ends in that time
asked() {
    local limit=$1 began=$EPOCHREALTIME
    shift
    expect "$1" "$ctl" "$2" --conf=conf.ini "${@:3}"
    holds "b - a < most" a="$began" b="$EPOCHREALTIME" most="$limit"
}
slow=1
[[ $BIN != *san* ]] || slow=4
start run "$ctl" run --conf=conf.ini
run=$PID
up() { [ "$(grep -c ' is up' run.log)" = "$1" ]; }
wait_for 60 "all trainers" up 40
# The watcher, the guardian and the agent of a node; a relay would be a child of paddlectl.
! pgrep -P "$run" || die "paddlectl keeps processes: $(ps --ppid "$run" -o pid,args)"

# A copy of paddle_agent that cannot be run: what starts none is not hindered.
cp "$BIN/paddle_agent" noexec/ && chmod 644 noexec/paddle_agent
export PADDLECTL_LIBEXEC=$TMP/noexec
asked $((5 * slow)) 0 ps
has " running "
has " 40/40 "
asked $((10 * slow)) 0 status
[ "$(grep -c 'trainer [0-9]* *running' <<<"$OUT")" = 40 ] || die "$OUT"
asked $((10 * slow)) 0 top --once
has "trainer 39"
asked $((5 * slow)) 0 logs
[ "$(grep -c ' is up$' <<<"$OUT")" = 40 ] || die "$OUT"
unset PADDLECTL_LIBEXEC

# --- others could replace the folder of a node: it is not read
mkdir n/9/.paddlectl && chmod 777 n/9
asked $((10 * slow)) 3 ps
has "paddlectl: local.9: "
has "$TMP/n/9"
has " 39/40 "
chmod 755 n/9

# --- a node is killed with all that watches it: nobody writes a result
dead=$(pgrep -f -- "--root=$TMP/n/7 ")
# shellcheck disable=SC2086
kill -STOP $dead && kill -KILL $dead
wait_for 60 "the restart without node 7" up 79
asked $((10 * slow)) 0 ps
has " 39/40 "
has "local.7 (node 7) is lost: "
asked $((10 * slow)) 0 status
has "lost: local.7: "
[ "$(grep -c 'trainer [0-9]* *running' <<<"$OUT")" = 39 ] || die "$OUT"
asked $((10 * slow)) 0 logs
grep -q '^local\.7/.* is up' <<<"$OUT" || die "no line of the lost node: $OUT"

# --- an agent is stopped: its node does not answer, the others do
for command in ps status logs stop; do
    stopped=$(cat n/5/JOB*/.agent/pid)
    kill -STOP "$stopped"
    if [ $command = ps ]; then
        asked $((5 * slow)) 0 ps
        has " 39/40 "
    else
        asked $((20 * slow)) 3 $command
        has "paddlectl: local.5: timed out after 10 s while asking its agent"
        [ "$(grep -c '^paddlectl: ' <<<"$OUT")" = 1 ] || die "$OUT"
    fi
    kill -CONT "$stopped"
    stopped=
    sleep 1
done
wait "$run"
[ $? = 130 ] || die "$(tail -5 run.log)"
gone() { ! pgrep -f -- "--root=$TMP/n/" >/dev/null; }
wait_for 60 "the end of the agents" gone
asked $((10 * slow)) 0 status
has "stopped"
exit 0
