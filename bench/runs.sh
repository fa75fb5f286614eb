#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 10,000 records of runs: how long does `paddlectl runs` take with its index, and without?
#
# bench/run runs; RUNS=10000 ROUNDS=5. The best of the rounds counts. -without: .runs.index is removed
# before, so that every record is read.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory -s build/release/paddlectl
ctl=$PWD/build/release/paddlectl dir=$(mktemp -d) n=${RUNS:-10000} rounds=${ROUNDS:-5}
trap 'rm -rf "$dir"' EXIT
cd "$dir"
/usr/bin/python3 - "$n" <<'PY'
import json, os, sys
for i in range(int(sys.argv[1])):
    d = "output/JOB2026%04d%06d-%04x" % (101 + i // 1000, i, i % 65536)
    os.makedirs(d)
    test = {"t": 1, "ev": "test", "pass": 4, "by": "auc", "better": "greater", "value": i / 1e5, "metrics": {"test.auc": i / 1e5}}
    with open(d + "/run.json", "w") as f:
        json.dump({"version": 1, "job": os.path.basename(d), "name": f"run {i}", "state": "done", "started_ms": 1767225600000 + i,
                   "ended_ms": 1767225700000 + i, "seconds": 100.0, "hosts": [{"node": 0, "host": "a"}], "settings": {},
                   "test": test, "best": test, "pass": {"pass": 4, "num_passes": 5, "complete": True, "cost": 1.0, "rate": 100.0}}, f)
    with open(d + "/metrics.jsonl", "w") as f:
        f.write('{"version":1}\n' + "".join(json.dumps({**test, "pass": p}) + "\n" for p in range(5)))
PY
sleep 4 # files that have just been changed are not in the index
best() { # COMMAND BEFORE: milliseconds
    local least=999999 i before ms
    for ((i = 0; i < rounds; i++)); do
        $1
        before=$(date +%s%N)
        "$ctl" runs --outputs=output --sort=test.auc --last=20 >table
        ms=$((($(date +%s%N) - before) / 1000000))
        [ $ms -ge $least ] || least=$ms
    done
    [ "$(wc -l <table)" = 21 ] || { cat table >&2; exit 1; }
    echo $least
}
without=$(best 'rm -f output/.runs.index')
with=$(best :)
awk -v w="$with" -v o="$without" -v n="$n" 'BEGIN { w = w ? w : 1
    printf "bench runs-%d ratio %.2f target >=1.00 peer \"0.2 s\" ours %d ms theirs 200 ms\n", n, 200 / w, w
    printf "bench runs-%d-without ratio %.2f target >=1.00 peer \"no index\" ours %d ms theirs %d ms\n", n, o / w, w, o }'
