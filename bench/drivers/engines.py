# SPDX-License-Identifier: Apache-2.0
"""engines.py - see engines.sh."""
import os
import statistics
import sys
import time

from hosts import Sshd
from start128 import commands, timed

TARGET = 1.3


def ssh_commands(top, ctl, n):
    sshd = Sshd(top)
    todo = commands(sshd, ctl, addresses(n))
    return {"ours": todo["ours"](n), "clush": todo["clush"](n)}, sshd.stop


def mpi_commands(top, ctl, n):
    """mpirun reaches the addresses by ssh. Each daemon has a folder of its own for temporary files."""
    sshd, hosts, rsh = Sshd(top), addresses(n), f"{top}/rsh"
    sshd.know([(h, sshd.port) for h in hosts])
    with open(rsh, "w") as f:
        f.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
                f"exec ssh -F none -a -x -o BatchMode=yes -o UserKnownHostsFile={top}/known_hosts -i {top}/client_key -p {sshd.port} $host "
                f'"mkdir -p {top}/tmp/$host; export TMPDIR={top}/tmp/$host;" "$@"\n')
    os.chmod(rsh, 0o755)
    os.makedirs(f"{top}/tmp")
    env = dict(os.environ, TMPDIR=f"{top}/tmp", OMPI_MCA_plm_rsh_agent=rsh, PRTE_MCA_plm_ssh_agent=rsh, OMPI_MCA_oob_tcp_if_include="lo")
    # it may warn, and an output ends the bench
    mpirun = ["sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh", "mpirun", "--bind-to", "none", "--map-by", "ppr:1:node"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    conf = write_conf(top, "mpi", f"hosts = {','.join(hosts)}")
    return {"ours": ([ctl, "exec", f"--conf={conf}", "true"], env),
            "mpirun": (mpirun + ["--host", ",".join(hosts), "true"], env)}, sshd.stop


def slurm_commands(top, ctl, n):
    """In an allocation of n nodes."""
    os.makedirs(top)
    conf = write_conf(top, "slurm", "")
    srun = ["srun", f"--nodes={n}", f"--ntasks={n}", "true"]
    return {"ours": ([ctl, "exec", f"--conf={conf}", "true"], os.environ), "srun": (srun, os.environ)}, lambda: None


def write_conf(top, engine, line):
    path = f"{top}/conf.ini"
    with open(path, "w") as f:
        f.write(f"[cluster]\nengine = {engine}\nroot_dir = {top}/root/%n\n{line}\n")
    return path


def addresses(n):
    return [f"127.1.{i // 100}.{i % 100 + 1}" for i in range(n)]


def run(engine, todo, n, rounds):
    seconds = {name: [] for name in todo}
    for i in range(rounds + 1):
        for name, (command, env) in todo.items():
            wall, cpu = timed(command, env)
            print(f"{engine}: {f'round {i}' if i else 'not counted'}: {name:6} {wall:6.2f} s, CPU {cpu:6.2f} s", flush=True)
            if i:
                seconds[name].append(wall)
            time.sleep(0.5)  # the nodes' processes end
    ours, theirs = (statistics.median(v) for v in seconds.values())
    peer = list(todo)[1]
    print(f"bench engines-{engine} ratio {ours / theirs:.2f} target <={TARGET:.2f} peer \"{peer} true, {n} nodes\" "
          f"ours {ours:.3f} s theirs {theirs:.3f} s", flush=True)


if __name__ == "__main__":
    which, where, program, count, turns = sys.argv[1:]
    plan, end = {"ssh": ssh_commands, "mpi": mpi_commands, "slurm": slurm_commands}[which](where, program, int(count))
    try:
        run(which, plan, int(count), int(turns))
    finally:
        end()
