# SPDX-License-Identifier: Apache-2.0
"""rounds.py - one round: start a job, wait for a random moment of a random phase, kill something, and look at what remains."""
import glob
import hashlib
import os
import random
import shutil
import signal
import threading
import time

from jobs import Run
from procs import part_of

PHASES = ("bootstrap", "sending", "setup", "pservers", "trainers", "trainers", "ending", "fetching")
ORDER = {p: i for i, p in enumerate(("bootstrap", "sending", "setup", "connecting", "probing", "binding", "pservers", "trainers",
                                     "ending", "fetching", "failed", "stopped"))}
JITTER_S = {"bootstrap": 0.25, "sending": 0.15, "setup": 0.05, "pservers": 0.1, "trainers": 1.0, "ending": 0.4, "fetching": 1.4}
FATAL = (signal.SIGKILL, signal.SIGTERM)

# part, signals, exit statuses of paddlectl that make sense when the job was still to end (0 always does when it was not)
VICTIMS = (
    ("launcher", (signal.SIGKILL,), (-signal.SIGKILL,)),
    ("launcher", (signal.SIGTERM, signal.SIGHUP, signal.SIGINT), (130,)),
    ("launcher", (signal.SIGSTOP,), (0, 1, 3, 130)),  # 0: it was over before the lease was, and is fetched afterwards
    ("agent", FATAL, (1, 3)),
    ("guardian", FATAL, (1, 3)),
    ("watcher", FATAL, (1, 3)),
    ("sshd", FATAL, (0, 1, 3)),       # a connection may come back
    ("relay", FATAL, (0, 1, 3)),
    ("pserver", (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV), (1,)),
    ("trainer", (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV), (1,)),
    ("child", (signal.SIGKILL,), (0,)),
    ("launcher+agent", (signal.SIGKILL,), (-signal.SIGKILL,)),
    ("launcher+guardian", (signal.SIGKILL,), (-signal.SIGKILL,)),
    ("launcher+sshd", (signal.SIGKILL,), (-signal.SIGKILL,)),
    ("sshd+trainer", (signal.SIGKILL,), (0, 1, 3)),
    ("agent+guardian", (signal.SIGKILL,), (1, 3)),
    ("guardian+watcher", (signal.SIGKILL,), (1, 3)),
    ("agent+watcher", (signal.SIGKILL,), (1, 3)),
)
SAME_NODE = {"agent+guardian": 1, "agent+watcher": 2, "guardian+watcher": 1}  # the first one, and who is so far above it
END_S = 45  # no job that has lost something may take longer to end: the longest patience of the launcher is 30 s
RUN_S = 120  # a whole job, on a machine that is busy with others


