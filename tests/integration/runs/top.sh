#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl top: the figures of the processes are those of /proc; it names a trainer that is slow and
# one that is stopped; JSON has bytes, queues and rows; on a terminal it draws anew, changes its size,
# ends with q, Ctrl-C, or the job.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
# Steps of some milliseconds, and passes of some seconds.
printf '%s\n' 'num_passes = 1000000' 'batch_size = 600' 'log_period = 100' |
    tiny_model vocabulary=300 size=64 hidden=1500 >ws/train.ini
for f in ws/data/*; do
    for i in $(seq 40); do cat "$f"; done >more && mv more "$f"
done
top() { expect 0 "$ctl" top --conf=conf.ini --once "$@"; }
# pid_of ROLE RANK: from the table
pid_of() { awk -v role="$1" -v rank="$2" '/ running | stopped / { for (i = 1; i < NF; i++) if ($i == role && $(i + 1) == rank) print $(i + 3) }' <<<"$OUT"; }

expect 2 "$ctl" top --conf=conf.ini
has "no host of conf.ini has a job"
start run "$ctl" run --conf=conf.ini --name=watched --attach_lease=60 # agents are stopped below
run=$PID
speeds() { "$ctl" top --conf=conf.ini --once >seen 2>&1 && [ "$(grep -c 'trainer .* samples/s .*%' seen)" = 2 ]; }
wait_for 120 "trainers with a speed" speeds

# --- the table
top
[[ $(head -1 <<<"$OUT") == JOB*" (watched): "*", 2 nodes" ]] || die "$OUT"
[ "$(grep -c ' running ' <<<"$OUT")" = 4 ] || die "not four processes: $OUT"
for role in trainer pserver; do
    for rank in 0 1; do
        pid=$(pid_of $role $rank)
        [ "$(cat "/proc/$pid/comm")" = paddle_$role ] || die "$role $rank is not process $pid: $OUT"
    done
done
pid=$(pid_of trainer 1)
read -r memory unit <<<"$(awk '/trainer 1 / { for (i = 1; i < NF; i++) if ($i ~ /^[0-9.]+[KMG]$/) print $i }' <<<"$OUT" | head -1 | sed 's/.$/ &/')"
rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
case $unit in K) factor=1 ;; M) factor=1024 ;; *) factor=1048576 ;; esac
holds "m * f > 0.7 * rss && m * f < 1.4 * rss" m="$memory" f=$factor rss="$rss"
top --sort=memory
order() { awk '/ running | stopped / { for (i = 1; i < NF; i++) if ($i ~ /^[0-9.]+[KMG]$/) { v = $i + 0; v *= $i ~ /G$/ ? 1048576 : $i ~ /M$/ ? 1024 : 1; print v; next } }' <<<"$OUT"; }
[ "$(order | wc -l)" = 4 ] && order | sort -crg || die "not by memory: $OUT"
top --sort=node
[ "$(awk '/ running / { print $1 }' <<<"$OUT" | xargs)" = "0 0 1 1" ] || die "not by node: $OUT"
expect 0 "$ctl" top --conf=conf.ini # a pipe gets one table, too
[ "$(grep -c ' running ' <<<"$OUT")" = 4 ] || die "$OUT"

# --- network, queues, rows; JSON
figures() { "$ctl" top --conf=conf.ini --once --json >seen.json && /usr/bin/python3 - seen.json "$1" <<'END' 2>why
import glob, json, sys
top = json.load(open(sys.argv[1]))
assert set(top) == {"t", "job", "name", "state", "n_nodes", "progress", "verdict", "processes", "unreachable"}, top
assert (top["name"], top["n_nodes"], top["unreachable"]) == ("watched", 2, []), top
at = {(p["role"], p["rank"]): p for p in top["processes"]}
assert sorted(at) == [("pserver", 0), ("pserver", 1), ("trainer", 0), ("trainer", 1)], at
servers = [at["pserver", r] for r in (0, 1)]
trainers = [at["trainer", r] for r in (0, 1)]
for p in trainers:
    assert p["waiting"] is p["queued"] is p["rows"] is None, p
for p in servers:
    assert p["own_rate"] is p["wait"] is p["pass"] is p["unit"] is None, p
    assert list(p["rows"]) == ["e.w"] and p["rows"]["e.w"] > 0, p
ids = {line.split()[0] for f in glob.glob("ws/data/*") for line in open(f)}
assert sum(p["rows"]["e.w"] for p in servers) == len(ids), (len(ids), servers)
if sys.argv[2] == "stopped":  # trainer 0 waits at each server for the stopped one; nothing moves
    assert at["trainer", 1]["state"] == "stopped", at
    assert all(p["waiting"] > 0 and p["sent_rate"] < 10000 for p in servers), servers
    assert all(p["sent_rate"] is None or p["sent_rate"] < 10000 for p in trainers[:1]), trainers
    sys.exit()
for p in servers + trainers:
    assert p["state"] == "running" and p["sent_rate"] > 10000 and p["received_rate"] > 10000, p
    assert p["event_age_s"] < 5 and p["cpu_percent"] >= 0, p
def total(v, key): return sum(p[key] for p in v)
for a, b in ("sent_rate", "received_rate"), ("received_rate", "sent_rate"):
    assert 0.4 < total(trainers, a) / total(servers, b) < 2.5, (a, trainers, servers)
END
}
wait_for 60 "network, queues and rows" figures running
top
grep -Eq 'PROCESS +IS .* SENT +RECEIVED +QUEUE +ROWS +AT' <<<"$OUT" || die "$OUT"
[ "$(grep -cE 'pserver [01] .*[KMG]/s +[0-9.]+[KMG]/s +[0-9]+( \+ [0-9.]+[BKMG])? +[0-9]+ *$' <<<"$OUT")" = 2 ] || die "$OUT"
# Again and again, a line each; the reader ends it.
"$ctl" top --conf=conf.ini --json --delay=0.3 2>/dev/null | head -3 >lines
[ "${PIPESTATUS[0]}" = 141 ] || die "top --json: $(cat lines)"
/usr/bin/python3 -c 'import json, sys
v = [json.loads(line) for line in open("lines")]
assert len(v) == 3 and v[0]["t"] < v[1]["t"] < v[2]["t"] and all(len(x["processes"]) == 4 for x in v[1:]), v' || die "$(cat lines)"

# --- a slow trainer: it runs a third of the time
top
slow=$(pid_of trainer 1)
while kill -STOP "$slow" 2>/dev/null && sleep 0.2 && kill -CONT "$slow" && sleep 0.1; do :; done &
brake=$!
PIDS+=("$brake")
named() { "$ctl" top --conf=conf.ini --once >seen 2>&1 && grep -q "^trainer 1 on local.1 holds the others up: it waits " seen; }
wait_for 120 "the slow trainer is named" named
grep ' running \| stopped ' seen | head -1 | grep -q ' trainer 1 ' || die "the slow trainer is not the first: $(cat seen)"
kill "$brake"
wait "$brake" 2>/dev/null

# --- a stopped one
kill -STOP "$slow"
stopped() { "$ctl" top --conf=conf.ini --once >seen 2>&1 && grep -qx "trainer 1 on local.1 is stopped by a signal (kill -CONT $slow)" seen; }
wait_for 60 "the stopped trainer is named" stopped
awk '/ pserver | trainer / { print; exit }' seen | grep -q " trainer 1  *stopped  *$slow " || die "$(cat seen)"
expect 0 "$ctl" status --conf=conf.ini
grep -q "trainer 1  *stopped" <<<"$OUT" || die "$OUT"
wait_for 60 "requests that wait for it" figures stopped
kill -CONT "$slow"

agents=$(cat node?/JOB*/.agent/pid)

