# SPDX-License-Identifier: Apache-2.0
"""cluster.py - the hosts of the fault tests: machines in network namespaces (tests/support/
netns-fixture), or sshd's on 127.0.0.x (sshd-fixture) where namespaces are not allowed.

A process is found by its host and its part: trainer, pserver, agent, guardian, watcher, relay,
sshd (the session of paddlectl). Nothing is looked for by its name on the whole machine.
"""
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, f"{TOP}/tests/soak")
from procs import Table, part_of, read_bytes  # noqa: E402

N_HOSTS = 3
NOTHING_PASSES = ("rate", "8bit", "burst", "1", "limit", "1")
PIDFD_GETFD = 438
NO_FAMILY = bytes(16)  # sockaddr of AF_UNSPEC: connect() to it resets a connection


def run(*command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)


class NotAllowed(Exception):
    """This machine does not allow such a cluster."""


class Cluster:
    real = False  # are the hosts machines of their own?

    def __init__(self, top):
        self.top, self.fx = top, f"{top}/hosts"
        self.table = Table()
        os.makedirs(top)

    def fixture(self, *args):
        return run(f"{TOP}/tests/support/{self.FIXTURE}", args[0], self.fx, *args[1:])

    def start(self):
        done = self.fixture("start", str(N_HOSTS))
        if done.returncode == 77:
            raise NotAllowed(done.stdout.strip())
        if done.returncode:
            raise SystemExit(f"faults: {self.FIXTURE}: {done.stdout.strip()}")
        with open(f"{self.fx}/conf.ini") as f:
            self.conf = f.read()
        return self

    def stop(self):
        self.fixture("stop")
        shutil.rmtree(self.top, ignore_errors=True)

    def processes(self):
        """[(host, part, Process)] of all that runs on the hosts, without the sshd's of the hosts."""
        by_pid = self.table.scan(True)
        found = []
        for p in by_pid.values():
            host = self.host_of(p.pid)
            if host is None or p.comm == "unshare":
                continue
            if not p.comm.startswith("sshd"):
                found.append((host, part_of(p, by_pid, ()), p))
            elif any(c.ppid == p.pid and not c.comm.startswith(("sshd", "paddle_")) for c in by_pid.values()):
                found.append((host, "sshd", p))
        return found

    def pids(self, host, part):
        return sorted(p.pid for h, what, p in self.processes() if h == host and what == part)

    def send(self, host, part, sig):
        pids = self.pids(host, part)
        for pid in pids:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        return pids

    def agent_fault(self, host, spec):
        """Arms a fault point of the host's next agents, or none (src/base/fault_point.h)."""
        with open(f"{self.home(host)}/.bashrc", "w") as f:
            f.write(f"export PADDLE_AGENT_FAULT={spec}\n")

    def reset(self, host, part):
        """Both ends of each TCP connection of these processes get an error, wherever a frame is."""
        libc, n = ctypes.CDLL(None, use_errno=True), 0
        for pid in self.pids(host, part):
            established = set(re.findall(r"^ *\d+: \S+ \S+ 01 (?:\S+ +){5}(\d+)", "\n".join(
                read_bytes(f"/proc/{pid}/net/{tcp}").decode() for tcp in ("tcp", "tcp6")), re.M))
            try:
                fds = [int(fd) for fd in os.listdir(f"/proc/{pid}/fd")
                       if re.sub(r"\D", "", os.readlink(f"/proc/{pid}/fd/{fd}")) in established]
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue
            for fd in fds:
                mine = libc.syscall(PIDFD_GETFD, pidfd, fd, 0)
                if mine >= 0:
                    n += libc.connect(mine, NO_FAMILY, len(NO_FAMILY)) == 0
                    os.close(mine)
            os.close(pidfd)
        return n

    def jobs(self, host):
        return [d for d in glob.glob(f"{self.root(host)}/JOB*") if os.path.isdir(d)]

    def left(self):
        """Texts about processes on the hosts, and their ports."""
        return [f"host {h}: {part} {p}" for h, part, p in self.processes()]


