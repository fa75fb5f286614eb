#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# [cluster] launch = srun: one step of a real Slurm starts all nodes. srun hands its standard input to
# all of them, so the secret and the seed come that way.
. "$(dirname "$0")/../../support/lib.sh"
srun="srun --overlap --mem=0 --ntasks-per-node=1 --mpi=none --cpu-bind=none --kill-on-bad-exit"
. "$TOP/tests/support/engines/slurm.sh" <<END
hosts = slurm
launch = $srun
END

# --- fresh nodes; node i is rank i; the secret is in no environment
expect 3 inside "$ctl" exec --conf=conf.ini 'echo "on $SLURMD_NODENAME, rank $SLURM_PROCID"; env | grep PADDLECTL; exit 3'
for i in 0 1 2; do has "sn$i: on sn$i, rank $i"; done
has_not PADDLECTL
has "paddlectl: sn[0-2]: exit status 3"
none_left

# --- a job; then Ctrl-C, and a paddlectl that is killed
expect 0 inside "$ctl" run --conf=conf.ini
has "3 nodes"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
none_left
printf '#!/bin/sh\nexec sleep 308.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
three() { [ "$(pgrep -fc "^sleep 308.$$")" = 3 ]; }
for signal in INT KILL; do
    start run salloc -Q --nodes=3 "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=5
    wait_for 60 "three trainers" three
    kill -$signal "$(pgrep -P "$PID" -x paddlectl)" || die "no paddlectl"
    wait "$PID" 2>/dev/null
    none_left
done

# --- the step ends: its end is the cause, shown once
start run salloc -Q --nodes=3 "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=5
wait_for 60 "three trainers" three
kill -9 "$(pgrep -o -P "$(pgrep -P "$PID" -x paddlectl)" -x srun)" || die "no srun"
wait "$PID"
[ "$(grep -c "^paddlectl: .*srun was ended by signal KILL" run.log)" = 1 ] || die "$(cat run.log)"
none_left
