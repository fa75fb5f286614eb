#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How agents run programs of all kinds, and our own worker bound to CPUs.
. "$(dirname "$0")/../../support/lib.sh"
PYTHONPATH=$TOP/tests/support timeout 600 python3 "$TOP/tests/support/agent/agent_run.py" "$BIN/paddle_agent" "$TMP/root" "$@" || die "see above"
# A daemon's stderr is its job's log/agent.log; a sanitizer writes there.
if grep -rlE 'Sanitizer|runtime error' "$TMP"; then die "the agent's own errors, see above"; fi
[ $# = 0 ] || exit 0

# --- our pserver by hand: PADDLE_BIND pins its threads to the cores of its CPUs, in turn
cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
PADDLE_BIND=cores start pinned taskset -c "$cpu" "$BIN/paddle_worker" pserver --nics=127.0.0.1 --port=0 --ports_num=2
wait_for 20 "the pserver listens" grep -q "listens on" "$TMP/pinned.log"
for t in /proc/$PID/task/*; do
    [ "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$t/status")" = "$cpu" ] || die "thread $t is elsewhere: $(cat "$t/status")"
done
grep -q "threads are pinned to the cores of CPUs $cpu in turn" "$TMP/pinned.log" || die "$(cat "$TMP/pinned.log")"
if [ "$(nproc)" -gt 1 ]; then
    PADDLE_BIND=cores start free "$BIN/paddle_worker" pserver --nics=127.0.0.1 --port=0 --ports_num=2
    wait_for 20 "the pserver listens" grep -q "listens on" "$TMP/free.log"
    spread() { [ "$(cat /proc/$PID/task/*/status | sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' | sort -u | wc -l)" -gt 2 ]; }
    siblings=$(cat /sys/devices/system/cpu/cpu"$cpu"/topology/thread_siblings_list 2>/dev/null)
    [ "$siblings" != "$cpu" ] || wait_for 20 "threads on different cores" spread
fi
exit 0
