# SPDX-License-Identifier: Apache-2.0
"""netns.py - what the benches of dispatch share: hosts in network namespaces (tests/support/netns-fixture), our dispatch and its peers
timed on them, and whether the files really arrived on every host.

    with Hosts(8, "100mbit") as hosts:          # everything goes at the end, also on Ctrl-C and SIGTERM
        hosts.dispatch(ws)                      # -> Run
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.environ.get("PADDLE_BUILD", f"{TOP}/build/release") + "/paddlectl"
FIXTURE = f"{TOP}/tests/support/netns-fixture"
PATIENCE_S = 300
bench = "?"  # that prepares


def on_signal(number, _):
    signal.signal(number, signal.SIG_IGN)  # one is enough: what follows cleans up
    raise SystemExit(128 + number)


def left_out(name, why):
    """This machine does not allow the bench."""
    print(f"skipped: bench {name}: {why}", flush=True)
    sys.exit(77)


def prepare(name):
    """What has to be there; signals become exceptions, so that `finally` runs."""
    global bench
    bench = name
    if os.geteuid() != 0:
        left_out(name, "network namespaces need root")
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, on_signal)


def need(name, programs):
    for program, package in programs.items():
        if not shutil.which(program):
            sys.exit(f"bench {name}: no {program} (Debian: {package})")


def line(name, ratio, target, peer, ours, theirs):
    print(f"bench {name} ratio {ratio:.2f} target {target} peer \"{peer}\" ours {ours} theirs {theirs}", flush=True)


def random_file(path, n):
    with open(path, "wb") as f:
        while n > 0:
            f.write(os.urandom(min(n, 1 << 20)))
            n -= 1 << 20


def end_group(p):
    """End a program that we started in a session of its own, and its children."""
    if p.poll() is None:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    p.wait()


class Run:
    """One dispatch: wall seconds until paddlectl ended, seconds until the package stood on each host (None: never), what it said."""

    def __init__(self):
        self.seconds = 0.0
        self.at = {}
        self.status = None
        self.events = []
        self.text = ""

    def event(self, name):
        """The last object of this kind."""
        return next((e for e in reversed(self.events) if e.get("event") == name), {})

    def hop(self):
        """Seconds from one node's end to the next one's, the mean: c/B + l."""
        return (max(self.at.values()) - min(self.at.values())) / max(1, len(self.at) - 1)

    def last(self, nodes):
        """Seconds until the last of these hosts had it."""
        return max(self.at[i] if self.at.get(i) is not None else float("inf") for i in nodes)


class Hosts:
    def __init__(self, n, rate):
        self.n = n
        self.rate = rate
        os.makedirs(f"{TOP}/build", exist_ok=True)
        self.top = tempfile.mkdtemp(prefix="bench-", dir=f"{TOP}/build")
        self.dir = f"{self.top}/ns"
        self.starting = None
        self.env = dict(os.environ, XDG_CACHE_HOME=f"{self.top}/cache")
        self.env.pop("SSH_AUTH_SOCK", None)

    def __enter__(self):
        try:
            # in a session of its own, and to its end: what it has made when it is interrupted nobody else would find
            self.starting = subprocess.Popen([FIXTURE, "start", self.dir, str(self.n), self.rate], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             text=True, start_new_session=True)
            said, _ = self.starting.communicate()
            if self.starting.returncode:
                left_out(bench, f"no network namespaces: {said.strip()}")
            with open(f"{self.dir}/name") as f:
                self.name = f.read().strip()
            self.names = [f"10.77.0.{i + 1}" for i in range(self.n)]
            self.ssh = (f"-F /dev/null -o BatchMode=yes -o LogLevel=ERROR -o IdentitiesOnly=yes -o UserKnownHostsFile={self.dir}/known_hosts "
                        f"-o GlobalKnownHostsFile=/dev/null -i {self.dir}/client_key")
            self.conf = f"{self.dir}/conf.ini"
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.starting:
            self.starting.wait()
        if os.path.exists(f"{self.dir}/name"):
            subprocess.run([FIXTURE, "stop", self.dir])
        shutil.rmtree(self.top, ignore_errors=True)

    # --- hosts -----------------------------------------------------------------------------------------------

    def root(self, i):
        """The host's file system, as seen from here."""
        with open(f"{self.dir}/sshd.{i}/pid") as f:
            return f"/proc/{f.read().strip()}/root"

    def forget(self, path):
        """Remove this from all hosts."""
        for i in range(self.n):
            for p in glob.glob(self.root(i) + path):
                shutil.rmtree(p, ignore_errors=True)

    def compare(self, ws, path, nodes=None):
        """The hosts on which `path` is not the same tree as `ws`."""
        bad = []
        for i in range(self.n) if nodes is None else nodes:
            p = subprocess.run(["diff", "-rq", "--no-dereference", ws, self.root(i) + path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if p.returncode:
                bad.append((self.names[i], p.stdout.strip().splitlines()[:2]))
        return bad

    def limit(self, i, rate):
        """This host's link, in both directions."""
        for ns, dev in ((f"{self.name}-n{i}", "eth0"), (f"{self.name}-br", f"p{i}")):
            subprocess.run(["tc", "-n", ns, "qdisc", "replace", "dev", dev, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"], check=True)

    def kill(self, i):
        """End every process of this host at once, sshd too."""
        with open(f"{self.dir}/sshd.{i}/pid") as f:
            os.kill(int(f.read()), signal.SIGKILL)
        os.remove(f"{self.dir}/sshd.{i}/pid")

    def takers(self, i):
        """How many nodes take from this host now: connections to a port on which it listens, sshd's left out."""
        rows = []
        for table in ("tcp", "tcp6"):
            try:
                with open(self.root(i)[:-len("root")] + f"net/{table}") as f:
                    rows += [(r[1].rpartition(":")[2], r[3]) for r in (text.split() for text in f.read().splitlines()[1:])]
            except OSError:
                pass
        listens = {port for port, state in rows if state == "0A"} - {"0016"}
        return sum(state == "01" and port in listens for port, state in rows)

    def sent(self):
        """Bytes that have left over our link."""
        p = subprocess.run([FIXTURE, "exec", self.dir, "cat", "/sys/class/net/eth0/statistics/tx_bytes"], stdout=subprocess.PIPE, text=True)
        if p.returncode or not p.stdout.strip().isdigit(): # /sys of another namespace where it is not mounted anew
            p = subprocess.run(["ip", "-n", f"{self.name}-c", "-s", "-j", "link", "show", "eth0"], stdout=subprocess.PIPE, text=True, check=True)
            return json.loads(p.stdout)[0]["stats64"]["tx"]["bytes"]
        return int(p.stdout)

    # --- programs ------------------------------------------------------------------------------------------------

    def start(self, command, out):
        return subprocess.Popen([FIXTURE, "exec", self.dir, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                env=self.env, start_new_session=True)

    def seconds(self, command):
        """Wall time of a command that has to succeed."""
        with open(f"{self.top}/out", "w+b") as out:
            began = time.monotonic()
            p = self.start(command, out)
            try:
                status = p.wait(timeout=PATIENCE_S)
                wall = time.monotonic() - began
            finally:
                end_group(p)
            out.seek(0)
            if status:
                raise RuntimeError(f"{command[0]} ended with {status}: {out.read()[-1500:].decode(errors='replace')}")
        return wall

    def ctl(self, verb, *args):
        return self.seconds([CTL, verb, f"--conf={self.conf}", *args])

    def dispatch(self, ws, verb="dispatch", args=(), meanwhile=None, where="/home/paddle/workspaces"):
        """paddlectl dispatch (or run) --json of this folder. meanwhile(run, seconds) is called every 5 ms. The package is what
        appears below `where`, a folder on each host (one that is new)."""
        before = {i: set(self.children(i, where)) for i in range(self.n)}
        run = Run()
        with open(f"{self.top}/json", "w+b") as out:
            began, began_wall = time.monotonic(), time.time()
            p = self.start([CTL, verb, f"--conf={self.conf}", "--json", f"--job_dispatch_package={ws}", *args], out)
            try:
                while True:
                    ended = p.poll() is not None
                    now = time.monotonic() - began
                    for i in range(self.n):
                        new = set(self.children(i, where)) - before[i] if i not in run.at else None
                        if new:  # when it was renamed to this name
                            run.at[i] = os.stat(f"{self.root(i)}{where}/{new.pop()}").st_ctime - began_wall
                    if meanwhile:
                        meanwhile(run, now)
                    if ended:
                        run.seconds = now
                        break
                    if now > PATIENCE_S:
                        raise RuntimeError(f"paddlectl {verb} does not end")
                    time.sleep(0.005)
            finally:
                end_group(p)
            run.status = p.returncode
            out.seek(0)
            run.text = out.read().decode(errors="replace")
        for text in run.text.splitlines():
            try:
                run.events.append(json.loads(text))
            except ValueError:
                pass
        return run

    def children(self, i, where):
        """Names in a folder of a host, without what is still being built."""
        try:
            return [n for n in os.listdir(self.root(i) + where) if not n.startswith(".") and ".part-" not in n]
        except OSError:
            return []

    def checked(self, ws, run, nodes=None):
        """The same, after it was seen to be on all hosts."""
        result = run.event("result")
        if nodes is None and run.status:
            raise RuntimeError(f"paddlectl ended with {run.status}: {run.text[-1500:]}")
        bad = self.compare(ws, result["path"], nodes)
        if bad:
            raise RuntimeError(f"not what was sent: {bad}")
        return run

    def peers(self, ws):
        """name -> (command, where it puts the tree on each host)"""
        base = os.path.basename(ws)
        hosts, n = ",".join(self.names), str(self.n)
        copy = 'ws=$1 ssh=$2; shift 2; for h; do rsync -a --delete -e "ssh $ssh" "$ws/" "root@$h:/home/user/rsync/" & p="$p $!"; done; for i in $p; do wait $i || exit 1; done'
        return {
            "pdcp": (["env", f"PDSH_SSH_ARGS_APPEND={self.ssh}", "pdcp", "-R", "ssh", "-f", n, "-w", hosts, "-l", "root", "-r", ws, "/home/user/pdcp"],
                     f"/home/user/pdcp/{base}"),
            # its scp speaks sftp, which the fixture's sshd does not serve, unless it is told not to
            "clush": (["clush", "-S", "-O", "scp_path=scp -O", "-f", n, "-l", "root", "-o", self.ssh, "-w", hosts, "--copy", ws, "--dest", "/home/user/clush/"],
                      f"/home/user/clush/{base}"),
            "rsync": (["sh", "-c", copy, "sh", ws, self.ssh, *self.names], "/home/user/rsync"),
        }

    def peer(self, name, ws, keep=False):
        """Seconds of a peer until the tree is on all hosts, compared."""
        command, path = self.peers(ws)[name]
        for i in range(self.n):
            if not keep:
                shutil.rmtree(f"{self.root(i)}/home/user/{name}", ignore_errors=True)
            os.makedirs(f"{self.root(i)}/home/user/{name}", exist_ok=True)
        wall = self.seconds(command)
        bad = self.compare(ws, path)
        if bad:
            raise RuntimeError(f"{name} did not bring everything: {bad}")
        return wall
