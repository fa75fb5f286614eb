#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data_copies = 2 on three ssh hosts, each with a trainer, and data files that were sent to their trainers: a detached job that may restart has
# each data file on two nodes, and survives the loss of node 0, where the head is, and of another node, with the bits of an undisturbed job.
# data_copies = 1: the job ends, and names the file and the lost node.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/data_copies.sh"
copies_job 3
slow_job 150
steps() { [ "$(cat "$(job_dir "$1")/log/train.log" 2>/dev/null | grep -c 'Batch [0-9]')" -ge "$2" ]; }

# Node 1, which begins first, or on a machine that is busy node 2.
head_moved() { "$ctl" status --conf=conf.ini >status.log 2>&1; grep -q "^head: node [12]" status.log; }

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
    wait_for 120 "step 9" steps 0 9
    [ "$(data_of 0)" = "part-00000 part-00001 part-00004 part-00005" ] || die "node 0 has $(data_of 0)"
    [ "$(data_of 1)" = "part-00000 part-00001 part-00002 part-00003" ] || die "node 1 has $(data_of 1)"
    [ "$(data_of 2)" = "part-00002 part-00003 part-00004 part-00005" ] || die "node 2 has $(data_of 2)"
    lose $node
    [ $node != 0 ] || wait_for 60 "status names the new head" head_moved
    expect 0 "$ctl" attach --conf=conf.ini "$JOB"
    has "127.0.0.$((node + 1)) (node $node) is lost: "
    has_not "restart 2"
    [ $node != 0 ] || grep -qE '127.0.0.(2 .node 1|3 .node 2). is the head now' <<<"$OUT" || die "the new head: $OUT"
    expect 0 "$ctl" fetch --conf=conf.ini --outputs="lost$node" "$JOB"
    [ "$(digest "lost$node/$JOB")" = "$want" ] || die "node $node was lost: other bits"
done

# --- data_copies = 1: the files of node 0 are gone with it
detach one --data_copies=1 --max_restarts=1
wait_for 120 "step 9" steps 0 9
[ "$(data_of 1)" = "part-00002 part-00003" ] || die "node 1 has $(data_of 1)"
lose 0
ended() { grep -qs 'no source sent it' "$(job_dir 1)/result.json"; }
wait_for 120 "node 1 has given up" ended
grep -q 'no source sent it: node 0 (127.0.0.1): it is lost; the launcher: it is not connected' "$(job_dir 1)/result.json" ||
    die "$(cat "$(job_dir 1)/result.json")"
