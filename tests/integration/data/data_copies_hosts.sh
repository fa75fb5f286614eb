#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data_copies = 2 where two nodes are on one machine: seven nodes on four addresses. Both trainers are on the first address. The copies of their
# data files are on two nodes of the second one, which only run pservers: so a detached job survives the loss of the first machine, the head's,
# with the bits of an undisturbed job. Then the agents make new copies on a third machine: the job survives the loss of the second one, too. ps
# says how many files have one copy meanwhile. Each part of the checkpoint is on both remaining pservers before training goes on. All nodes on
# one machine: a warning.
# release only (time)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/data_copies.sh"
export SSHD_FIXTURE_NODES=2
copies_job 7 'pservers = nodes 2,4' 'trainers = nodes 0-1'
slow_job 700
first='part-00000 part-00001 part-00002' second='part-00003 part-00004 part-00005'
ps_says() { "$ctl" ps --conf=conf.ini >ps.log 2>&1; grep -q "$JOB: [0-9]* data files (.*) have fewer copies than data_copies" ps.log; }
ps_is_silent() { ! ps_says && grep -q "$JOB: .*(node 1) is lost" ps.log; }
copied() { grep -hs 'has new copies of' "$(job_dir 2)/log/paddle_agent.INFO" "$(job_dir 3)/log/paddle_agent.INFO" >copied.log; }

# --- one machine: paddlectl says that its loss is the loss of both copies
{ local_nodes 3; printf '%s\n' '[job]' 'job_dispatch_package = ws' 'on_failure = restart'; } >local.ini
expect 0 "$ctl" run --conf=local.ini --dry-run --detach
has "warning: data_copies = 2: 3 of 3 trainers have both copies of their data files on one machine"

# --- undisturbed
expect 0 "$ctl" run --conf=conf.ini --outputs=plain
want=$(digest plain/latest)
[ ${#want} = 64 ] || die "no model"

# --- detached: the first machine is lost
detach lost
[[ $(cat detach.err) != *warning* ]] || die "$(cat detach.err)"
for node in 0 2; do
    [ "$(data_of $node)" = "$first" ] || die "node $node has $(data_of $node)"
done
for node in 1 3; do
    [ "$(data_of $node)" = "$second" ] || die "node $node has $(data_of $node)"
done
for node in 4 5 6; do
    [[ $(data_of $node) != *part-0* ]] || die "node $node has $(data_of $node)"
done
lose 0 1
wait_for 60 "ps says that files have one copy" ps_says
wait_for 60 "new copies" copied
wait_for 60 "ps says nothing any more" ps_is_silent

# --- then the second one, which had the only copies before. Each file is on another machine now.
for file in $first $second; do
    [[ "$(data_of 4) $(data_of 5) $(data_of 6)" == *"$file"* ]] || die "no other machine has $file: $(cat copied.log)"
done
lose 2 3
# A pserver goes to node 6. The one on node 4 had its copy on node 2.
resumed() {
    pass=$(sed -n 's/.*Resuming from \(output[^:]*\):.*/\1/p' "$(job_dir 4)/log/train.log" "$(job_dir 5)/log/train.log" \
        "$(job_dir 6)/log/train.log" 2>/dev/null | tail -1)
    [ -n "$pass" ]
}
wait_for 90 "trainer 0 continues" resumed
parts=$(cd "$(job_dir 4)/$pass" && ls)
[[ $parts == *dense-00000-of-00002*dense-00001-of-00002* ]] || die "$pass on node 4: $parts"
[ "$(cd "$(job_dir 6)/$pass" && ls)" = "$parts" ] || die "$pass on node 6: $(cd "$(job_dir 6)/$pass" && ls)"
expect 0 "$ctl" attach --conf=conf.ini "$JOB"
grep -q "127.0.0.2:[0-9]* (node 2) is lost: " <<<"$OUT" || die "$OUT"
expect 0 "$ctl" fetch --conf=conf.ini --outputs=lost "$JOB"
[ "$(digest "lost/$JOB")" = "$want" ] || die "two machines were lost: other bits"
