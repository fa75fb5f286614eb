#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl logs: what the nodes' files hold, whole, once, and in the order of time; of a job that runs and one that is over; to a
# reader that is slow; and a look at a job does not keep it alive.
# both
. "$(dirname "$0")/../../support/lib.sh"
ctl=$BIN/paddlectl
mkdir -p "$TMP/ws"
cd "$TMP" || die cd
cat >ws/odd.py <<'E'
import os, sys, time
out, me = sys.stdout.buffer, os.environ["PADDLE_TRAINER_ID"].encode()
def say(b):
    out.write(b)
    out.flush()
for i in range(60):
    say(b"trainer %s line %d h\xc3\xa4\xe2\x82\xac\n" % (me, i))
    say(b"the same %d\n" % i)
    if i % 20 == 0:
        time.sleep(0.1)
say(b"half a line, " + b"\xc3")
time.sleep(0.05)
say(b"\xa4 and the rest\r\n")
say(b"10%\r50%\r100%\n\n")
say(b"long " + me * 3000000 + b"\n")
say(b"not utf-8: \xff\xfe\n")
say(b"no newline at the end")
E
many=60000
[[ $BIN != *san* ]] || many=6000 # a sanitizer's slowness is not the point
cat >ws/much.py <<E
import os, sys
line = "trainer %s " % os.environ["PADDLE_TRAINER_ID"] + "x" * 80
for i in range($many):
    sys.stdout.write("%s %d\n" % (line, i))
E
cat >ws/slow.sh <<'E'
#!/bin/sh
i=0
while [ $i -lt 30 ]; do echo "line $i"; i=$((i + 1)); sleep 0.1; done
E
cat >ws/forever.sh <<'E'
#!/bin/sh
printf '{"ev":"progress","role":"trainer","rank":%d,"pass":0,"num_passes":2,"batch":7,"fraction":0.415,"cost":1.5,"rate":1000,' "$PADDLE_TRAINER_ID" >&$PADDLE_EVENT_FD
printf '"own_rate":300,"wait":0.2,"metrics":{"perplexity":4.5},"unit":"words"}\n' >&$PADDLE_EVENT_FD
echo up
exec sleep 1000
E
printf '#!/bin/sh\n[ $PADDLE_TRAINER_ID = 1 ] || exec sleep 100\necho the cause; echo "wipe \033[2Jit"; exit 7\n' >ws/fail.sh
chmod +x ws/*.sh
conf() { # conf NAME HOSTS COMMAND: with folders NAME0, NAME1, ...
    cat >conf.ini <<E
[cluster]
hosts = $2
pservers = 1
root_dir = $TMP/$1%n
port = $((20000 + RANDOM % 5000))
[job]
job_dispatch_package = ws
attach_lease = 4
pserver_command = /usr/bin/python3 $TOP/tests/support/own-server.py
trainer_command = $3
E
}

# What `logs --json` printed against the files: every byte of every line, in order of time, and of its file.
cat >check.py <<'E'
import glob, json, re, sys
lines, last, at = {}, "", {}
for text in open(sys.argv[1]):
    o = json.loads(text)
    assert o["time"] >= last, (o["time"], last)
    last = o["time"]
    assert o["host"] == "local.%d" % o["node"], o
    key = o["node"], o["stream"]
    assert o["offset"] >= at.get(key, 0), o
    at[key] = o["offset"] + 1
    assert o["role"] == ("trainer" if o["stream"] == "train.log" else "pserver")
    lines.setdefault(key, []).append(o["text"])
n = 0
for path in glob.glob("odd*/JOB*/log/train.log") + glob.glob("odd*/JOB*/log/server.log"):
    node, stream = int(re.match(r"odd(\d+)", path).group(1)), path.split("/")[-1]
    want = open(path, "rb").read().split(b"\n")
    if not want[-1]:
        want.pop()
    want = [w.rstrip(b"\r").split(b"\r")[-1].decode(errors="replace") for w in want]
    got = lines.get((node, stream), [])
    assert got == want, "%s: %d lines, %d in the file; first different: %r" % (
        path, len(got), len(want), next(((a[:80], b[:80]) for a, b in zip(got, want) if a != b), None))
    n += len(got)
print(n, "lines")
E

# --- odd lines; while it runs another client follows, and has the same lines in the end
conf odd 'local*3' '/usr/bin/python3 odd.py'
start run "$ctl" run --conf=conf.ini
run=$PID
wait_for 60 "there is a job" bash -c "ls odd0/JOB*/log/train.log"
start follow "$ctl" logs -f --json --conf=conf.ini
wait $run || die "run: $(tail -c 2000 run.log)"
wait "$PID" || die "logs -f: $? $(tail -c 2000 follow.log)"
"$ctl" logs --json --conf=conf.ini >after.json || die "logs"
/usr/bin/python3 check.py after.json || die "logs --json is not what the files hold"
[ "$(sort after.json | sha256sum)" = "$(sort follow.log | sha256sum)" ] || die "logs -f: $(wc -l <follow.log) lines, $(wc -l <after.json) in the end"
grep -aq 'local.1/trainer | half a line, ä and the rest$' run.log || die "run: a torn character"
grep -aq 'local.2/trainer | no newline at the end' run.log || die "run: no last line"
[ "$(grep -a '^local.*/trainer | ' run.log | sed 's/^[^|]*| //' | sort | sha256sum)" = \
    "$("$ctl" logs --role=trainer | sed 's/^[^|]*| //' | sort | sha256sum)" ] || die "run and logs show different lines"

