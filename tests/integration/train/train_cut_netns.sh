#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A network that is cut for longer than heartbeat_timeout, but not for reconnect_timeout, is no
# process that is stopped: nobody is given up, and when the cable is in again the job goes on to its
# end.
# release only (nothing in it is about memory, and it waits for TCP)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
net_hosts 3
cd "$TMP" || exit 1
(umask 077 && head -c 32 /dev/urandom >key)
tiny_data data
tiny_model vocabulary=300 <<'END' >train.ini
log_period = 1
num_passes = 60
batch_size = 48
reconnect_timeout = 60
heartbeat_timeout = 3
END
on_host() { # on_host NODE NAME COMMAND...
    local host=$1 name=$2
    shift 2
    start "$name" ip netns exec "$(cat "$ns/name")-n$host" "$@"
}
on_host 0 server "$WORKER" pserver --save_dir="$TMP" --nics=10.77.0.1 --port=0 --key_file=key \
    --num_gradient_servers=2 --reconnect_timeout=60 --heartbeat_timeout=3
server=$PID
wait_for 60 "a pserver listens" grep -q '^pserver listens' server.log
list=$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/10.77.0.1:\1/p' server.log)
trainers=()
for id in 0 1; do
    PADDLE_FAULT=slow.train.step:20 on_host $((id + 1)) trainer-$id "$WORKER" trainer \
        --pservers="$list" --trainer_id=$id --key_file=key --num_gradient_servers=2 \
        --save_dir="$TMP/out"
    trainers+=("$PID")
done
wait_for 60 "some batches" grep -q 'Batch 2,' trainer-0.log
"$fixture" cut "$ns" 2
sleep 9 # three times as long as a silence may last
! grep -h 'no sign of life\|is gone' ./*.log || die "the cut counts as a stopped process"
sleep 4 # by now both ends have closed the connections
"$fixture" join "$ns" 2
for p in "${trainers[@]}" "$server"; do
    wait "$p" || die "process $p failed: $(tail -n 3 ./*.log)"
done
! grep -h 'no sign of life' ./*.log || die "the cut counts as a stopped process"
grep -q 'the connection is lost in step' trainer-1.log ||
    die "the network was not cut: $(cat trainer-1.log)"
PIDS=()
