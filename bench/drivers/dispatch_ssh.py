# SPDX-License-Identifier: Apache-2.0
"""dispatch_ssh.py - see dispatch_ssh.sh."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from hosts import TOP, Sshd
from netns import CTL, line, on_signal, random_file

ROUNDS = int(os.environ.get("ROUNDS", "3"))
MB = int(os.environ.get("MB", "256"))
CIPHERS = os.environ.get("CIPHERS", "aes128-gcm@openssh.com aes256-gcm@openssh.com chacha20-poly1305@openssh.com aes128-ctr").split()
HOST = "127.0.0.1"


def timed(command, env, **files):
    began = time.monotonic()
    p = subprocess.run(command, env=env, stderr=subprocess.PIPE, timeout=300, **files)
    wall = time.monotonic() - began
    if p.returncode:
        raise RuntimeError(f"{command[0]} ended with {p.returncode}: {p.stderr[-1500:].decode(errors='replace')}")
    return wall, p.stdout


def ours(top, env, path):
    """Seconds of one dispatch; what arrived is compared."""
    wall, out = timed([CTL, "dispatch", f"--conf={top}/conf.ini", "--relay=off", "--json"], env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    result = json.loads(out.splitlines()[-1])
    subprocess.run(["cmp", path, f"{result['path'].replace('%n', '0')}/data"], check=True)
    shutil.rmtree(f"{top}/root/0/workspaces")
    return wall


def peer(sshd, env, path, cipher):
    with open(path, "rb") as f:
        return timed(["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR", "-o", "Compression=no",
                      "-o", f"UserKnownHostsFile={sshd.top}/known_hosts", "-i", f"{sshd.top}/client_key", "-p", str(sshd.port), "-c", cipher, HOST,
                      "cat >/dev/null"], env, stdin=f, stdout=subprocess.DEVNULL)[0]


def run(top):
    env = dict(os.environ, XDG_CACHE_HOME=f"{top}/cache")
    env.pop("SSH_AUTH_SOCK", None)
    os.makedirs(f"{top}/ws")
    path, best, n = f"{top}/ws/data", {}, MB << 20
    sshd = Sshd(top)
    try:
        with open(f"{top}/conf.ini", "w") as f:
            f.write(sshd.conf([(HOST, sshd.port)], f"job_dispatch_package = {top}/ws\n"))
        for r in range(ROUNDS + 1):  # the first sends the agent, too, and does not count
            random_file(path, n)
            seconds = {"ours": ours(top, env, path)}
            for cipher in CIPHERS:
                seconds[cipher] = peer(sshd, env, path, cipher)
            if r:
                print(f"round {r}: " + ", ".join(f"{k} {n / s / 1e6:.0f} MB/s" for k, s in seconds.items()), flush=True)
                best = {k: min(s, best.get(k, s)) for k, s in seconds.items()}
    finally:
        sshd.stop()
    cipher = min(CIPHERS, key=lambda c: best[c])
    line("dispatch_ssh", best[cipher] / best["ours"], ">=0.80", f"ssh -c {cipher} host 'cat >/dev/null'",
         f"{n / best['ours'] / 1e6:.0f} MB/s", f"{n / best[cipher] / 1e6:.0f} MB/s")


if __name__ == "__main__":
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, on_signal)
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else f"{TOP}/build"
    folder = tempfile.mkdtemp(prefix="bench-", dir=where)
    try:
        run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
