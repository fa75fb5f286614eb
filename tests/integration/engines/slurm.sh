#!/usr/bin/env bash
# engine = slurm: jobs in an allocation of a real Slurm. The way to a model, Ctrl-C, a failed
# trainer, an allocation that is cancelled, and an srun that holds bytes back.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
fixture=$TOP/tests/support/engines/slurm-fixture
on_cleanup() { "$fixture" stop "$TMP/slurm"; }
out=$("$fixture" start "$TMP/slurm" 3)
rc=$?
[ $rc -ne 77 ] || skip "${out#skip: }"
[ $rc -eq 0 ] || die "no Slurm: $out"
export SLURM_CONF=$TMP/slurm/slurm.conf
cd "$TMP" || exit 1

tiny_data ws/data
tiny_model vocabulary=300 test='data/*' <<'END' >ws/train.ini
END
cat >conf.ini <<END
[cluster]
engine = slurm
root_dir = $TMP/root-%n
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
[train]
num_passes = 2
END
left() { pgrep -f "$TMP/root-." >/dev/null; }
none_left() {
    wait_for 60 "no process is left" eval '! left'
    wait_for 60 "no allocation is left" eval '[ -z "$(squeue -h)" ]'
}
inside() { salloc -Q --nodes=3 "$@"; }

# --- the hosts are the allocation's, in its order; each command runs on its node
expect 3 inside "$ctl" exec --conf=conf.ini 'echo "on $SLURMD_NODENAME"; exit 3'
for i in 0 1 2; do has "sn$i: on sn$i"; done
has "paddlectl: sn[0-2]: exit status 3"
none_left

# --- a job: the model comes back, and the allocation is free again
expect 0 inside "$ctl" run --conf=conf.ini
has "3 nodes"
has "sn2/pserver"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
none_left
expect 0 inside "$ctl" ps --conf=conf.ini
has "done"

# --- a failed trainer: its node is named
cat >ws/fail.sh <<END
#!/bin/sh
[ "\$PADDLE_TRAINER_ID" != 1 ] || { echo the cause; exit 7; }
exec sleep 307.$$
END
printf '#!/bin/sh\nexec sleep 307.%s\n' $$ >ws/wait.sh
chmod +x ws/fail.sh ws/wait.sh
expect 1 inside "$ctl" run --conf=conf.ini --trainer_command=./fail.sh
has "the cause"
has "sn1 (node 1), trainer 1"
none_left

# --- Ctrl-C: all ends, also what Slurm does not see
waiting() { [ "$(pgrep -fc "^sleep 307.$$")" = 3 ]; }
start run inside "$ctl" run --conf=conf.ini --trainer_command=./wait.sh
wait_for 60 "three trainers" waiting
kill -INT "$(pgrep -f "^$ctl run --conf=conf.ini --trainer_command=./wait.sh")" || die "no paddlectl"
wait "$PID"
status=$?
[ $status = 130 ] || die "Ctrl-C: $status: $(cat run.log)"
none_left

# --- the allocation is cancelled: the job fails, and nothing stays on the nodes
start run inside "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=5
wait_for 60 "three trainers" waiting
scancel "$(squeue -h -o %i)" || die "scancel"
wait "$PID"
status=$?
[ $status != 0 ] || die "a cancelled allocation ended with 0: $(cat run.log)"
none_left
wait_for 60 "paddlectl ends" eval '! pgrep -f "^$ctl run --conf=conf.ini"'

# --- without --unbuffered srun passes complete lines only: found at once, not when an agent hangs
connect=$(inside "$ctl" conf --conf=conf.ini | sed -n 's/^connect = \(.*%h\) .*/\1/p')
[[ $connect == *" --unbuffered "* ]] || die "connect is $connect"
expect 3 inside "$ctl" run --conf=conf.ini --connect="${connect/ --unbuffered/}" --connect_timeout=3
has "only with complete lines"
has "--unbuffered"
none_left
