#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""agent_dispatch.py AGENT ROOT [NAME...]: tests packages as objects (DS_*).

The client is written from docs/protocol.md alone, with its own manifests and records, so both ends
of the protocol are compared. The nodes are agents on this machine, each with its own root."""
import collections
import hashlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

from agent_client import NAMES, Agent, AgentError, encode
from agent_package import Package, v

BINARY, TOP = sys.argv[1], sys.argv[2]
SLOW = b"__asan_init" in open(BINARY, "rb").read() or b"__tsan_init" in open(BINARY, "rb").read()
SECRET, TOKEN = bytes(range(32)), "D1"
rng = random.Random(int(os.environ.get("PADDLE_TEST_SEED", "20261122")))


class Node(Agent):
    def __init__(self, name, *args, env=None, top=None):
        self.name, self.root_dir = name, os.path.join(top or TOP, name)
        os.makedirs(self.root_dir, exist_ok=True)
        self.needs, self.ends, self.sent = [], {}, 0
        # the status of a package before its first DS_STATUS
        self.status = collections.defaultdict(lambda: {"reached": False, "why": "", "fetched": 0})
        self.source = None
        super().__init__(BINARY, "--root=" + self.root_dir, *args, env=env)
        threading.Thread(target=self._source, daemon=True).start()

    def _take(self, f):
        if f.type == NAMES["DS_NEED"]:
            ids = f.sections[1]
            self.needs += [(f.req, ids[k:k + 32]) for k in range(0, len(ids), 32)]
        elif f.type == NAMES["DS_STATUS"]:
            self.status[f.req] = f.body
        elif f.type == NAMES["DS_END"]:
            self.ends[f.req] = f
        else:
            super()._take(f)

    def _source(self):
        """The launcher's side of DS_NEED: answers with self.source(id)."""
        while True:
            with self.changed:
                while not (self.needs and self.source) and not self.closed:
                    self.changed.wait(0.2)
                if self.closed:
                    return
                todo, self.needs = self.needs[:8], self.needs[8:]
            for req, i in todo:
                raw = self.source(i)
                if raw is None:
                    continue
                record = i + struct.pack("<IIII", len(raw), len(raw), 0, 0) + raw
                self.sent += len(raw)
                try:
                    with self.lock:
                        data = encode(NAMES["DS_OBJECT"], req, b"", record)
                        while data:
                            data = data[self.proc.stdin.write(data):]
                except (OSError, ValueError):
                    return

    def begin(self, package, kind="deploy", name="ws", **more):
        req = self.send("DS_BEGIN", {"kind": kind, "name": name, **more}, package.root() if isinstance(package, Package) else package)
        return req, self.answer(req, "DS_BEGIN", 100).body

    def from_launcher(self, req, source):
        with self.changed:
            self.source = source
            self.changed.notify_all()
        self.answer(self.send("DS_SOURCE", {"launcher": True}, req=req), "DS_SOURCE", 100)

    def from_node(self, req, node, where, encrypt=True, secret=SECRET):
        self.answer(self.send("DS_SOURCE", {"node": node, "addrs": where["addrs"], "port": where["port"], "token": TOKEN, "encrypt": encrypt}, secret, req=req),
                    "DS_SOURCE", 100)

    def serve(self, node, encrypt=True):
        return self.answer(self.send("DS_SERVE", {"node": node, "token": TOKEN, "port": 0, "encrypt": encrypt}, SECRET), "DS_SERVE").body

    def end(self, req, seconds=200):
        self.wait(lambda: req in self.ends, "DS_END of " + self.name, seconds)
        f = self.ends[req]
        f.raise_error()
        return f.body

    def stop(self):
        self.proc.stdin.close()
        self.proc.wait(60)

    def peak_mb(self):
        with open("/proc/%d/status" % self.proc.pid) as f:
            return [int(line.split()[1]) for line in f if line.startswith("VmHWM")][0] / 1024


