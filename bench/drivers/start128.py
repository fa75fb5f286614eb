# SPDX-License-Identifier: Apache-2.0
"""start128.py - see start128.sh."""
import os
import subprocess
import sys
import time

from hosts import Sshd


def timed(command, env):
    """(wall seconds, CPU seconds of it and its children)"""
    with open("/dev/null", "r+b") as null:
        began = time.monotonic()
        pid = subprocess.Popen(command, stdin=null, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        said = pid.stdout.read()
        _, status, used = os.wait4(pid.pid, 0)
        wall = time.monotonic() - began
    pid.returncode = os.waitstatus_to_exitcode(status)
    if pid.returncode or said.strip():
        raise RuntimeError(f"{command[0]} ended with {pid.returncode}: {said[-2000:].decode(errors='replace')}")
    return wall, used.ru_utime + used.ru_stime


def commands(sshd, ctl, hosts):
    # all that a user could set to make them faster: no configuration files, only the one key, no forwarding, no shared connections
    ssh = (f"-F /dev/null -a -x -o BatchMode=yes -o LogLevel=ERROR -o ControlMaster=no -o IdentitiesOnly=yes -o CheckHostIP=no "
           f"-o PreferredAuthentications=publickey -o GSSAPIAuthentication=no -o UpdateHostKeys=no -o UserKnownHostsFile={sshd.top}/known_hosts "
           f"-o GlobalKnownHostsFile=/dev/null -i {sshd.top}/client_key -p {sshd.port}")
    conf = f"{sshd.top}/conf.ini"
    with open(conf, "w") as f:
        f.write(sshd.conf([(h, sshd.port) for h in hosts], ""))
    n, names = len(hosts), ",".join(hosts)
    return {
        "ours": lambda _: ([ctl, "exec", f"--conf={conf}", f"--fanout={n}", "true"], os.environ),
        "pdsh": lambda fanout: (["pdsh", "-R", "ssh", "-f", str(fanout), "-w", names, "true"],
                                dict(os.environ, PDSH_SSH_ARGS_APPEND=ssh)),
        "clush": lambda fanout: (["clush", "-f", str(fanout), "-o", ssh, "-w", names, "true"], os.environ),
    }


def run(sshd, ctl, n, rounds):
    hosts = [f"127.1.{i // 100}.{i % 100 + 1}" for i in range(n)]
    todo = commands(sshd, ctl, hosts)
    best, fanout = {}, {}  # name -> (wall, CPU), each the least of all runs; of what fanout the wall was the least

    def measure(name, how_many, when):
        wall, cpu = timed(*todo[name](how_many))
        print(f"{when}: {name:5} -f{how_many:<3} {wall:6.2f} s, CPU {cpu:6.2f} s", flush=True)
        if name not in best or wall < best[name][0]:
            fanout[name] = how_many
        best[name] = tuple(map(min, best.get(name, (wall, cpu)), (wall, cpu)))
        time.sleep(1)  # the hosts' processes end

    for name in ("pdsh", "clush"):
        for how_many in sorted({max(1, n // k) for k in (1, 2, 4, 8)}):
            measure(name, how_many, "trial")
    for i in range(rounds):
        for name in todo:
            measure(name, fanout.get(name, n), f"round {i}")
    for peer in ("pdsh", "clush"):
        for what, k, target in (("wall", 0, 4), ("cpu", 1, 20)):
            ours, theirs = best["ours"][k], best[peer][k]
            print(f"bench start128-{what}-{peer} ratio {theirs / ours:.2f} target >={target:.2f} peer \"{peer} -f{fanout[peer]}, its best\" "
                  f"ours {ours:.3f} s theirs {theirs:.3f} s")


if __name__ == "__main__":
    server = Sshd(sys.argv[1])
    try:
        run(server, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    finally:
        server.stop()
