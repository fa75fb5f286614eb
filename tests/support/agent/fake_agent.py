#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A simulated agent for tests of paddlectl, which can misbehave: docs/protocol.md over stdin and
stdout.

It replaces paddle_agent (PADDLECTL_LIBEXEC). $FAKE_AGENT is a JSON file {"0": {...}, "1": {...},
"*": {...}} with the behaviour of each node. A missing key means normal behaviour:
    "error": {"SETUP": [10, "text"]}   answer this request with an error
    "die": "SETUP"                     exit without an answer when this request comes
    "mute": ["STOP"]                   never answer these requests
    "hello_error": [15, "text"]        send this error instead of AG_HELLO
    "log": {"train.log": "text"}       the job's log; "piece": bytes per frame
    "forever": true                    the job runs until it is stopped
    "withholds": "result" or "logs"    never send AG_RESULT at the end, or the ends of the logs but AG_RESULT;
                                       "trickle": a byte of a log each second besides
    "die_after_run": true              the connection breaks during the job (at the next AG_PING);
                                       a client that joins the job again hears that there is none
    "result": {...}                    the body of AG_RESULT, instead of done
    "output": {"path": "text"}         the folder of AG_FETCH; null: there is no such folder. A
    list:
                                       the folder changes to the next element when the first object
                                       with contents is requested
    "wrong": true                      the sent objects have a wrong byte
    "announces": N                     the root of the outputs announces N bytes of contents
    "more": true                       each object of the outputs is sent again and again
    "have": true                       the node has the worker
    "arch": "riscv64"                  "arch" in AG_HELLO; default: none
    "answers": {"LIST": {...}}         the body of the answer to this request
    "joins": true                      the job exists: clients may join it, and get its log
    "dumb": true                       never send anything
    "floods": true                     after AG_HELLO, send AG_STATE for ever
