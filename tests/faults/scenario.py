# SPDX-License-Identifier: Apache-2.0
"""scenario.py - the tables FAULTS and POLICIES, and one scenario: a small training under paddlectl,
one or two faults, and what then is there."""
import glob
import os
import random
import re
import signal
import subprocess
import time

from cluster import N_HOSTS, NOTHING_PASSES, TOP, run, stop_softly

KILL, STOP, CONT = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
BATCHES = 75  # of the undisturbed sync job
LEASE_S, DETACH_S, HEARTBEAT_S, RECONNECT_S, RESTARTS = 6, 8, 3, 6, 5
SILENT_HOST_S, GRACE_S, PATIENCE_S, JOB_S = 11, 2, 30, 20  # net_check_host, the launcher, a job here

POLICIES = {
    "stop": "",
    "restart": "on_failure = restart\n",
    "continue": "on_trainer_lost = continue\n",
    "wait": "on_failure = restart\non_trainer_lost = wait\n",
}
UPDATES = {
    "sync": "batch_size = 48\nreproducible = topology\n",
    "async": "batch_size = 16\n",
    "ssp": "batch_size = 16\nstaleness = 2\n",
    "geo": "batch_size = 16\ngeo_sgd_need_push_nums = 4\n",
}


class Fault:
    """A row of FAULTS. `effect` is what a job sees:
    none: nothing; trainer, pserver: that process fails; node: the node is lost; client: paddlectl
    is gone; any: it may or may not matter."""

    def __init__(self, name, effect, do, undo=None, undo_s=None, net=False):
        self.name, self.effect, self.do, self.undo = name, effect, do, undo
        self.undo_s, self.net = undo_s, net


def kill(part, effect):
    return Fault(f"kill {part}", effect, lambda s, h: s.cluster.send(h, part, KILL))


def freeze(part, effect, undo_s=None):
    return Fault(f"stop {part}{f' for {undo_s} s' if undo_s else ''}", effect,
                 lambda s, h: s.cluster.send(h, part, STOP),
                 lambda s, h: s.cluster.send(h, part, CONT), undo_s)


def reset(part):
    return Fault(f"reset the connections of {part}", "any" if part == "agent" else "none",
                 lambda s, h: s.cluster.reset(h, part))


def link(name, effect, ways, tbf, undo_s=None):
    return Fault(name, effect, lambda s, h: s.cluster.shape(h, ways, *tbf) or True,
                 lambda s, h: s.cluster.join(h), undo_s, net=True)


def client(name, sig, effect, undo=None, undo_s=None):
    return Fault(name, effect, lambda s, h: s.proc.send_signal(sig) or True, undo, undo_s)


BOTH = ("in", "out")
FAULTS = (
    kill("trainer", "trainer"),
    kill("pserver", "pserver"),
    kill("agent", "node"),
    kill("guardian", "node"),
    kill("watcher", "node"),
    kill("sshd", "any"),
    kill("relay", "any"),
    client("kill paddlectl", KILL, "client"),
    freeze("trainer", "trainer"),
    freeze("pserver", "pserver"),
    freeze("trainer", "none", 1),
    freeze("pserver", "none", 1),
    freeze("agent", "any"),
    freeze("guardian", "none"),
    freeze("watcher", "none"),
    freeze("sshd", "any"),
    freeze("sshd", "none", 1),
    client("stop paddlectl for 8 s", STOP, "client", lambda s, h: s.proc.send_signal(CONT), 8),
    Fault("cut", "node", lambda s, h: s.cluster.cut(h) or True, lambda s, h: s.cluster.join(h),
          net=True),
    Fault("cut for 2 s", "none", lambda s, h: s.cluster.cut(h) or True,
          lambda s, h: s.cluster.join(h), 2, net=True),
    link("cut to the host", "node", ("in",), NOTHING_PASSES),
    link("cut from the host", "node", ("out",), NOTHING_PASSES),
    link("cut to the host for 2 s", "none", ("in",), NOTHING_PASSES, 2),
    link("cut from the host for 2 s", "none", ("out",), NOTHING_PASSES, 2),
    link("4 Mbit/s with 200 ms of queue", "none", BOTH,
         ("rate", "4mbit", "burst", "8kb", "latency", "200ms")),
    link("bursts above 6 kB are lost", "none", BOTH,
         ("rate", "20mbit", "burst", "3kb", "limit", "6kb")),
    Fault("disk full", "disk", lambda s, h: s.cluster.fill(h),
          lambda s, h: s.cluster.make_room(h), net=True),
    Fault("disk full for 2 s", "disk", lambda s, h: s.cluster.fill(h),
          lambda s, h: s.cluster.make_room(h), 2, net=True),
    Fault("disk read-only", "disk", lambda s, h: s.cluster.read_only(h),
          lambda s, h: s.cluster.read_write(h), net=True),
    Fault("reboot", "node", lambda s, h: s.cluster.reboot(h) or True, net=True),
    reset("trainer"),
    reset("pserver"),
    reset("agent"),
    reset("sshd"),
)
BY_NAME = {f.name: f for f in FAULTS}


