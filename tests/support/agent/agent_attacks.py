# SPDX-License-Identifier: Apache-2.0
"""agent_attacks.py AGENT ROOT SEED [NAME...]: somebody without the key on the path between agents,
and between seeds. He changes, repeats, drops, swaps and inserts records (record_proxy.py).

    member ── HD_* ──▶ proxy ──▶ head        the job ends as if he was not there
    taker ─── DS_* ──▶ proxy ──▶ source      the folder has the right bytes, or the client is told
    trainer's node ── DF_* ──▶ proxy ──▶ holder     the file has the right bytes
    seed ────────────▶ proxy ──▶ seed        the agent has the right bytes

The client that plays paddlectl names the proxy's address in place of the agent's."""
import hashlib
import os
import random
import socket
import struct
import subprocess
import sys
import time

import agent_dispatch
import agent_job
from agent_client import HEADER as FRAME, MAGIC, wait_until
from agent_job import Job, run_tests
from record_proxy import RecordProxy, as_record

SEED_PROGRAM = agent_job.only.pop(0)
DEEDS = ("flip", "repeat", "drop", "swap", "forge")
NOTICED = "is not the peer's next one"
HD_START, HD_END, DS_OBJECT, DF_DATA = 0x204, 0x207, 0x123, 0x132


def forged(kind, *sections):
    """A plain frame, in what looks like a record."""
    lengths = [len(s) for s in sections] + [0] * (4 - len(sections))
    body = b"".join(s + bytes(-len(s) % 64) for s in sections)
    return as_record(FRAME.pack(MAGIC, kind, 0, 1, 64 + len(body), len(sections), 0, *lengths) + body)


def of_log(d):
    with open(d + "/log/paddle_agent.INFO") as f:
        return f.read()


def stolen():
    return [os.path.join(at, "owned") for at, _, files in os.walk(agent_job.root) if "owned" in files]


WAIT = "touch up; while [ ! -e go ]; do sleep 0.05; done; echo end"


def attack_the_head(deed, direction, record):
    """On the path from both members to the head, and from the head's probe to node 1."""
    where = "%s %s %d" % (deed, direction, record)
    j = Job(encrypt=True, pserver_nodes=[], trainer_command=WAIT)
    ours = forged(HD_START, b'{"role":"trainer","rank":0,"trainers":1,"restarts":0,"alone":1,"note":"",'
                  b'"env":{"BASH_ENV":"x"}}') if direction == "down" else forged(
                      HD_END, b'{"grace_ms":0,"status":"done"}')
    to_head = RecordProxy("127.0.0.1", ("127.0.0.1", j.peers[0]["port"]), deed, direction, record, 0, ours)
    to_node = RecordProxy("127.0.0.1", ("127.0.0.1", j.peers[1]["port"]))
    for i, proxy in enumerate((to_head, to_node)):
        j.peers[i] = dict(j.peers[i], addrs=["127.0.0.1"], port=proxy.port)
    j.introduce()
    j.agents[0].ask("JOB_RUN", {})
    wait_until(lambda: all(os.path.exists(d + "/workspace/up") for d in j.dirs) or j.agents[0].results,
               where + ": the trainers", 60)
    assert not j.agents[0].results, (where, j.agents[0].results)
    wait_until(lambda: to_head.report()["done"], where + ": the deed", 60)
    # A lost HD_JOIN has no next record: node 0 ends the connection that never joined.
    silent = deed == "handshake" or (deed in ("drop", "swap") and (direction, record) == ("up", 0))
    wait_until(lambda: silent or any(NOTICED in of_log(d) for d in j.dirs), where + ": it is noticed")
    wait_until(lambda: to_head.connections > 2, where + ": a new connection")
    for d in j.dirs:
        open(d + "/workspace/go", "w").close()
    assert j.result()["status"] == "done", (where, j.agents[0].results)
    assert [j.log(i) for i in range(3)] == ["end\n"] * 3, (where, [j.log(i) for i in range(3)])
    assert to_node.connections, "the head's probe took another way"
    j.bye()
    to_head.close()
    to_node.close()


def test_agents():
    for direction in ("up", "down"):
        for deed in DEEDS:
            for record in (0, 2):
                attack_the_head(deed, direction, record)
    attack_the_head("handshake", "down", 3)


