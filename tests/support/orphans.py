# SPDX-License-Identifier: Apache-2.0
"""For tests that kill: processes that try to escape, the processes that must end them, and checks
for remaining processes."""
import os
import random
import signal
import time

# The processes of a job: in sessions of their own, forked twice, under nohup, ignoring TERM,
# stopped, without the job's environment, and one that keeps forking. %s: digits that mark them all.
HIDE = "env -i \"$(command -v setsid)\" sleep 1000.%s & "
NASTY = ("setsid sleep 1000.%s & "
         "(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done; : 1000.%s' &) ; "
         "(setsid setsid sh -c '(sleep 1000.%s &)' &) ; "
         "nohup sleep 1000.%s >/dev/null 2>&1 & "
         "sh -c 'kill -STOP $$; exec sleep 1000.%s' & "
         "trap '' TERM; echo up; while :; do sh -c 'sleep 0.3' & sleep 0.1; done")


def nasty(mark, hide=True):
    return (HIDE % mark if hide else "") + NASTY % ((mark,) * NASTY.count("%s"))


def stat_of(pid):
    """(state, parent, start time) or None."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            v = f.read().rsplit(")", 1)[1].split()
        return v[0], int(v[1]), int(v[19])
    except (OSError, IndexError):
        return None


def alive(pid, start=None):
    s = stat_of(pid)
    return s is not None and s[0] not in "ZX" and (start is None or s[2] == start)


def children(pid):
    found = []
    for p in os.listdir("/proc"):
        s = stat_of(int(p)) if p.isdigit() else None
        if s and s[1] == pid and s[0] != "Z":
            found.append(int(p))
    return found


def marked(mark):
    """Pids whose environment has PD_ORPHAN=mark, or whose arguments have 1000.mark."""
    found = []
    env, arg = b"PD_ORPHAN=" + mark.encode() + b"\0", b"1000." + mark.encode()
    for p in os.listdir("/proc"):
        if not p.isdigit() or not alive(int(p)):
            continue
        try:
            with open("/proc/%s/environ" % p, "rb") as f:
                is_ours = env in f.read() + b"\0"
            with open("/proc/%s/cmdline" % p, "rb") as f:
                is_ours |= arg in f.read()
        except OSError:
            continue
        if is_ours:
            found.append(int(p))
    return found


class Chain:
    """The agent of a job on one node and the processes above it, by name, each with its start
    time."""

    def __init__(self, agent):
        self.pid = {"agent": agent}
        self.pid["guardian"] = stat_of(agent)[1]
        self.pid["watcher"] = stat_of(self.pid["guardian"])[1]
        self.start = {n: stat_of(p)[2] for n, p in self.pid.items()}
        for n, p in self.pid.items():
            with open("/proc/%d/comm" % p) as f:
                assert f.read().strip() == "paddle_" + n, (n, p)

    def left(self):
        return [p for n, p in self.pid.items() if alive(p, self.start[n])]

    def kill(self, names, rng, more=()):
        """Kills all of them in random order. 'worker': the agent's children; `more`: other pids."""
        pids = [(self.pid[n], self.start[n]) for n in names if n in self.pid]
        if "worker" in names:
            pids += [(p, None) for p in children(self.pid["agent"])]
        pids += [(p, None) for p in more]
        rng.shuffle(pids)
        gap = rng.choice([0, 0, 0.001, 0.01])
        for p, start in pids:
            if alive(p, start):
                try:
                    os.kill(p, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(gap)


def wait_gone(who, limit):
    """Waits until who() is empty. Returns the seconds, or None after `limit` seconds."""
    t = time.monotonic()
    while True:
        left = who()
        if not left:
            return time.monotonic() - t
        if time.monotonic() - t > limit:
            return None
        time.sleep(0.05)


def describe(pids):
    out = []
    for p in pids:
        try:
            with open("/proc/%d/cmdline" % p, "rb") as f:
                out.append("%d %s %s" % (p, stat_of(p), f.read().replace(b"\0", b" ").decode(errors="replace")[:100]))
        except OSError:
            pass
    return "\n  ".join(out)


VICTIMS = [("agent",), ("guardian",), ("watcher",), ("worker",), ("relay",), ("agent", "guardian"), ("agent", "watcher"),
           ("guardian", "watcher"), ("agent", "worker"), ("guardian", "worker"), ("watcher", "relay")]


def seeded():
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print("seed: SEED=%d" % seed, flush=True)
    return random.Random(seed)
