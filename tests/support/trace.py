#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""trace.py TRACE RECORD [OFFSET_S...] - checks the trace of a job (`paddlectl run --profile`).

- It fits a JSON schema of Chrome's trace event format.
- Spans of a thread lie inside each other or beside each other.
- It has the spans of every trainer and pserver of the record.
- Forward and backward of each trainer take as long as its passes in metrics.jsonl say.
- The last passes of all trainers end at the same time.
- The clocks: the true offset of node N is the N-th OFFSET_S (default: 0, one machine), within the
  bound that the trace has.
"""
import json
import sys
from collections import defaultdict

import jsonschema

MICROSECONDS = {"type": "number", "minimum": 0}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit", "otherData"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {"type": "array", "minItems": 1, "items": {"oneOf": [
            {"type": "object", "additionalProperties": False,
             "required": ["ph", "name", "cat", "pid", "tid", "ts", "dur"],
             "properties": {"ph": {"const": "X"}, "name": {"type": "string", "minLength": 1},
                            "cat": {"enum": ["trainer", "pserver"]}, "pid": {"type": "integer"},
                            "tid": {"type": "integer"}, "ts": MICROSECONDS, "dur": MICROSECONDS}},
            {"type": "object", "additionalProperties": False,
             "required": ["ph", "name", "pid", "tid", "args"],
             "properties": {"ph": {"const": "M"}, "name": {"enum": ["process_name", "thread_name"]},
                            "pid": {"type": "integer"}, "tid": {"type": "integer"},
                            "args": {"type": "object", "required": ["name"],
                                     "properties": {"name": {"type": "string", "minLength": 1}}}}}]}},
        "otherData": {
            "type": "object",
            "required": ["job", "clocks", "dropped_spans", "threads_without_spans", "processes_left_out"],
            "properties": {"clocks": {"type": "array", "items": {
                "type": "object", "required": ["node", "host", "offset_us", "error_us"],
                "properties": {"error_us": {"type": "number", "exclusiveMinimum": 0}}}}}}}}

trace = json.load(open(sys.argv[1]))
record = sys.argv[2]
offsets = [float(s) for s in sys.argv[3:]]
run = json.load(open(record + "/run.json"))
jsonschema.validate(trace, SCHEMA)
other = trace["otherData"]
assert other["job"] == run["job"] and not other["processes_left_out"] and not other["threads_without_spans"], other

# --- names
names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
wanted = {f"{role} {rank} on {run['hosts'][node]['host']}" for role in ("pserver", "trainer")
          for rank, node in enumerate(run[role + "s"])}
assert set(names.values()) == wanted and len(names) == len(wanted), (names, wanted)
threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
spans = defaultdict(list)
for e in trace["traceEvents"]:
    if e["ph"] == "X":
        assert (e["pid"], e["tid"]) in threads, e
        spans[e["pid"], e["tid"]].append(e)
assert set(spans) == set(threads), "a thread without spans"

# --- nesting, in whole nanoseconds
for key, list_ in spans.items():
    open_ = []
    for e in sorted(list_, key=lambda e: (round(e["ts"] * 1000), -round(e["dur"] * 1000))):
        begin = round(e["ts"] * 1000)
        end = begin + round(e["dur"] * 1000)
        while open_ and open_[-1][1] <= begin:
            open_.pop()
        assert not open_ or end <= open_[-1][1], f"{names[key[0]]}, {threads[key]}: {e} crosses {open_[-1]}"
        open_.append((begin, end, e["name"]))

# --- what there is
seen = defaultdict(set)
for (pid, _), list_ in spans.items():
    seen[names[pid].split()[0]] |= {e["name"] for e in list_}
for role, some in (("trainer", {"pass", "step", "read", "wait", "barrier", "forward", "backward", "product",
                                "push", "pull"}),
                   ("pserver", {"PS_STEP_END", "PS_PUSH_DENSE", "PS_PULL_DENSE", "apply"})):
    assert some <= seen[role], (role, some - seen[role], seen[role])

# --- the record's shares
def inside(these, outer):
    """Those that lie in one of `outer`, which do not overlap."""
    found, k = [], 0
    outer = sorted(outer, key=lambda e: e["ts"])
    for e in sorted(these, key=lambda e: e["ts"]):
        while k < len(outer) and outer[k]["ts"] + outer[k]["dur"] < e["ts"]:
            k += 1
        if k < len(outer) and outer[k]["ts"] <= e["ts"] and \
                e["ts"] + e["dur"] <= outer[k]["ts"] + outer[k]["dur"] + 0.0005:
            found.append(e)
    return found


if not other["dropped_spans"]:
    times = defaultdict(lambda: defaultdict(float))
    for line in open(record + "/metrics.jsonl"):
        e = json.loads(line)
        for k in ("forward", "backward", "seconds") if e.get("ev") == "pass" else ():
            times[e["rank"]][k] += e[k]
            times[e["rank"]]["n"] += k == "seconds"
    for pid, name in names.items():
        if not name.startswith("trainer"):
            continue
        rank = int(name.split()[1])
        main = [e for (p, tid), list_ in spans.items() if p == pid and threads[p, tid] == "trainer" for e in list_]
        # forward of a test lies in the span of the test; a push during backward counts as push
        of_passes = inside(main, [e for e in main if e["name"] == "pass"])
        backward = [e for e in of_passes if e["name"] == "backward"]
        pushes = inside([e for e in main if e["name"] == "push"], backward)
        got = {"forward": sum(e["dur"] for e in of_passes if e["name"] == "forward") / 1e6,
               "backward": (sum(e["dur"] for e in backward) - sum(e["dur"] for e in pushes)) / 1e6}
        for k in ("forward", "backward"):
            want = times[rank][k]
            slack = 0.1 * want + 0.001 * times[rank]["n"] # the record has milliseconds
            assert abs(got[k] - want) <= slack < want / 2, (name, k, got[k], want)
        passes = sum(e["dur"] for e in main if e["name"] == "pass") / 1e6
        steps = sum(e["dur"] for e in main if e["name"] == "step") / 1e6
        assert steps <= passes and abs(passes - times[rank]["seconds"]) <= 0.1 * passes + 0.05, (passes, steps, times[rank])
        print(f"{name}: forward {got['forward']:.3f} s of {times[rank]['forward']:.3f}, "
              f"backward {got['backward']:.3f} of {times[rank]['backward']:.3f}, steps {steps:.3f} of {passes:.3f}")

# --- one clock
assert [c["node"] for c in other["clocks"]] == list(range(len(run["hosts"]))), other
for c in other["clocks"]:
    true = offsets[c["node"]] * 1e6 if offsets else 0.0
    assert abs(c["offset_us"] - true) <= c["error_us"] + 0.001, (c, true)
    assert c["error_us"] < 5e6, c
    print(f"node {c['node']}: {c['offset_us']:.1f} us, at most {c['error_us']:.1f} us wrong")
# Under sync each step is one of all trainers: their last passes end within the errors of the clocks, and
# a second for the end of the last step.
ends = [max(e["ts"] + e["dur"] for (p, _), list_ in spans.items() if p == pid for e in list_ if e["name"] == "pass")
        for pid, name in names.items() if name.startswith("trainer")]
slack = 1e6 + 2 * max(c["error_us"] for c in other["clocks"])
assert max(ends) - min(ends) <= slack, (ends, slack)
print(f"{sum(map(len, spans.values()))} spans of {len(names)} processes")
