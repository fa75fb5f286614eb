#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# engine = slurm: jobs in allocations of a real Slurm, of the user's own and of paddlectl run. The
# way to a model, Ctrl-C, a failed trainer, an allocation that is refused, late, cancelled, or at
# its time limit, killed programs, batch jobs, and an srun that holds bytes back.
# release only (launch_srun and launch_job run with sanitizers)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/engines/slurm.sh" <<<"engine = slurm"

# --- the hosts are the allocation's, in its order; each command runs on its node
expect 3 inside "$ctl" exec --conf=conf.ini 'echo "on $SLURMD_NODENAME"; exit 3'
for i in 0 1 2; do has "sn$i: on sn$i"; done
has "paddlectl: sn[0-2]: exit status 3"
none_left

# --- one step for all nodes; a user's own connect wins
expect 0 inside "$ctl" conf --conf=conf.ini
has "launch = srun "
has "--nodes=3 --ntasks=3 --ntasks-per-node=1 ; engine = slurm"
expect 0 inside "$ctl" conf --conf=conf.ini --connect="srun -w %h"
has "launch =  "

# --- a job makes its allocation: the model comes back, the allocation is given back. Threads are as
# many as allocated CPUs, not as those of the machine
expect 0 "$ctl" run --conf=conf.ini --nodes=3 --trainer_count=auto
has "3 nodes"
has "sn2/pserver"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
none_left
threads() { grep -ho "[0-9]* thread(s)" root-0/JOB*/log/paddle_trainer.INFO | sort -u; }
[ "$(threads)" = "1 thread(s)" ] || die "with 1 CPU: $(threads)"
expect 0 inside "$ctl" ps --conf=conf.ini
has "done"

# --- no allocation: one message with the reason, nothing left
refused() { # refused TEXT OPTION...
    expect 3 timeout 30 "$ctl" run --conf=conf.ini "${@:2}"
    [[ $OUT =~ ^"paddlectl: no allocation: ".*$1 ]] || die "no '$1' in: $OUT"
    [ "$(wc -l <<<"$OUT")" = 1 ] || die "more than one line: $OUT"
    [ -z "$(squeue -h -t pending,running)" ] || die "a request is left: $(squeue)"
}
refused "invalid partition specified: nosuch" --nodes=2 --partition=nosuch
# Slurm 22.05 would let it wait for ever, 24.11 refuses it
refused "Slurm cannot give it: Partition|configuration is not available" --nodes=6
refused "Invalid --time specification" --nodes=2 --time=soon
refused "Memory specification can not be satisfied" --nodes=2 --slurm.options=--mem=100G
# Slurm 22.05 would let it wait for ever, 24.11 refuses it
refused "PartitionTimeLimit|PartitionConfig|time limit is invalid" --nodes=2 --partition=short --time=60
expect 3 inside "$ctl" run --conf=conf.ini --nodes=4
has "the Slurm allocation has 3 nodes, not 4 (--nodes)"
mkdir bin
ln -s "$(command -v env)" bin/env
expect 2 env PATH="$TMP/bin" "$ctl" run --conf=conf.ini --nodes=2
has "engine = slurm needs salloc, which is not installed here"
expect 2 "$ctl" ps --conf=conf.ini
has "run paddlectl in an allocation"

# --- a mistake in conf.ini or train.ini is found before anything is started
mkdir fake
for program in salloc sbatch srun; do printf '#!/bin/sh\ntouch %s/called\n' "$TMP"; done |
    tee fake/salloc fake/sbatch fake/srun >/dev/null
chmod +x fake/*
wrong() { # wrong TEXT OPTION...
    expect 2 env PATH="$TMP/fake:$PATH" "$ctl" run --conf=conf.ini "${@:2}"
    has "$1"
    [ ! -e called ] || die "something was started: $OUT"
}
line=$(grep -n '^learning_rate' ws/train.ini)
cp ws/train.ini right.ini
sed -i 's/^learning_rate.*/learning_rat = 0.1/' ws/train.ini
for how in --nodes=2 '--nodes=2 --detach' '--launch=srun --hosts=mpi'; do
    # shellcheck disable=SC2086
    wrong "ws/train.ini:${line%%:*}: " $how
