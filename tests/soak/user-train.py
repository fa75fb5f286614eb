#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A user's trainer with the habits that leave processes behind: children that ignore TERM, that leave the session, that fork
twice and forget their environment, and one that is another process four times a second. Each notes its pid and start time in
SOAK_PIDS. It works for SOAK_WORK_S seconds, writes an output and ends; then nothing of it may stay either."""
import os
import signal
import sys
import time

rank = os.environ["PADDLE_TRAINER_ID"]
notes = os.environ["SOAK_PIDS"]
work_s = float(os.environ["SOAK_WORK_S"])


def note(what="child"):
    with open("/proc/self/stat", "rb") as f:
        start = f.read().rsplit(b")", 1)[1].split()[19].decode()
    with open(f"{notes}/{os.environ['PADDLE_JOB_ID']}.{rank}", "a") as f:
        f.write(f"{os.getpid()} {start} {what}\n")


def idle():
    while True:
        time.sleep(10)


def child(what):
    if os.fork() == 0:
        try:
            what()
        finally:
            os._exit(0)


def stubborn():
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(s, signal.SIG_IGN)
    note()
    idle()


def session():
    os.setsid()
    note()
    idle()


def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    note()
    for fd in range(3, 64):
        try:
            os.close(fd)
        except OSError:
            pass
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.execve("/bin/sleep", ["sleep", "1000"], {})


def restless():
    os.setsid()
    while True:
        note()
        time.sleep(0.25)
        if os.fork():
            os._exit(0)


note("trainer")
for what in (stubborn, session, daemon, restless):
    child(what)
end = time.monotonic() + work_s
n = 0
print(f"trainer {rank} of {os.environ['PADDLE_TRAINERS_NUM']} works", flush=True)
while time.monotonic() < end:
    print(f"trainer {rank} line {n}", flush=True)
    n += 1
    time.sleep(0.02)
with open(f"{os.environ['PADDLE_OUTPUT_DIR']}/from.{rank}", "w") as f:
    f.write(f"{rank} of {os.environ['PADDLE_TRAINERS_NUM']}\n")
print(f"trainer {rank} is done", flush=True)
sys.stdout.flush()
