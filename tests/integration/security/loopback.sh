#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job whose hosts are all `local` listens on loopback only: agents, their exchange of packages and
# data files, pservers. With `nic` it listens on all addresses, so the test would see it.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
endless_job

# listening: address:port of each TCP socket on which a process of this test's jobs listens
listening() {
    python3 - "$TMP" <<'END'
import os, re, socket, struct, sys

def processes():
    for p in os.listdir("/proc"):
        try:
            cwd = os.readlink(f"/proc/{p}/cwd")
            if p.isdigit() and cwd.startswith(sys.argv[1] + "/node"):
                yield p
        except OSError:
            pass

inodes = set()
for p in processes():
    for fd in os.listdir(f"/proc/{p}/fd"):
        try:
            m = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{p}/fd/{fd}"))
        except OSError:
            continue
        if m:
            inodes.add(m[1])
for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
    if not os.path.exists(f"/proc/net/{name}"):
        continue
    for line in open(f"/proc/net/{name}").readlines()[1:]:
        w = line.split()
        if w[3] != "0A" or w[9] not in inodes:
            continue
        host, port = w[1].split(":")
        raw = b"".join(struct.pack("=I", int(host[i:i + 8], 16)) for i in range(0, len(host), 8))
        print(socket.inet_ntop(family, raw), int(port, 16))
END
}
[ "$(id -u)" = 0 ] || skip "only root can see the sockets of an agent"

start run "$ctl" run --conf=conf.ini
run=$PID
wait_for 60 "training" grep -q "Pass 3" run.log
found=$(listening)
[ "$(grep -c . <<<"$found")" -ge 6 ] || die "two agents and two pservers with two ports each: $found"
! grep -v "^127\.0\.0\.1 " <<<"$found" || die "not on loopback: $found"
kill -INT "$run"
wait "$run"
on_cleanup

start open "$ctl" run --conf=conf.ini --nic=lo
run=$PID
wait_for 60 "training" grep -q "Pass 3" open.log
listening | grep -v "^127\.0\.0\.1 " >/dev/null || die "the agents with nic=lo cannot be seen: $(listening)"
kill -INT "$run"
wait "$run"
exit 0
