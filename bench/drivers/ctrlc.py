# SPDX-License-Identifier: Apache-2.0
"""ctrlc.py - see ctrlc.sh. Processes are found by a word in their environment (ours: the job's id), never by name."""
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

from hosts import Sshd, read_text, stat_of, wait_until, words_of, write_job

PROGRAM = """#!/bin/sh
sleep 1000 &
setsid sleep 1000 &
echo up
sleep 1000
"""


def marked(mark):
    """Pids of what has the mark in its environment."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and mark in words_of(name, "environ")]


def ours(sshd, ctl, hosts):
    """(processes, ms until the last one is dead, ms until paddlectl ended, its exit status, alive after it)"""
    where = f"{sshd.top}/job"
    write_job(where, {"train.sh": PROGRAM}, sshd.conf([(h, sshd.port) for h in hosts],
              "job_dispatch_package = ws\ntrainer_command = ./train.sh\n", "pservers = 1\n"))
    with open(f"{where}/log", "wb") as log:
        p = subprocess.Popen([ctl, "run", "--conf=conf.ini"], cwd=where, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    if not wait_until(lambda: read_text(f"{where}/log").count("| up\n") == len(hosts), 120):
        p.kill()
        raise RuntimeError(f"the job did not start: {read_text(f'{where}/log')[-2000:]}")
    mark = f"PADDLE_JOB_ID=JOB{read_text(f'{where}/log').split('JOB', 1)[1].split()[0]}".encode()
    time.sleep(0.5)
    left = before = {pid: stat_of(pid)[19] for pid in marked(mark)}
    began = time.monotonic()
    p.send_signal(signal.SIGINT)

    def gone(pid):
        words = stat_of(pid)
        return not words or words[0] in "ZX" or words[19] != before[pid]

    while left and time.monotonic() - began < 20:
        left = [pid for pid in left if not gone(pid)]
        time.sleep(0.002)
    ms = (time.monotonic() - began) * 1000
    status = p.wait(timeout=30)
    return len(before), ms, (time.monotonic() - began) * 1000, status, len(marked(mark))


def peer(sshd, name, hosts, tty):
    """How many of its processes are alive LEFT_S (5) seconds after Ctrl-C; tty: with a pseudo-terminal on each host
    (ssh -tt), whose end is a hang-up for the processes there."""
    mark, program = f"{name}-{tty}-{os.getpid()}", f"{sshd.top}/peer.sh"
    sshd.know([(h, sshd.port) for h in hosts])
    with open(program, "w") as f:
        f.write(PROGRAM)
    os.chmod(program, 0o755)
    ssh = (f"-F /dev/null -o BatchMode=yes -o LogLevel=ERROR -o SendEnv=BENCH_MARK -o UserKnownHostsFile={sshd.top}/known_hosts "
           f"-i {sshd.top}/client_key -p {sshd.port}{' -tt' if tty else ''}")
    env = dict(os.environ, BENCH_MARK=mark, PDSH_SSH_ARGS_APPEND=ssh)
    many = ["-f", str(len(hosts)), "-w", ",".join(hosts), program]
    command = ["pdsh", "-R", "ssh", *many] if name == "pdsh" else ["clush", "-o", ssh, *many]
    with open(f"{sshd.top}/peer.log", "wb") as log:
        p = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, start_new_session=True)
    # a pseudo-terminal ends lines with \r\n, which reading as text makes \n
    if not wait_until(lambda: read_text(f"{sshd.top}/peer.log").count(": up\n") == len(hosts), 120):
        print(f"{name} did not start everywhere: {read_text(f'{sshd.top}/peer.log')[-500:]}", file=sys.stderr)
    for _ in range(2):  # a terminal sends it to the whole group; pdsh wants it twice
        os.killpg(p.pid, signal.SIGINT)
        time.sleep(0.1)
    try:
        p.wait(timeout=30)
    except subprocess.TimeoutExpired:
        p.kill()
    time.sleep(float(os.environ.get("LEFT_S", "5")))
    left = [pid for pid in marked(f"BENCH_MARK={mark}".encode()) if not words_of(pid, "cmdline")[0].startswith(b"sshd")]
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(left)


def run(sshd, ctl, n, rounds):
    hosts = [f"127.1.{i // 100}.{i % 100 + 1}" for i in range(n)]
    figures = [ours(sshd, ctl, hosts) for _ in range(rounds)]
    for processes, ms, exit_ms, status, alive in figures:
        print(f"{processes} processes on {n} hosts: all dead after {ms:.0f} ms, paddlectl ended after {exit_ms:.0f} ms "
              f"with {status}, {alive} alive")
    ms = statistics.median(f[1] for f in figures)
    alive = sum(f[4] for f in figures)
    peers = [f"{name}{' -tt' if tty else ''} leaves {peer(sshd, name, hosts, tty)} of {4 * n}"
             for name in ("pdsh", "clush") if shutil.which(name) for tty in (False, True)]
    print(f"bench ctrlc ratio {1000 / ms:.2f} target >=1.00 peer \"1 s; {'; '.join(peers) or 'no peer here'}\" "
          f"ours {ms:.0f} ms, {alive} alive theirs 1000 ms")
    return 1 if alive else 0


if __name__ == "__main__":
    # A shell starts what it runs in the background with SIGINT ignored, and the peers would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server = Sshd(sys.argv[1])
    try:
        sys.exit(run(server, sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    finally:
        server.stop()