done
SLURM_JOB_NODELIST=sn0 SLURM_JOB_NUM_NODES=1 SLURM_JOB_ID=1 wrong "ws/train.ini:${line%%:*}: "
mv right.ini ws/train.ini
wrong "pservers: 3 nodes wanted, the list has 2 hosts" --nodes=2 --pservers=3
wrong "trainers: write all, none" --launch=srun --hosts=mpi --trainers=al
wrong "there is no workspace" --nodes=2 --job_dispatch_package=

# --- the nodes are busy: said once; Ctrl-C cancels the request
start other salloc -Q --kill-command=TERM --nodes=3 --exclusive sleep 100
other=$PID
wait_for 30 "the other allocation" eval '[ -n "$(squeue -h -t R)" ]'
start late "$ctl" run --conf=conf.ini --nodes=2
wait_for 30 "a word about the wait" grep -q "waiting for an allocation: Slurm job" late.log
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "Ctrl-C while waiting: $(cat late.log)"
grep -q "stopped while waiting" late.log || die "$(cat late.log)"
[ "$(squeue -h | wc -l)" = 1 ] || die "the request is left: $(squeue)"
kill "$other"
scancel --user="$(id -un)"
none_left

# --- a job that uses more than the allocation's memory fails before Slurm ends it; without --mem it
# has the memory of the machine
large() { timeout 120 "$ctl" run --conf=conf.ini --nodes=3 --num_passes=1 --set layer.e.size=100000 "$@"; }
expect 1 large --slurm.options=--mem=60M
[[ $OUT =~ need\ .*\ on\ .*,\ which\ has\ 0.0629[0-9]*\ GB ]] || die "no reason in: $OUT"
none_left
expect 0 large
none_left

# --- a rank that never calls back is named, with the time
step=$(inside "$ctl" conf --conf=conf.ini | sed -n 's/^launch = \(srun [^;]*[^ ]\) *;.*/\1/p')
printf '#!/bin/sh\n[ "$SLURM_PROCID" != 1 ] || exec sleep 100\nexec "$@"\n' >late
chmod +x late
expect 3 inside "$ctl" exec --conf=conf.ini --launch="$step $TMP/late" --connect_timeout=3 true
has "rank 1 (host sn1) has not called back within 3 s"
[ "$(grep -c '^paddlectl' <<<"$OUT")" = 1 ] || die "$OUT"
none_left

# --- in an allocation of one's own a job goes on without paddlectl: --detach, the key d
cat >own.sh <<END
"$ctl" run --conf=conf.ini --trainer_command=./wait.sh \$1
"$ctl" ps --conf=conf.ini
"$ctl" stop --conf=conf.ini latest
END
cat >keys.py <<END
import sys, time
sys.path.insert(0, "$TOP/tests/support")
from screen import Screen
s = Screen(["salloc", "-Q", "--nodes=3", "sh", "own.sh"])
s.until(lambda: any("keys: d detach" in line for line in s.lines), "the keys")
time.sleep(0.5)
s.type("d")
s.wait()
print("\\n".join(s.lines))
END
printf '#!/bin/sh\nexec sleep 309.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
for how in "inside sh own.sh --detach" "env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 keys.py"; do
    OUT=$($how 2>&1) || die "$how: $OUT"
    has "running"
    has "stopped on 3 nodes"
    none_left
done

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

# --- whatever ends, all ends, and the allocation is given back
waiting() { [ "$(pgrep -fc "^sleep 307.$$")" = 3 ]; }
begin() {
    start run "$ctl" run --conf=conf.ini --nodes=3 --trainer_command=./wait.sh --save_on_stop=0 \
        "$@"
    wait_for 60 "three trainers" waiting
    salloc=$(pgrep -x -P "$PID" salloc) && inner=$(pgrep -P "$salloc") || die "no salloc"
}
none_runs() { # of this test: others may run at the same time
    local p
    for p in $(pgrep -f "^$ctl run --conf=conf.ini"); do
        [ "$(readlink "/proc/$p/cwd")" != "$PWD" ] || return 1
    done
}
ends() { # ends STATUS TEXT
    wait "$PID"
    local got=$?
    [ $got = "$1" ] && grep -q "$2" run.log || die "$got, not $1 with $2: $(cat run.log)"
    none_left
    wait_for 120 "paddlectl ends" none_runs
}
begin
kill -INT "$PID"
ends 130 "was stopped"
begin
kill -KILL "$PID"
ends 137 "nodes"
begin
kill -KILL "$salloc"
ends 1 "has ended before the job: salloc was killed"
begin
kill -KILL "$inner"
ends 1 "has ended before the job: its paddlectl was killed"
begin --attach_lease=5
scancel "$(squeue -h -o %i)"
ends 130 "has ended before the job$"

