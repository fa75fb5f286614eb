#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl run --profile: one trace of two pservers and two trainers, on this machine, over ssh, and
# with a node whose clock is 1000 s ahead. tests/support/trace.py checks schema, nesting, shares and
# clocks.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
/usr/bin/python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
ctl=$BIN/paddlectl
cd "$TMP" || exit 1
tiny_data ws/data
tiny_model vocabulary=300 size=256 hidden=512 test='data/*' <<'END' >ws/train.ini
num_passes = 8
batch_size = 48
END
trace() { # trace FOLDER OFFSET...
    [ -s "$1/profile.json" ] && [ ! -e "$1/profile" ] || die "no trace, or parts are left: $(ls "$1")"
    PYTHONDONTWRITEBYTECODE=1 "$TOP/tests/support/trace.py" "$1/profile.json" "$1" "${@:2}" || die "$1: see above"
}
job='[job]
job_dispatch_package = ws'

# --- two nodes here
{ local_nodes 2; echo "$job"; } >conf.ini
expect 0 "$ctl" run --conf=conf.ini --profile
has "trace: output/JOB"
has "spans of 4 processes; ui.perfetto.dev shows it"
trace "$(readlink -f output/latest)"
# With threads: the second one has spans of its own.
expect 0 "$ctl" run --conf=conf.ini --profile --trainer_count=2
/usr/bin/python3 - output/latest/profile.json <<'END' || die "no products of a second thread"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
second = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "thread 1"}
assert len(second) == 2, second
for t in second:
    names = {e["name"] for e in events if (e["pid"], e["tid"]) == t}
    assert {"forward", "backward", "product", "wait for threads", "gradients"} <= names, names
END
# As a key of train.ini, which paddlectl does not read for itself
cp -r ws keyed
sed -i '0,/^num_passes/s//profile = 1\nnum_passes/' keyed/train.ini
expect 0 "$ctl" run --conf=conf.ini --job_dispatch_package=keyed
has "spans of 4 processes; ui.perfetto.dev shows it"
trace "$(readlink -f output/latest)"
# Off: nothing is written.
expect 0 "$ctl" run --conf=conf.ini
has_not "trace: "
[ -z "$(find output/latest/ -name 'profile*')" ] || die "a trace without --profile"
# Rings that are full: what is dropped is counted.
expect 0 "$ctl" run --conf=conf.ini --profile --num_passes=120 --batch_size=8 \
    --set layer.e.size=8 --set layer.h.size=8
has "earlier ones were dropped"
trace "$(readlink -f output/latest)"
/usr/bin/python3 -c 'import json, sys
from collections import Counter
t = json.load(open(sys.argv[1]))
n = Counter((e["pid"], e["tid"]) for e in t["traceEvents"] if e["ph"] == "X")
assert t["otherData"]["dropped_spans"] > 0 and max(n.values()) == 32768, (t["otherData"], n)' output/latest/profile.json || die "dropped spans"

# --- a file of the user's choice; it is checked before the job starts
expect 0 "$ctl" run --conf=conf.ini --profile=chosen.json
has "trace: chosen.json, "
[ ! -e output/latest/profile.json ] || die "two traces"
PYTHONDONTWRITEBYTECODE=1 "$TOP/tests/support/trace.py" chosen.json "$(readlink -f output/latest)" || die "chosen.json: see above"
expect 2 "$ctl" run --conf=conf.ini --profile=nowhere/trace.json
has "the trace cannot be written to nowhere/trace.json"
before=$(readlink output/latest)

# --- a job that is stopped: what its processes did until then. The newest outputs stay those before.
stopped_trace() { # stopped_trace FOLDER PROCESSES
    [ -s "$1/profile.json" ] && [ ! -e "$1/profile" ] || die "no trace, or parts are left: $(ls -a "$1")"
    /usr/bin/python3 - "$1/profile.json" "$2" <<'END' || die "$1/profile.json: see above"
import json, sys
t = json.load(open(sys.argv[1]))
names, spans = {}, {}
for e in t["traceEvents"]:
    if e["name"] == "process_name":
        names[e["pid"]] = e["args"]["name"].split(" on ")[0]
    elif e["ph"] == "X":
        spans.setdefault(e["pid"], set()).add(e["name"])
        assert 0 <= e["ts"] < 600e6 and 0 <= e["dur"] < 600e6, e
have = sorted(names.values())
assert have == sys.argv[2].split(","), have
for pid, who in names.items():
    assert ("forward" if who.startswith("trainer") else "apply") in spans[pid], (who, spans.get(pid))
assert all(c["error_us"] < 1e6 for c in t["otherData"]["clocks"]) and len(t["otherData"]["clocks"]) == 2, t["otherData"]
END
}
four="pserver 0,pserver 1,trainer 0,trainer 1"
rm -f seen
start stopped "$ctl" run --conf=conf.ini --profile --num_passes=1000000 --name=stopped
wait_for 120 "it trains" grep -q "^.*Pass 3.* done" stopped.log
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "stopped: $(cat stopped.log)"
grep -q "trace: output/JOB.*/profile.json, .* spans of 4 processes" stopped.log || die "$(cat stopped.log)"
id=$(sed -n 's#.*trace: output/\(JOB[^/]*\)/.*#\1#p' stopped.log)
stopped_trace "output/$id" "$four"
[ "$(readlink output/latest)" = "$before" ] || die "latest points at a job without outputs"
[ ! -e "output/.$id.part" ] || die "parts of a fetch are left"