def test_agents_that_are_kept_apart():
    """Every handshake is changed: the job fails, and says which node is missing."""
    j = Job(n=2, encrypt=True, pserver_nodes=[], trainer_command="true", connect_ms=2000)
    proxy = RecordProxy("127.0.0.1", ("127.0.0.1", j.peers[0]["port"]), deed="handshakes")
    j.peers[0] = dict(j.peers[0], addrs=["127.0.0.1"], port=proxy.port)
    j.run()
    f = j.agents[0].wait_result()["first_failure"]
    assert f["node"] == 1 and "connecting" in f["reason"], f
    assert proxy.connections > 1
    j.bye()
    proxy.close()


def attack_a_package(deed, direction, record):
    where = "%s-%s-%d" % (deed, direction, record)
    p, expect = agent_dispatch.some_tree(where, 40)
    a, b = agent_dispatch.Node("from-" + where), agent_dispatch.Node("to-" + where)
    at = a.serve(0)
    ra, rb = a.begin(p)[0], b.begin(p)[0]
    a.from_launcher(ra, p.objects.get)
    a.end(ra)
    ours = forged(DS_OBJECT, b"", bytes(32) + struct.pack("<IIII", 5, 5, 0, 0) + b"owned")
    proxy = RecordProxy("127.0.0.1", ("127.0.0.1", at["port"]), deed, direction, record, 0, ours)
    b.from_node(rb, 0, dict(at, addrs=["127.0.0.1"], port=proxy.port))
    # A record that is left out is noticed at the next one; an end that waits for none of them is a
    # slow network, which the client sees in DS_STATUS.
    b.wait(lambda: b.status[rb]["why"] or rb in b.ends or b.status[rb].get("idle_ms", 0) > 1000, where)
    assert proxy.report()["done"] or deed == "handshakes", where
    assert not any(o[:64] in proxy.seen for o in map(bytes, p.objects.values()) if len(o) >= 64), where + ": a listener reads it"
    if rb not in b.ends:
        assert deed != "flip" or direction == "up" or NOTICED in b.status[rb]["why"], b.status[rb]
        b.from_node(rb, 0, at)
    end = b.end(rb)
    agent_dispatch.must_be(expect, end["path"])
    a.stop()
    b.stop()
    assert not agent_dispatch.left_over(b), where
    proxy.close()


def test_packages():
    for direction in ("up", "down"):
        for deed in DEEDS:
            attack_a_package(deed, direction, 1)
    attack_a_package("handshakes", "down", 0)


# What a worker of ours does for a data file: PADDLE_DATA_FD of docs/protocol.md.
WORKER = b"""#!/usr/bin/env python3
import hashlib, os, struct
fd = int(os.environ["PADDLE_DATA_FD"])
os.write(fd, struct.pack("<II", 6, 1) + b"data/a")
head = b""
while len(head) < 12:
    head += os.read(fd, 12 - len(head))
n, _, code = struct.unpack("<III", head)
print("answer", code, os.read(fd, n).decode() if n else "")
if not code:
    print("digest", hashlib.sha256(open("data/a", "rb").read()).hexdigest())
"""


