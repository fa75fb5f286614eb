# SPDX-License-Identifier: Apache-2.0
"""arena.py - the hosts of the soak test: sshd's on 127.0.0.x, or network namespaces whose links can be cut."""
import os
import random
import subprocess
import threading

from procs import Table

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.join(os.path.dirname(HERE), "support")


class Skipped(Exception):
    pass


class Arena:
    def __init__(self, top, bin_dir, n):
        self.top, self.bin, self.n = top, bin_dir, n
        self.fx = f"{top}/hosts"
        self.table = Table()
        self.lock = threading.Lock()
        self.models, self.runs = {}, []
        # Ranges of their own: a user's own server binds a port that was only looked up, and others look for ports too.
        self.port = 10000 + random.SystemRandom().randrange(5000)
        os.makedirs(f"{top}/jobs")

    def fixture(self, *args, check=True):
        return subprocess.run([f"{SUPPORT}/{self.FIXTURE}", args[0], self.fx, *args[1:]], check=check, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def next_port(self):
        with self.lock:
            self.port = self.port + 40 if self.port < 19000 else 10000
            return self.port

    def compare_model(self, n_nodes, got, where):
        """The first run's model is the one that all others with as many nodes must have."""
        with self.lock:
            want = self.models.setdefault(n_nodes, got)
        return None if got and got == want else f"{where}: the model differs from that of the undisturbed run ({got}, not {want})"

    def stop(self):
        self.fixture("stop", check=False)


class SshArena(Arena):
    FIXTURE = "sshd-fixture"

    def start(self):
        self.fixture("start", str(self.n))
        with open(f"{self.fx}/hosts") as f:
            self.hosts = [h.strip() for h in f.read().split(",")]
        return self

    def conf(self, nodes):
        """[ssh] and then [cluster] without a port: one follows."""
        return (f"[ssh]\nidentity_file = {self.fx}/client_key\nknown_hosts = {self.fx}/known_hosts\nconfig = /dev/null\n"
                f"[cluster]\nhosts = {', '.join(self.hosts[i] for i in nodes)}\nroot_dir = {self.fx}/root/%n\n")

    def wrap(self, command):
        return command

    def node_path(self, host, path, node):
        """Where a path below root_dir's `root` of node number `node` of a job lies."""
        return f"{self.fx}/root/{node}/{path.removeprefix('root/')}"


class NetArena(Arena):
    """Three hosts on a bridge; cut(i) takes a link down."""
    FIXTURE = "netns-fixture"

    def start(self):
        done = self.fixture("start", str(self.n), check=False)
        if done.returncode == 77:
            raise Skipped(done.stdout.strip())
        if done.returncode:
            raise RuntimeError(f"netns-fixture: {done.stdout}")
        return self

    def conf(self, nodes):
        return (f"[ssh]\nidentity_file = {self.fx}/client_key\nknown_hosts = {self.fx}/known_hosts\nconfig = /dev/null\n"
                f"[cluster]\nhosts = {', '.join(f'root@10.77.0.{i + 1}' for i in nodes)}\nroot_dir = /home/paddle\n")

    def wrap(self, command):
        return [f"{SUPPORT}/{self.FIXTURE}", "exec", self.fx, *command]

    def node_path(self, host, path, node):
        with open(f"{self.fx}/sshd.{host}/pid") as f:
            unshare = int(f.read())
        inner = next((p.pid for p in self.table.scan().values() if p.ppid == unshare), unshare)
        return f"/proc/{inner}/root/home/paddle/{path.removeprefix('root/')}"

    def host_of(self, pid):
        """The number of the host whose network a process has; None for those of this machine."""
        for host in range(self.n):
            with open(f"{self.fx}/sshd.{host}/pid") as f:
                unshare = f.read().strip()
            try:
                if os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/{unshare}/ns/net"):
                    return host
            except OSError:
                return None
        return None

    def cut(self, host):
        self.fixture("cut", str(host))

    def join(self, host):
        self.fixture("join", str(host))