# --- a lost node: with a step for each node, and an allocation that survives it, the job goes on
printf '#!/bin/sh\n[ "$PADDLE_RESTART_COUNT" = 0 ] || exit 0\nexec sleep 307.%s\n' $$ >ws/wait.sh
begin --on_failure=restart --slurm.options=-k --attach_lease=3 --connect="srun --overlap --mem=0 \
--mpi=none --cpu-bind=none --unbuffered -N1 -n1 -w %h"
scontrol update NodeName=sn2 State=DOWN Reason=test
# shellcheck disable=SC2046
kill -9 $(pgrep -f "$TMP/root-2/") 2>/dev/null
ends 0 "sn2 (node 2) is lost"
scontrol update NodeName=sn2 State=RESUME
wait_for 30 "sn2 is back" eval '[ "$(sinfo -h -N -p main -t idle -o %N | wc -l)" = 3 ]'

# --- before the time limit the job saves and ends
start run "$ctl" run --conf=conf.ini --nodes=3 --num_passes=1000000 --time=1 --save_time=52
wait "$PID"
[ $? = 130 ] || die "the time limit: $(cat run.log)"
grep -q "Terminated: saving the model" run.log || die "$(cat run.log)"
ls output/latest/*/manifest.json >/dev/null || die "no model: $(find output/latest/)"
none_left

# --- --detach: a batch job. Slurm starts it again: it goes on with its last checkpoint. scancel
batch() { # batch OPTION...: the id of the Slurm job
    id=$("$ctl" run --conf=conf.ini --nodes=3 --detach "$@" 2>err) || die "$(cat err)"
    [[ $id =~ ^[0-9]+$ ]] || die "the id: $id"
    log=output/slurm-$id.log
}
batch
grep -q "Slurm job $id is submitted" err || die "$(cat err)"
wait_for 60 "the batch job is done" grep -q "paddlectl | done in" "$log"
none_left
expect 3 "$ctl" run --conf=conf.ini --nodes=3 --detach --partition=nosuch
has "paddlectl: no batch job: invalid partition specified: nosuch"
batch --num_passes=1000000 --saving_period=500
wait_for 60 "a checkpoint" grep -q " | Saved " "$log"
expect 0 "$ctl" ps --conf=conf.ini --allocation="$id"
has "running"
scontrol requeue "$id" || die requeue
# Slurm lets it wait for two minutes, which the test does not.
wait_for 60 "the job waits again" eval '[ "$(squeue -h -o "%T %r")" = "PENDING BeginTime" ]'
sleep 1
scontrol update JobId="$id" StartTime=now || die "scontrol update"
wait_for 60 "a new start" grep -q "paddlectl | resuming from JOB.*: pass [1-9]" "$log"
scancel "$id"
none_left
mv ws ws-hidden
id=$("$ctl" run --conf=conf.ini --nodes=3 --detach 2>err) || die "$(cat err)"
wait_for 60 "the missing workspace" grep -q "paddlectl: sn0 does not see ws" "output/slurm-$id.log"
mv ws-hidden ws
none_left

# --- without --unbuffered srun passes complete lines only: found at once, not when an agent hangs
connect=$(inside "$ctl" conf --conf=conf.ini | sed -n 's/^connect = \(.*%h\) .*/\1/p')
[[ $connect == *" --unbuffered "* ]] || die "connect is $connect"
expect 3 inside "$ctl" run --conf=conf.ini --connect="${connect/ --unbuffered/}" --connect_timeout=3
has "only with complete lines"
has "--unbuffered"
none_left