class Stalls(threading.Thread):
    """Measures how long this busy machine leaves a thread waiting. A stall beyond a quarter of a job's lease
    can end the job without a kill."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seen = []  # (end on the monotonic clock, seconds)
        self.start()

    def run(self):
        last = time.monotonic()
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            if now - last > 0.15:
                self.seen.append((now, now - last - 0.05))
            last = now

    def longest_since(self, began):
        return max((s for end, s in self.seen if end >= began), default=0)


STALLS = Stalls()


class Round:
    """What one round did and found."""

    def __init__(self, arena, k, seed, slack, say):
        self.arena, self.k, self.slack, self.say = arena, k, slack, say
        self.rng = rng = random.Random(f"{seed}/{k}")
        self.part, signals, self.allowed = VICTIMS[k] if k < len(VICTIMS) else rng.choice(VICTIMS)
        self.sig = rng.choice(signals)
        self.phase = rng.choice(PHASES)
        if self.part in ("pserver", "trainer", "child", "sshd+trainer"):
            self.phase = "trainers"  # they are not there before
        self.delay = rng.uniform(0, JITTER_S[self.phase])
        self.kind = "user" if self.part == "child" or self.phase in ("ending", "fetching") else rng.choice(("own", "user"))
        n = rng.randint(2, arena.n) if rng.random() < 0.3 else min(3, arena.n)
        self.nodes = rng.sample(range(arena.n), n)
        self.lease = rng.choice((2, 3, 4))
        self.fail, self.killed, self.at_phase, self.dead_s, self.status = None, [], "", None, None

    def __str__(self):
        return (f"{self.kind} on {len(self.nodes)} hosts, lease {self.lease} s: {self.sig.name[3:]} to {self.part} "
                f"in {self.at_phase or self.phase}")

    # --- the moment

    def await_phase(self, r):
        """The last two phases are too short to be seen and then hit: they are aimed at from the start of the trainers."""
        end, late = time.monotonic() + RUN_S, self.phase in ("ending", "fetching")
        while ORDER.get(r.phase(), 99) < ORDER["trainers" if late else self.phase] and not r.ended() and time.monotonic() < end:
            time.sleep(0.004)
        time.sleep(self.delay + (r.work_s if late else 0))
        self.at_phase = r.phase()

    # --- the kill

    def choose(self, r, part):
        """The processes that are this part of the job, one chosen."""
        if part == "launcher":
            return [r.proc.pid]
        by_pid = self.arena.table.scan(True)
        found = r.watch.alive()
        if part == "sshd":
            relays = [p for p in found if part_of(p, by_pid, r.watch.children) == "relay"]
            parents = {by_pid[p.ppid].pid for p in relays if p.ppid in by_pid and by_pid[p.ppid].comm.startswith("sshd")}
            candidates = sorted(parents)
        else:
            candidates = sorted(p.pid for p in found if part_of(p, by_pid, r.watch.children) == part)
        return [self.rng.choice(candidates)] if candidates else []

    def same_node(self, pid):
        """A pair below each other: `pid`, and its parent or the parent of that."""
        by_pid, above = self.arena.table.scan(), pid
        for _ in range(SAME_NODE[self.part]):
            above = by_pid[above].ppid if above in by_pid else 0
        return [pid, above] if above > 1 else [pid]

    def kill(self, r):
        found = r.watch.alive(fresh=True)
        r.watch.note_sockets(found)
        pids = [pid for part in self.part.split("+") for pid in self.choose(r, part)]
        if self.part in SAME_NODE and len(pids) == 2:
            pids = self.same_node(pids[0])
        if r.ended():
            pids = []
        self.killed_at = time.monotonic()
        for pid in pids:
            try:
                os.kill(pid, self.sig)
                self.killed.append(pid)
            except ProcessLookupError:
                pass
        return len(self.killed) == len(self.part.split("+"))

    # --- what remains

    def await_death(self, r, since):
        """Everything of the job dead `lease + slack` after `since`."""
        limit = since + r.lease + self.slack
        while True:
            left = r.watch.alive()
            if not left:
                self.dead_s = time.monotonic() - since
                break
            if time.monotonic() > limit:
                left = r.watch.alive(fresh=True)
                if left:
                    self.fail = f"{len(left)} processes are alive {r.lease} + {self.slack:g} s later"
                    for p in left:
                        self.say(f"    {p}")
                break
            time.sleep(0.05)
        if not self.fail and r.watch.open_sockets():
            self.fail = f"ports are open: {r.watch.open_sockets()}"

    def judge(self, r):
        st = self.status
        if st == 0:  # it ended by itself before the kill could matter: then its outputs are whole
            self.fail = self.fail or r.outputs_wrong()
        elif self.killed and st not in self.allowed and not (self.at_phase == "bootstrap" and st == -self.sig):
            self.fail = self.fail or f"exit status {st}, not one of {self.allowed}"
        elif not self.killed:
            stall = STALLS.longest_since(r.started_at)
            if stall > self.lease / 4:
                self.say(f"again  round {self.k}: the machine stalled for {stall:.2f} s, and a lease of {self.lease} s ended")
                return
            self.fail = self.fail or f"exit status {st}, and nothing was killed"

    def run(self):
        """True when something was killed; a job that was over too soon is another one's turn."""
        r = Run(self.arena, f"round-{self.k}", self.kind, self.nodes, self.lease, work_s=self.rng.uniform(0.5, 2)).start()
        try:
            self.await_phase(r)
            whole = self.kill(r)
            since = self.killed_at
            if self.sig == signal.SIGSTOP and self.killed:  # a suspended terminal: the job ends, and then it is told so
                self.await_death(r, since)
                os.kill(r.proc.pid, signal.SIGCONT)
            self.during(r)
            self.status = r.wait(RUN_S if 0 in self.allowed or not whole else END_S)
            if self.status is None:
                self.fail = f"paddlectl hangs: {time.monotonic() - since:.1f} s after the kill it runs still"
                r.backtrace(self.say)
            else:
                gone_at = r.ended_at if self.status == 0 or self.part.startswith(("launcher", "sshd", "relay", "child")) else since
                self.await_death(r, max(since, r.ended_at if self.status != -signal.SIGKILL else 0, gone_at))
                if not self.fail:
                    self.judge(r)
            self.leftovers(r)
            if self.fail:
                r.dump(self.say)
                self.node_logs(r)
            return bool(self.killed)
        finally:
            r.kill()
            if not self.fail:
                shutil.rmtree(r.dir, ignore_errors=True)

    def during(self, r):
        """What is to be looked at while paddlectl may still run."""

    def leftovers(self, r):
        """A job that never started a process leaves no folder; none leaves half an output here."""
        outputs = f"{r.dir}/output"
        half = [path for path in glob.glob(f"{outputs}/.*") if path != f"{outputs}/.files"]
        half += [path for path in glob.glob(f"{outputs}/.files/*/*", include_hidden=True)
                 if not self.is_whole(path)]
        if half and self.status != -signal.SIGKILL and not self.fail:
            self.fail = f"half outputs stay: {half}"

    @staticmethod
    def is_whole(path):
        """A kept file of a workspace has the name of its contents' BLAKE2b."""
        with open(path, "rb") as f:
            contents = f.read()
        return os.path.basename(path) == hashlib.blake2b(contents, digest_size=32).hexdigest()

    def node_logs(self, r):
        for node, host in enumerate(self.nodes):
            path = self.arena.node_path(host, f"root/{r.job}/log/paddle_agent.INFO", node)
            try:
                with open(path, encoding="utf-8", errors="replace") as f:
                    lines = f.read().splitlines()[-8:]
            except OSError:
                continue
            self.say(f"    --- agent of node {node} (host {host})")
            for line in lines:
                self.say(f"    | {line[:240]}")