# --- a job that fails: a trainer is killed, and has no spans
start failed "$ctl" run --conf=conf.ini --profile --num_passes=1000000 --name=failed
wait_for 120 "it trains" grep -q "^.*Pass 3.* done" failed.log
"$ctl" status --conf=conf.ini --json >status
kill -KILL "$(/usr/bin/python3 -c 'import json; print([p["pid"] for n in json.load(open("status"))["nodes"] for p in n["processes"] if (p["role"], p["rank"]) == ("trainer", 1)][0])')"
wait "$PID"
[ $? = 1 ] || die "failed: $(cat failed.log)"
id=$(sed -n 's#.*trace: output/\(JOB[^/]*\)/.*#\1#p' failed.log)
stopped_trace "output/$id" "pserver 0,pserver 1,trainer 0"

# --- a job that nobody follows: fetch makes the trace
expect 0 "$ctl" run --conf=conf.ini --profile --detach --num_passes=4
id=$(tail -1 <<<"$OUT")
over() { "$ctl" ps --conf=conf.ini >ps.out && ! grep -q "$id.* running" ps.out; }
wait_for 120 "the end of $id" over
expect 0 "$ctl" fetch --conf=conf.ini "$id"
has "trace: output/$id/profile.json, "
stopped_trace "output/$id" "$four"
expect 0 "$ctl" fetch --conf=conf.ini --log --to=elsewhere --profile-file=again.json "$id"
has "trace: again.json, "
[ -s again.json ] && [ ! -e elsewhere/profile ] || die "no second trace: $(ls elsewhere)"
# A host that was rebooted since has another monotonic clock: its spans are left out, and named. Here the
# spans claim to be of a boot before this one; those of node 0 stay.
for f in "$TMP/node1/$id"/output/profile/*; do
    grep -q "\"boot\":\"$(cat /proc/sys/kernel/random/boot_id)\"" "$f" || die "no boot id: $(head -1 "$f")"
    sed -i '1s/"boot":"[^"]*"/"boot":"0b8d7f1e-before"/' "$f"
done
expect 0 "$ctl" fetch --conf=conf.ini --to=rebooted "$id"
has "2 more are of hosts that were rebooted since (local.1): no clock places their spans, which stay in profile/"
stopped_trace_of() { /usr/bin/python3 - "$1" <<'END' || die "$1: see above"
import json, sys
t = json.load(open(sys.argv[1]))
names = sorted(e["args"]["name"] for e in t["traceEvents"] if e["name"] == "process_name")
assert [n.split(" on ")[0] for n in names] == ["pserver 0", "trainer 0"], names
assert t["otherData"]["processes_of_rebooted_hosts"] == 2 and not t["otherData"]["processes_left_out"], t["otherData"]
assert all(e["ts"] < 600e6 for e in t["traceEvents"] if e["ph"] == "X")
END
}
stopped_trace_of rebooted/profile.json
[ "$(ls rebooted/profile | wc -l)" = 2 ] || die "the parts of node 1 are gone: $(ls rebooted/profile)"

# --- over ssh
if [ -x /usr/sbin/sshd ]; then
    ssh_hosts 2
    { cat "$fx/conf.ini"; echo "$job"; } >ssh.ini
    expect 0 "$ctl" run --conf=ssh.ini --profile
    trace "$(readlink -f output/latest)"
else
    echo "skipped: no sshd on this machine"
fi

# --- a node with another clock: CLOCK_MONOTONIC of node 1 is 1000 s ahead
cat >ahead <<'END'
#!/bin/sh
node=$1
shift
[ "$node" = 1 ] || exec "$@"
exec unshare $([ "$(id -u)" = 0 ] || echo --user --map-root-user) --time --fork --monotonic 1000 "$@"
END
chmod +x ahead
if ./ahead 1 true 2>/dev/null; then
    printf '[cluster]\nhosts = node[0-1]\nconnect = %s/ahead %%n\nroot_dir = %s/other%%n\nport = %s\n%s\n' \
        "$TMP" "$TMP" $((10000 + RANDOM % 10000)) "$job" >ahead.ini
    expect 0 "$ctl" run --conf=ahead.ini --profile
    trace "$(readlink -f output/latest)" 0 1000
else
    echo "skipped: no time namespaces here, so no node with another clock"
fi
exit 0