class NetCluster(Cluster):
    """Machines: an address, processes, and a /home that a reboot empties."""
    FIXTURE, real = "netns-fixture", True

    def start(self):
        super().start()
        with open(f"{self.fx}/name") as f:
            self.name = f.read().strip()
        self.addresses = [f"10.77.0.{i + 1}" for i in range(N_HOSTS)]
        self.nets = {os.stat(f"/run/netns/{self.name}-n{i}").st_ino: i for i in range(N_HOSTS)}
        for i in range(N_HOSTS):
            self.mount(i, "-o", "remount,size=512m", "/home")
        return self

    def wrap(self, command):
        return ["ip", "netns", "exec", f"{self.name}-c", *command]

    def host_of(self, pid):
        try:
            return self.nets.get(os.stat(f"/proc/{pid}/ns/net").st_ino)
        except OSError:
            return None

    def first(self, host):
        """The first process of the host."""
        with open(f"{self.fx}/sshd.{host}/pid") as f:
            unshare = f.read().strip()
        return read_bytes(f"/proc/{unshare}/task/{unshare}/children").split()[0].decode()

    def home(self, host):
        return f"/proc/{self.first(host)}/root/home/user"

    def root(self, host):
        return f"/proc/{self.first(host)}/root/home/paddle"

    def mount(self, host, *args):
        return run("nsenter", "-t", self.first(host), "-m", "mount", *args).returncode == 0

    def cut(self, host):
        self.fixture("cut", str(host))

    def join(self, host):
        self.fixture("join", str(host))

    def shape(self, host, ways, *tbf):
        for way in ways:
            self.fixture("shape", str(host), way, *tbf)

    def reboot(self, host):
        self.fixture("reboot", str(host))
        self.mount(host, "-o", "remount,size=512m", "/home")

    def fill(self, host):
        """The disk has no room left, but for a page or two."""
        st = os.statvfs(self.root(host))
        used = (st.f_blocks - st.f_bfree) * st.f_frsize // 1024
        return self.mount(host, "-o", f"remount,size={used + 8}k", "/home")

    def make_room(self, host):
        self.mount(host, "-o", "remount,size=512m", "/home")

    def read_only(self, host):
        """The folders of saved models; log files that are open stay writable, as on a real disk."""
        return any([self.mount(host, "--bind", d, d) and self.mount(host, "-o", "remount,bind,ro", d)
                    for d in self.inner_outputs(host)])

    def read_write(self, host):
        for d in self.inner_outputs(host):
            run("nsenter", "-t", self.first(host), "-m", "umount", "-l", d)

    def inner_outputs(self, host):
        return ["/home/paddle/" + os.path.basename(d) + "/output" for d in self.jobs(host)]

    def open_ports(self):
        """Everything that listens, without the sshd's."""
        found = []
        for i in range(N_HOSTS):
            for line in run("ip", "netns", "exec", f"{self.name}-n{i}", "ss", "-Hlnt").stdout.splitlines():
                address = line.split()[3]
                if not address.endswith(":22"):
                    found.append(f"host {i}: {address}")
        return found


class LoopCluster(Cluster):
    """sshd's on 127.0.0.x: one kernel, one network, one disk."""
    FIXTURE = "sshd-fixture"

    def start(self):
        super().start()
        self.addresses = [f"127.0.0.{i + 1}" for i in range(N_HOSTS)]
        return self

    def wrap(self, command):
        return command

    def host_of(self, pid):
        m = re.search(rb"\0HOME=" + self.fx.encode() + rb"/node(\d+)/home\0",
                      b"\0" + read_bytes(f"/proc/{pid}/environ"))
        if not m:  # a session of sshd has no such environment, but its command has
            kids = read_bytes(f"/proc/{pid}/task/{pid}/children").split() \
                if read_bytes(f"/proc/{pid}/comm").startswith(b"sshd") else []
            return next((h for h in map(lambda k: self.host_of(int(k)), kids) if h is not None), None)
        return int(m.group(1))

    def home(self, host):
        return f"{self.fx}/node{host}/home"

    def root(self, host):
        return f"{self.fx}/node{host}/root"

    def open_ports(self):
        return []  # the ports of this machine are not ours alone; a port of a dead process is closed


def stop_softly(proc):
    """Ends a paddlectl of ours."""
    for sig in (signal.SIGCONT, signal.SIGINT, signal.SIGKILL):
        if proc.poll() is None:
            proc.send_signal(sig)
            end = time.monotonic() + (10 if sig == signal.SIGINT else 0.1)
            while proc.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
    proc.wait()