class Injected:
    """A fault at a moment: after a batch, or after seconds since the start of paddlectl."""

    def __init__(self, name, host, batch=None, seconds=None):
        self.fault, self.host, self.batch, self.seconds = BY_NAME[name], host, batch, seconds
        self.injected = self.undone = False
        self.at_batch = 0

    def __str__(self):
        when = f"batch {self.batch}" if self.batch is not None else f"{self.seconds:.2f} s"
        return f"{self.fault.name} @{self.host}, {when}"

    def cause(self, s):
        """A pattern for what is said about it."""
        if self.fault.effect == "client":  # every node may be the first to miss it
            return r"node|attach_lease"
        role = self.fault.effect if self.fault.effect in ("trainer", "pserver") else ""
        address = re.escape(s.cluster.addresses[self.host])
        return rf"{role}.*{address}|{address}.*{role}"


class Scenario:
    def __init__(self, update, policy, faults, delay_ms=40, known=False):
        self.update, self.policy, self.faults, self.delay_ms = update, policy, faults, delay_ms
        self.known = known

    @classmethod
    def drawn(cls, seed, k, net):
        rng = random.Random(f"{seed}/{k}")
        table = [f.name for f in FAULTS if net or not f.net]
        update = rng.choice(("sync", "sync", "sync", "async", "ssp", "geo"))
        policy = rng.choice(("stop", "restart", "restart", "continue", "wait"))
        faults = []
        for _ in range(1 if rng.random() < 0.65 else 2):
            early = rng.random() < 0.2
            faults.append(Injected(rng.choice(table), rng.randrange(N_HOSTS),
                                   None if early else rng.randrange(1, 60),
                                   rng.uniform(0, 1) if early else None))
        return cls(update, policy, faults)

    @classmethod
    def read(cls, text):
        kind, faults = text.split(": ", 1)
        made = []
        for one in faults.split(" + "):
            name, host, when = re.fullmatch(r"(.*) @(\d), (.*)", one).groups()
            number = float(re.search(r"[\d.]+", when).group())
            batch = when.startswith("batch")
            made.append(Injected(name, int(host), int(number) if batch else None, None if batch else number))
        return cls(*kind.split("/"), made)

    def __str__(self):
        return f"{self.update}/{self.policy}: {' + '.join(map(str, self.faults)) or 'nothing'}"

    # --- the job

    def start(self, cluster, bin_dir, ws, folder, want):
        self.cluster, self.bin, self.dir, self.want = cluster, bin_dir, folder, want
        os.makedirs(f"{folder}/tmp")
        with open(f"{folder}/conf.ini", "w") as f:
            f.write(f"{cluster.conf}connect_timeout = 15\n"
                    f"[job]\njob_dispatch_package = {ws}\nattach_lease = {LEASE_S}\n"
                    f"detach_lease = {DETACH_S}\nmax_restarts = {RESTARTS}\nsilence_timeout = 10\n"
                    f"[train]\nlog_period = 1\nnum_passes = 3\nn_streams = 6\ncheckpoint_copies = 2\n"
                    f"saving_period_by_batches = 5\nheartbeat_timeout = {HEARTBEAT_S}\n"
                    f"reconnect_timeout = {RECONNECT_S}\nstart_timeout = 20\nupdate = {self.update}\n"
                    f"{UPDATES[self.update]}")
            for line in POLICIES[self.policy].splitlines():
                f.write(f"[{'job' if 'on_failure' in line else 'train'}]\n{line}\n")
            f.write(f"[env]\nPADDLE_FAULT = slow.train.step:{self.delay_ms}\n")
        self.log = f"{folder}/paddlectl.log"
        with open(self.log, "wb") as out:
            self.proc = subprocess.Popen(
                cluster.wrap([f"{bin_dir}/paddlectl", "run", "--conf=conf.ini"]), cwd=folder,
                env={**os.environ, "TMPDIR": f"{folder}/tmp", "PADDLE_MACHINE": f"faults-{os.getpid()}"},
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.began = time.monotonic()

    def bound_s(self):
        """Each fault may be noticed late, then leases and restarts follow."""
        fault_s = SILENT_HOST_S + LEASE_S + DETACH_S + RECONNECT_S + GRACE_S + PATIENCE_S
        backoff_s = sum(2 ** i for i in range(len(self.faults))) if self.faults else 0
        return JOB_S + len(self.faults) * fault_s + backoff_s

    def run(self, stopped):
        """Injects the faults at their moments, and waits for the end: self.status, None if it hangs."""
        self.status = None
        end = self.began + self.bound_s()
        while time.monotonic() < end and not stopped.is_set():
            status = self.proc.poll()
            self.step(time.monotonic())
            if status is not None:
                self.status = status
                break
            time.sleep(0.02)
        self.took_s = time.monotonic() - self.began
        if self.status is None:
            self.stuck = "" if stopped.is_set() else self.backtrace()
            stop_softly(self.proc)

    def step(self, now):
        batches = len(re.findall(r"Batch \d+,", self.output()))
        for f in self.faults:
            due = batches >= f.batch if f.batch is not None else now - self.began >= f.seconds
            if due and not f.injected and self.proc.poll() is None:
                f.injected = f.fault.do(self, f.host)
                f.at_batch, f.at = batches, time.monotonic()
            elif f.injected and not f.undone and f.fault.undo_s and now - f.at >= f.fault.undo_s:
                self.undo(f)

    def undo(self, f):
        f.undone = True
        if f.fault.undo and (f.fault.undo_s is None or self.proc.poll() is None or f.fault.net):
            f.fault.undo(self, f.host)

    def end(self):
        """The network and the disks are whole again, stopped processes go on."""
        for f in self.faults:
            if f.injected and not f.undone:
                self.undo(f)

    def output(self):
        with open(self.log, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def blamed(self):
        """What paddlectl says about the cause of the failure and of each restart."""
        found = re.findall(r"^paddlectl: JOB\S+ failed: (\S+ \(node \d+\)(?:, \w+ \d+)?)|"
                          r"^paddlectl \|.* restart \d+ of \d+ after (\w+ \d+ (?:on )?\S+)|"
                          r"^(?:paddlectl: |  )((?:root@)?1(?:0|27)[\d.\[\],-]+: .*)", self.output(), re.M)
        # A job that lost too many nodes fails in a process of another one, which names them.
        lost = re.findall(r"there is no whole checkpoint .*(lost: node \d+ \(.*)", self.output())
        return [lost[0] if lost and groups[0] else "".join(groups) for groups in found]

    def backtrace(self):
        out = run("gdb", "-p", str(self.proc.pid), "-batch", "-ex", "thread apply all bt 15").stdout \
            if os.path.exists("/usr/bin/gdb") else ""
        return "\n".join(line[:200] for line in out.splitlines() if line.startswith(("#", "Thread")))

    # --- what the checks ask

    @property
    def job(self):
        m = re.search(r"JOB\d{14}-[0-9a-f]{4}", self.output())
        return m.group() if m else None

    def digest(self):
        folder = f"{self.dir}/output/{self.job}/pass-00002"
        return run(f"{TOP}/tests/support/model-digest", folder).stdout.split()[:1]

    def saved(self):
        return set(re.findall(r"Saved output/(\S+)", self.output()))

    def models_on_nodes(self):
        """{name of a saved model: {host: folder}}, on the hosts that the job has not lost."""
        found = {}
        for host in set(range(N_HOSTS)) - self.lost_hosts():
            for folder in glob.glob(f"{self.cluster.root(host)}/{self.job}/output/pass-*"):
                found.setdefault(os.path.basename(folder), {})[host] = folder
        return found

    def lost_hosts(self):
        return {f.host for f in self.faults if f.injected and f.fault.effect in ("node", "any")}

    def was_hit(self, host):
        return any(f.injected and (f.host == host or f.fault.effect == "client") for f in self.faults)

    @property
    def streams_left(self):
        return self.policy == "continue" and any(f.injected for f in self.faults)

    def allowed(self):
        """Exit statuses that fit. 3: a host could not be used before the job began, and that is said."""
        injected = [f for f in self.faults if f.injected]
        if {f.fault.effect for f in injected} - {"none"} and \
                re.search(r"the job was not started|hosts? cannot be used", self.output()):
            return {3}
        sets = [self.allowed_of(f) for f in injected]
        if not sets:
            return {0}
        if len(sets) == 1 or all(x == {0} for x in sets) and len({f.host for f in injected}) == 1:
            return sets[0]
        return set().union(*sets, {0, 1} if {f.fault.effect for f in injected} - {"none"} else {0})

    def allowed_of(self, f):
        effect, restarts = f.fault.effect, self.policy in ("restart", "wait")
        if effect == "none":
            return {0}
        if effect == "client":
            return {-KILL} if f.fault.name.startswith("kill") else {0}
        if effect in ("any", "disk"):
            return {0, 1}
        if effect == "node" and restarts and f.at_batch == 0:
            return {0, 1}  # nothing is restarted before the pservers run
        return {0} if restarts else {1}  # continue is for jobs whose trainers are started by hand
