# SPDX-License-Identifier: Apache-2.0
"""jobs.py - the jobs of the soak test: two workspaces, a job under paddlectl, and jobs that must not notice anything.

own    our parameter servers and trainers on a small text; equal runs give equal bits, so its outputs are compared by hash
user   user-train.py and a user's own server
"""
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

from procs import Watch

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
JOB_ID = re.compile(r"JOB\d{14}-[0-9a-f]{4}")
N_SHARDS = 16


def make_workspaces(top, package_bytes):
    """top/own and top/user. package_bytes of noise make sending take its time."""
    rng = random.Random(1)
    own, user = f"{top}/own", f"{top}/user"
    shutil.copytree(f"{TOP}/workspace_template/word2vec", own)
    with open(f"{own}/train.ini") as f:
        ini = f.read()
    with open(f"{own}/train.ini", "w") as f:
        f.write(ini.replace("size = 32", "size = 8").replace("size = 256", "size = 16"))
    with open(f"{own}/dict.txt", "w") as f:
        f.writelines(f"{w}\n" for w in ["<s>", "<e>", "<unk>", *(f"w{i}" for i in range(97))])
    for folder, shards, lines in (("train_data_dir", N_SHARDS, 60), ("test_data_dir", N_SHARDS, 3)):
        os.makedirs(f"{own}/{folder}", exist_ok=True)
        for i in range(shards):
            with open(f"{own}/{folder}/text-{i:05d}", "w") as f:
                f.writelines(" ".join(str(rng.randrange(100)) for _ in range(12)) + "\n" for _ in range(lines))
    os.makedirs(user)
    shutil.copy(f"{HERE}/user-train.py", user)
    shutil.copy(f"{TOP}/tests/support/own-server.py", user)
    for ws in (own, user):
        with open(f"{ws}/noise", "wb") as f:
            f.write(rng.randbytes(package_bytes))


RECORD = {"run.json", "metrics.jsonl", "conf.ini", "train.ini"}  # docs/records.md


def tree_hash(path):
    """One hash over names and contents of a job's outputs, without its record; None when there are none."""
    h, n = hashlib.sha256(), 0
    for folder, folders, files in sorted(os.walk(path)):
        folders.sort()
        for name in sorted(set(files) - (RECORD if folder == path else set())):
            n += 1
            with open(f"{folder}/{name}", "rb") as f:
                h.update(f"{os.path.relpath(folder, path)}/{name}\n".encode() + hashlib.sha256(f.read()).digest())
    return h.hexdigest() if n else None


