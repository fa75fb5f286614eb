#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running agent of another version, for tests: other_version.py JOBDIR OLD=NEW...

Takes the place of the job's socket until it gets TERM. Each client gets the bytes of the real agent, but with OLD
replaced by NEW (of the same length) in the agent's first message, AG_HELLO.
"""
import os
import select
import signal
import socket
import struct
import sys

os.chdir(sys.argv[1] + "/.agent")
changes = [a.encode().split(b"=") for a in sys.argv[2:]]
os.rename("sock", "sock.own")


def restore(*_):
    os.rename("sock.own", "sock")
    os._exit(0)


signal.signal(signal.SIGTERM, restore)
listener = socket.socket(socket.AF_UNIX)
listener.bind("sock")
listener.listen()
print("ready", flush=True)


def frame_of(agent):
    data = b""
    while len(data) < 64 or len(data) < struct.unpack_from("<Q", data, 16)[0]:
        more = agent.recv(1 << 16)
        if not more:
            break
        data += more
    return data


def serve(client):
    agent = socket.socket(socket.AF_UNIX)
    agent.connect("sock.own")
    hello = frame_of(agent)
    for old, new in changes:
        assert len(old) == len(new) and hello.count(old) == 1, (old, hello)
        hello = hello.replace(old, new)
    client.sendall(hello)
    peers = {client: agent, agent: client}
    while True:
        for s in select.select(list(peers), [], [])[0]:
            data = s.recv(1 << 16)
            if not data:
                return
            peers[s].sendall(data)


while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        try:
            serve(connection)
        except (BrokenPipeError, ConnectionResetError):
            pass
        os._exit(0)
    connection.close()
