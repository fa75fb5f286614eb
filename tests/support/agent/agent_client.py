# SPDX-License-Identifier: Apache-2.0
"""A client of paddle_agent for tests: sends and receives frames over the pipes of `paddle_agent
relay`, as in docs/protocol.md."""
import ctypes
import ctypes.util
import hashlib
import io
import json
import os
import queue
import struct
import subprocess
import threading
import time

from agent_package import package_of, tree_of

NAMES = dict(HELLO=0x101, PING=0x102, JOB_SETUP=0x107,
             JOB_PEERS=0x108, JOB_RUN=0x109, STATE=0x10A, LOG_SUBSCRIBE=0x10B, LOG=0x10C, LOG_END=0x10D, RESULT=0x10E,
             STOP=0x10F, FETCH=0x110, LIST=0x111, BYE=0x112, STATUS=0x113, LOG_ACK=0x114, CLEAN=0x115, CHECK=0x116, CHECK_LISTEN=0x117, JOIN=0x119, MODELS=0x11B, TURN=0x11C, DATA_LIST=0x11E, DS_BEGIN=0x120, DS_SOURCE=0x121, DS_NEED=0x122,
             DS_OBJECT=0x123, DS_SERVE=0x124, DS_STATUS=0x125, DS_END=0x126, DS_ABORT=0x127, DS_PULL=0x128, JOB_HEAD=0x140)
HEADER = struct.Struct("<IHHQQII4Q")
MAGIC = 0x314C4450


class AgentError(Exception):
    def __init__(self, code, text):
        super().__init__("%d: %s" % (code, text))
        self.code, self.text = code, text


class Frame:
    def __init__(self, type_, flags, req, sections):
        self.type, self.flags, self.req, self.sections = type_, flags, req, sections

    @property
    def body(self):
        return json.loads(self.sections[0])

    def raise_error(self):
        if self.flags & 1:
            code, n = struct.unpack_from("<II", self.sections[0])
            raise AgentError(-code, self.sections[0][8:8 + n].decode())


def encode(type_, req, *sections):
    lengths = [len(s) for s in sections] + [0] * (4 - len(sections))
    out = b""
    for s in sections:
        out += s + b"\0" * (-len(s) % 64)
    return HEADER.pack(MAGIC, type_, 0, req, 64 + len(out), len(sections), 0, *lengths) + out


def read_exactly(f, n):
    out = b""
    while len(out) < n:
        piece = f.read(n - len(out))
        if not piece:
            return None
        out += piece
    return out


def read_frame(f):
    head = read_exactly(f, 64)
    if head is None:
        return None
    magic, type_, flags, req, total, n, _, *lengths = HEADER.unpack(head)
    assert magic == MAGIC, head
    data = read_exactly(f, total - 64)
    if data is None:
        return None
    sections, at = [], 0
    for i in range(n):
        sections.append(data[at:at + lengths[i]])
        at += lengths[i] + -lengths[i] % 64
    return Frame(type_, flags, req, sections)


