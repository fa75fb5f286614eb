#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py - random kills of every part of a job, at random moments of every phase, and what remains afterwards: nothing.

After attach_lease plus 2 s no process of the job is alive and its ports are closed; paddlectl has ended, with a status that
fits; other jobs on the same hosts end with the right result all the while. A paddlectl that hangs prints its backtraces.

  SOAK_KILLS=200    how many            SOAK_SEED=N     which (printed; a round depends on seed and number alone)
  SOAK_HOSTS=6      sshd's              SOAK_LANES=3    rounds at a time
  SOAK_CUTS=10      cut links           SOAK_ONLY=K     this round alone
  SOAK_SLACK=2      seconds on top of the lease         PADDLE_BUILD=build/release
"""
import os
import queue
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from arena import NetArena, Skipped, SshArena  # noqa: E402
from jobs import TOP, Bystander, Run, end_softly, make_workspaces  # noqa: E402
from rounds import CutRound, Round  # noqa: E402

PACKAGE_BYTES = 6 << 20


def number(name, default, convert=int):
    return convert(os.environ.get(name) or default)


class Soak:
    def __init__(self):
        self.bin = os.path.abspath(os.environ.get("PADDLE_BUILD") or f"{TOP}/build/release")
        self.kills, self.cuts = number("SOAK_KILLS", 200), number("SOAK_CUTS", 10)
        self.seed = number("SOAK_SEED", random.SystemRandom().randrange(1 << 31))
        self.hosts, self.lanes = number("SOAK_HOSTS", 6), number("SOAK_LANES", 3)
        self.slack = number("SOAK_SLACK", 2, float)
        self.only = os.environ.get("SOAK_ONLY")
        self.bystanders = ("own", "user") if self.kills > 20 else ("user",)
        os.makedirs(f"{TOP}/build/tmp", exist_ok=True)
        self.top = tempfile.mkdtemp(prefix="soak-", dir=f"{TOP}/build/tmp")
        self.lock, self.failures, self.done, self.retries = threading.Lock(), [], [], 0

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def one(self, kind, arena, k):
        """A round; when the job was over before its turn came, the same again with another moment."""
        lines = []
        for attempt in range(5):
            r = kind(arena, k, f"{self.seed}/{attempt}" if attempt else self.seed, self.slack, lines.append)
            if r.run() or r.fail:
                break
            self.retries += 1
        with self.lock:
            self.done.append(r)
            if r.fail:
                self.failures.append(f"round {k}: {r}: {r.fail}")
                print(f"FAILED  round {k}: {r}: {r.fail}", *lines, sep="\n", flush=True)
            else:
                print(f"ok {len(self.done):4d}  round {k}: {r}; status {r.status}, all dead after {r.dead_s or 0:.2f} s", flush=True)

    def lane(self, kind, arena, rounds):
        try:
            while True:
                self.one(kind, arena, rounds.get_nowait())
        except queue.Empty:
            pass
        except Exception as e:  # a mistake of the test is a failure of the test
            self.failures.append(f"the test itself: {e!r}")
            raise

    def session(self, arena, kind, n_rounds, lanes, bystanders):
        """Rounds on one arena, beside jobs that must not notice."""
        os.makedirs(arena.top, exist_ok=True)
        make_workspaces(arena.top, PACKAGE_BYTES)
        for n in range(2, arena.n + 1):
            self.reference(arena, n)
        others = [Bystander(arena, kind_of, list(range(3)), self.say) for kind_of in bystanders]
        rounds = queue.Queue()
        for k in [int(self.only)] if self.only else range(n_rounds):
            rounds.put(k)
        threads = [threading.Thread(target=self.lane, args=(kind, arena, rounds), daemon=True) for _ in range(lanes)]
        for t in others + threads:
            t.start()
        for t in threads:
            t.join()
        for o in others:
            o.stop.set()
        for o in others:
            o.join()
            self.failures += o.failures
            self.say(f"bystanders: {o.n_done} jobs ({o.kind}) ended well on the same hosts")

    def reference(self, arena, n):
        r = Run(arena, f"reference-{n}", "own", list(range(n))).start()
        status = r.wait(120)
        if status != 0 or r.outputs_wrong():
            r.dump(self.say)
            end_softly([r])
            raise RuntimeError(f"an undisturbed job on {n} hosts: status {status}, {r.outputs_wrong()}")

    def arena(self, arena, name, kind, n_rounds, lanes, bystanders):
        try:
            arena.start()
            self.session(arena, kind, n_rounds, lanes, bystanders)
        except Skipped as e:
            self.say(f"skipped: {name}: {e}")
        finally:
            end_softly(arena.runs)
            arena.stop()

    def summary(self):
        by_part = {}
        for r in self.done:
            by_part.setdefault(r.part, []).append(r)
        self.say(f"\n{'killed':20s} rounds  longest until all dead")
        for part, rs in sorted(by_part.items()):
            self.say(f"{part:20s} {len(rs):6d}  {max((r.dead_s or 0 for r in rs), default=0):.2f} s")
        phases = {}
        for r in self.done:
            phases[r.at_phase] = phases.get(r.at_phase, 0) + 1
        self.say("phases: " + ", ".join(f"{p} {n}" for p, n in sorted(phases.items())))

    def main(self):
        self.say(f"soak: seed {self.seed}, {self.kills} kills on {self.hosts} hosts, {self.cuts} cut links, lease + {self.slack:g} s")
        started = time.monotonic()
        if self.kills:
            self.arena(SshArena(f"{self.top}/ssh", self.bin, self.hosts), "kills", Round, self.kills, self.lanes, self.bystanders)
        if self.cuts:
            self.arena(NetArena(f"{self.top}/net", self.bin, 3), "cut links", CutRound, self.cuts, 1, ())
        self.summary()
        for f in self.failures:
            self.say(f"FAILED: {f}")
        self.say(f"soak: {len(self.done)} rounds in {time.monotonic() - started:.0f} s, {self.retries} retried, {len(self.failures)} failed, "
                 f"seed {self.seed}")
        if self.failures:
            self.say(f"kept: {self.top}")
            return 1
        shutil.rmtree(self.top, ignore_errors=True)
        return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends
    sys.exit(Soak().main())
