#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A run of many trainers that goes on, and a viewer of its dashboard.

    live_record.py OUTPUTS NODES SECONDS PADDLECTL [HOSTS]

Writes the record of ten minutes of NODES trainers, starts `paddlectl dashboard`, then appends events
as they come from NODES trainers, four a second each, while a viewer asks for the data as the page does. With HOSTS the dashboard also asks
so many local hosts for jobs, each of which has five old ones.
Prints: CPU seconds of paddlectl, seconds, bytes of the page, answers."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

outputs, nodes, seconds, program = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
hosts = int(sys.argv[5]) if len(sys.argv) > 5 else 0
KEYS = ("read", "forward", "backward", "push", "pull", "wait")


def progress(t_ms, rank, k):
    e = {"t": t_ms, "node": rank, "host": f"node-{rank + 1}", "ev": "progress", "rank": rank, "pass": k // 600, "num_passes": 9,
         "fraction": k % 600 / 600, "batch": k, "own_rate": 1000.0 + rank, "samples": 128 * k}
    e.update({key: round(0.1 + 0.01 * (rank % 7), 3) for key in KEYS})
    if rank == 0:
        e.update(cost=1 / (1 + k), rate=1000.0 * nodes)
    return json.dumps(e, separators=(",", ":")) + "\n"


def ended(t_ms, rank, p):
    e = {"t": t_ms, "node": rank, "host": f"node-{rank + 1}", "ev": "pass", "rank": rank, "pass": p, "num_passes": 9, "complete": True,
         "seconds": 150, "waited": 20.0, "peak_memory": 10**9, "sent": 10**9 * p, "received": 10**9 * p}
    e.update({key: 15.0 for key in KEYS[:-1]})
    return json.dumps(e, separators=(",", ":")) + "\n"


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


run = os.path.join(outputs, "JOB20261128000000-0001")
os.makedirs(run)
start_ms = int(time.time() * 1000) - 600_000
with open(os.path.join(run, "run.json"), "w", encoding="utf-8") as f:
    json.dump({"version": 1, "job": os.path.basename(run), "name": "many", "state": "running", "started_ms": start_ms, "settings": {},
               "hosts": [{"node": n, "host": f"node-{n + 1}"} for n in range(nodes)], "pservers": [0], "trainers": list(range(nodes))}, f)
lock = os.open(run, os.O_RDONLY | os.O_DIRECTORY)  # as the paddlectl that writes a record
fcntl.flock(lock, fcntl.LOCK_EX)
with open(os.path.join(run, "metrics.jsonl"), "w", encoding="utf-8") as f:
    f.write('{"version":1}\n')
    for k in range(2400):
        if k % 600 == 599:
            f.writelines(ended(start_ms + 250 * k, r, k // 600) for r in range(nodes))
        f.writelines(progress(start_ms + 250 * k, r, k) for r in range(nodes))

roots = os.path.join(os.path.dirname(os.path.abspath(outputs)), "root")
for n in range(hosts):
    for k in range(5):
        old = os.path.join(f"{roots}{n}", f"JOB2026112700000{k}-0001")
        for folder in (".agent", "log"):
            os.makedirs(os.path.join(old, folder))
        with open(os.path.join(old, ".agent/state.json"), "w", encoding="utf-8") as f:
            json.dump({"job": os.path.basename(old), "name": "old", "node": n, "n_nodes": hosts, "user": "somebody",
                       "started_us": 1764000000000000 + k, "ended_us": 1764000001000000, "attached": False, "lost": []}, f)
        with open(os.path.join(old, "log/events"), "w", encoding="utf-8") as f:
            f.writelines(progress(1764000000000, n, b) for b in range(100))
asks = [f"--hosts=local*{hosts}", f"--root_dir={roots}%n"] if hosts else ["--no-hosts"]
dashboard = subprocess.Popen([program, "dashboard", f"--outputs={outputs}", *asks], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
url = dashboard.stdout.readline().strip()
page = len(urllib.request.urlopen(url).read())
for _ in range(600):  # the first connection to each host does not count
    if not hosts or json.loads(urllib.request.urlopen(url + "data").read())["hosts"].get("answered") == hosts:
        break
    time.sleep(0.1)
else:
    raise SystemExit("not all hosts answer")
with open(os.path.join(run, "metrics.jsonl"), "a", encoding="utf-8", buffering=1 << 16) as f:
    before, began, k, ask_at, answers, jobs = cpu_s(dashboard.pid), time.monotonic(), 2400, 0.0, 0, []
    while time.monotonic() < began + seconds:
        f.writelines(progress(start_ms + 250 * k, r, k) for r in range(nodes))
        f.flush()
        if time.monotonic() >= ask_at:
            with urllib.request.urlopen(url + "data") as answer:
                data = json.loads(answer.read())
                jobs = data["jobs"]
                assert not hosts or data["hosts"]["answered"] == hosts and data["hosts"]["n_jobs"] == 5, data["hosts"]
                ask_at = time.monotonic() + int(answer.headers["x-next-ms"]) / 1000
            answers += 1
        k += 1
        time.sleep(max(0, began + 0.25 * (k - 2400) - time.monotonic()))
    used, took = cpu_s(dashboard.pid) - before, time.monotonic() - began
assert len(jobs) == 1 and jobs[0]["state"] == "running" and len(jobs[0]["series"]) == 2 * nodes, jobs[0]["state"]
dashboard.send_signal(signal.SIGINT)
assert dashboard.wait() == 0
print(used, took, page, answers)
