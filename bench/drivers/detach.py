# SPDX-License-Identifier: Apache-2.0
"""detach.py - see detach.sh."""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from hosts import Sshd, own_server, read_text, wait_until, write_job

WRITER = r'''#!/usr/bin/python3
import os, time
node, n = int(os.environ["PADDLE_TRAINER_ID"]), 0
while not os.path.exists(os.environ["ENOUGH"]):
    print("%02d %08d %s" % (node, n, "x" * 40), flush=True)
    n += 1
    time.sleep(0.01)
'''
LINE = re.compile(rb"(?:^| )((\d\d) \d{8} x{40})$")


def lines_of(path, n):
    """The numbered lines of a file, by node."""
    found = [[] for _ in range(n)]
    with open(path, "rb") as f:
        for line in f.read().splitlines():
            m = LINE.search(line)
            if m:
                found[int(m.group(2))].append(m.group(1))
    return found


def attach(ctl, where, name, *args):
    with open(f"{where}/{name}", "wb") as out:
        return subprocess.Popen([ctl, "attach", "--conf=conf.ini", *args], cwd=where, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def first_lines(ctl, where, n):
    """Milliseconds from the start of `attach` until a line of every node is there; then it is left by Ctrl-C."""
    began = time.monotonic()
    p = attach(ctl, where, "again.log", "--lines=1")
    if not wait_until(lambda: all(lines_of(f"{where}/again.log", n)), 60):
        raise RuntimeError(f"attach: {read_text(f'{where}/again.log')[-1500:]}")
    ms = (time.monotonic() - began) * 1000
    p.send_signal(signal.SIGINT)
    p.wait(timeout=30)
    return ms


def pdsh_true(sshd, hosts):
    """Milliseconds of pdsh for `true` on the same hosts: what logging in costs here; None without pdsh."""
    if not shutil.which("pdsh"):
        return None
    ssh = f"-F /dev/null -o BatchMode=yes -o UserKnownHostsFile={sshd.top}/known_hosts -i {sshd.top}/client_key -p {sshd.port}"
    began = time.monotonic()
    subprocess.run(["pdsh", "-R", "ssh", "-f", str(len(hosts)), "-w", ",".join(h for h, _ in hosts), "true"], check=True,
                   env=dict(os.environ, PDSH_SSH_ARGS_APPEND=ssh), stdin=subprocess.DEVNULL)
    return (time.monotonic() - began) * 1000


def run(sshd, ctl, n, rounds):
    where, enough = f"{sshd.top}/job", f"{sshd.top}/enough"
    hosts = [(f"127.1.0.{i + 1}", sshd.port) for i in range(n)]
    write_job(where, {"writer.py": WRITER, "own-server.py": own_server()}, sshd.conf(
        hosts, "job_dispatch_package = ws\ntrainer_command = ./writer.py\npserver_command = /usr/bin/python3 own-server.py\n"
        f"[env]\nENOUGH = {enough}\n", "pservers = 1\n"))
    done = subprocess.run([ctl, "run", "--detach", "--conf=conf.ini"], cwd=where, capture_output=True, text=True, timeout=300)
    m = re.search(r"JOB\d{14}-[0-9a-f]{4}", done.stdout)
    if done.returncode or not m:
        raise RuntimeError(f"run --detach: {done.returncode} {done.stdout} {done.stderr}")
    figures, peers = [], []
    for _ in range(rounds):  # in turns, so that both see the same machine
        figures.append(first_lines(ctl, where, n))
        peers.append(pdsh_true(sshd, hosts))
    whole = attach(ctl, where, "whole.log", "--lines=all")
    time.sleep(2)
    open(enough, "w").close()
    status = whole.wait(timeout=120)
    shown, total, lost, wrong = lines_of(f"{where}/whole.log", n), 0, 0, 0
    for node in range(n):
        want = lines_of(f"{sshd.top}/root/{node}/{m.group()}/log/train.log", n)[node]
        total += len(want)
        lost += len(set(want) - set(shown[node]))
        wrong += shown[node] != want
    ms = statistics.median(figures)
    print(f"a line of each of {n} nodes after {', '.join('%.0f' % f for f in figures)} ms; attached from the first line to the end: {total} lines, "
          f"{lost} lost, {wrong} nodes differ, status {status}")
    pdsh = f"; pdsh -f{n} true {statistics.median(peers):.0f} ms" if None not in peers else ""
    print(f"bench detach ratio {500 / ms:.2f} target >=1.00 peer \"500 ms{pdsh}\" ours {ms:.0f} ms, {lost} lines lost theirs 500 ms")
    return 1 if lost or wrong or status else 0


if __name__ == "__main__":
    server = Sshd(sys.argv[1])
    try:
        sys.exit(run(server, sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    finally:
        server.stop()
