# SPDX-License-Identifier: Apache-2.0
"""hosts.py - what benches of the launcher share: one sshd under many names, jobs, and what /proc tells of them."""
import os
import shutil
import subprocess
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Sshd:
    """One sshd on all of 127.x, for many "hosts". top/conf says how to reach it; stop() ends it."""

    def __init__(self, top):
        self.top = top
        os.makedirs(f"{top}/home", exist_ok=True)
        os.makedirs("/run/sshd", exist_ok=True)
        for name in ("host_key", "client_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{top}/{name}"], check=True)
        shutil.copy(f"{top}/client_key.pub", f"{top}/authorized_keys")
        for self.port in range(21000 + os.getpid() % 5000, 32000, 7):
            with open(f"{top}/sshd_config", "w") as f:
                f.write(f"Port {self.port}\nListenAddress 0.0.0.0\nHostKey {top}/host_key\nPidFile none\n"
                        f"AuthorizedKeysFile {top}/authorized_keys\nPermitRootLogin yes\nPasswordAuthentication no\nStrictModes no\n"
                        "UsePAM no\nUseDNS no\nMaxStartups 1000\nAcceptEnv BENCH_MARK\nPrintMotd no\n"
                        f"SetEnv HOME={top}/home\n")  # the user's start-up files are no part of it
            self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", f"{top}/sshd_config", "-E", f"{top}/sshd.log"])
            while self.process.poll() is None:
                if "Server listening" in read_text(f"{top}/sshd.log"):
                    return
                time.sleep(0.02)
            os.remove(f"{top}/sshd.log")
        raise RuntimeError("sshd does not start")

    def know(self, addresses):
        """known_hosts for these (host, port)."""
        with open(f"{self.top}/host_key.pub") as f:
            key = " ".join(f.read().split()[:2])
        with open(f"{self.top}/known_hosts", "w") as f:
            f.writelines(f"[{h}]:{p} {key}\n" for h, p in addresses)

    def conf(self, addresses, job, cluster=""):
        """A conf.ini for nodes at these addresses."""
        self.know(addresses)
        return (f"[cluster]\nhosts = {', '.join(f'{h}:{p}' for h, p in addresses)}\nroot_dir = {self.top}/root/%n\n{cluster}"
                f"[ssh]\nidentity_file = {self.top}/client_key\nknown_hosts = {self.top}/known_hosts\nconfig = /dev/null\n"
                f"[job]\n{job}")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def write_job(where, programs, conf):
    """A job's folder: where/ws with these programs (name -> text), where/conf.ini."""
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(f"{where}/ws")
    for name, text in programs.items():
        with open(f"{where}/ws/{name}", "w") as f:
            f.write(text)
        os.chmod(f"{where}/ws/{name}", 0o755)
    with open(f"{where}/conf.ini", "w") as f:
        f.write(conf)


def own_server():
    with open(f"{TOP}/tests/support/own-server.py") as f:
        return f.read()


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def read_text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def words_of(pid, path):
    try:
        with open(f"/proc/{pid}/{path}", "rb") as f:
            return f.read().split(b"\0")
    except OSError:
        return []


def stat_of(pid):
    """The words of /proc/PID/stat from the state on; [] when it is gone."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def peak_kib(pid):
    """Peak resident memory; 0 when it is gone."""
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def cpu_s(pid):
    words = stat_of(pid)
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK") if words else 0.0
