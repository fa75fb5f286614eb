#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A trainer's cable is pulled: no FIN, no RST, only silence. The server notices though nothing is to be sent to it: with on_trainer_lost =
# continue the other one trains to the end, with fail the job ends with its name. Two jobs on the same three hosts, at once.
# release only (what is waited for is the kernel's keepalive, 11 s)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
net_hosts 3
cd "$TMP" || exit 1
(umask 077 && head -c 32 /dev/urandom >key)
mkdir data
awk 'BEGIN { for (b = 0; b < 4000; b++) print (b * 7919) % 400, (b * 31) % 40 }' >data/a
awk 'BEGIN { for (b = 0; b < 4000; b++) print (b * 104729) % 400, (b * 17) % 40 }' >data/b
tiny_model vocabulary=400 <<'END' >train.ini
log_period = 1
num_passes = 100000
batch_size = 2000
END
on_host() { # on_host NODE NAME COMMAND...
    local host=$1 name=$2
    shift 2
    start "$name" ip netns exec "$(cat "$ns/name")-n$host" "$@"
}
declare -A SERVER FIRST SECOND
for policy in fail continue; do
    on_host 0 "$policy-server" "$WORKER" pserver --save_dir="$TMP" --nics=10.77.0.1 --port=0 --key_file=key --num_gradient_servers=2 --on_trainer_lost=$policy --reconnect_timeout=1
    SERVER[$policy]=$PID
    wait_for 60 "a pserver listens" grep -q '^pserver listens' $policy-server.log
    list=$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/10.77.0.1:\1/p' $policy-server.log)
    for id in 0 1; do
        on_host $((id + 1)) "$policy-$id" "$WORKER" trainer --pservers="$list" --trainer_id=$id --key_file=key --num_gradient_servers=2 \
            --on_trainer_lost=$policy --save_dir="$TMP/$policy"
        [ $id = 0 ] && FIRST[$policy]=$PID || SECOND[$policy]=$PID
    done
done
for policy in fail continue; do wait_for 60 "$policy trains" grep -q 'Batch 2,' $policy-0.log; done
"$fixture" cut "$ns" 2
wait "${SERVER[fail]}"
[ $? = 1 ] || die "the server of the job that fails: $(tail -n 4 fail-server.log)"
wait "${FIRST[fail]}"
[ $? = 1 ] || die "the other trainer of the job that fails: $(tail -n 4 fail-0.log)"
for log in fail-server fail-0; do
    grep -q 'trainer 1 (10.77.0.3:[0-9]*) is gone in step' $log.log || die "no name in $log: $(tail -n 4 $log.log)"
done
wait_for 120 "the other job goes on" grep -q 'its streams 1-1 are left out from here on (on_trainer_lost = continue)' continue-server.log
batch() { grep -c 'Batch' continue-0.log; }
before=$(batch)
more() { [ "$(batch)" -gt $((before + 5)) ]; }
wait_for 120 "trainer 0 trains alone" more
for p in "${SERVER[continue]}" "${FIRST[continue]}" "${SECOND[continue]}" "${SECOND[fail]}"; do kill -KILL "$p" 2>/dev/null; done
grep -h 'is gone in step' fail-server.log continue-server.log | tail -n 2