# --- on a terminal
PYTHONPATH=$TOP/tests/support PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8 /usr/bin/python3 - "$ctl" "$run" <<'END' || die "on a terminal"
import glob, os, signal, sys
from screen import Screen
ctl, job = sys.argv[1], int(sys.argv[2])
command = [ctl, "top", "--conf=conf.ini", "--delay=0.3"]
def shown(s): return [l for l in s.lines[s.top:] if l.strip()]
def tables(s): return sum(l.split()[:2] == ["NODE", "HOST"] for l in shown(s))
def progress(s): return [l for l in shown(s) if l.startswith("pass ")]
s = Screen(command, cols=110, rows=20)
s.until(lambda: tables(s) == 1 and progress(s), "a table")
first = progress(s)
s.until(lambda: tables(s) == 1 and progress(s) and progress(s) != first, "the table changes")
for cols, rows in (60, 20), (120, 24), (50, 8):
    s.resize(cols, rows)
    s.until(lambda: tables(s) == 1 and all(len(l) < cols for l in shown(s)) and
            len(shown(s)) < rows and s.lines[-1].strip(), "%d columns" % cols)
s.resize(110, 20)
assert s.modes() == (False, False, True), "keys are not read"
s.type("q")
assert s.wait() == 0, s
assert "interrupted" not in s.text, s
assert s.modes() == (True, True, True), "the terminal's modes are not restored"
s = Screen(command, cols=110, rows=20)
s.until(lambda: tables(s) == 1, "a table")
s.proc.send_signal(signal.SIGINT)
assert s.wait() == 130, s
os.kill(job, 0)  # the job goes on

