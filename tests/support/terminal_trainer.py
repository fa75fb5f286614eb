# SPDX-License-Identifier: Apache-2.0
"""A trainer for tests of the terminal (launch_terminal.sh): takes a step, with an event and a log
line, whenever the number in the file $GO has grown. It ends with the status in $GO.end."""
import json
import os
import time

me, events, done = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_EVENT_FD"]), 0
for letter, text in ("I", "an equal line"), ("W", "a warning"), ("E", "an error"):
    print("%s1124 18:39:15.%06d %5d shard.c:12] %s" % (letter, me, 10 * me, text), flush=True)
print("训练 %d" % me, flush=True)
while not os.path.exists(os.environ["GO"] + ".end"):
    try:
        want = int(open(os.environ["GO"]).read())
    except (OSError, ValueError):
        want = 0
    while done < want:
        done += 1
        print("step %d of %d" % (done, me), flush=True)
        e = {"ev": "progress", "role": "trainer", "rank": me, "pass": 0, "num_passes": 2, "batch": done,
             "cost": 1.5, "fraction": min(done / 5, 1), "own_rate": 300, "wait": 0.1, "unit": "words",
             "metrics": {"perplexity": 4.5}}
        os.write(events, json.dumps(e).encode() + b"\n")
    time.sleep(0.02)
raise SystemExit(int(open(os.environ["GO"] + ".end").read() or 0))
