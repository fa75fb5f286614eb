# SPDX-License-Identifier: Apache-2.0
"""thousand.py - see thousand.sh. This process is a sub-reaper: all processes of a job become its
children in the end, and their CPU time is known."""
import ctypes
import os
import signal
import sys
import time

from hosts import cpu_s, read_text, stat_of

PR_SET_CHILD_SUBREAPER = 36
LIMIT_S = float(os.environ.get("LIMIT_S", "110"))  # of a job
SECONDS, NODE_MIB, LAUNCHER_MIB, ANSWER_S, CTRLC_S, IDLE = 40, 2, 100, 3, 5, 0.15
IDLE_S = 5


def children_of(pid):
    found = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            found += map(int, read_text(f"/proc/{pid}/task/{tid}/children").split())
    except OSError:
        pass
    return found


def descendants(top):
    found = [top]
    for pid in found:
        found += children_of(pid)
    return found[1:]


def private_kib(pid):
    """Private memory; without the right to read it: resident memory that no file backs."""
    rollup = read_text(f"/proc/{pid}/smaps_rollup").splitlines()
    if rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    pages = read_text(f"/proc/{pid}/statm").split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") // 1024 if pages else 0


class Run:
    """A command of paddlectl. The CPU time of every process that ends meanwhile is added up."""
    cpu = 0.0
    cpu_of = {}  # pid -> seconds, of those that have ended

    def __init__(self, ctl, words, log):
        self.log, self.status, self.began = log, None, time.monotonic()
        out = [(os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
               (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]
        self.pid = os.posix_spawn(ctl, [ctl, *words], os.environ, file_actions=out)

    def reap(self):
        """Waits for nothing. 1: a child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if not pid:
                return 1
            Run.cpu_of[pid] = usage.ru_utime + usage.ru_stime
            Run.cpu += Run.cpu_of[pid]
            if pid == self.pid:
                self.status, self.seconds = os.waitstatus_to_exitcode(status), time.monotonic() - self.began

    def wait(self, until, what):
        while not until():
            self.reap()
            if time.monotonic() - self.began > LIMIT_S:
                raise RuntimeError(f"{what}: not in {LIMIT_S:.0f} s: {read_text(self.log)[-1500:]}")
            time.sleep(0.01)

    def ended(self):
        self.reap()
        return self.status is not None

    def finish(self, status):
        """Seconds until it has ended."""
        self.wait(self.ended, "its end")
        if self.status != status:
            raise RuntimeError(f"status {self.status}, not {status}: {read_text(self.log)[-3000:]}")
        return self.seconds


def kinds(launcher):
    """{kind: [pids]} of all processes below this one."""
    found = {}
    for pid in descendants(os.getpid()):
        name = read_text(f"/proc/{pid}/comm").strip()
        if pid == launcher:
            kind = "launcher"
        elif name == "paddle_agent" and int(stat_of(pid)[1] if stat_of(pid) else 0) == launcher:
            kind = "relay"
        else:
            kind = name.removeprefix("paddle_")
        found.setdefault(kind, []).append(pid)
    return found


def trainers():
    return sum(read_text(f"/proc/{pid}/comm").strip() == "sleep" for pid in descendants(os.getpid()))


def show(run, n):
    """Prints what the processes of a job have used so far. Returns MiB of a node and of the launcher."""
    of_node = 0.0
    for kind, pids in sorted(kinds(run.pid).items()):
        kib, cpu = sum(map(private_kib, pids)), sum(map(cpu_s, pids))
        print(f"  {kind}: {len(pids)} processes, {kib / 1024:.1f} MiB private, {cpu:.2f} s of CPU", flush=True)
        if kind in ("agent", "guardian", "watcher", "relay"):
            of_node += kib / 1024 / n
        elif kind == "launcher":
            launcher = kib / 1024
    return of_node, launcher


def idle(run, n):
    """Processors that a job uses whose trainers sleep."""
    cpu = -sum(cpu_s(pid) for pid in descendants(os.getpid()))
    end = time.monotonic() + IDLE_S
    run.wait(lambda: time.monotonic() > end, "some seconds")
    cpu += sum(cpu_s(pid) for pid in descendants(os.getpid()))
    print(f"  idle: {cpu / IDLE_S:.3f} processors, {1e6 * cpu / IDLE_S / n:.0f} us a second a node", flush=True)
    return cpu / IDLE_S * 1000 / n


def begin(where, ctl, n, sleep_s):
    with open(f"{where}/conf.ini", "w") as f:
        f.write(f"[cluster]\nhosts = local*{n}\npservers = none\nroot_dir = {where}/node%n\n"
                f"[job]\noutputs = {where}/out\njob_dispatch_package =\ntrainer_command = exec sleep {sleep_s}\n")
    return Run(ctl, ["run", f"--conf={where}/conf.ini"], f"{where}/run.log")


def answer(where, ctl, *words):
    run = Run(ctl, [words[0], f"--conf={where}/conf.ini", *words[1:]], f"{where}/{words[0]}.log")
    seconds = run.finish(0)
    print(f"  {words[0]}: {seconds:.2f} s", flush=True)
    return seconds


def all_gone(run):
    run.wait(lambda: not run.reap(), "the end of all processes")
    return time.monotonic() - run.began


def line(name, ours, limit, unit):
    print(f'bench thousand-{name} ratio {ours / limit:.2f} target <=1.00 peer "the limit" '
          f"ours {ours:.2f} {unit} theirs {limit} {unit}", flush=True)


def measure(where, ctl, n, sleep_s):
    run = begin(where, ctl, n, sleep_s)
    run.wait(lambda: trainers() >= n or run.ended(), "the start")
    up = time.monotonic() - run.began
    print(f"{n} nodes: all trainers run after {up:.2f} s", flush=True)
    if run.status is None:
        memory, launcher = show(run, n)
    seconds = run.finish(0) - sleep_s
    gone = all_gone(run) - sleep_s
    print(f"{n} nodes: paddlectl ended {seconds:.2f} s after all work, the last process {gone:.2f} s; "
          f"{Run.cpu:.2f} s of CPU, {1000 * Run.cpu / n:.1f} ms a node", flush=True)
    line("seconds", seconds, SECONDS, "s")
    line("node", memory, NODE_MIB, "MiB")
    line("launcher", launcher, LAUNCHER_MIB, "MiB")
    run = begin(where, ctl, n, 10000)
    run.wait(lambda: trainers() >= n or run.ended(), "the start")
    line("idle", idle(run, n), IDLE, "processors")
    for words in (("ps",), ("status",), ("top", "--once"), ("logs",)):
        line(words[0], answer(where, ctl, *words), ANSWER_S, "s")
    began = time.monotonic()
    os.kill(run.pid, signal.SIGINT)
    run.finish(130)
    print(f"  Ctrl-C: paddlectl ended after {time.monotonic() - began:.2f} s", flush=True)
    all_gone(run)
    line("ctrlc", time.monotonic() - began, CTRLC_S, "s")
    run = begin(where, ctl, n, 10000)
    run.wait(lambda: trainers() >= n or run.ended(), "the start")
    stop = Run(ctl, ["stop", f"--conf={where}/conf.ini"], f"{where}/stop.log")
    stop.wait(lambda: stop.ended() and (run.reap() or 1), "stop")
    line("stop", stop.seconds, ANSWER_S, "s")
    all_gone(run)


def end_all():
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    # A shell starts what it runs in the background with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ["XDG_STATE_HOME"] = os.environ["HOME"] = sys.argv[1]
    try:
        measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    finally:
        for _ in range(3):
            end_all()
            time.sleep(0.1)
