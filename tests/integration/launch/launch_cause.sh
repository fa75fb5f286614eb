#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job of four hosts fails by one process's own error. paddlectl names that process's host, in the box, in `status` and in JSON;
# the cause is logged once, by that process; each other process logs one line that names it.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
ssh_hosts 4
cd "$TMP" || die cd
mkdir ws
tiny_data ws/data
tiny_model vocabulary=300 <<'E' >ws/train.ini
batch_size = 20
E
cat "$fx/conf.ini" - >conf.ini <<E
[cluster]
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
[train]
num_passes = 1000
E

# count TEXT MOST: at most MOST lines of the last run's output hold TEXT, and one does
count() {
    local n
    n=$(grep -cF -- "$1" out.log)
    [ "$n" -ge 1 ] && [ "$n" -le "$2" ] || die "$n lines with '$1', not 1 to $2: $(cat out.log)"
}
# failed NODE ROLE RANK: the last run's box, status and JSON name this process's host
failed() {
    local label job
    grep -qE "failed: [^ ]+ \(node $1\), $2 $3:" out.log || die "the box does not name node $1, $2 $3: $(cat out.log)"
    label=$(sed -nE "s/.* failed: ([^ ]+) \(node $1\), .*/\1/p" out.log | head -1)
    job=$(sed -nE 's/.*paddlectl: ([^ ]+) failed: .*/\1/p' out.log | head -1)
    expect 0 "$ctl" status "$job" --conf=conf.ini
    has "first failure: $label, $2 $3"
    expect 0 "$ctl" status "$job" --conf=conf.ini --json
    printf '%s' "$OUT" | /usr/bin/python3 -c '
import json, sys
f = json.load(sys.stdin)["first_failure"]
sys.exit([f["node"], f["role"], f["rank"]] != [int(sys.argv[1]), sys.argv[2], int(sys.argv[3])])' "$1" "$2" "$3" ||
        die "the JSON of status names another process: $OUT"
    "$fixture" left "$fx" || wait_for 60 "no process is left" "$fixture" left "$fx"
}

# --- one line of the data is bad: the trainer that reads it has failed, the others stop
for rank in 0 2 3; do
    cp -r ws bad
    # file I is read by trainer I modulo 4
    sed -i '50s/.*/12 oops/' "bad/data/part-0000$rank"
    "$ctl" run --conf=conf.ini --job_dispatch_package=bad >out.log 2>&1 && die "a job with a bad line ended well"
    failed $rank trainer $rank
    count oops 2 # the log, the box
    # one line for all nodes
    count "127.0.0.[1-4] | --- stopping: trainer $rank on 127.0.0.$((rank + 1)) failed ---" 1
    count stopping: 1
    grep ' E ' out.log | grep -v oops && die "another error than the cause: $(cat out.log)"
    rm -rf bad
done

# pid_of NODE: the pserver of the job in job.log on this node
pid_of() {
    local job p
    job=$(sed -n 's/.* \(JOB[^ ]*\) on 4 nodes.*/\1/p' job.log)
    for p in $(pgrep -f '^paddle_pserver pserver'); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -cxE "PADDLE_NODE_ID=$1|PADDLE_JOB_ID=$job" | grep -qx 2 && echo "$p"
    done
}

# --- a process is killed: no other has failed
start job "$ctl" run --conf=conf.ini
wait_for 60 "the job trains" grep -q 'Pass 2/1000 done' job.log
pid=$(pid_of 1)
[ -n "$pid" ] || die "no pserver on node 1: $(cat job.log)"
kill -9 "$pid"
wait "$PID" && die "a job that lost a pserver ended well"
cp job.log out.log
failed 1 pserver 1
count "ended by signal 9" 1
grep ' E ' out.log && die "an error besides the killed process: $(cat out.log)"

# --- the output folder of one host is full: its pserver cannot save. Another node asked for the save.
start job "$ctl" run --conf=conf.ini --num-passes=100
wait_for 60 "the job trains" grep -q 'Pass 2/100 done' job.log
full=$(echo "$fx"/node2/root/JOB*/output | tr ' ' '\n' | grep "$(sed -n 's/.* \(JOB[^ ]*\) on 4 nodes.*/\1/p' job.log)")
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=4k none "$full" 2>mount.log; then
    on_cleanup() { umount -l "$full" 2>/dev/null; hosts_end; }
    wait "$PID" && die "a job without space ended well"
    cp job.log out.log
    failed 2 pserver 2
    count "No space left on device" 3
else
    kill "$PID"
    wait "$PID"
    echo "skipped: a full disk: $(cat mount.log)"
fi
