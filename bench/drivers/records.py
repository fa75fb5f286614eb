# SPDX-License-Identifier: Apache-2.0
"""records.py FOLDER N - writes N records of runs that have ended (docs/records.md)."""
import json
import os
import sys

top, n = sys.argv[1], int(sys.argv[2])
for i in range(n):
    at = 1700000000000 + i * 1000
    job = f"JOB2026{i // 2400 % 12 + 1:02d}{i // 86 % 28 + 1:02d}{i % 24:02d}{i % 60:02d}00-{i % 65536:04x}"
    folder = f"{top}/{job}"
    auc = 0.7 + i % 89 / 1000
    test = {"t": at, "ev": "test", "rank": 0, "pass": 4, "samples": 1000, "cost": 0.3 + i % 97 / 1000,
            "metrics": {"test.auc": auc, "test.err": 0.2}, "by": "test.auc", "better": "higher", "value": auc}
    end = {"t": at, "ev": "pass", "rank": 0, "pass": 4, "num_passes": 5, "complete": True, "seconds": 12.5, "waited": 1.0,
           "peak_memory": 10**8, "sent": 10**6, "received": 10**6, "batches": 100, "samples": 100000,
           "unit": "samples", "rate": 12345.6, "cost": 0.31, "metrics": {"auc": 0.71}}
    run = {"version": 1, "job": job, "name": f"run{i}", "state": "done", "exit_status": 0, "paddlectl": "1.0",
           "command": ["paddlectl", "run", f"--name=run{i}"], "started_ms": at, "ended_ms": at + 60000,
           "seconds": 60.0, "hosts": [{"node": k, "host": f"host{k}"} for k in range(4)],
           "pservers": [0, 1, 2, 3], "trainers": [0, 1, 2, 3],
           "settings": {"train.num_passes": "5", "optimizer.learning_rate": "0.1"},
           "workspace": f"{i:064x}", "data": "", "worker": f"{7:064x}", "resumed": "", "saved": "output/pass-00004",
           "test": test, "best": test, "pass": end, "failure": None, "restarts": 0, "lost": {}}
    os.makedirs(folder)
    with open(f"{folder}/run.json", "w") as f:
        json.dump(run, f, indent=2)
    with open(f"{folder}/metrics.jsonl", "w") as f:
        f.write('{"version":1}\n')
        for p in range(5):
            f.write(json.dumps({**end, "pass": p}) + "\n" + json.dumps({**test, "pass": p}) + "\n")
