# SPDX-License-Identifier: Apache-2.0
"""procs.py - the processes of this machine, and which of them belong to a job.

A process is named by (pid, start time): a number that was used again is another process. It belongs to a job when the job's id
stands in its environment (PADDLE_JOB_ID) or on its command line (agent, guardian, relay), or when it was noted before: as a
descendant of one that belongs, or by itself in the file SOAK_PIDS. Nothing is ever looked for by its name.
"""
import glob
import os
import re
import threading
import time

JOB_ID = re.compile(rb"JOB\d{14}-[0-9a-f]{4}")


class Process:
    __slots__ = ("pid", "start", "ppid", "state", "comm", "job", "role", "cmdline")

    def __init__(self, pid, start, ppid, state, comm):
        self.pid, self.start, self.ppid, self.state, self.comm = pid, start, ppid, state, comm
        self.job = self.role = None
        self.cmdline = ""

    @property
    def key(self):
        return self.pid, self.start

    def __str__(self):
        return f"{self.pid} (parent {self.ppid}, {self.state}, {self.comm}): {self.cmdline}"


def read_stat(pid):
    """A Process without its job, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            text = f.read()
    except OSError:
        return None
    end = text.rindex(b")")
    words = text[end + 2:].split()
    comm = text[text.index(b"(") + 1:end].decode("utf-8", "replace")
    return Process(int(pid), int(words[19]), int(words[1]), words[0].decode(), comm)


def read_bytes(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def identify(p):
    cmdline = read_bytes(f"/proc/{p.pid}/cmdline")
    environ = b"\0" + read_bytes(f"/proc/{p.pid}/environ")
    p.cmdline = cmdline.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    at = environ.find(b"\0PADDLE_JOB_ID=")
    m = JOB_ID.search(environ, at) if at >= 0 else None
    if not m and b"relay" in cmdline:  # the launcher's own `stop JOB` or an editor is no process of the job
        m = JOB_ID.search(cmdline)
    p.job = m.group().decode() if m else None
    if at >= 0:
        p.role = "trainer" if b"\0TRAINING_ROLE=TRAINER" in environ else "pserver"


class Table:
    """The process table, at most KEEP_S old; several threads may ask."""
    KEEP_S = 0.05

    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}
        self.at = 0.0
        self.by_pid = {}

    def scan(self, fresh=False):
        """pid -> Process, zombies left out."""
        with self.lock:
            if not fresh and time.monotonic() - self.at < self.KEEP_S:
                return self.by_pid
            known, by_pid = {}, {}
            for name in os.listdir("/proc"):
                p = read_stat(name) if name.isdigit() else None
                if not p or p.state in "ZX":
                    continue
                old = self.known.get((p.pid, p.start, p.comm))  # exec gives it another name, and may change its job
                if old and old.job:
                    p.job, p.role, p.cmdline = old.job, old.role, old.cmdline
                else:
                    identify(p)
                known[p.pid, p.start, p.comm] = p
                by_pid[p.pid] = p
            self.known, self.by_pid, self.at = known, by_pid, time.monotonic()
            return by_pid


class Watch:
    """What belongs to one job, over its life."""

    def __init__(self, table, pids_dir=None):
        self.table, self.pids_dir = table, pids_dir
        self.job = None
        self.noted, self.children = set(), set()
        self.sockets = set()

    def alive(self, fresh=False):
        """The processes of the job now; their descendants are noted."""
        by_pid = self.table.scan(fresh)
        if not self.job:
            return []
        for path in glob.glob(f"{self.pids_dir}/*") if self.pids_dir else ():
            for line in read_bytes(path).split(b"\n"):
                words = line.split()
                if len(words) == 3:
                    self.noted.add((int(words[0]), int(words[1])))
                    if words[2] == b"child":
                        self.children.add((int(words[0]), int(words[1])))
        ours = {p.pid for p in by_pid.values() if p.job == self.job or p.key in self.noted}
        children = {}
        for p in by_pid.values():
            children.setdefault(p.ppid, []).append(p)
        queue = list(ours)
        while queue:
            for c in children.get(queue.pop(), ()):
                if c.pid not in ours:
                    ours.add(c.pid)
                    queue.append(c.pid)
        found = [by_pid[pid] for pid in ours]
        self.noted.update(p.key for p in found)
        return found

    def note_sockets(self, found):
        """Remember the listening sockets of these processes, by inode."""
        listening = listening_inodes()
        for p in found:
            try:
                for fd in os.listdir(f"/proc/{p.pid}/fd"):
                    m = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{p.pid}/fd/{fd}"))
                    if m and m.group(1) in listening:
                        self.sockets.add(m.group(1))
            except OSError:
                pass  # it has ended

    def open_sockets(self):
        now = listening_inodes()
        return [f"{now[i]} (inode {i})" for i in self.sockets if i in now]


def listening_inodes():
    """inode -> port of what listens in this network namespace."""
    found = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_bytes(path).decode().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found[words[9]] = "port %d" % int(words[1].rsplit(":", 1)[1], 16)
    return found


def part_of(p, by_pid, children):
    """What a process of a job is: relay, agent, guardian, watcher, pserver, trainer (or the shell above it), or a child of a trainer."""
    parent = by_pid.get(p.ppid)
    if p.key in children:
        return "child"
    if p.role:
        return p.role
    if p.comm in ("paddle_watcher", "paddle_guardian"):
        return p.comm[len("paddle_"):]
    if p.comm == "paddle_agent":
        return "agent" if parent and parent.comm == "paddle_guardian" else "starting"
    if " relay " in p.cmdline:
        return "relay"
    return "child"
