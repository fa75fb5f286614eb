#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data_copies = 2 where two nodes are on one machine: five nodes on three addresses. Both trainers are on the first address. The copies of their
# data files are on two nodes of the second one, which only run pservers: so a detached job survives the loss of the first machine, the head's,
# with the bits of an undisturbed job. All nodes on one machine: a warning.
# release only (time)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
export XDG_CACHE_HOME=$TMP/cache
ctl=$BIN/paddlectl SEED=${SEED:-1}
export SSHD_FIXTURE_NODES=2
ssh_hosts 5
cd "$TMP" || exit
nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$fx/node[0-9]/.*JOB"; }
on_cleanup() { wait_for 60 "no process of a job is left" nothing_left; hosts_end; }
tiny_data ws/train
tiny_model train='train/*' vocabulary=300 hidden=12 optimizer=adam rate=0.02 <<'END2' >ws/train.ini
batch_size = 48
num_passes = 3
log_period = 1
saving_period_by_batches = 4
reconnect_timeout = 0.5
n_streams = 6
reproducible = topology
checkpoint_copies = 2
END2
cat "$fx/conf.ini" - >conf.ini <<'END2'
[cluster]
pservers = nodes 2-4
trainers = nodes 0-1
[job]
job_dispatch_package = ws
on_failure = restart
detach_lease = 10
END2
{ cat conf.ini && printf '[env]\nPADDLE_FAULT = slow.train.step:150\n'; } >slow.ini
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
job_dir() { ls -d "$fx/node$1/home/"*/"$JOB" "$fx/node$1/$JOB" "$fx/node$1/"*/"$JOB" 2>/dev/null | head -1; }
data_of() { (cd "$(job_dir "$1")/workspace/train" 2>/dev/null && echo part-*); }
saved() { grep -qs 'Saved output/pass-' "$(job_dir 0)/log/train.log"; }

# --- one machine: paddlectl says that its loss is the loss of both copies
{ local_nodes 3; printf '%s\n' '[job]' 'job_dispatch_package = ws' 'on_failure = restart'; } >local.ini
expect 0 "$ctl" run --conf=local.ini --dry-run --detach
has "warning: data_copies = 2: 3 of 3 trainers have both copies of their data files on one machine"

# --- undisturbed
expect 0 "$ctl" run --conf=conf.ini --outputs=plain
want=$(digest plain/latest)
[ ${#want} = 64 ] || die "no model"

# --- detached: the first machine is lost
JOB=$("$ctl" run --conf=slow.ini --outputs=lost --detach 2>detach.err) || die "run --detach: $(cat detach.err)"
[[ $(cat detach.err) != *warning* ]] || die "$(cat detach.err)"
wait_for 120 "a checkpoint" saved
for node in 0 2; do
    [ "$(data_of $node)" = "part-00000 part-00001 part-00002" ] || die "node $node has $(data_of $node)"
done
for node in 1 3; do
    [ "$(data_of $node)" = "part-00003 part-00004 part-00005" ] || die "node $node has $(data_of $node)"
done
[[ $(data_of 4) != *part-0* ]] || die "node 4 has $(data_of 4)"
pids=()
for node in 0 1; do
    agent=$(cat "$(job_dir $node)/.agent/pid")
    pids+=("$(awk '/^PPid:/ { print $2 }' "/proc/$agent/status")" "$agent")
done
kill -9 "${pids[@]}" || die "no agents: ${pids[*]}"
expect 0 "$ctl" attach --conf=conf.ini "$JOB"
expect 0 "$ctl" fetch --conf=conf.ini --outputs=lost "$JOB"
[ "$(digest "lost/$JOB")" = "$want" ] || die "the first machine was lost: other bits"
