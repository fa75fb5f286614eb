#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data_copies = 2 on three ssh hosts, each with a trainer, and data files that were sent to their trainers: a detached job that may restart has
# each data file on two nodes, and survives the loss of node 0, where the head is, and of another node, with the bits of an undisturbed job.
# data_copies = 1: the job ends, and names the file and the lost node.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
export XDG_CACHE_HOME=$TMP/cache
ctl=$BIN/paddlectl SEED=${SEED:-1}
ssh_hosts 3
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
[job]
job_dispatch_package = ws
on_failure = restart
detach_lease = 10
END2
{ cat conf.ini && printf '[env]\nPADDLE_FAULT = slow.train.step:150\n'; } >slow.ini
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
job_dir() { ls -d "$fx/node$1/home/"*/"$JOB" "$fx/node$1/$JOB" "$fx/node$1/"*/"$JOB" 2>/dev/null | head -1; }
data_of() { (cd "$(job_dir "$1")/workspace/train" && echo part-*); }
steps() { [ "$(cat "$(job_dir "$1")/log/train.log" 2>/dev/null | grep -c 'Batch [0-9]')" -ge "$2" ]; }

# detach NAME OPTION...: a detached job, which has saved a checkpoint
detach() {
    JOB=$("$ctl" run --conf=slow.ini --outputs="$1" --detach "${@:2}" 2>detach.err) || die "run --detach: $(cat detach.err)"
    wait_for 120 "a checkpoint" grep -qs 'Saved output/pass-' "$(job_dir 0)/log/train.log"
    wait_for 120 "step 9" steps 0 9
}
# lose NODE: this host's agent and guardian are killed, and with them its processes
lose() {
    local agent
    agent=$(cat "$(job_dir "$1")/.agent/pid")
    kill -9 "$(awk '/^PPid:/ { print $2 }' "/proc/$agent/status")" "$agent" || die "node $1 has no agent"
}

head_is() { "$ctl" status --conf=conf.ini >status.log 2>&1; grep -q "^head: node $1" status.log; }

# --- undisturbed and attached: each file is on one node
expect 0 "$ctl" run --conf=conf.ini --outputs=plain
want=$(digest plain/latest) JOB=$(basename "$(readlink -f plain/latest)")
[ ${#want} = 64 ] || die "no model"
[ "$(data_of 0)" = "part-00000 part-00001" ] || die "attached: node 0 has $(data_of 0)"
expect 0 "$ctl" run --conf=conf.ini --dry-run --detach
has "each sent to its trainer and to one more node (data_copies = 2):"
grep -q "trainer 2  127.0.0.3  2 files, .*, copy on 127.0.0.1$" <<<"$OUT" || die "$OUT"
has_not warning

# --- detached: the next node has them, too. Node 0, the head, is lost; then node 1
for node in 0 1; do
    detach "lost$node"
    [ "$(data_of 0)" = "part-00000 part-00001 part-00004 part-00005" ] || die "node 0 has $(data_of 0)"
    [ "$(data_of 1)" = "part-00000 part-00001 part-00002 part-00003" ] || die "node 1 has $(data_of 1)"
    [ "$(data_of 2)" = "part-00002 part-00003 part-00004 part-00005" ] || die "node 2 has $(data_of 2)"
    lose $node
    [ $node != 0 ] || wait_for 60 "status names the new head" head_is 1
    expect 0 "$ctl" attach --conf=conf.ini "$JOB"
    has "127.0.0.$((node + 1)) (node $node) is lost: "
    has_not "restart 2"
    [ $node != 0 ] || has "127.0.0.2 (node 1) is the head now"
    expect 0 "$ctl" fetch --conf=conf.ini --outputs="lost$node" "$JOB"
    [ "$(digest "lost$node/$JOB")" = "$want" ] || die "node $node was lost: other bits"
done

# --- data_copies = 1: the files of node 0 are gone with it
detach one --data_copies=1 --max_restarts=1
[ "$(data_of 1)" = "part-00002 part-00003" ] || die "node 1 has $(data_of 1)"
lose 0
ended() { grep -qs 'no source sent it' "$(job_dir 1)/result.json"; }
wait_for 120 "node 1 has given up" ended
grep -q 'no source sent it: node 0 (127.0.0.1): it is lost; the launcher: it is not connected' "$(job_dir 1)/result.json" ||
    die "$(cat "$(job_dir 1)/result.json")"
