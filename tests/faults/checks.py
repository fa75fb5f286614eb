# SPDX-License-Identifier: Apache-2.0
"""checks.py - what must hold after each scenario. INVARIANTS lists the checks in their order.

A check takes a Scenario (scenario.py) that has ended, and yields a text for each violation.
"""
import glob
import json
import os
import re
import shutil
import time

from cluster import N_HOSTS, TOP, run

GONE_S = 12  # the longest lease, the grace period, and a slow machine


def complete(folders):
    """{file: folder} of the parts in these copies of one saved model, and texts about damage."""
    wrong, parts, manifests = [], {}, set()
    for folder in folders:
        try:
            with open(f"{folder}/manifest.json") as f:
                text = f.read()
            manifest = json.loads(text)
        except (OSError, ValueError) as e:
            wrong.append(f"{folder}: {e}")
            continue
        manifests.add(text)
        parts.update({p["file"]: parts.get(p["file"]) for p in manifest["parts"]})
        for p in manifest["parts"]:
            path = f"{folder}/{p['file']}"
            if not os.path.exists(path):
                continue
            if os.path.getsize(path) != p["bytes"]:
                wrong.append(f"{path}: {os.path.getsize(path)} bytes, not {p['bytes']}")
            elif XXH and run(XXH, path).stdout.split()[0] != p["xxh3_128"]:
                wrong.append(f"{path}: another checksum")
            else:
                parts[p["file"]] = folder
    if len(manifests) > 1:
        wrong.append(f"{folders}: {len(manifests)} different manifests")
    return parts, wrong


XXH = shutil.which("xxh128sum")


def same_bits(s):
    """1. sync with restart or wait: the model of a job that ends well is that of an undisturbed job."""
    if s.status == 0 and s.update == "sync" and not s.streams_left:
        got = s.digest()
        if got != s.want:
            yield f"other bits than without a fault: {got}"


def whole_models(s):
    """2. A saved model is complete or absent; its checksums hold; an independent reader reads it."""
    fetched = glob.glob(f"{s.dir}/output/JOB*/pass-*")
    if s.status == 0 and not fetched:
        yield "done, and no model was fetched"
    for folder in fetched:
        parts, wrong = complete([folder])
        yield from wrong
        # Two copies do not survive two hosts; then paddlectl says so.
        if len(s.lost_hosts()) > 1 and f"{os.path.basename(folder)} is incomplete: " in s.output():
            continue
        yield from (f"{folder}: {file} is missing" for file, where in parts.items() if not where)
    if fetched and s.status == 0:
        last = max(fetched)
        done = run(f"{s.bin}/paddlectl", "export", f"--model={last}", "--format=npz", f"--out={s.dir}/m.npz")
        if done.returncode:
            yield f"paddlectl export: {done.stdout}"
        done = run(f"{TOP}/tests/support/model-digest", last)
        if done.returncode:
            yield f"model-digest: {done.stdout[-300:]}"
    for name, hosts in s.models_on_nodes().items():
        yield from complete(hosts.values())[1]


def nothing_stays(s):
    """3. No process, port or temporary file stays, here or on the hosts."""
    end = time.monotonic() + GONE_S
    while s.cluster.processes() and time.monotonic() < end:
        time.sleep(0.1)
    left = s.cluster.left()
    yield from left
    if not left:
        yield from (f"a port is open: {p}" for p in s.cluster.open_ports())
    here = glob.glob(f"{s.dir}/tmp/*") + glob.glob(f"{s.dir}/output/JOB*/.*") + \
        [f for f in glob.glob(f"{s.dir}/output/.*") if os.path.basename(f) != ".files"]
    if s.status is not None and s.status >= 0:
        yield from (f"a temporary file: {f}" for f in here)
    for host in range(N_HOSTS):
        # The next job on the host removes what a killed receiver of packages has left.
        tops = [f"{s.cluster.root(host)}/{s.job}"]
        if not s.was_hit(host):
            tops.append(f"{s.cluster.root(host)}/.paddlectl")
        if any(f.fault.name == "disk read-only" and f.host == host for f in s.faults):
            continue
        for pattern in ("*.part*", "*.tmp-*"):
            for f in [f for top in tops for f in glob.glob(f"{top}/**/{pattern}", recursive=True,
                                                           include_hidden=True)]:
                if "/workspace/" not in f and not (s.was_hit(host) and "/workspace.part-" in f):
                    yield f"a temporary file on host {host}: {f}"


def named_cause(s):
    """4. A failure or restart names the host of a fault, and the process if only a process failed."""
    causes = [f.cause(s) for f in s.faults if f.injected]
    for line in s.blamed():
        if not any(re.search(c, line) for c in causes):
            yield f"another cause than {causes}: {line[:200]}"
    if s.status in (1, 3) and not s.blamed():
        yield "no cause is named"


def ends_in_time(s):
    """5. Nothing waits without a deadline."""
    if s.status is None:
        yield f"paddlectl did not end within {s.bound_s():.0f} s"


def ends_as_told(s):
    """The exit status and the end fit the faults and the policy."""
    if s.status is not None and s.status not in s.allowed():
        yield f"exit status {s.status}, not one of {sorted(s.allowed())}"


def copies_survive(s):
    """6. checkpoint_copies = 2: without any one host each saved model is complete."""
    for name, hosts in s.models_on_nodes().items():
        # Where the job has lost a host, that is the one.
        for without in range(N_HOSTS) if len(hosts) == N_HOSTS else [None]:
            rest = [folder for h, folder in hosts.items() if h != without]
            missing = [f for f, where in complete(rest)[0].items() if not where]
            if missing and name in s.saved() and len(hosts) >= N_HOSTS - 1:
                yield f"{name}: without host {without} {missing} are lost"


INVARIANTS = (ends_in_time, ends_as_told, same_bits, whole_models, named_cause, nothing_stays,
              copies_survive)