The name of every request is written to $FAKE_AGENT.<node>.log.
"""
import hashlib
import json
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from agent_client import NAMES, encode, read_frame  # noqa: E402
from agent_package import package_of  # noqa: E402

BY_NUMBER = {v: k for k, v in NAMES.items()}
args = dict(a[2:].split("=", 1) if "=" in a else (a[2:], "") for a in sys.argv[2:])
node = int(args.get("node", -1))
with open(os.environ["FAKE_AGENT"]) as f:
    scenario = json.load(f)
how = {**scenario.get("*", {}), **scenario.get(str(node), {})}
record = open("%s.%d.log" % (os.environ["FAKE_AGENT"], node), "a", buffering=1)


def send(name, body, *more, req=0, flags=0):
    data = bytearray(encode(NAMES[name], req, body if isinstance(body, bytes) else json.dumps(body).encode(), *more))
    struct.pack_into("<H", data, 6, flags)
    sys.stdout.buffer.write(bytes(data))
    sys.stdout.buffer.flush()


def send_error(name, req, code, text):
    send(name, struct.pack("<II", code, len(text.encode())) + text.encode(), req=req, flags=1)


def log_of(name):
    """Bytes that are no UTF-8 are surrogates in the scenario, as os.fsdecode makes them."""
    return how.get("log", {}).get(name, "").encode("utf-8", "surrogateescape")


def run_job():
    send("STATE", {"node": max(node, 0), "state": "trainers", "text": ""})
    for i, name in enumerate(("server.log", "train.log", "events")):
        data, piece = log_of(name), how.get("piece", 1 << 16)
        for at in range(0, len(data), piece):
            send("LOG", struct.pack("<IIQQ", max(node, 0), i, at, 0), data[at:at + piece])
    if not how.get("forever"):
        end_job("done")


def trickle():
    for at in range(len(log_of("train.log")), 1 << 30):
        time.sleep(1)
        send("LOG", struct.pack("<IIQQ", max(node, 0), 1, at, 0), b".")


def end_job(status):
    withholds = how.get("withholds")
    if withholds == "result":
        send("STATE", {"node": max(node, 0), "state": "ending", "text": ""})
    for name in ("server.log", "train.log", "events") if not withholds else ():
        send("LOG_END", {"stream": name, "size": len(log_of(name))})
    if withholds != "result":
        send("RESULT", {"node": max(node, 0), "status": status, "first_failure": None, "later_failures": 0, **how.get("result", {})})
    if how.get("trickle"):
        threading.Thread(target=trickle, daemon=True).start()


def send_root(req):
    global package
    files = how.get("output", {})
    files = files[rounds - 1] if isinstance(files, list) else files
    if files is None:
        send("FETCH", {"missing": True}, req=req)
        return
    package = package_of({k: v.encode() for k, v in files.items()})
    root = package.root()
    if "announces" in how:
        root = root[:16] + struct.pack("<Q", how["announces"]) + root[24:]
    send("FETCH", {"missing": False, "round": rounds, "skipped": how.get("skipped", 0), "first_skipped": "f: why"},
         root, req=req)


def send_objects(f):
    """Sends objects of the manifest, and of contents unless the folder changes now."""
    global rounds
    if f.body["round"] != rounds:
        return
    ids = [f.sections[1][k:k + 32] for k in range(0, len(f.sections[1]), 32)]
    changes = isinstance(how.get("output"), list) and rounds < len(how["output"])
    for i in ids:
        raw = package.objects[i]
        if changes and raw[:2] != b"\1\1":
            rounds += 1
            send_root(f.req)
            return
        raw = raw[:-1] + bytes([raw[-1] ^ 1]) if how.get("wrong") else raw
        for _ in range(1000 if how.get("more") else 1):
            send("DS_OBJECT", b"", i + struct.pack("<IIII", len(raw), len(raw), 0, 0) + raw, req=f.req)
        record.write("sent %s\n" % i.hex())


def answer(name, f):
    global rounds
    req = f.req
    if name == "DS_BEGIN":
        send(name, {"have": how.get("have", True), "path": "/x"}, req=req)
    elif name == "DS_SOURCE": # the fake needs none of the objects
        send(name, {}, req=req)
        send("DS_END", {"path": "/x", "entries": 1, "bytes": 1, "fetched": 0}, req=req)
    elif name == "DS_SERVE":
        send(name, {"addrs": ["127.0.0.1"], "port": 6000 + node}, req=req)
    elif name == "TURN":
        send(name, {"free": True, "others": []}, req=req)
    elif name == "JOB_SETUP":
        send(name, {"addrs": ["127.0.0.1"], "port": 5000 + node, "nic_addr": ""}, req=req)
    elif name in ("JOB_PEERS", "JOB_RUN"):
        send(name, {}, req=req)
    elif name == "LOG_SUBSCRIBE" and req:
        streams = ("server.log", "train.log", "events") if "joins" in how else ()
        send(name, {"streams": {s: {"start": 0, "size": len(log_of(s)), "ended": True} for s in streams}, "now_us": 0}, req=req)
    elif name == "STOP":
        send(name, {}, req=req)
        end_job("stopped")
    elif name == "FETCH":
        rounds = 1
        send_root(req)
    elif name == "DS_NEED":
        send_objects(f)
    elif name == "DS_END":
        send(name, {}, req=req)


def main():
    if "dumb" in how:
        while sys.stdin.buffer.read(1):
            pass
        return
    if "start" not in args and args.get("job") and "joins" not in how:
        send_error("HELLO", 0, 11, "there is no job %s in %s" % (args["job"], args["root"]))
        return
    if "hello_error" in how:
        send_error("HELLO", 0, *how["hello_error"])
        return
    with open(os.path.realpath(sys.argv[0]), "rb") as me:
        build = hashlib.blake2b(me.read(), digest_size=32).hexdigest()
    hello = {"version": 3, "build": build, "job": args.get("job", ""), "node": node, "root": args["root"], "state": "", "arch": how.get("arch", ""),
             "addrs": ["127.0.0.1"], "disk_free": 1 << 40}
    send("HELLO", hello)
    while "floods" in how:
        send("STATE", {"node": 0, "state": "trainers", "text": "flood"})
    ran = False
    while True:
        f = read_frame(sys.stdin.buffer)
        if f is None:
            record.write("EOF\n")
            return
        name = BY_NUMBER.get(f.type, "%#x" % f.type)
        if name == "PING" and ran and how.get("die_after_run"):
            os._exit(9)
        if name == "PING":
            continue
        record.write(name + (" " + f.sections[0].decode() if name in ("BYE", "STOP") else "") + "\n")
        if name == "BYE":
            return
        if how.get("die") == name:
            os._exit(9)
        if name in how.get("mute", []):
            continue
        if name in how.get("error", {}):
            send_error(name, f.req, *how["error"][name])
            continue
        if name in how.get("answers", {}):
            send(name, how["answers"][name], req=f.req)
            continue
        if name == "JOIN":
            send("HELLO", {**hello, "job": f.body["job"], "node": 0})
            continue
        answer(name, f)
        if name == "LOG_SUBSCRIBE" and "joins" in how:
            run_job()
        # Every node of the fake runs its part of the job alone: node 0, whose states the client
        # shows, at AG_JOB_RUN, the others at AG_JOB_PEERS.
        if name == ("JOB_RUN" if node == 0 else "JOB_PEERS"):
            run_job()
            ran = True


main()
