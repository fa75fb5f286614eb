#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node is gone in the middle of a training (its agent is killed, at a step that a seed chooses): the job goes on without it from its last
# checkpoint, to the same bits; with a spare node in its place; detached; and what it says when only that node had a part of the checkpoint.
# release only (a sanitizer finds in test_agent_lost and in the other jobs what there is to find, in less time)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl SEED=${SEED:-1}
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$TMP/node"; }
on_cleanup() { wait_for 30 "no process of a job is left" nothing_left; }

tiny_data ws/train
tiny_model train='train/*' vocabulary=300 hidden=12 dropout=0.3 optimizer=adam rate=0.02 <<END >ws/train.ini
batch_size = 48
num_passes = 3
log_period = 1
saving_period_by_batches = 4
reconnect_timeout = 0.5
END
# The data lies on all nodes: here in one folder.
cat >conf.ini <<END
[cluster]
hosts = local*3
root_dir = $TMP/node%n
port = 0
[job]
job_workspace = $TMP/ws
data_layout = shared
on_failure = restart
detach_lease = 8
END
{ cat conf.ini && printf '[env]\nPADDLE_FAULT = slow.train.step:100\n'; } >slow.ini
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
same() { [ ${#2} = 64 ] && [ "$(digest "$1")" = "$2" ] || die "$1 has other bits than the job that nothing happened to; SEED=$SEED"; }
SEED_STATE=$SEED
rand() { SEED_STATE=$(((SEED_STATE * 1103515245 + 12345) % 2147483648)); VALUE=$((SEED_STATE / 65536 % $1)); }
batches() { [ "$(cat "$1"/JOB*/log/train.log 2>/dev/null | grep -c 'Batch [0-9]')" -ge "$2" ]; }
saved() { grep -qs 'Saved output/pass-' node0/JOB*/log/train.log; }
# lose NODE STEP [unsaved]: kills that node's agent once trainer 0, on node 0, has come to this step, and a checkpoint is complete. What
# the agent's guardians do then is their business.
lose() {
    wait_for 120 "step $2" batches node0 "$2"
    [ "${3:-}" = unsaved ] || wait_for 120 "a checkpoint" saved
    kill -9 "$(cat "node$1"/JOB*/.agent/pid)" || die "node $1 has no agent"
}
clear_nodes() { rm -rf node[0-9]; }

# --- what comes out when nothing happens: any number of trainers and servers; two of them with other roundings
T=(--reproducible=topology --n_streams=6)
expect 0 "$ctl" run --conf=conf.ini --outputs=plain "${T[@]}"
topology=$(digest plain/latest)
clear_nodes
expect 0 "$ctl" run --conf=conf.ini --outputs=plain --pservers=2 --trainers=2
two=$(digest plain/latest)
clear_nodes

# --- one of three nodes, with its pserver and its trainer; its part of each checkpoint is on another one, too
rand 2; node=$((1 + VALUE))
rand 16; step=$((8 + VALUE))
start lost "$ctl" run --conf=slow.ini --outputs=lost "${T[@]}" --checkpoint_copies=2
run=$PID
lose $node $step
wait "$run" || die "status $?, node $node lost at step $step: $(grep -v ', Batch' lost.log)"
OUT=$(grep -v ', Batch' lost.log)
has "local.$node (node $node) is lost: its agent is gone"
has "restart 1 of 3 after node $node (local.$node): its agent is gone"
has "2 pservers are left; 2 trainers are left"
has "Resuming from output/pass-0000"
has "the job lost local.$node on the way"
has_not "restart 2"
same lost/latest "$topology"
[ "$(ls lost/latest/pass-00002 | grep -c '^dense.*-of-00002')" = 2 ] || die "servers: $(ls lost/latest/pass-00002)"
grep -q '"status": "done"' node0/JOB*/result.json && grep -q "\"host\": \"local.$node\"" node0/JOB*/result.json || die "$(cat node0/JOB*/result.json)"
clear_nodes

# --- node 0, where the head is: node 1 takes its part. While the job goes on, and when it is over, all commands find the new head.
# The tests of all passes are known there, too, although trainer 0 of the first attempt had reported them to node 0
rand 16; step=$((20 + VALUE))
sed '/^train = /a test = train/*' ws/train.ini >ws/tested.ini
start head "$ctl" run --conf=slow.ini --outputs=head "${T[@]}" --checkpoint_copies=2 --config=tested.ini
run=$PID
lose 0 $step
goes_on() { grep -q 'node 1 (local.1) is the head now' head.log; }
wait_for 60 "node 1 is the head" goes_on
knows() { "$ctl" status --conf=conf.ini >status.log 2>&1; grep -q '^head: node 1' status.log && grep -q '^now: ' status.log; }
wait_for 60 "status names the head" knows
grep -q '^lost: local.0: ' status.log || die "$(cat status.log)"
"$ctl" ps --conf=conf.ini >ps.log 2>&1 || die "ps: $(cat ps.log)"
grep -q running ps.log || die "ps: $(cat ps.log)"
grep -q ': local.0 (node 0) is lost: ' ps.log && grep -q ': local.1 (node 1) is the head now' ps.log || die "ps: $(cat ps.log)"
wait "$run" || die "status $?, node 0 lost at step $step: $(grep -v ', Batch' head.log)"
OUT=$(grep -v ', Batch' head.log)
has "local.0 (node 0) is lost: "
has "restart 1 of 3 after node 0 (local.0): "
has "; 2 pservers are left; 2 trainers are left; node 1 (local.1) is the head now"
has "Resuming from output/pass-0000"
has "the job lost local.0 on the way"
has_not "restart 2"
same head/latest "$topology"
grep -q '"status": "done"' node1/JOB*/result.json && grep -q '"host": "local.0"' node1/JOB*/result.json || die "$(cat node1/JOB*/result.json)"
JOB=$(basename node1/JOB*)
[ "$(grep -c '"ev":"test"' node1/JOB*/passes)" -ge 3 ] || die "passes: $(cat node1/JOB*/passes)"
expect 0 "$ctl" ps --conf=conf.ini
grep -q "$JOB.*done" <<<"$OUT" || die "ps: $OUT"
expect 0 "$ctl" fetch --conf=conf.ini --outputs=best --pass=best "$JOB"
expect 0 "$ctl" logs --conf=conf.ini "$JOB"
has "Resuming from output/pass-0000"
clear_nodes

# --- a spare node takes the place of the one that trains and serves: as many of both, so the same bits without reproducible = topology, too. It
# was sent no data; that of the lost one's streams only the launcher has now
sed "s|^job_workspace.*|job_dispatch_package = $TMP/ws|; s/^data_layout.*/data_layout = dispatched/" slow.ini >apart.ini
rand 16; step=$((8 + VALUE))
start spare "$ctl" run --conf=apart.ini --outputs=spare --pservers=2 --trainers=2 --checkpoint_copies=2
run=$PID
lose 1 $step
wait "$run" || die "status $?, node 1 lost at step $step: $(grep -v ', Batch' spare.log)"
OUT=$(grep -v ', Batch' spare.log)
has "its pserver goes to node 2 (local.2); its trainer goes to node 2 (local.2)"
has "local.2/trainer | --- restart 1 of 3 after node 1 (local.1)"
same spare/latest "$two"
[ "$(ls node0/JOB*/workspace/train | tr '\n' ' ')" = "part-00000 part-00002 part-00004 " ] || die "node 0 has $(ls node0/JOB*/workspace/train)"
[ "$(ls node2/JOB*/workspace/train | tr '\n' ' ')" = "part-00001 part-00003 part-00005 " ] || die "node 2 has $(ls node2/JOB*/workspace/train)"
clear_nodes

# --- node 0 is lost, and the spare node takes its roles: node 1, the new head, gets the list of data files, so the spare node is sent the
# files of the first trainer
start spare0 "$ctl" run --conf=apart.ini --outputs=spare0 --pservers=2 --trainers=2 --checkpoint_copies=2
run=$PID
lose 0 "$step"
wait "$run" || die "status $?, node 0 lost at step $step: $(grep -v ', Batch' spare0.log)"
OUT=$(grep -v ', Batch' spare0.log)
has "its pserver goes to node 2 (local.2); its trainer goes to node 2 (local.2); node 1 (local.1) is the head now"
same spare0/latest "$two"
[ "$(ls node2/JOB*/workspace/train | tr '\n' ' ')" = "part-00000 part-00002 part-00004 " ] || die "node 2 has $(ls node2/JOB*/workspace/train)"
clear_nodes

# --- after the loss of node 0 the job is stopped; run --resume goes on with its model, without node 0
start stopped "$ctl" run --conf=slow.ini --outputs=stopped "${T[@]}" --checkpoint_copies=2
run=$PID
lose 0 "$step"
goes_on() { grep -q 'Resuming from output/pass-0000' stopped.log; }
wait_for 60 "node 1 is the head" goes_on
JOB=$(basename node1/JOB*)
expect 0 "$ctl" stop --save --conf=conf.ini "$JOB"
wait "$run"
status=$?
[ $status = 130 ] || die "a stopped job: $status: $(grep -v ', Batch' stopped.log)"
OUT=$(grep -v ', Batch' stopped.log)
has "saved: output/pass-"
has "to continue: paddlectl run --resume"
expect 0 "$ctl" run --conf=conf.ini --outputs=resumed "${T[@]}" --checkpoint_copies=2 --resume="$JOB"
has "pass-0000"
same resumed/latest "$topology"
clear_nodes

# --- nobody else has its part: that is said, with the part and the node
start alone "$ctl" run --conf=slow.ini --outputs=alone "${T[@]}"
run=$PID
lose 2 12
wait "$run"
[ $? = 1 ] || die "it went on without a third of its checkpoint: $(grep -v ', Batch' alone.log)"
OUT=$(grep -v ', Batch' alone.log)
has "there is no whole checkpoint output/pass-*"
has "-00002-of-00003.bin is missing"
has "lost: node 2 (local.2)"
has "the job had lost local.2 before"
has_not "restart 2"
clear_nodes

# --- the same of a detached job before it had saved anything: it begins anew; status names the node
JOB=$("$ctl" run --conf=slow.ini --outputs=detached --detach "${T[@]}" --saving_period_by_batches=0 --checkpoint_copies=2 2>detach.err) ||
    die "run --detach: $(cat detach.err)"
lose 1 6 unsaved
lost() { "$ctl" status --conf=conf.ini >status.log 2>&1; grep -q 'lost: local.1: its agent is gone' status.log; }
wait_for 60 "status names the lost node" lost
grep -q '^ *1  *local.1  *lost' status.log || die "$(cat status.log)"
expect 0 "$ctl" attach --conf=conf.ini "$JOB"
has "local.1 (node 1) is lost"
expect 0 "$ctl" fetch --conf=conf.ini --outputs=detached "$JOB"
same detached/latest "$topology"
grep -q 'There is no checkpoint in output: training starts from the beginning' node0/JOB*/log/train.log || die "$(cat node0/JOB*/log/train.log)"
clear_nodes

# --- a detached job loses node 0, where the head is, with its guardian: nobody is attached, so a majority of the nodes chooses node 1. Later
# commands find the new head, and the tests of all passes are known there. docs/folders/head.md, "Loss of node 0"
JOB=$("$ctl" run --conf=slow.ini --outputs=elected --detach "${T[@]}" --checkpoint_copies=2 --config=tested.ini 2>detach.err) ||
    die "run --detach: $(cat detach.err)"
wait_for 120 "step $step" batches node0 "$step"
wait_for 120 "a checkpoint" saved
agent=$(cat node0/JOB*/.agent/pid)
guardian=$(awk '/^PPid:/ { print $2 }' "/proc/$agent/status")
kill -9 "$guardian" "$agent" || die "node 0 has no agent"
wait_for 60 "status names the new head" knows
grep -q '^lost: local.0: it was silent for [0-9]* ms, and a majority has chosen node 1' status.log || die "$(cat status.log)"
"$ctl" ps --conf=conf.ini >ps.log 2>&1 || die "ps: $(cat ps.log)"
grep -q "$JOB.*running" ps.log || die "ps: $(cat ps.log)"
grep -q "^$JOB: local.0 (node 0) is lost: it was silent for .*, and a majority has chosen node 1" ps.log || die "ps: $(cat ps.log)"
grep -q "^$JOB: local.1 (node 1) is the head now" ps.log || die "ps: $(cat ps.log)"
expect 0 "$ctl" attach --conf=conf.ini "$JOB"
has "local.0 (node 0) is lost: it was silent for "
has "local.1 (node 1) is the head now"
has_not "restart 2"
grep -q 'gets the vote of this node' node2/JOB*/log/paddle_agent.INFO || die "node 2 has not voted: $(cat node2/JOB*/log/paddle_agent.INFO)"
grep -q '"status": "done"' node1/JOB*/result.json && grep -q '"host": "local.0"' node1/JOB*/result.json || die "$(cat node1/JOB*/result.json)"
[ "$(grep -c '"ev":"test"' node1/JOB*/passes)" -ge 3 ] || die "passes: $(cat node1/JOB*/passes)"
grep -q 'restart 1 of 3 after node 0 (local.0): it was silent' node1/JOB*/log/train.log || die "$(grep -v Batch node1/JOB*/log/train.log)"
expect 0 "$ctl" fetch --conf=conf.ini --outputs=elected "$JOB"
same elected/latest "$topology"
expect 0 "$ctl" logs --conf=conf.ini "$JOB"
has "Resuming from output/pass-0000"
nothing_left || die "processes are left: $(ls -l /proc/[0-9]*/cwd 2>/dev/null | grep "$TMP/node")"
clear_nodes

# --- the same with data files that were sent to the trainers' nodes only. All voters have the list of them; here node 0 has no trainer
elected() { # elected NAME NODE OPTION...: starts detached, with trainer 0 on NODE, and kills node 0 with its guardian
    local agent guardian
    JOB=$("$ctl" run --conf=apart.ini --outputs="$1" --detach "${T[@]}" --checkpoint_copies=2 --data_copies=1 "${@:3}" 2>detach.err) ||
        die "run --detach: $(cat detach.err)"
    wait_for 120 "step $step" batches "node$2" "$step"
    agent=$(cat node0/JOB*/.agent/pid)
    guardian=$(awk '/^PPid:/ { print $2 }' "/proc/$agent/status")
    kill -9 "$guardian" "$agent" || die "node 0 has no agent"
    wait_for 60 "status names the new head" knows
}
elected apart 1 --pservers="nodes 0-1" --trainers="nodes 1-2"
expect 0 "$ctl" attach --conf=conf.ini "$JOB"
has "local.0 (node 0) is lost: it was silent for "
has_not "restart 2"
expect 0 "$ctl" fetch --conf=conf.ini --outputs=apart "$JOB"
same apart/latest "$topology"
[ "$(ls node1/JOB*/workspace/train node2/JOB*/workspace/train | grep -c part-)" = 6 ] || die "data: $(ls node[12]/JOB*/workspace/train)"
clear_nodes

# --- only node 0 had the files of its trainer, and no other node has them: the message names file and node (with copies: data/data_copies.sh)
elected gone 0 --max_restarts=1
"$ctl" attach --conf=conf.ini "$JOB" >attach.log 2>&1
[ $? = 1 ] || die "it went on without data: $(grep -v Batch attach.log)"
OUT=$(grep -v ', Batch' attach.log)
has "is not on node 1, and no source sent it: node 0 (local.0): it is lost; the launcher: it is not connected"
has "the job had lost local.0 before"
has "to continue: paddlectl run --resume=$JOB"
clear_nodes

# --- two of three nodes are lost at once: no majority is left, and the third one ends its part, too
JOB=$("$ctl" run --conf=slow.ini --outputs=two --detach "${T[@]}" --checkpoint_copies=2 2>detach.err) || die "run --detach: $(cat detach.err)"
wait_for 120 "step 8" batches node0 8
kill -9 "$(cat node1/JOB*/.agent/pid)" "$(cat node2/JOB*/.agent/pid)" || die "no agents"
ended() { [ -f node0/JOB*/result.json ]; }
wait_for 60 "node 0 has ended" ended
grep -q 'no majority of the 3 nodes that vote has answered node 0, the head, for 4000 ms' node0/JOB*/result.json || die "$(cat node0/JOB*/result.json)"
wait_for 30 "no process is left" nothing_left
exit 0