# --- what is asked for
expect 0 "$ctl" logs --fold --role=trainer --grep='^the same 5?7$'
has "local.[0-2]/trainer | the same 7"
has "local.[0-2]/trainer | the same 57"
expect 0 "$ctl" logs --node=1-2 -n 2 --grep='trainer . line'
[ "$(wc -l <<<"$OUT")" = 2 ] || die "-n 2: $OUT"
has_not local.0
expect 0 "$ctl" logs --node='local.0' -n1 --role=trainer
[ "$OUT" = "local.0/trainer | no newline at the end" ] || die "one line: $OUT"
expect 0 "$ctl" logs --until=1h
[ -z "$OUT" ] || die "until: $OUT"
expect 0 "$ctl" logs --since=1h --role=pserver --color=always
has $'\033['
expect 2 "$ctl" logs --node=7
has "has no node 7"
expect 2 "$ctl" logs --since=yesterday
expect 2 "$ctl" logs --grep='a[b'
expect 2 "$ctl" logs --role=king

# --- a host that can't be reached: named, and the rest is shown
sed 's/^hosts = .*/hosts = local*3, 127.0.0.1:1/' conf.ini >more.ini
expect 3 "$ctl" logs --conf=more.ini -n1 --role=trainer
has "paddlectl: 127.0.0.1: "
has "/trainer | no newline at the end"

# --- a reader that stands still for longer than the lease: nothing is lost, of the job or of its lines, and memory is bounded
conf much 'local*3' '/usr/bin/python3 much.py'
"$ctl" run --conf=conf.ini | { sleep 6; cat; } >slow.out
[ "${PIPESTATUS[0]}" = 0 ] || die "run with a slow reader: $(tail -c 1000 slow.out)"
[ "$(grep -c '^local.[0-2]/trainer | ' slow.out)" = $((3 * many)) ] || die "run: $(grep -c / slow.out) lines"
"$ctl" logs --role=trainer --stats 2>stats | { sleep 2; cat; } >logs.out
cmp -s <(grep '^local.[0-2]/trainer' slow.out | sort) <(sort logs.out) || die "run and logs differ"
peak=$(sed -n 's/.*at most \([0-9]*\) bytes.*/\1/p' stats)
[ "$peak" -lt 40000000 ] || die "peak: $(cat stats)"
for i in 0 1 2; do
    cmp -s <(sed -n "s/^local.$i\/trainer | //p" logs.out) much$i/JOB*/log/train.log || die "node $i's lines are not its file's"
done
# a reader that has enough
[ "$("$ctl" logs --role=trainer | head -3 | wc -l)" = 3 ] || die "head"
"$ctl" logs --role=trainer 2>err | head -1 >/dev/null
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s err ] || die "head: $(cat err)"

# --- logs that were rotated: all kept files of all nodes, as one
conf turned 'local*2' 'seq 20000'
expect 0 "$ctl" run --conf=conf.ini --log_max_size=10000 --log_keep=50
[ -e "$(echo turned1/JOB*)/log/train.log.9" ] || die "not rotated: $(ls turned1/JOB*/log)"
"$ctl" logs --role=trainer --node=1 >logs.out || die "logs of rotated files"
cmp -s <(seq 20000) <(sed -n 's/^local.1\/trainer | //p' logs.out) || die "rotated: $(wc -l <logs.out) lines"
expect 0 "$ctl" run --conf=conf.ini --log_max_size=10000 --log_keep=2
"$ctl" logs --role=trainer --node=0 | sed 's/.* | //' >logs.out
grep -q '^\[[0-9]* bytes are missing here\]$' <(head -1 logs.out) || die "nothing is missing: $(head -1 logs.out)"
sed -i 1d logs.out
first=$(head -1 logs.out)
[ "$first" -gt 10000 ] && cmp -s <(seq "$first" 20000) logs.out || die "the kept files: from $first to $(tail -1 logs.out)"
[ "$(find turned0/*/log -size +20 -name 'train.log*' | wc -l)" = 0 ] || die "too long: $(ls -l turned0/*/log)"

