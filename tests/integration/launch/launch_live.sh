#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release only
# What `run` shows on a terminal: one live block below the log, never in it.
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
mkdir -p "$TMP/ws"
cd "$TMP" || die cd
cat >ws/train.py <<'E'
import json, math, os, time
me, events, done = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_EVENT_FD"]), 0
while True:
    try:
        want = int(open(os.environ["GO"]).read())
    except (OSError, ValueError):
        want = 0
    while done < want:
        done += 1
        print("step %d of %d" % (done, me), flush=True)
        e = {"ev": "progress", "role": "trainer", "rank": me, "pass": 0, "num_passes": 2, "batch": done, "cost": 1.5,
             "fraction": min(done / 5, 1), "own_rate": 300, "wait": 0.1 if me == 2 else 0.5, "unit": "words",
             "metrics": {"perplexity": 4.5}}
        os.write(events, json.dumps(e).encode() + b"\n")
        if os.environ.get("FAIL") and done == 2:
            raise SystemExit(7)
        if want > 10:
            time.sleep(0.002 if done < 1000 else 0.2)
    if me != 2 and os.path.exists(os.environ["GO"] + ".wait"):
        e = {"ev": "doing", "role": "trainer", "rank": me, "doing": "training", "waited": 4}
        os.write(events, json.dumps(e).encode() + b"\n")
        time.sleep(0.5)
    time.sleep(0.02)
E
printf '#!/bin/sh\nFAIL=1 exec /usr/bin/python3 train.py\n' >ws/fail.sh
chmod +x ws/fail.sh
cat >conf.ini <<E
[cluster]
hosts = local*3
pservers = 1
root_dir = $TMP/root%n
port = $((20000 + RANDOM % 5000))
[job]
job_dispatch_package = ws
pserver_command = /usr/bin/python3 $TOP/tests/support/own-server.py
trainer_command = /usr/bin/python3 train.py
[env]
GO = $TMP/go
E
/usr/bin/python3 "$TOP/tests/support/live_block.py" "$BIN/paddlectl" || die "the live block"

# --- in a pipe: plain lines at a bounded rate
echo 0 >go
start run "$BIN/paddlectl" run --conf=conf.ini
run=$PID
wait_for 60 "it runs" grep -q 'trainers' run.log
echo 3 >go
wait_for 60 "a line of progress" grep -q '^progress | pass 1/2 [0-9]* %, batch [1-3], cost 1.5, perplexity 4.5, [0-9]* words/s' run.log
echo 5 >go
wait_for 60 "the log" grep -q 'local.2/trainer | step 5 of 2' run.log
kill -TERM $run
wait $run
[ "$(grep -c '^progress' run.log)" -le 2 ] || die "too many: $(cat run.log)"
! grep -q $'\033' run.log || die "escape sequences in a pipe: $(cat run.log)"
exit 0