class CutRound(Round):
    """A link of a network namespace is cut; it comes back when all is over."""

    def __init__(self, arena, k, seed, slack, say):
        super().__init__(arena, k, seed, slack, say)
        self.part, self.sig, self.allowed = "link", signal.SIGKILL, (0, 1, 3)  # 0: it was over before it was noticed
        self.phase = self.rng.choice(("bootstrap", "sending", "trainers", "trainers"))
        self.delay = self.rng.uniform(0, JITTER_S[self.phase])
        self.nodes, self.host = list(range(arena.n)), self.rng.randrange(arena.n)

    def __str__(self):
        return (f"{self.kind} on {len(self.nodes)} hosts, lease {self.lease} s: link of host {self.host} cut "
                f"in {self.at_phase or self.phase}")

    def kill(self, r):
        r.watch.alive(fresh=True)
        self.killed_at = time.monotonic()
        if not r.ended():
            self.arena.cut(self.host)
            self.killed.append(self.host)
        return True

    def during(self, r):
        """The host that was cut off ends its part by itself; the others when they are told, or by their leases."""
        limit = self.killed_at + r.lease + self.slack
        while not self.fail and self.killed and self.on_cut_host(r.watch.alive()):
            if time.monotonic() > limit and self.on_cut_host(r.watch.alive(fresh=True)):
                self.fail = f"processes are alive on the host that was cut off {r.lease} + {self.slack:g} s later"
                for p in self.on_cut_host(r.watch.alive()):
                    self.say(f"    {p}")
            time.sleep(0.05)

    def on_cut_host(self, found):
        return [p for p in found if self.arena.host_of(p.pid) == self.host]

    def run(self):
        try:
            return super().run()
        finally:
            self.arena.join(self.host)
