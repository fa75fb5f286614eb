#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data files apart that are needed elsewhere: data = queue on three nodes, of which each gets a third of the files. One trainer's files are
# long: the others read what they have and fetch the rest of its, each file is read once, and what came is what was sent, whatever its
# name. A holder that is gone in the middle of a file, one that sends other bytes, one whose file was deleted: the launcher gives it.
# Nobody has it any more: the job fails and says who was asked.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
unset OPENBLAS_CORETYPE
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
cd "$TMP" || exit
on_cleanup() { end_jobs "$TMP/conf.ini" "$TMP"/node0/JOB*; }
mkdir -p ws/data
# File i belongs to trainer i mod 3: those of trainer 1 have 40 batches (of 50 ms), the others 2.
names=("a 0" "b
1" "c'\"\\2" d3 $'e\xff4' f5 g6 h7 i8 j9 k10 l11)
LINES_ALL=0
for i in "${!names[@]}"; do
    n=$((i % 3 == 1 ? 800 : 40))
    awk -v i="$i" -v n=$n 'BEGIN { for (k = 0; k < n; k++) { x = (i * 1000 + k) * 7919 % 997; print x % 50, (x * 3) % 50 } }' >"ws/data/${names[i]}"
    LINES_ALL=$((LINES_ALL + n))
done
touch -d '2020-02-02 02:02:02.5' ws/data/*
chmod 640 ws/data/h7 ws/data/k10
tiny_model vocabulary=50 <<END >ws/train.ini
batch_size = 20
data = queue
update = async
num_passes = 1
END
{ local_nodes 3; cat; } >conf.ini <<END
[job]
job_dispatch_package = ws
[env]
PADDLE_FAULT = slow.train.step:50
END
job_dir() { ls -d "$TMP/node$1"/JOB* | tail -1; } # the newest on that node
agents() { cat "$TMP"/node?/"$(basename "$(job_dir 0)")"/log/paddle_agent.INFO; }
count() { agents | grep -c "$1"; }
run() { # run OPTIONS...: a job that must end well
    sleep 1.1 # job ids sort by seconds
    expect 0 "$ctl" run "$@"
}
read_once() { # every file, by whomever
    local log
    log=$(cat "$(job_dir 0)/log/paddle_pserver.INFO")
    [[ $log =~ "pass 1: 12 of 12 files read (trainer 0: "[0-9]+", trainer 1: "[0-9]+", trainer 2: "[0-9]+"), 0 handed out again" ]] || die "$1: $log"
    grep -q "^Pass 1/1 done: .* $LINES_ALL samples" "$(job_dir 0)/log/train.log" || die "$1: $(cat "$(job_dir 0)/log/train.log")"
}
as_sent() { # what is on the nodes is what was sent; $N: how many files all have together
    local i f
    N=0
    for i in 0 1 2; do
        for f in "$(job_dir $i)"/workspace/data/*; do
            cmp -s "$f" "ws/data/${f##*/}" || die "$1: node $i has another '${f##*/}'"
            [ "$(stat -c '%a %y' "$f")" = "$(stat -c '%a %y' "ws/data/${f##*/}")" ] || die "$1: another mode or time of '${f##*/}' on node $i"
            N=$((N + 1))
        done
        ls "$(job_dir $i)"/.agent/data-* 2>/dev/null && die "$1: something is left on node $i"
    done
}

# --- who is free fetches what the slow one has
run
read_once "three nodes"
as_sent "three nodes"
[ "$(count 'data file .* came from node 1 (')" -ge 1 ] || die "nothing came from node 1: $(agents)"
[ "$N $(count 'data file .* came from the launcher')" = "$((12 + $(count 'data file .* came from node'))) 0" ] || die "$N files on all nodes: $(agents)"

# --- a holder whose connection ends before the bytes of a file; one that sends other bytes: the launcher gives it
for fault in gone:1 wrong:1; do
    export PADDLE_AGENT_FAULT=data.serve.$fault
    run
    unset PADDLE_AGENT_FAULT
    read_once "$fault"
    as_sent "$fault"
    [ "$(count 'data file .* came from the launcher')" -ge 1 ] || die "$fault: $(agents)"
done

# --- a file that is deleted on its node once the job is set up; trainer 1 comes to it after four seconds; the launcher is there
each_its_own=(--data=static --reader_threads=0)
sleep 1.1
start attached "$ctl" run "${each_its_own[@]}"
job=$PID
is_set_up() { [ "$(ls -d "$TMP"/node1/JOB* | wc -l)" = 4 ] && [ -e "$(job_dir 1)/workspace/output" ]; }
wait_for 60 "the job is set up" is_set_up
rm "$(job_dir 1)/workspace/data/k10"
wait "$job" || die "with a lost file: $(cat attached.log)"
PIDS=()
grep -q "Pass 1/1 done: .* $LINES_ALL samples" attached.log || die "with a lost file: $(cat attached.log)"
as_sent "a lost file"
[ "$N $(count 'data file data/k10 came from the launcher')" = "12 1" ] || die "a lost file: $(agents)"

# --- without a launcher, and with a store that is emptied while the job runs: nothing that it needs disappears
sleep 1.1
JOB=$("$ctl" run --detach 2>detach.err) || die "run --detach: $(cat detach.err)"
expect 0 "$ctl" clean --store_limit=1
expect 0 "$ctl" attach "$JOB"
read_once "an emptied store"
as_sent "an emptied store"

# --- nobody has it: no launcher
sleep 1.1
sed -i 's/step:50/step:100/' conf.ini
JOB=$("$ctl" run --detach "${each_its_own[@]}" 2>detach.err) || die "run --detach: $(cat detach.err)"
rm "$(job_dir 1)/workspace/data/k10"
expect 1 "$ctl" attach "$JOB"
has "data file data/k10 is not on node 1, and no source sent it: "
has "the launcher: it is not connected"
exit 0
