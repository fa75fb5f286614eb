"""ctrlc.py - see ctrlc.sh. Processes are found by a word in their environment (ours: and by the job's id), never by name."""
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

PROGRAM = """#!/bin/sh
sleep 1000 &
setsid sleep 1000 &
echo up
sleep 1000
"""


def words_of(pid, path):
    try:
        with open(f"/proc/{pid}/{path}", "rb") as f:
            return f.read().split(b"\0")
    except OSError:
        return []


def stat_of(pid):
    """The words of /proc/PID/stat from the state on; [] when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()
    except OSError:
        return []


def marked(mark):
    """Pids of what has the mark in its environment, dead ones that nobody waited for left out."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and mark in words_of(name, "environ"):
            found.append(int(name))
    return found


def start_sshd(top, n):
    os.makedirs(top, exist_ok=True)
    for name in ("host_key", "client_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{top}/{name}"], check=True)
    shutil.copy(f"{top}/client_key.pub", f"{top}/authorized_keys")
    os.makedirs("/run/sshd", exist_ok=True)
    for port in range(21000 + os.getpid() % 5000, 32000, 7):
        with open(f"{top}/sshd_config", "w") as f:
            f.write(f"Port {port}\nListenAddress 0.0.0.0\nHostKey {top}/host_key\nPidFile none\n"
                    f"AuthorizedKeysFile {top}/authorized_keys\nPermitRootLogin yes\nPasswordAuthentication no\nStrictModes no\n"
                    "UsePAM no\nUseDNS no\nMaxStartups 1000\nAcceptEnv BENCH_MARK\nPrintMotd no\n")
        p = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", f"{top}/sshd_config", "-E", f"{top}/sshd.log"])
        time.sleep(0.3)
        if p.poll() is None:
            break
    with open(f"{top}/sshd.pid", "w") as f:
        f.write(str(p.pid))
    hosts = [f"127.1.{i // 100}.{i % 100 + 1}" for i in range(n)]
    with open(f"{top}/host_key.pub") as f:
        key = " ".join(f.read().split()[:2])
    with open(f"{top}/known_hosts", "w") as f:
        f.writelines(f"[{h}]:{port} {key}\n" for h in hosts)
    return hosts, port


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def ours(top, ctl, hosts, port):
    """(processes, ms until the last one is dead, ms until paddlectl ended, its exit status, alive after it)"""
    shutil.rmtree(f"{top}/job", ignore_errors=True)
    os.makedirs(f"{top}/job/ws")
    with open(f"{top}/job/ws/train.sh", "w") as f:
        f.write(PROGRAM)
    os.chmod(f"{top}/job/ws/train.sh", 0o755)
    with open(f"{top}/job/conf.ini", "w") as f:
        f.write(f"[cluster]\nhosts = {', '.join(f'{h}:{port}' for h in hosts)}\nroot_dir = {top}/root/%n\npservers = 1\n"
                f"[ssh]\nidentity_file = {top}/client_key\nknown_hosts = {top}/known_hosts\nconfig = /dev/null\n"
                "[job]\njob_dispatch_package = ws\ntrainer_command = ./train.sh\n")
    with open(f"{top}/job/log", "wb") as log:
        p = subprocess.Popen([ctl, "run", "--conf=conf.ini"], cwd=f"{top}/job", stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def output():
        with open(f"{top}/job/log", errors="replace") as f:
            return f.read()

    if not wait_until(lambda: output().count("| up\n") == len(hosts), 120):
        p.kill()
        raise RuntimeError(f"the job did not start: {output()[-2000:]}")
    job = output().split("JOB", 1)[1].split()[0]
    mark = f"PADDLE_JOB_ID=JOB{job}".encode()
    time.sleep(0.5)
    before = {pid: stat_of(pid)[19] for pid in marked(mark)}
    began = time.monotonic()
    p.send_signal(signal.SIGINT)

    def gone(pid):
        words = stat_of(pid)
        return not words or words[0] in "ZX" or words[19] != before[pid]

    left = set(before)
    while left and time.monotonic() - began < 20:
        left = {pid for pid in left if not gone(pid)}
        time.sleep(0.002)
    ms = (time.monotonic() - began) * 1000
    status = p.wait(timeout=30)
    exit_ms = (time.monotonic() - began) * 1000
    return len(before), ms, exit_ms, status, len(marked(mark))


def peer(top, name, hosts, port):
    """How many of its processes are alive 5 s after Ctrl-C."""
    mark = f"BENCH_MARK={name}-{os.getpid()}"
    with open(f"{top}/peer.sh", "w") as f:
        f.write(PROGRAM)
    os.chmod(f"{top}/peer.sh", 0o755)
    ssh = (f"-F /dev/null -o BatchMode=yes -o LogLevel=ERROR -o SendEnv=BENCH_MARK -o UserKnownHostsFile={top}/known_hosts "
           f"-i {top}/client_key -p {port}")
    env = dict(os.environ, BENCH_MARK=mark.split("=")[1], PDSH_SSH_ARGS_APPEND=ssh, PDSH_RCMD_TYPE="ssh")
    if name == "pdsh":
        command = ["pdsh", "-R", "ssh", "-f", str(len(hosts)), "-w", ",".join(hosts), f"{top}/peer.sh"]
    else:
        command = ["clush", "-f", str(len(hosts)), "-o", ssh, "-w", ",".join(hosts), f"{top}/peer.sh"]
    with open(f"{top}/peer.log", "wb") as log:
        p = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, start_new_session=True)

    def up():
        with open(f"{top}/peer.log", errors="replace") as f:
            return f.read().count(": up\n") == len(hosts)

    if not wait_until(up, 120):
        with open(f"{top}/peer.log", errors="replace") as f:
            print(f"{name} did not start everywhere: {f.read()[-500:]}", file=sys.stderr)
    for _ in range(2):  # a terminal sends it to the whole group; pdsh wants it twice
        os.killpg(p.pid, signal.SIGINT)
        time.sleep(0.1)
    try:
        p.wait(timeout=10)
    except subprocess.TimeoutExpired:
        p.kill()
    time.sleep(5)
    left = marked(mark.encode())
    sleeps = [pid for pid in left if words_of(pid, "cmdline")[:1] != [b"sshd"]]
    for pid in sleeps:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(sleeps)


def run(top, ctl, n, rounds):
    hosts, port = start_sshd(top, n)
    figures = [ours(top, ctl, hosts, port) for _ in range(rounds)]
    for processes, ms, exit_ms, status, alive in figures:
        print(f"{processes} processes on {n} hosts: all dead after {ms:.0f} ms, paddlectl ended after {exit_ms:.0f} ms "
              f"with {status}, {alive} alive")
    ms = statistics.median(f[1] for f in figures)
    alive = sum(f[4] for f in figures)
    peers = [f"{name} leaves {peer(top, name, hosts, port)} of {3 * n + n}" for name in ("pdsh", "clush") if shutil.which(name)]
    print(f"bench ctrlc ratio {1000 / ms:.2f} target >=1.00 peer \"1 s; {'; '.join(peers) or 'no peer here'}\" "
          f"ours {ms:.0f} ms theirs 1000 ms; {alive} alive")
    return 1 if alive else 0


def stop(top):
    with open(f"{top}/sshd.pid") as f:
        os.kill(int(f.read()), signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == "stop":
        stop(sys.argv[2])
    else:
        sys.exit(run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