# --- status and ps; to look at a job does not keep it alive when its launcher is gone
conf ever 'local*2' ./forever.sh
start run "$ctl" run --conf=conf.ini
run=$PID
wait_for 60 "it runs" grep -q 'local.1/trainer | up' run.log
: >follow.log
start follow "$ctl" logs -f --conf=conf.ini
wait_for 60 "it is followed" grep -q 'local.1/trainer | up' follow.log
expect 0 "$ctl" status
has ": running for "
has "progress: pass 1/2 41 %, batch 7, cost 1.5, perplexity 4.5, 1000 words/s"
[[ $OUT =~ 0\ \ local.0\ .*pserver\ 0\ .*serving ]] || die "no pserver: $OUT"
[[ $OUT =~ 1\ \ local.1\ +trainers\ +trainer\ 1\ +running\ +[0-9]+.*300\ words/s\ +20\ % ]] || die "no trainer: $OUT"
sed 's/^hosts = .*/hosts = local*2, 127.0.0.1:1/' conf.ini >more.ini
expect 3 "$ctl" status --conf=more.ini
has "paddlectl: 127.0.0.1: cannot connect"
has "127.0.0.1  unreachable"
has "trainer 1"
for what in status logs fetch stop attach; do # what a host that can't be asked has is not known
    expect 3 "$ctl" $what --conf=more.ini nothing
    has "paddlectl: 127.0.0.1: cannot connect"
    has "no reachable host of conf.ini has a job nothing"
done
"$ctl" status --json >status.json && /usr/bin/python3 - <<'E' || die "status --json: $(cat status.json)"
import json
s = json.load(open("status.json"))
assert s["running"] and s["attached"] and s["n_nodes"] == 2 and s["progress"]["batch"] == 7 and not s["unreachable"], s
assert [n["host"] for n in s["nodes"]] == ["local.0", "local.1"]
p = [(p["role"], p["rank"], p["state"]) for n in s["nodes"] for p in n["processes"]]
assert p == [("pserver", 0, "running"), ("trainer", 0, "running"), ("trainer", 1, "running")], p
assert all(q["rss_bytes"] > 0 and 0 <= q["cpu_percent"] < 1000 for n in s["nodes"] for q in n["processes"])
E
expect 0 "$ctl" ps
[[ $OUT =~ JOB[0-9]+-[0-9a-f]+\ +[a-z0-9_-]+\ +running\ +2/2\ .*attached\ +1/2\ +41\ %\ +perplexity\ 4.5\ +1000\ words/s ]] || die "ps: $OUT"
expect 3 "$ctl" ps --json --conf=more.ini
has '"host": "127.0.0.1"'
has '"nodes_running": 2'
kill -KILL $run
wait_for 60 "the follower sees the end" bash -c "! kill -0 $PID"
for i in 0 1; do wait_for 30 "a result" bash -c "[ -s ever$i/JOB*/result.json ]"; done
conf fail 'local*2' ./fail.sh
expect 1 "$ctl" run --conf=conf.ini
expect 0 "$ctl" status latest
has ": failed after "
has "first failure: local.1, trainer 1: exit status 7"
has "    | the cause"
has "    | wipe  [2Jit"
expect 0 "$ctl" ps --running
has "no job is running"

# --- without stdout or on a full disk: no crash, and no success that was none
expect 0 bash -c "'$ctl' logs latest >&-"
expect 0 bash -c "'$ctl' ps <&- >&- 2>&-"
expect 1 bash -c "'$ctl' ps >/dev/full"
has "the output cannot be written"
expect 1 bash -c "'$ctl' logs latest >/dev/full"
has "the logs cannot be written: No space left on device"

# --- Ctrl-C
conf slow 'local*2' ./slow.sh
start run "$ctl" run --conf=conf.ini
run=$PID
wait_for 60 "it runs" grep -q 'line 2' run.log
: >follow.log
start follow "$ctl" logs -f --conf=conf.ini
wait_for 60 "it is followed" grep -q 'line 2' follow.log
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "Ctrl-C: $(tail -3 follow.log)"
wait $run || die "the job ended with its follower: $(tail -3 run.log)"
[ "$(grep -c 'line 29' run.log)" = 2 ] || die "lines: $(tail run.log)"

# --- hosts that are lost together are one line of a follower
conf lost 'local*3' ./forever.sh
start run "$ctl" run --conf=conf.ini
run=$PID
wait_for 60 "it runs" grep -q 'local.2/trainer | up' run.log
: >follow.log
start follow "$ctl" logs -f --conf=conf.ini
wait_for 60 "it is followed" grep -q 'local.2/trainer | up' follow.log
for i in 1 2; do agents[i]=$(pgrep -f -- "--root=$TMP/lost$i .*--start"); done
# Stopped first: a guardian that sees the death of its agent before its own writes a result.
# shellcheck disable=SC2086
kill -STOP ${agents[1]} ${agents[2]} && kill -KILL ${agents[1]} ${agents[2]}
wait "$PID"
[ $? = 3 ] || die "a follower that lost two hosts: $(grep paddlectl follow.log)"
[ "$(grep -c '^paddlectl: local' follow.log)" = 1 ] && grep -q '^paddlectl: local.\[1-2\]: ' follow.log ||
    die "two lost hosts: $(grep paddlectl follow.log)"
wait $run && die "the job did not fail"
exit 0
