#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts that are shared: `run` says whose job runs there, since when, on which cores; --wait queues
# behind it. First come, first served, without overlap, over several hosts in any order; Ctrl-C
# leaves the queue; a holder that is killed frees its hosts; two users; names that nobody may trust.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
cd "$TMP" || die cd
mkdir ws
echo x >ws/file
cat >ws/job <<END
echo "begin \$PADDLE_JOB_ID" >>"$TMP/diary"
sleep "\$1"
echo "end \$PADDLE_JOB_ID" >>"$TMP/diary"
END
: >diary
ssh_hosts 2
# conf NAME HOSTS SECONDS: the hosts have other roots in every conf.ini
conf() {
    sed -e "s/^hosts = .*/hosts = $2/" -e "s,^root_dir = .*,root_dir = $TMP/$1%n," "$fx/conf.ini" >"$1.ini"
    printf '[cluster]\npservers = none\nport = 0\nnic = lo\n[job]\njob_dispatch_package = ws\n' >>"$1.ini"
    printf 'trainer_command = sh job %s\n' "$3" >>"$1.ini"
}
IFS=', ' read -r -a h <"$fx/hosts"
mine=$(id -un)
cores=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
begun() { [ "$(grep -c begin diary)" -ge "$1" ]; }
tickets() { grep -c "@paddlectl/$PADDLE_MACHINE/$1/" /proc/net/unix; }
is() { [ "$(tickets "$1")" = "$2" ]; }
serial() { # no job began before the one before it had ended
    awk '$1 == "begin" { if (open && job != $2) bad = 1; job = $2; open++ }
         $1 == "end" { open-- } END { exit bad }' diary || die "jobs overlap: $(cat diary)"
}

# --- without --wait a job says so and goes on; the host has another name in its conf.ini
conf a "${h[0]}" 300
conf b "${h[1]}" 1
start a "$ctl" run --conf=a.ini
wait_for 60 "the first job" begun 1
a=$PID
job=$(sed -n 's/.*\(JOB[-0-9a-f]*\) on 1 node.*/\1/p' a.log)
grep -q "runs on" a.log && die "the first job sees another: $(cat a.log)"
sleep 1
expect 0 "$ctl" run --conf=b.ini
grep -qE "^paddlectl \| $mine's job $job runs on this host since [0-9]{2}:[0-9]{2} \(cores $cores\)$" <<<"$OUT" ||
    die "no word of the first job: $OUT"