class Run:
    """One job under paddlectl. `arena` has the hosts; `nodes` are the numbers of those that it uses."""

    def __init__(self, arena, name, kind, nodes, lease=2, passes=30, work_s=1.5):
        self.arena, self.kind, self.nodes, self.lease, self.work_s = arena, kind, nodes, lease, work_s
        self.dir = f"{arena.top}/jobs/{name}"
        os.makedirs(f"{self.dir}/pids")
        self.log = f"{self.dir}/paddlectl.log"
        with open(f"{self.dir}/conf.ini", "w") as f:
            f.write(arena.conf(nodes))
            f.write(f"port = {arena.next_port()}\n[job]\nattach_lease = {lease}\njob_dispatch_package = {arena.top}/{kind}\n")
            if kind == "user":
                f.write("trainer_command = ./user-train.py\npserver_command = /usr/bin/python3 own-server.py\n")
            else:
                f.write(f"[train]\nn_streams = {len(nodes)}\nnum_passes = {passes}\n")
            f.write(f"[env]\nSOAK_PIDS = {self.dir}/pids\nSOAK_WORK_S = {work_s}\n")
        self.watch = Watch(arena.table, f"{self.dir}/pids")
        self.proc = None
        self.started_at = self.ended_at = None

    def start(self):
        self.started_at = time.monotonic()
        with open(self.log, "wb") as out:
            self.proc = subprocess.Popen(self.arena.wrap([f"{self.arena.bin}/paddlectl", "run", "--conf=conf.ini"]), cwd=self.dir,
                                         stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        self.arena.runs.append(self)
        return self

    def output(self):
        with open(self.log, "rb") as f:
            return f.read().decode("utf-8", "replace")

    @property
    def job(self):
        if not self.watch.job:
            m = JOB_ID.search(self.output())
            self.watch.job = m.group() if m else None
        return self.watch.job

    def ended(self):
        if self.proc.poll() is None:
            return False
        self.ended_at = self.ended_at or time.monotonic()
        return True

    def wait(self, seconds):
        """Its exit status; None when it runs still (then it hangs, and says where)."""
        end = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > end:
                return None
            time.sleep(0.01)
        return self.proc.returncode

    def phase(self):
        """What the head agent's log says of the job's state, or where the launcher is before that."""
        if not self.job:
            return "bootstrap"
        log = self.arena.node_path(self.nodes[0], f"root/{self.job}/log/paddle_agent.INFO", 0)
        try:
            with open(log, encoding="utf-8", errors="replace") as f:
                states = re.findall(r"agent\.c:\d+\] (\w+): ", f.read())
        except OSError:
            return "bootstrap"
        last = states[-1] if states else "setup"
        if last == "setup" and not os.path.exists(os.path.dirname(os.path.dirname(log)) + "/workspace"):
            return "sending"
        return "fetching" if last == "done" else last

    def outputs_wrong(self):
        """Text when a job that says it is done has not brought what it should."""
        out = f"{self.dir}/output/{self.job}"
        if self.kind == "user":
            for i in range(len(self.nodes)):
                try:
                    with open(f"{out}/from.{i}") as f:
                        text = f.read()
                except OSError as e:
                    return str(e)
                if text != f"{i} of {len(self.nodes)}\n":
                    return f"{out}/from.{i} is {text!r}"
            return None
        return self.arena.compare_model(len(self.nodes), tree_hash(out), out)

    def dump(self, say):
        say(f"    --- {self.dir}: last lines of paddlectl (job {self.job})")
        for line in self.output().splitlines()[-25:]:
            say(f"    | {line[:300]}")

    def backtrace(self, say):
        pids = [self.proc.pid] + [p.pid for p in self.arena.table.scan(True).values() if p.ppid == self.proc.pid]
        for pid in pids:
            out = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, timeout=60)
            say(f"    --- backtraces of process {pid}")
            for line in (out.stdout or out.stderr).splitlines():
                if line.startswith(("#", "Thread")):
                    say(f"    | {line[:240]}")

    def kill(self):
        """The last resort of the test itself; by the process that we started."""
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()


class Bystander(threading.Thread):
    """Jobs one after the other on the hosts where others are being killed. Each must end well."""

    def __init__(self, arena, kind, nodes, say):
        super().__init__(daemon=True)
        self.arena, self.kind, self.nodes, self.say = arena, kind, nodes, say
        self.stop = threading.Event()
        self.n_done, self.failures, self.run_now = 0, [], None

    def run(self):
        while not self.stop.is_set() and not self.failures:
            r = self.run_now = Run(self.arena, f"bystander-{self.kind}-{self.n_done}", self.kind, self.nodes, lease=5).start()
            status = r.wait(180)
            wrong = f"exit status {status}" if status != 0 else r.outputs_wrong()
            if wrong:
                self.failures.append(f"a bystander ({self.kind}) was disturbed: {wrong}")
                self.say(f"FAILED: {self.failures[-1]}")
                if status is None:
                    r.backtrace(self.say)
                r.dump(self.say)
                r.kill()
                return
            self.n_done += 1
            shutil.rmtree(r.dir)


def end_softly(runs):
    """Ctrl-C for what runs still."""
    for r in runs:
        if r.proc.poll() is None:
            r.proc.send_signal(signal.SIGINT)
    for r in runs:
        if r.wait(10) is None:
            r.kill()