# A node that does not answer for 10 s: its processes are not shown, and it is asked again. The job is
# not over, and top says so only if it is.
agents = [int(open(p).read()) for n in (0, 1) for p in glob.glob("node%d/JOB*/.agent/pid" % n)]
def hosts(s): return {l.split()[1] for l in shown(s) if " trainer " in l and "does not" not in l}
s = Screen(command, cols=110, rows=20)
s.until(lambda: hosts(s) == {"local.0", "local.1"} or len(hosts(s)) == 2, "two nodes")
both = hosts(s)
try:
    os.kill(agents[1], signal.SIGSTOP)
    s.until(lambda: any("does not answer: " in l for l in shown(s)) and len(hosts(s)) == 1, "node 1 does not answer", 60)
    os.kill(agents[1], signal.SIGCONT)
    s.until(lambda: hosts(s) == both, "node 1 answers again", 60)
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    assert s.wait() == 3, s
finally:
    for pid in agents:
        os.kill(pid, signal.SIGCONT)
assert "the job is over" not in s.text, s
os.kill(job, 0)
s = Screen(command, cols=110, rows=20)
s.until(lambda: tables(s) == 1, "a table")
os.kill(job, signal.SIGINT)
assert s.wait() == 0, s
assert any("the job is over; 'paddlectl status JOB" in l for l in s.lines), s
END
wait "$run"
[ $? = 130 ] || die "the job: $(tail -3 run.log)"

# --- an agent that is just ending: it closes connections without a word. What is asked then is the job
# that is over.
# The real ones may take a moment to end, and remove their sockets then.
# shellcheck disable=SC2086
agents_are_gone() { ! kill -0 $agents 2>/dev/null; }
wait_for 30 "the end of the agents" agents_are_gone
start ending /usr/bin/python3 -c 'import os, socket, sys
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.bind("sock")
s.listen()
print("listens", flush=True)
for _ in range(3):
    s.accept()[0].close()
os.remove("sock")
' "$(echo node0/JOB*/.agent)"
wait_for 20 "the socket" grep -q listens ending.log
expect 0 "$ctl" status --conf=conf.ini
has ": stopped after "
wait "$PID" || die "it was not asked three times: $(cat ending.log)"

# --- wrong usage, and a job that is over
expect 2 "$ctl" top --conf=conf.ini
has "does not run; 'paddlectl status JOB"
expect 2 "$ctl" top --conf=conf.ini --sort=name
has "give wait, cpu, memory, speed or node"
expect 2 "$ctl" top --conf=conf.ini --delay=0
has "give seconds, 0.2 to 3600"
expect 2 "$ctl" top --conf=conf.ini nobody