def some_tree(seed, n=60):
    r = random.Random(seed)
    p = Package()
    expect = {}
    for d in range(4):
        folder = b"d%d \n'\"\xff" % d
        p.folder(folder, 0o755 if d else 0o700, 10 ** 18 + d)
        expect[folder] = None
        for k in range(n // 4):
            path = folder + b"/f%03d" % k
            if k % 13 == 12:
                p.link(path, b"../d0")
                expect[path] = b"../d0"
                continue
            data = r.randbytes(r.choice([0, 1, 3000, 70000, 200000]))
            p.file(path, data, 0o644, 1600000000123456789 + k)
            expect[path] = data
    return p, expect


def must_be(expect, path):
    top = path.encode()
    found = {}
    for at, folders, files in os.walk(top):
        for name in folders + files:
            full = os.path.join(at, name)
            rel = os.path.relpath(full, top)
            found[rel] = os.readlink(full) if os.path.islink(full) else None if os.path.isdir(full) else open(full, "rb").read()
    assert found == expect, (set(found) ^ set(expect), [k for k in found if found[k] != expect.get(k, 0)][:3])


def left_over(node):
    out = []
    for at, folders, files in os.walk(node.root_dir):
        out += [os.path.join(at, x) for x in folders + files if ".part" in x]
    return out


# --- the tests ---

def one_node_from_the_launcher():
    p, expect = some_tree(rng.random())
    a = Node("one")
    req, answer = a.begin(p)
    assert not answer["have"]
    a.from_launcher(req, p.objects.get)
    end = a.end(req)
    assert end["path"] == answer["path"] and end["bytes"] == p.bytes and end["entries"] == p.n, end
    must_be(expect, end["path"])
    req, answer = a.begin(p)
    assert answer["have"] and answer["path"] == end["path"]
    # an edit: only new objects are requested
    q, edited = Package(), dict(expect)
    for path, data in expect.items():
        if data is None:
            q.folder(path, 0o755, 5)
        elif path.endswith(b"f012"):
            q.link(path, data)
        else:
            if path.endswith(b"\xff/f000"):
                data = edited[path] = data + b"more"
            q.file(path, data, 0o644, 7)
    a.sent = 0
    req, answer = a.begin(q)
    a.from_launcher(req, q.objects.get)
    must_be(edited, a.end(req)["path"])
    new = sum(len(raw) for i, raw in q.objects.items() if i not in p.objects)
    assert a.sent <= new, (a.sent, new)
    a.stop()
    assert not left_over(a)


def the_worker_is_one_executable():
    a = Node("worker")
    p = Package()
    p.file(b"paddle_worker", b"#!/bin/sh\nexit 7\n" + bytes(100000), 0o755)
    req, answer = a.begin(p, "worker", "")
    a.from_launcher(req, p.objects.get)
    end = a.end(req)
    assert end["path"].endswith("/bin/worker-" + p.id.hex())
    assert subprocess.run([end["path"]]).returncode == 7
    q, _ = some_tree(1, 8)
    req, _ = a.begin(q, "worker", "")
    a.from_launcher(req, q.objects.get)
    try:
        a.end(req)
        raise AssertionError("a tree as a worker")
    except AgentError as e:
        assert "one file" in e.text, e.text
    a.stop()
    assert not left_over(a)


def a_chain_is_pipelined(encrypt=True):
    """Node k takes from node k-1. The launcher sends each object once. The last node has contents
    before the first node has everything."""
    p, expect = some_tree(rng.random(), 80)
    nodes = [Node("chain%d-%d" % (encrypt, k)) for k in range(4)]
    reqs, where = [], []
    for k, a in enumerate(nodes):
        where.append(a.serve(k, encrypt))
        reqs.append(a.begin(p)[0])
    for k in range(1, 4):
        nodes[k].from_node(reqs[k], k - 1, where[k - 1], encrypt)
    gate, asked, given = threading.Event(), [], [0]

    def source(i):
        asked.append(i)
        given[0] += len(p.objects[i])
        if given[0] > p.bytes / 2:
            gate.wait()
        return p.objects[i]

    nodes[0].from_launcher(reqs[0], source)
    last = nodes[3]
    last.wait(lambda: last.status.get(reqs[3], {}).get("have", 0) > p.bytes / 5, "contents at the last node", 150)
    assert reqs[0] not in nodes[0].ends
    gate.set()
    for k, a in enumerate(nodes):
        must_be(expect, a.end(reqs[k])["path"])
        assert k == 0 or not a.sent
    assert len(asked) == len(set(asked)) == len(p.objects), (len(asked), len(p.objects))
    # a node that has the package serves it, even if it had it before
    b = Node("late%d" % encrypt)
    req = b.begin(p)[0]
    b.from_node(req, 3, where[3], encrypt)
    must_be(expect, b.end(req)["path"])
    c, d = Node("chain%d-0" % encrypt), Node("later%d" % encrypt)
    assert c.begin(p)[1]["have"]
    w = c.serve(0, encrypt)
    req = d.begin(p)[0]
    d.from_node(req, 0, w, encrypt)
    must_be(expect, d.end(req)["path"])
    for a in nodes + [b, c, d]:
        a.stop()
        assert not left_over(a)


def a_chain_without_encryption():
    a_chain_is_pipelined(False)


def a_relay_that_dies_is_bypassed():
    p, expect = some_tree(rng.random(), 80)
    nodes = [Node("dies%d" % k) for k in range(3)]
    reqs, where = [], []
    for k, a in enumerate(nodes):
        where.append(a.serve(k))
        reqs.append(a.begin(p)[0])
    for k in (1, 2):
        nodes[k].from_node(reqs[k], k - 1, where[k - 1])
    gate, given = threading.Event(), [0]

    def source(i):
        given[0] += len(p.objects[i])
        if given[0] > p.bytes / 2:
            gate.wait()
        return p.objects[i]

    nodes[0].from_launcher(reqs[0], source)
    last = nodes[2]
    last.wait(lambda: last.status.get(reqs[2], {}).get("have", 0) > p.bytes / 5, "contents at the last node", 150)
    nodes[1].proc.send_signal(signal.SIGKILL)
    nodes[1].proc.wait()
    last.wait(lambda: last.status[reqs[2]]["why"] and not last.status[reqs[2]]["reached"], "the loss of the source", 150)
    fetched = last.status[reqs[2]]["fetched"]
    last.from_node(reqs[2], 0, where[0])
    gate.set()
    for k in (0, 2):
        must_be(expect, nodes[k].end(reqs[k])["path"])
    assert last.ends[reqs[2]].body["fetched"] <= sum(map(len, p.objects.values())) and fetched > 0
    # the next dispatch to the node removes the remains of the dead agent
    assert left_over(nodes[1])
    again = Node("dies1")
    req = again.begin(p)[0]
    again.from_launcher(req, p.objects.get)
    must_be(expect, again.end(req)["path"])
    assert not left_over(again)
    for a in (nodes[0], nodes[2], again):
        a.stop()


def a_source_that_cannot_be_used_is_told():
    p, expect = some_tree(rng.random(), 20)
    a, b = Node("wrong0"), Node("wrong1")
    where = a.serve(0)
    ra, rb = a.begin(p)[0], b.begin(p)[0]

    def failed():
        return b.status.get(rb, {}).get("why") and not b.status[rb]["reached"]

    b.from_node(rb, 0, where, secret=bytes(32))  # the wrong secret
    b.wait(failed, "why the source is none", 150)
    b.from_node(rb, 0, dict(where, port=1))      # no listener
    b.wait(lambda: failed() and "connect" in b.status[rb]["why"], "why the source is none", 150)
    b.from_node(rb, 0, where, encrypt=False)     # sealed and plain frames do not fit
    b.wait(lambda: failed() and "encrypt is 'all' at the peer" in b.status[rb]["why"], "why the source is none", 150)
    b.from_node(rb, 0, where)
    b.wait(lambda: b.status[rb]["reached"], "the source", 150)
    a.from_launcher(ra, p.objects.get)
    must_be(expect, b.end(rb)["path"])
    must_be(expect, a.end(ra)["path"])
    a.stop()
    b.stop()


def a_source_that_fails_is_told_and_replaced():
    """Node 0 gets a damaged object and its package fails. Node 1 gets the reason, and completes the
    package from the launcher."""
    p, expect = some_tree(rng.random(), 40)
    a, b = Node("bad0"), Node("bad1")
    where = a.serve(0)
    ra, rb = a.begin(p)[0], b.begin(p)[0]
    b.from_node(rb, 0, where)
    b.wait(lambda: b.status[rb]["reached"], "the source", 150)
    n = [0]

    def source(i):
        n[0] += 1
        raw = p.objects[i]
        return raw if n[0] < len(p.objects) / 2 else raw[:-1] + bytes([raw[-1] ^ 1])

    a.from_launcher(ra, source)
    try:
        a.end(ra)
        raise AssertionError("a damaged object was taken")
    except AgentError as e:
        assert "damaged" in e.text, e.text
    assert not left_over(a) and not os.listdir(a.root_dir + "/workspaces")
    b.wait(lambda: not b.status[rb]["reached"] and "damaged" in b.status[rb]["why"], "the source's failure", 150)
    b.from_launcher(rb, p.objects.get)
    must_be(expect, b.end(rb)["path"])
    a.stop()
    b.stop()


def nothing_is_left_of_what_is_given_up():
    p, expect = some_tree(rng.random(), 40)
    for how in ("abort", "close", "kill"):
        a = Node("gives-up")
        req = a.begin(p)[0]
        gate, n = threading.Event(), [0]

        def source(i):
            n[0] += 1
            if n[0] > len(p.objects) / 2:
                gate.wait(1)
                return None
            return p.objects[i]

        a.from_launcher(req, source)
        a.wait(lambda: a.status.get(req, {}).get("have", 0) > 0, "contents", 150)
        assert left_over(a)
        if how == "abort":
            a.send("DS_ABORT", None, req=req)
            try:
                a.end(req)
                raise AssertionError("given up, and complete")
            except AgentError as e:
                assert "given up" in e.text
            assert not left_over(a)
        if how == "kill":
            a.proc.send_signal(signal.SIGKILL)
            a.proc.wait()
            assert left_over(a)
        else:
            a.stop()
            assert not left_over(a)
        assert not os.listdir(a.root_dir + "/workspaces") or how == "kill"
    a = Node("gives-up")
    req = a.begin(p)[0]
    a.from_launcher(req, p.objects.get)
    must_be(expect, a.end(req)["path"])
    assert not left_over(a)
    a.stop()


def what_is_no_package_is_refused():
    a = Node("refuses")
    for kind, name, root, says in (("deploy", "ws", b"", "root"), ("deploy", "../x", b"x" * 50, "name"), ("tree", "ws", b"x" * 50, "kind"),
                                   ("workspace", "", b"x" * 50, "job"), ("deploy", "ws", b"x" * 5000, "root")):
        try:
            a.begin(root, kind, name)
            raise AssertionError("taken: " + says)
        except AgentError as e:
            assert says in e.text, e.text
    for root, says in ((b"x" * 50, "damaged"), (struct.pack("<BBHIQQ", 3, 1, 1, 0, 10 ** 6 + 1, 0), "entries"),
                       (struct.pack("<BBHIQQ", 3, 1, 1, 0, 1, 1 << 41), "space left")):
        req = a.begin(root)[0]
        try:
            a.end(req)
            raise AssertionError("taken: " + says)
        except AgentError as e:
            assert says in e.text, e.text
    a.stop()
    assert not left_over(a)


def two_sessions_at_once():
    """Two clients send the same package to one node: both succeed, and the tree is complete."""
    p, expect = some_tree(rng.random(), 150)
    for k in range(3):
        a, b = Node("both%d" % k), Node("both%d" % k)
        ra, rb = a.begin(p)[0], b.begin(p)[0]
        a.from_launcher(ra, p.objects.get)
        b.from_launcher(rb, p.objects.get)
        must_be(expect, a.end(ra)["path"])
        must_be(expect, b.end(rb)["path"])
        a.stop()
        b.stop()
        assert not left_over(a)


def packages_that_are_over_give_their_place_back():
    """A session has eight packages. paddlectl needs more if hosts are left out repeatedly
    (data_rounds.sh)."""
    a = Node("places")

    def package(k):
        p = Package()
        p.file(b"f", b"%d" % k)
        return p

    for k in range(20):
        p = package(k)
        req = a.begin(p)[0]
        a.from_launcher(req, p.objects.get)
        must_be({b"f": b"%d" % k}, a.end(req)["path"])
    under_way = [a.begin(package(100 + k))[0] for k in range(8)]
    try:
        a.begin(package(200))
        raise AssertionError("nine at once")
    except AgentError as e:
        assert "8 packages are on their way" in e.text, e.text
    a.send("DS_ABORT", None, req=under_way[3])
    try:
        a.end(under_way[3])
        raise AssertionError("given up, and complete")
    except AgentError as e:
        assert "given up" in e.text, e.text
    p = package(201)
    req = a.begin(p)[0]
    a.from_launcher(req, p.objects.get)
    must_be({b"f": b"201"}, a.end(req)["path"])
    assert not any(r in a.ends for r in under_way if r != under_way[3])
    a.stop()
    assert not left_over(a)


def memory_is_bounded():
    """Checks each agent's peak for a file of 300 MB through a relay, and for 100,000 small files.
    Uses memory if there is room, because a disk may need minutes."""
    room = os.statvfs("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    if room and room.f_bavail * room.f_frsize > 1500 << 20:
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="paddle-dispatch-") as top:
            bounded_memory(top)
    else:
        bounded_memory(TOP)


def bounded_memory(top):
    piece, n = 65536, 400 if SLOW else 4800
    base = rng.randbytes(piece - 8)

    def make(k):
        return struct.pack("<Q", k) + base

    ids = {hashlib.blake2b(make(k), digest_size=32).digest(): k for k in range(n)}
    p = Package()
    p.large(b"large", list(ids), piece)
    a, b = Node("large0", top=top), Node("large1", top=top)
    where = a.serve(0)
    ra, rb = a.begin(p)[0], b.begin(p)[0]
    b.from_node(rb, 0, where)
    a.from_launcher(ra, lambda i: make(ids[i]) if i in ids else p.objects[i])
    for node, req in ((a, ra), (b, rb)):
        path = node.end(req)["path"] + "/large"
        assert os.path.getsize(path) == n * piece
        with open(path, "rb") as f:
            for k in range(0, n, 97):
                f.seek(k * piece)
                assert f.read(piece) == make(k)
        print("  a file of %d MB: %s's peak memory is %.0f MB" % (n * piece >> 20, node.name, node.peak_mb()))
        assert SLOW or node.peak_mb() < 256
    a.stop()
    b.stop()
    p, count = Package(), 3000 if SLOW else 100000
    for d in range(count // 100):
        bundle = rng.randbytes(40 * 100)
        p.keep(bundle)
        p.folder(b"d%05d" % d)
        for k in range(100):
            p.file(b"d%05d/some-file-%02d" % (d, k), bundle[40 * k:40 * k + 40], bundle=bundle, at=40 * k)
    a = Node("many", top=top)
    req = a.begin(p)[0]
    a.from_launcher(req, p.objects.get)
    end = a.end(req)
    print("  %d files: the agent's peak memory is %.0f MB" % (count, a.peak_mb()))
    assert end["entries"] == count + count // 100 and (SLOW or a.peak_mb() < 256)
    a.stop()
    with open(end["path"] + "/d00007/some-file-03", "rb") as f:
        assert len(f.read()) == 40


TESTS = [one_node_from_the_launcher, the_worker_is_one_executable, a_chain_is_pipelined, a_chain_without_encryption, a_relay_that_dies_is_bypassed,
         a_source_that_cannot_be_used_is_told, a_source_that_fails_is_told_and_replaced, nothing_is_left_of_what_is_given_up,
         what_is_no_package_is_refused, two_sessions_at_once, packages_that_are_over_give_their_place_back, memory_is_bounded]

if __name__ == "__main__":
    for test in TESTS:
        if len(sys.argv) == 3 or test.__name__ in sys.argv[3:]:
            began = time.monotonic()
            test()
            print("ok %s %.1f s" % (test.__name__, time.monotonic() - began), flush=True)
