# SPDX-License-Identifier: Apache-2.0
"""dispatch_delta.py - see dispatch_delta.sh."""
import os
import random
import subprocess
import time

from hosts import Sshd
from logs import CUTTER, Proxy
from netns import CTL, Hosts, line, need, prepare, random_file

ROUNDS = int(os.environ.get("ROUNDS", "3"))
FILES = int(os.environ.get("FILES", "10000"))
EDIT, LARGE = 64 << 10, 4 << 20
DELAY_MS = 100
LIMIT_S = 0.5


def make_tree(ws, rng):
    for d in range(100):
        os.makedirs(f"{ws}/d{d:02}")
    for i in range(FILES - 1):
        with open(f"{ws}/d{i % 100:02}/f{i:05}", "wb") as f:
            f.write(rng.randbytes(rng.randrange(512, 3072)))
    random_file(f"{ws}/large", LARGE)


def edit(ws, rng):
    with open(f"{ws}/large", "r+b") as f:
        f.seek(rng.randrange(0, LARGE - EDIT))
        f.write(os.urandom(EDIT))


def keep_last(hosts, path):
    """Remove all deploys but this one, so that many rounds fit into the hosts' memory."""
    for i in range(hosts.n):
        for name in hosts.children(i, "/home/paddle/workspaces"):
            if name != os.path.basename(path):
                subprocess.run(["rm", "-rf", f"{hosts.root(i)}/home/paddle/workspaces/{name}"], check=True)


def counted(hosts, what):
    """(what it returns, bytes that left over our link meanwhile)"""
    before = hosts.sent()
    result = what()
    return result, hosts.sent() - before


def edits(hosts, ws, rng):
    """The best of ours and of rsync, in turns: (seconds, bytes), (seconds, bytes)."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        edit(ws, rng)
        run, sent = counted(hosts, lambda: hosts.dispatch(ws))
        hosts.checked(ws, run)
        keep_last(hosts, run.event("result")["path"])
        seconds, theirs_sent = counted(hosts, lambda: hosts.peer("rsync", ws, keep=True))
        print(f"edit: {run.seconds:.2f} s, {sent:,} bytes over the link, of them {run.event('result')['sent_bytes']:,} records; "
              f"rsync {seconds:.2f} s, {theirs_sent:,} bytes", flush=True)
        ours.append((run.seconds, sent))
        theirs.append((seconds, theirs_sent))
    return [tuple(min(r[k] for r in v) for k in (0, 1)) for v in (ours, theirs)]


def unchanged(hosts, ws):
    """The best of a dispatch of what is there, and what part of it is log-ins: `exec true` on the same hosts, in turns."""
    best = log_in = float("inf")
    for _ in range(ROUNDS):
        run = hosts.dispatch(ws)
        if run.status or len(run.event("result")["had"]) != hosts.n:
            raise RuntimeError(f"not unchanged: {run.text[-1500:]}")
        best = min(best, run.seconds)
        log_in = min(log_in, hosts.ctl("exec", "true"))
    print(f"unchanged: {best:.3f} s; exec true on the same {hosts.n} hosts {log_in:.3f} s, so {best - log_in:.3f} s are ours", flush=True)
    return best


def wall(command, env):
    began = time.monotonic()
    p = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    if p.returncode:
        raise RuntimeError(f"{command[1]} ended with {p.returncode}: {p.stdout[-1500:].decode(errors='replace')}")
    return time.monotonic() - began


def round_trips(top, env):
    """What a dispatch of something unchanged waits for beyond what `exec true` does: one host behind a proxy (cut-proxy) that holds
    everything for DELAY_MS in both directions."""
    os.makedirs(f"{top}/ws")
    random_file(f"{top}/ws/data", 1 << 20)
    sshd = Sshd(top)
    proxy = None
    try:
        proxy = Proxy(top, sshd.port, 1)
        with open(f"{top}/conf.ini", "w") as f:
            f.write(sshd.conf(proxy.addresses, f"job_dispatch_package = {top}/ws\n"))
        dispatch = [CTL, "dispatch", f"--conf={top}/conf.ini"]
        true = [CTL, "exec", f"--conf={top}/conf.ini", "true"]
        wall(dispatch, env)
        best = {}
        for delay in (0, DELAY_MS):
            subprocess.run([CUTTER, "tell", proxy.dir, "delay", "0", str(delay)], check=True, stdout=subprocess.DEVNULL)
            best[delay] = [min(wall(c, env) for _ in range(ROUNDS)) for c in (dispatch, true)]
    finally:
        if proxy:
            proxy.stop()
        sshd.stop()
    trips = [(best[DELAY_MS][k] - best[0][k]) / (2 * DELAY_MS / 1e3) for k in (0, 1)]
    print(f"round trips: an unchanged dispatch {trips[0]:.2f}, exec true {trips[1]:.2f}", flush=True)
    return trips[0] - trips[1]


def run():
    prepare("dispatch_delta")
    need("dispatch_delta", {"rsync": "rsync"})
    seed = int(os.environ.get("SEED", random.randrange(1 << 31)))
    rng = random.Random(seed)
    print(f"SEED={seed}", flush=True)
    with Hosts(int(os.environ.get("HOSTS", "16")), "100mbit") as hosts:
        n, ws = hosts.n, f"{hosts.top}/ws"
        make_tree(ws, rng)
        first = hosts.checked(ws, hosts.dispatch(ws))
        print(f"first: {first.seconds:.2f} s; rsync {hosts.peer('rsync', ws):.2f} s", flush=True)
        _, log_in = counted(hosts, lambda: hosts.ctl("exec", "true"))
        print(f"log-ins alone (exec true on {n} hosts): {log_in:,} bytes over the link", flush=True)
        (seconds, sent), (theirs, theirs_sent) = edits(hosts, ws, rng)
        allowed = 1.3 * EDIT + 100e3
        line("dispatch_delta-bytes", sent / allowed, "<=1.00", "1.3 x the changed bytes + 100 KB", f"{sent} bytes", f"{allowed:.0f} bytes")
        line("dispatch_delta-rsync-bytes", theirs_sent / sent, ">=1.00", f"rsync to {n} hosts in parallel", f"{sent} bytes", f"{theirs_sent} bytes")
        line("dispatch_delta-rsync", theirs / seconds, ">=1.00", f"rsync to {n} hosts in parallel", f"{seconds:.2f} s", f"{theirs:.2f} s")
        best = unchanged(hosts, ws)
        line("dispatch_delta-unchanged", best / LIMIT_S, "<=1.00", f"the limit at {n} hosts", f"{best:.3f} s", f"{LIMIT_S} s")
        trips = round_trips(f"{hosts.top}/one", hosts.env)
        line("dispatch_delta-trips", trips / 3, "<=1.00", "three round trips beside those of exec true", f"{trips:.2f}", "3")


run()