[ "$(grep -c "'s job" <<<"$OUT")" = 1 ] || die "more than a line: $OUT"

# --- --wait: one behind the other, over both hosts, in opposite orders
conf c "${h[0]}, ${h[1]}" 1
conf d "${h[1]}, ${h[0]}" 1
: >diary
start c "$ctl" run --conf=c.ini --wait
c=$PID
wait_for 60 "c waits" is w 2
start d "$ctl" run --conf=d.ini --wait
d=$PID
wait_for 60 "d waits" is w 4
grep -qE "^paddlectl \| waiting for the turn: $mine's job $job runs on 2 of these 2 hosts since .*\(cores $cores\)$" c.log ||
    die "no word of the queue: $(cat c.log)"
# Ctrl-C leaves nothing
start e "$ctl" run --conf=b.ini --wait
wait_for 60 "e waits" is w 5
kill -INT "$PID"
wait "$PID"
status=$?
[ $status = 130 ] || die "status $status: $(cat e.log)"
wait_for 30 "its place is free" is w 4
wait_for 30 "its folder is gone" bash -c "[ \$(ls -d '$TMP'/b*/JOB* | wc -l) = 1 ]"
[ ! -s diary ] || die "somebody did not wait: $(cat diary)"
# The holder is killed: its agent, with -9
kill -9 "$(sed -n "s,.*@paddlectl/$PADDLE_MACHINE/r/[^/]*/$job/\([0-9]*\)$,\1,p" /proc/net/unix | head -1)"
wait "$a"
for p in "$c" "$d"; do wait "$p" || die "a job that waited: $(tail -5 c.log d.log)"; done
serial
[ "$(grep -c begin diary)" = 4 ] || die "not each job on both hosts: $(cat diary)"
c_job=$(sed -n 's/.*\(JOB[-0-9a-f]*\) on 2 nodes.*/\1/p' c.log)
[ "$(head -1 diary)" = "begin $c_job" ] || die "the second was first: $(cat diary)"
grep -qE "the hosts are free after [0-9]+ s" c.log || die "no word of its turn: $(cat c.log)"
wait_for 30 "no ticket is left" is '[rw]' 0

# --- many that come at once
conf f "${h[0]}, ${h[1]}" 0.3
conf g "${h[1]}, ${h[0]}" 0.3
: >diary
many=()
for i in 1 2 3; do
    for one in f g; do
        start "$one$i" "$ctl" run --conf=$one.ini --wait
        many+=("$PID")
    done
done
for p in "${many[@]}"; do wait "$p" || die "one of many: $(tail -n 3 f?.log g?.log)"; done
serial
[ "$(grep -c begin diary)" = 12 ] || die "not all ran: $(cat diary)"

# --- names that anybody may make: no listener, no job, a stranger who came first
cat >names.py <<'END'
import os, socket, sys, time
realm, kept = os.environ["PADDLE_MACHINE"], []
def name(text, listens):
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0paddlectl/%s/%s" % (realm, text))
    if listens:
        s.listen(1)
    kept.append(s)
name("r/0000000000000001/JOB-silent/1", False)
for bad in ("r", "r/1/JOB/1", "x/0000000000000001/JOB/1", "r/0000000000000001/../1", "r/zzzzzzzzzzzzzzzz/JOB/1",
            "r/0000000000000001/" + "J" * 64 + "/1", "r/0000000000000001//1"):
    name(bad, True)
name("r/0005000000000000/JOB-there/1", True)
print("made", flush=True)
time.sleep(1000)
END
start names /usr/bin/python3 names.py
names=$PID
wait_for 20 "the names" grep -q made names.log
expect 0 "$ctl" run --conf=b.ini
grep -qE "^paddlectl \| $mine's job JOB-there runs on this host since " <<<"$OUT" || die "not seen: $OUT"
[ "$(grep -c "'s job" <<<"$OUT")" = 1 ] || die "believed: $OUT"
kill "$names"
wait "$names" 2>/dev/null

# --- another user
if [ "$(id -u)" != 0 ] || ! id nobody >/dev/null 2>&1 || [ ! -x /usr/sbin/runuser ]; then
    echo "skipped: a second user needs root, nobody and runuser"
    exit 0
fi
other=$(mktemp -d /tmp/paddle-turn-XXXXXX)
on_cleanup() { hosts_end; rm -rf "$other"; }
cp "$BIN"/paddlectl "$BIN"/paddle_agent* "$BIN"/paddle_seed "$BIN"/paddle_worker* "$other/"
mkdir "$other/ws"
echo x >"$other/ws/file"
printf '%s\n' '[cluster]' 'hosts = local' 'pservers = none' 'port = 0' "root_dir = $other/root" '[job]' \
    'job_dispatch_package = ws' 'trainer_command = sleep 300' >"$other/conf.ini"
chmod -R go+rX "$other"
chown -R nobody "$other"
start nobody runuser -u nobody -- env HOME="$other" XDG_CACHE_HOME="$other/cache" sh -c \
    "cd '$other' && exec ./paddlectl run"
nobody=$PID
wait_for 60 "nobody's job" grep -q trainers: nobody.log
expect 0 "$ctl" run --conf=b.ini
has "nobody's job JOB"
start root "$ctl" run --conf=b.ini --wait
root=$PID
wait_for 60 "root waits" grep -q "waiting for the turn: nobody's job" root.log
kill -9 "$(sed -n "s,.*@paddlectl/$PADDLE_MACHINE/r/.*/\([0-9]*\)$,\1,p" /proc/net/unix | head -1)"
wait "$root" || die "root's job: $(cat root.log)"
wait "$nobody" && die "a job whose agent was killed succeeded"
exit 0
