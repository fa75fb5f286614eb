#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cable of one of three machines that share nothing is pulled in the middle of a training: the job goes on without it from the copies of
# its part of the checkpoint, to the same bits; what ran there has ended by itself; plugged in again it has no part in the job.
# release only (what is waited for is the kernel's keepalive, and leases)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
net_hosts 3
cd "$TMP" || exit 1
mkdir -p ws/data && awk 'BEGIN { for (f = 0; f < 6; f++) for (i = 0; i < 200; i++) print (i * 7919 + f) % 400, (i * 31) % 40 >("ws/data/" f) }'
tiny_model vocabulary=400 optimizer=adagrad <<END >ws/train.ini
log_period = 1
num_passes = 3
batch_size = 48
n_streams = 6
reproducible = topology
saving_period_by_batches = 5
checkpoint_copies = 2
END
cat "$ns/conf.ini" - >conf.ini <<'END'
[job]
job_dispatch_package = ws
on_failure = restart
END
on_client() { "$fixture" exec "$ns" "$ctl" "$@"; }
# All of the data on all nodes, once and for all.
OUT=$(on_client dispatch --conf=conf.ini 2>dispatch.err) || die "dispatch: $OUT $(cat dispatch.err)"
ws=$(grep -o '/[^ ]*/workspaces/ws-[0-9a-f]*' <<<"$OUT" | head -1)
[ -n "$ws" ] || die "dispatch did not say where: $OUT"
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
expect 0 on_client run --conf=conf.ini --job_workspace="$ws" --outputs=plain
want=$(digest plain/latest)
[ ${#want} = 64 ] || die "no model: $OUT"
{ cat conf.ini && printf '[env]\nPADDLE_FAULT = slow.train.step:100\n'; } >slow.ini
start cut on_client run --conf=slow.ini --job_workspace="$ws" --outputs=cut
run=$PID
wait_for 60 "a checkpoint" grep -q 'Saved output/pass-00000-batch-000010' cut.log
"$fixture" cut "$ns" 2
wait "$run" || die "status $?: $(grep -v ', Batch' cut.log)"
OUT=$(grep -v ', Batch' cut.log)
has "restart 1 of 3 after node 2 (10.77.0.3): its agent is gone"
has "Resuming from output/pass-0000"
has_not "restart 2"
[ "$(digest cut/latest)" = "$want" ] || die "other bits than the job that nothing happened to: $OUT"
# what status says of the machine that cannot be reached: node 0 knows its id
expect 3 on_client status --conf=conf.ini --connect_timeout=3
has "lost: 10.77.0.3: its agent is gone"
[[ $OUT =~ \ 2\ \ 10\.77\.0\.3\ +lost ]] || die "$OUT"
ended() { ! "$fixture" pids "$ns" | grep '^2 ' | grep -q paddle_; }
wait_for 120 "what ran on the lost host has ended" ended
"$fixture" join "$ns" 2
none_left() { [ -z "$("$fixture" pids "$ns")" ]; }
wait_for 120 "nothing is left on the hosts" none_left

# --- a detached job: the machine of the head is cut off, and plugged in again when its lease is over
# and node 1 or 2 is the head. It starts nothing, and the job ends with the same bits
JOB=$(on_client run --conf=slow.ini --job_workspace="$ws" --outputs=healed --detach --detach_lease=8 2>detach.err) ||
    die "run --detach: $(cat detach.err)"
status_has() { on_client status --conf=conf.ini --connect_timeout=3 "$JOB" >status.log 2>&1; grep -qE "$1" status.log; }
wait_for 60 "a checkpoint" status_has '^progress: pass (1/3 .*, batch (1[2-9]|[2-9][0-9])|[23]/3)'
"$fixture" cut "$ns" 0
wait_for 90 "another node is the head" status_has '^head: node [12]'
"$fixture" join "$ns" 0
expect 0 on_client attach --conf=conf.ini "$JOB"
grep -qE '10[.]77[.]0[.](2 .node 1|3 .node 2). is the head now' <<<"$OUT" ||
    die "the new head: $OUT"
has "10.77.0.1 (node 0) is lost: it was silent for "
has_not "restart 2"
expect 0 on_client fetch --conf=conf.ini --outputs=healed "$JOB"
[ "$(digest "healed/$JOB")" = "$want" ] || die "other bits than the job that nothing happened to: $OUT"
wait_for 120 "nothing is left on the hosts" none_left
exit 0
