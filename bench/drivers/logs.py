# SPDX-License-Identifier: Apache-2.0
"""logs.py - see logs.sh."""
import os
import random
import re
import subprocess
import sys
import threading
import time

from hosts import TOP, Sshd, cpu_s, own_server, peak_kib, read_text, wait_until, write_job

WRITER = r'''#!/usr/bin/python3
"""RATE numbered lines a second for SECONDS, in a burst every 10 ms; says at the end when it began and ended."""
import os, time
rate, seconds, node = int(os.environ["RATE"]), float(os.environ["FOR_S"]), int(os.environ["PADDLE_TRAINER_ID"])
pad = "x" * 40
print("up", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
began, n = time.time(), 0
while n < rate * seconds:
    due = min(int((time.time() - began) * rate), int(rate * seconds))
    if due > n:
        data = "".join(["%02d %08d %s\n" % (node, i, pad) for i in range(n, due)]).encode()
        while data:
            data = data[os.write(1, data):]
        n = due
    time.sleep(0.01)
print("wrote %d from %.3f to %.3f" % (n, began, time.time()), flush=True)
'''
CUTTER = f"{TOP}/tests/support/cut-proxy"
LINE = re.compile(rb"(?:^| )(\d\d \d{8} x{40})$")


class Proxy:
    """A port of its own for each node; every one leads to the same sshd and can be cut."""

    def __init__(self, top, port, n):
        self.dir = f"{top}/proxy"
        self.process = subprocess.Popen([CUTTER, "serve", self.dir] + [f"127.0.0.1:{port}"] * n)
        if not wait_until(lambda: read_text(f"{self.dir}/ports").count("\n") == n, 20):
            raise RuntimeError("the proxy does not start")
        self.addresses = [tuple(line.split(":")) for line in read_text(f"{self.dir}/ports").split()]

    def reset(self, i):
        subprocess.run([CUTTER, "tell", self.dir, "reset", str(i)], check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def compare(log, top, job, n):
    """(lines, lost, doubled, out of order): what was shown of each node against the node's own file."""
    shown = [[] for _ in range(n)]
    for line in log.splitlines():
        m = LINE.search(line)
        if m:
            shown[int(m.group(1)[:2])].append(m.group(1))
    total = lost = doubled = disorder = 0
    for node in range(n):
        with open(f"{top}/root/{node}/{job}/log/train.log", "rb") as f:
            want = [line for line in f.read().splitlines() if LINE.search(line)]
        got = shown[node]
        total += len(want)
        if got != want:
            lost += len(set(want) - set(got))
            doubled += len(got) - len(set(got))
            disorder += got != sorted(got)
    return total, lost, doubled, disorder


class Meter(threading.Thread):
    """Peak memory and CPU of a process while it runs."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.cpu = pid, 0, 0.0

    def run(self):
        while peak_kib(self.pid):
            self.peak, self.cpu = max(self.peak, peak_kib(self.pid)), max(self.cpu, cpu_s(self.pid))
            time.sleep(0.02)


def run(sshd, ctl, n, rate, seconds, cuts, seed):
    proxy = Proxy(sshd.top, sshd.port, n)
    try:
        where, go = f"{sshd.top}/job", f"{sshd.top}/go"
        conf = sshd.conf(proxy.addresses, "job_dispatch_package = ws\ntrainer_command = ./writer.py\n"
                         "pserver_command = /usr/bin/python3 own-server.py\nlog_max_size = 1G\n"
                         f"[env]\nRATE = {rate}\nFOR_S = {seconds}\nGO = {go}\n", "pservers = 1\n")
        write_job(where, {"writer.py": WRITER, "own-server.py": own_server()}, conf)
        with open(f"{where}/log", "wb") as out:
            p = subprocess.Popen([ctl, "run", "--conf=conf.ini"], cwd=where, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        if not wait_until(lambda: read_text(f"{where}/log").count("| up\n") == n, 120):
            raise RuntimeError(f"the job did not start: {read_text(f'{where}/log')[-2000:]}")
        meter = Meter(p.pid)
        meter.start()
        idle_cpu = cpu_s(p.pid)
        open(go, "w").close()
        began = time.time()
        rng = random.Random(seed)
        for at in sorted(rng.uniform(0.5, seconds - 0.5) for _ in range(cuts)):
            time.sleep(max(0, began + at - time.time()))
            proxy.reset(rng.randrange(n))
        status = p.wait(timeout=300)
        ended = time.time()
        meter.join()
        with open(f"{where}/log", "rb") as f:
            log = f.read()
        text = log.decode(errors="replace")
        job = re.search(r"JOB\d{14}-[0-9a-f]{4}", text).group()
        if status:
            print(f"paddlectl ended with {status}: {text[-1500:]}", file=sys.stderr)
            return 1
        spans = [tuple(map(float, m)) for m in re.findall(r"wrote \d+ from (\S+) to (\S+)", text)]
        written_s = max(s[1] for s in spans) - min(s[0] for s in spans)
        total, lost, doubled, disorder = compare(log, sshd.top, job, n)
        back = text.count("connected again")
        print(f"seed {seed}: {total} lines of {n} nodes in {written_s:.1f} s, {cuts} cut connections ({back} told to be back), paddlectl ended "
              f"{ended - max(s[1] for s in spans):.2f} s after the last line was written, with {status}")
        print(f"lost {lost}, doubled {doubled}, nodes out of order {disorder}; launcher: peak {meter.peak / 1024:.1f} MiB, "
              f"{meter.cpu - idle_cpu:.2f} s CPU ({total / max(meter.cpu - idle_cpu, 0.01) / 1000:.0f} k lines a CPU second)")
        print(f"bench logs ratio {seconds / written_s:.2f} target >=0.95 peer \"writers that nobody reads\" ours "
              f"{total / written_s:.0f} lines/s, {lost + doubled} lost or doubled, {meter.peak / 1024:.0f} MiB theirs {n * rate} lines/s")
        return 1 if lost or doubled or disorder or status else 0
    finally:
        proxy.stop()


if __name__ == "__main__":
    server = Sshd(sys.argv[1])
    try:
        sys.exit(run(server, sys.argv[2], *map(int, sys.argv[3:])))
    finally:
        server.stop()