class Agent:
    """One session. Frames that are not answers are collected: states, logs (bytes by stream),
    results."""

    def __init__(self, binary, *args, ping=0.5, env=None, say_hello=True):
        self.proc = subprocess.Popen([binary, "relay", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
                                     bufsize=0)
        self.lock, self.req = threading.Lock(), 0
        self.answers, self.states, self.results = {}, [], []
        self.logs, self.log_end, self.errors = {0: bytearray(), 1: bytearray(), 2: bytearray()}, {}, []
        self.log_frames = []
        self.changed = threading.Condition()
        self.closed = False
        self.hello = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if say_hello:
            self.wait(lambda: self.hello or self.closed, "AG_HELLO")
            if not self.hello:
                raise AgentError(0, "the agent closed without AG_HELLO")
            self.hello.raise_error()
            self.hello = self.hello.body
        self.pinging = threading.Thread(target=self._ping, args=(ping,), daemon=True)
        if ping:
            self.pinging.start()

    def _ping(self, seconds):
        while not self.closed:
            try:
                self.send("PING", {}, req=0)
            except (OSError, ValueError):  # closed
                return
            time.sleep(seconds)

    def _read(self):
        out = io.BufferedReader(self.proc.stdout)
        while True:
            f = read_frame(out)
            with self.changed:
                if f is None:
                    self.closed = True
                else:
                    self._take(f)
                self.changed.notify_all()
            if f is None:
                return

    def _take(self, f):
        if f.type == NAMES["HELLO"]:
            self.hello = f
        elif f.type == NAMES["STATE"]:
            self.states.append(f.body)
        elif f.type == NAMES["RESULT"]:
            self.results.append(f.body)
        elif f.type == NAMES["LOG"]:
            node, stream, offset, when = struct.unpack("<IIQQ", f.sections[0])
            self.log_frames.append((node, stream, offset, when, len(f.sections[1])))
            for at, later in struct.iter_unpack("<QQ", f.sections[2] if len(f.sections) > 2 else b""):
                self.log_frames.append((node, stream, at, later, 0))
            if offset != self.start.get(stream, 0) + len(self.logs[stream]):
                self.errors.append("stream %d: offset %d after %d bytes" % (stream, offset, len(self.logs[stream])))
            self.logs[stream] += f.sections[1]
        elif f.type == NAMES["LOG_END"]:
            self.log_end[f.body["stream"]] = f.body["size"]
        elif f.type != NAMES["PING"] or f.req:
            self.answers.setdefault(f.req, []).append(f)

    start = {}

    def wait(self, what, text, seconds=30):
        end = time.monotonic() + seconds
        with self.changed:
            while not what():
                left = end - time.monotonic()
                if left <= 0 or (self.closed and not what()):
                    raise AssertionError("waited too long for %s; states %r errors %r closed %r" %
                                         (text, self.states[-3:], self.errors, self.closed))
                self.changed.wait(left)

    def send(self, name, body, *more, req=None):
        with self.lock:
            if req is None:
                self.req += 1
                req = self.req
            data = encode(NAMES[name], req, json.dumps(body).encode() if body is not None else b"", *more)
            while data:
                data = data[self.proc.stdin.write(data):]
            return req

    def answer(self, req, name="an answer", seconds=30):
        self.wait(lambda: req in self.answers, name, seconds)
        f = self.answers[req].pop(0)
        if not self.answers[req]:
            del self.answers[req]
        f.raise_error()
        return f

    def ask(self, name, body, *more, seconds=30):
        return self.answer(self.send(name, body, *more), name, seconds).body

    def send_package(self, kind, files, name=""):
        """Sends the tree `files` (agent_package.package_of). Returns the body of DS_END, or of
        DS_BEGIN if the node has the package already."""
        p = package_of(files)
        req = self.send("DS_BEGIN", {"kind": kind, "name": name}, p.root())
        begin = self.answer(req, "DS_BEGIN").body
        if begin["have"]:
            return begin
        self.send("DS_SOURCE", {"launcher": True}, req=req)
        while True:
            f = self.answer(req, "DS_END", 100)
            if f.type == NAMES["DS_END"]:
                return dict(f.body, id=p.id.hex())
            ids = f.sections[1] if f.type == NAMES["DS_NEED"] else b""
            for k in range(0, len(ids), 32):
                raw = p.objects[ids[k:k + 32]]
                self.send("DS_OBJECT", None, ids[k:k + 32] + struct.pack("<IIII", len(raw), len(raw), 0, 0) + raw, req=req)

    def fetch(self, dir_, on_root=lambda n: None, objects=None):
        """Returns the folder as {path: bytes, or None for a folder}, or None if it is missing.
        on_root is called with the number of each root. objects: {id: bytes} that the client has; at
        the end all."""
        req, objects, frame = self.send("FETCH", {"dir": dir_}), {} if objects is None else objects, None

        class NextRound(Exception):
            pass

        def get(i):
            nonlocal frame
            if i not in objects:
                self.send("DS_NEED", {"round": frame.body["round"]}, i, req=req)
            while i not in objects:
                f = self.answer(req, "an object")
                if f.type == NAMES["FETCH"] and len(f.sections) > 1:
                    frame = f
                    raise NextRound
                data = f.sections[1] if f.type == NAMES["DS_OBJECT"] else b""
                while data:
                    raw_len, stored, flags, _ = struct.unpack_from("<IIII", data, 32)
                    raw = unzstd(data[48:48 + stored]) if flags & 1 else data[48:48 + stored]
                    assert len(raw) == raw_len and hashlib.blake2b(raw, digest_size=32).digest() == data[:32]
                    objects[data[:32]] = raw
                    data = data[48 + stored:]
            return objects[i]

        while not frame:  # a sign of life has no root
            f = self.answer(req, "FETCH")
            if f.body.get("missing"):
                return None
            frame = f if len(f.sections) > 1 else None
        while True:
            on_root(frame.body["round"])
            try:
                tree = tree_of(frame.sections[1], get)
                break
            except NextRound:
                continue
        self.send("DS_END", {}, req=req)
        while self.answer(req, "DS_END").type != NAMES["DS_END"]:
            pass
        return tree

    def wait_result(self, seconds=60):
        self.wait(lambda: self.results, "AG_RESULT", seconds)
        return self.results[-1]

    def wait_state(self, *names, seconds=30):
        self.wait(lambda: any(s["state"] in names for s in self.states), "state %s" % (names,), seconds)

    def bye(self):
        try:
            self.send("BYE", {})
        except OSError:
            pass
        self.close()

    def close(self):
        try:
            self.proc.stdin.close()
        except OSError:
            pass
        self.proc.wait(30)

    def kill(self):
        self.proc.kill()
        self.proc.wait()


def unzstd(data):
    z = ctypes.CDLL("libzstd.so.1")

    class Buf(ctypes.Structure):
        _fields_ = [("p", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]
    z.ZSTD_createDStream.restype = ctypes.c_void_p
    z.ZSTD_decompressStream.restype = ctypes.c_size_t
    z.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(Buf), ctypes.POINTER(Buf)]
    z.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
    d = z.ZSTD_createDStream()
    src = ctypes.create_string_buffer(data, len(data))
    dst = ctypes.create_string_buffer(1 << 17)
    i = Buf(ctypes.cast(src, ctypes.c_void_p), len(data), 0)
    out = b""
    while True:
        o = Buf(ctypes.cast(dst, ctypes.c_void_p), len(dst), 0)
        rc = z.ZSTD_decompressStream(d, ctypes.byref(o), ctypes.byref(i))
        assert rc < (1 << 62), "not zstd"
        out += dst.raw[:o.pos]
        if i.pos == i.size and o.pos < o.size:
            break
    z.ZSTD_freeDStream(d)
    return out


def descendants_of_environment(marker):
    """Pids of live processes with `marker` in their environment: a test's processes and their
    children."""
    found = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = f.read()
            with open("/proc/%s/stat" % pid) as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if marker.encode() in env and state != "Z":
            found.append(int(pid))
    return found


def wait_until(what, text, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError("waited too long: " + text)
        time.sleep(0.02)
