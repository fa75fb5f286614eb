#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Node 0 sends paddlectl what is no message, while its agent lives and trains: paddlectl closes the connection, and node 1 becomes the head
# only after the lease of node 0, when no process of node 0 is left. A second paddlectl (attach) that is connected to node 0 does not keep it.
# release only (time)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
cd "$TMP" || exit 1
nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$TMP/pod-$1"; }
on_cleanup() { wait_for 30 "no process of a job is left" nothing_left ""; }

# way NAME COMMAND...: the command on the host; its output is broken once there is a file break-NAME.
cat >way <<'END'
#!/bin/bash
top=$(dirname "$0") name=$1; shift
export HOME=$top/$name; cd "$HOME" || exit 1
exec 3<&0
cat <&3 | setsid --wait "$@" 3<&- | /usr/bin/python3 -c '
import os, sys
while b := os.read(0, 65536):
    os.write(1, b"\xff" * 4096 if os.path.exists(sys.argv[1]) else b)' "$top/break-$name"
END
chmod +x way
cat >good <<'END'
#!/bin/bash
name=$1; shift
export HOME=$(dirname "$0")/$name; cd "$HOME" || exit 1
exec setsid --wait "$@"
END
chmod +x good
mkdir pod-0 pod-1 pod-2
tiny_data ws/train
tiny_model train='train/*' vocabulary=300 hidden=12 <<END >ws/train.ini
batch_size = 48
num_passes = 2
log_period = 1
saving_period_by_batches = 4
reconnect_timeout = 0.5
END
cat >conf.ini <<END
[cluster]
hosts = pod-[0-2]
connect = $TMP/way %h
root_dir = $TMP/pod-%n/root
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
on_failure = restart
attach_lease = 2
[env]
PADDLE_FAULT = slow.train.step:100
END
saved() { grep -qs 'Saved output/pass-' pod-0/root/JOB*/log/train.log; }
start run "$ctl" run --conf=conf.ini --outputs=out --checkpoint_copies=2
run=$PID
wait_for 60 "a checkpoint" saved
sed 's|/way %h|/good %h|' conf.ini >good.ini
start attach "$ctl" attach --conf=good.ini
wait_for 30 "attach follows" grep -q 'Batch ' attach.log
touch break-pod-0
begun=$(date +%s%N)
told() { grep -q 'takes over as the head in ' run.log; }
wait_for 10 "paddlectl gives node 0 up" told
nothing_left 0 && die "the agent of node 0 did not live"
rm break-pod-0
new_head() { grep -qs 'is the head now' run.log; }
wait_for 30 "node 1 is the head" new_head
ms=$((($(date +%s%N) - begun) / 1000000))
nothing_left 0 || die "node 0 still has processes, and node 1 is the head"
[ $ms -ge 4400 ] || die "node 1 is the head after $ms ms, before the end of the lease"
wait "$run" || die "status $?: $(grep -v ', Batch' run.log)"
OUT=$(grep -v ', Batch' run.log)
has "pod-0 (node 0) is lost: "
has "the job lost pod-0 on the way"
has_not "restart 2"
grep -q 'keeps it now' attach.log && die "attach has claimed a job whose paddlectl lives: $(cat attach.log)"
exit 0
