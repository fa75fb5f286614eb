#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# MPICH's mpiexec (Hydra), whose ranks have PMI_RANK: launch with fresh nodes, a job, Ctrl-C;
# paddle_worker by hand. The agent with sanitizers is too large for a command line (launch.sh).
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
. "$TOP/tests/support/engines/mpi.sh"
command -v mpiexec.mpich >/dev/null || skip "no mpiexec.mpich (Debian: mpich)"
ctl=$BIN/paddlectl worker=$BIN/paddle_worker
cd "$TMP" || die cd
ssh_hosts 2
mpi_hosts "$fx" "$TMP"
mpi="mpiexec.mpich -launcher ssh -launcher-exec $TMP/rsh -iface lo -hosts host-0,host-1 -ppn 1 -n 2"
tiny_data ws/data
tiny_model vocabulary=300 test='data/*' </dev/null >ws/train.ini
printf '%s\n' '[cluster]' 'hosts = mpi' "launch = $mpi" "root_dir = $TMP/node%n" \
    "port = $((10000 + RANDOM % 10000))" '[job]' 'job_dispatch_package = ws' '[train]' 'num_passes = 2' >conf.ini
left() { pgrep -f "$TMP/node|$TMP/rsh" >/dev/null; }
none_left() { wait_for 60 "no process is left" eval '! left'; }
host=$(uname -n | tr -c 'A-Za-z0-9._\n' -)

expect 3 "$ctl" exec --conf=conf.ini 'env | grep -E "PMI|PADDLECTL"; pwd; exit 3'
has "$host.[0-1]: "
has "$host.[0-1]: exit status 3"
has_not PMI_
has_not PADDLECTL
ls node[0-1]/.paddlectl/bin/agent-* >/dev/null || die "no agent"
none_left
expect 0 "$ctl" run --conf=conf.ini
has "2 nodes"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
none_left
printf '#!/bin/sh\nexec sleep 304.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh
wait_for 60 "two trainers" eval '[ "$(pgrep -fc "^sleep 304.$$")" = 2 ]'
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "Ctrl-C: $(cat run.log)"
none_left

cd ws || die cd
expect 0 timeout 120 mpiexec.mpich -n 3 "$worker" --port=$((10000 + RANDOM % 10000)) --num_passes=2
has "trainers to come: 2"
has "Saved output/pass-00001"