def attack_a_data_file(deed, direction, record, encrypt=True):
    where = "%s %s %d" % (deed, direction, record)
    data, piece = random.Random(where).randbytes(3000000), 65536
    n = -(-len(data) // piece)
    pieces = b"".join(struct.pack("<QI", k * piece, len(data[k * piece:(k + 1) * piece]))
                      + hashlib.blake2b(data[k * piece:(k + 1) * piece], digest_size=32).digest() for k in range(n))
    file_id = hashlib.blake2b(struct.pack("<QqHI", len(data), 1, 0o644, n) + pieces, digest_size=32).digest()

    def set_up(i, agent):
        worker = agent.send_package("worker", {"paddle_worker": (WORKER, 0o755)})
        worker = worker.get("id") or worker["path"].rpartition("worker-")[2]
        there = agent.send_package("data", {"data": None, "data/a": data})["id"] if i == 2 else ""
        return dict(worker=worker, worker_hash=hashlib.blake2b(WORKER, digest_size=32).hexdigest(), data=there, data_apart=True)
    j = Job(encrypt=encrypt, pserver_nodes=[0], trainer_nodes=[2, 1], trainer_command="", set_up=set_up)
    row = struct.pack("<I", 6) + b"data/a" + file_id + struct.pack("<IIQ", 0, 0xffffffff, len(data))
    j.agents[0].ask("DATA_LIST", {"first": 0, "of": 1}, row)
    ours = forged(DF_DATA, b"", b"owned" * 20)
    proxy = RecordProxy("127.0.0.1", ("127.0.0.1", j.peers[2]["port"]), deed, direction, record, 0, ours)
    j.peers[2] = dict(j.peers[2], addrs=["127.0.0.1"], port=proxy.port)
    j.run()
    assert j.result(100)["status"] == "done", (where, j.agents[0].results, j.log(1))
    assert proxy.report()["done"] or deed == "nothing", where
    assert (data[70000:70064] in proxy.seen) != encrypt, where + ": what a listener reads"
    want = "answer 0 \ndigest %s\n" % hashlib.sha256(data).hexdigest()
    assert j.log(1) == want, (where, j.log(1))
    j.bye()
    proxy.close()


def test_data_files():
    for direction in ("up", "down"):
        for deed in DEEDS:
            if (deed, direction) != ("swap", "up"):  # there is no second record; as "drop"
                attack_a_data_file(deed, direction, 0 if direction == "up" else 5)
    attack_a_data_file("handshake", "down", 5)
    attack_a_data_file("nothing", "up", 0)
    attack_a_data_file("nothing", "up", 0, encrypt=False)


# --- seeds ---

class SeedProxy(RecordProxy):
    handshake_frames = 0

    def unit_bytes(self, buf, frames, records, direction):
        """The nonce, or the proof; then pieces of 1 KiB."""
        first = 32 if direction == "down" else 36
        return 1024 if records else first


class Seed:
    marker = "0123456789abcdef0123456789abcdef"

    def __init__(self, path, payload, secret):
        self.path, self.payload = path, payload
        self.chunks = [payload[k:k + 32768] for k in range(0, len(payload), 32768)]
        self.proc = subprocess.Popen([SEED_PROGRAM, path, self.marker], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.record(1, len(payload), 32768, secret=secret)
        self.write(b"".join(hashlib.blake2b(c, digest_size=32).digest() for c in self.chunks))
        self.have = 0
        self.port = int(self.words("port ")[5:])

    def record(self, op, a=0, b=0, address=b"", secret=b""):
        self.write(struct.pack("<IIII16s32s", op, a, b, 0, address, secret))

    def write(self, data):
        self.proc.stdin.write(data)
        self.proc.stdin.flush()

    def words(self, *begins):
        while True:
            line = self.proc.stdout.readline().decode()
            assert line.startswith(self.marker + " seed "), line
            words = line[len(self.marker) + 6:].rstrip("\n")
            if words.startswith("have "):
                self.have = int(words[5:])
            if words.startswith(begins):
                return words

    def take_from_here(self):
        self.record(4)
        for k in range(self.have, len(self.chunks)):
            self.record(2, k, len(self.chunks[k]))
            self.write(self.chunks[k])

    def take_from(self, port):
        self.record(3, 4, port, socket.inet_aton("127.0.0.1"))

    def go(self):
        self.record(5)
        assert self.proc.wait(20) == 0
        with open(self.path, "rb") as f:
            assert f.read() == self.payload, "the seed wrote other bytes"


def attack_a_seed(deed, direction, record):
    where = "%s-%s-%d" % (deed, direction, record)
    payload, secret = random.Random(where).randbytes(200 * 1024), os.urandom(32)
    os.makedirs(agent_job.root, exist_ok=True)
    a, b = (Seed("%s/seed-%s-%d" % (agent_job.root, where, k), payload, secret) for k in range(2))
    a.take_from_here()
    a.words("done")
    ours = random.Random(1).randbytes(40)
    proxy = SeedProxy("127.0.0.1", ("127.0.0.1", a.port), deed, direction, record, 0, ours)
    b.take_from(proxy.port)
    words = b.words("done", "lost ")
    assert proxy.report()["done"], where
    if words != "done":
        b.take_from(a.port)
        words = b.words("done", "lost ")
    assert words == "done", (where, words)
    b.go()
    a.go()
    proxy.close()


def test_seeds():
    for deed in DEEDS:
        attack_a_seed(deed, "up", 0)
        for record in (0, 3):
            attack_a_seed(deed, "down", record)


if __name__ == "__main__":
    random.seed(1)
    os.umask(0o022)
    began = time.monotonic()
    run_tests(globals())
    assert not stolen(), stolen()
    print("%.0f s" % (time.monotonic() - began))
