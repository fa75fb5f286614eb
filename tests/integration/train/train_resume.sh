#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job whose trainers and pservers are killed at steps that a seed chooses, and that goes on from its checkpoints, ends with the
# same bits as one that nothing happened to; also with other numbers of trainers, servers and threads (reproducible = topology), and
# with servers whose disks are their own. Adam, a schedule, l2 of rows, dropout, a shuffle buffer: all that a checkpoint must hold counts here.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
SEED=${SEED:-1}
unset OPENBLAS_CORETYPE
mkdir "$TMP/ws" && cd "$TMP/ws" || exit 1

tiny_data train # for 6 streams, some shorter than others
mkdir test && head -50 train/part-00000 >test/part-00000 && for i in 1 2 3 4 5; do cp test/part-00000 test/part-0000$i; done
cat >train.ini <<'END'
[data]
format = ids
train = train/*
test = test/*
fields = x y
vocabulary = 300
[layer e]
type = embedding
inputs = x
size = 8
init_std = 0.1
sparse_update = true
[layer f]
type = embedding
inputs = x
size = 4
init_std = 0.1
sparse_update = true
l2 = 0
[layer h]
type = fc
inputs = e, f
size = 12
act = tanh
[layer d]
type = dropout
inputs = h
rate = 0.3
[layer p]
type = fc
inputs = d
size = vocabulary
act = softmax
[cost c]
type = cross_entropy
input = p
label = y
[optimizer]
type = adam
learning_rate = 0.02
learning_rate_schedule = poly
learning_rate_decay_a = 0.001
learning_rate_decay_b = 0.75
l2 = 0.002
[train]
n_streams = 6
batch_size = 48
num_passes = 3
log_period = 7
reconnect_timeout = 0.3
shuffle_buffer = 50
END
RUN=0

# job DIR TRAINERS SERVERS THREADS FAULT [OPTION...]: FAULT is "", or "t1 12": trainer 1 dies in its 12th step, or "s0 12" (steps, counted
# over its threads), or "slow1 100": each step of trainer 1 takes 100 ms longer. With OWN=1
# each server has a folder of its own, DIR/0, DIR/1, ... The exit status is that of trainer 0; its words are in job.log
job() {
    local dir=$1 trainers=$2 servers=$3 threads=$4 fault=$5 list='' i status=0 spids=() tpids=() who at
    shift 5
    read -r who at <<<"$fault"
    RUN=$((RUN + 1))
    mkdir -p "$dir"
    for ((i = 0; i < servers; i++)); do
        PADDLE_FAULT=$([ "$who" = "s$i" ] && echo "kill.ps.step:$((at * 2 * threads))") PADDLE_OUTPUT_DIR=$dir$([ -z "${OWN:-}" ] || echo "/$i") \
            start "s$RUN-$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --ports_num="$threads" --ports_num_for_sparse="$threads" \
            --num_gradient_servers="$trainers"
        spids+=("$PID")
    done
    for ((i = 0; i < servers; i++)); do
        wait_for 60 "pserver $i listens" grep -q '^pserver listens' "$TMP/s$RUN-$i.log"
        list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$TMP/s$RUN-$i.log")
    done
    for ((i = 0; i < trainers; i++)); do
        PADDLE_FAULT=$([ "$who" = "t$i" ] && echo "kill.train.step:$at" || { [ "$who" = "slow$i" ] && echo "slow.train.compute:$at"; }) start "t$RUN-$i" "$WORKER" trainer --pservers="${list#,}" \
            --trainer_id=$i --num_gradient_servers="$trainers" --save_dir=output "$@"
        tpids+=("$PID")
    done
    for i in "${!tpids[@]}"; do wait "${tpids[$i]}" || { status=1; [ -n "$fault" ] || tail -3 "$TMP/t$RUN-$i.log"; }; done
    [ $status -eq 0 ] || kill "${spids[@]}" 2>/dev/null # they may never have heard of a trainer
    for i in "${spids[@]}"; do wait "$i" || [ $status -ne 0 ] || status=3; done
    PIDS=()
    cp "$TMP/t$RUN-0.log" "$TMP/job.log"
    return $status
}
ok() { job "$@" || die "job $RUN ($*) failed: $(tail -n 3 "$TMP"/t$RUN-*.log "$TMP"/s$RUN-*.log)"; }
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
same() { [ ${#2} = 64 ] && [ "$(digest "$1")" = "$2" ] || die "$1 has other bits than the job that nothing happened to; SEED=$SEED"; }
said() { grep -E 'Pass [^ ]* done|Test after' "$1" | sed 's/.*\(Pass\|Test\)/\1/; s/ in [0-9.]* s ([0-9]* samples.s)//'; }
# consistent LOG: in each pass's line the rate is the samples by the seconds, which are rounded to a tenth.
consistent() {
    sed -n 's/.*Pass [0-9\/]* done: .* \([0-9]*\) samples in \([0-9.]*\) s (\([0-9]*\) .*/\1 \2 \3/p' "$1" >"$TMP/rates"
    awk '{ n++ } $1 < $3 * ($2 - 0.051) - $2 || $1 > ($3 + 1) * ($2 + 0.051) { bad = 1 } END { exit bad || !n }' "$TMP/rates" ||
        die "samples, seconds, samples/s: $(cat "$TMP/rates")"
}
rand() { SEED_STATE=$(((SEED_STATE * 1103515245 + 12345) % 2147483648)); echo $((SEED_STATE / 65536 % $1)); }
SEED_STATE=$SEED

# --- the same bits, with checkpoints and without, killed and not ---
ok "$TMP/plain" 2 2 1 ""
want=$(digest "$TMP/plain")
said "$TMP/job.log" >"$TMP/plain.said"
[ "$(wc -l <"$TMP/plain.said")" = 6 ] || die "what it said: $(cat "$TMP/job.log")"
ok "$TMP/saved" 2 2 1 "" --saving_period_by_batches=1 --saving_period=1
same "$TMP/saved" "$want"
steps=$(grep -c Saved "$TMP/job.log")
[ "$steps" -gt 40 ] || die "only $steps checkpoints"

for who in t0 t1 s0 s1; do
    dir=$TMP/killed-$who deaths=0
    # Two deaths on the way, then nothing more.
    for death in 1 2 0; do
        fault="$who $((10 + $(rand 24)))" # behind the first checkpoint: the second begins when that is complete
        [ $death -gt 0 ] || fault=''
        if job "$dir" 2 2 1 "$fault" --saving_period_by_batches=4 --saving_deltas=2 --resume=latest --resume_older=1; then break; fi
        deaths=$((deaths + 1))
        [ -n "$fault" ] || die "nobody was killed, and it failed: $(tail -n 3 "$TMP"/t$RUN-*.log)"
    done
    [ $deaths -gt 0 ] || die "nobody was killed: $who"
    ls "$dir"/*/*.delta-00002.bin >"$TMP/deltas" || die "no saves of changes: $(ls "$dir"/*)"
    grep -q 'Resuming from output/pass-' "$TMP/job.log" || die "it did not go on: $(cat "$TMP/job.log")"
    same "$dir" "$want"
    # What it says of the passes that it ended is what the other says.
    if said "$TMP/job.log" | grep -vxFf "$TMP/plain.said"; then die "$who: other costs than $(cat "$TMP/plain.said")"; fi
done
ok "$dir" 2 2 1 "" --resume=latest
grep -q 'All 3 passes are done' "$TMP/job.log" || die "$(cat "$TMP/job.log")"

# --- trainer 0's data ends long before the others': checkpoints go on to come, and a job goes on from any of them ---
cp -R train train.even && for i in 0 1 2; do head -40 train.even/part-0000$i >train/part-0000$i; done
ok "$TMP/early" 2 1 1 "" && early=$(digest "$TMP/early")
ok "$TMP/early" 2 1 1 "" --saving_period_by_batches=5
same "$TMP/early" "$early"
n=$(sed -n 's/.*Pass 2\/3 done: \([0-9]*\) batches.*/\1/p' "$TMP/job.log")
[ "$n" -gt 20 ] && [ "$(grep -c Saved.*pass-00001-batch "$TMP/job.log")" = $((n / 5)) ] || die "$n batches: $(grep Saved "$TMP/job.log")"
rm -r "$TMP/early/pass-00002"
grep -o 'Pass 2/3 done: .*' "$TMP/job.log" | sed 's/ in .*s), / /' >"$TMP/early.said"
ok "$TMP/early" 2 1 1 "slow1 100" --resume="$(printf 'pass-00001-batch-%06d' $((n / 5 * 5 - 5)))" --saving_period_by_batches=5
same "$TMP/early" "$early"
consistent "$TMP/job.log"
grep -q "$(printf 'Saved output/pass-00001-batch-%06d' $((n / 5 * 5)))" "$TMP/job.log" || die "trainer 0 left the pass without its checkpoints: $(cat "$TMP/job.log")"
# It goes on a second time, behind most of the pass: the seconds are of the whole pass, and so is the rate.
rm -r "$TMP/early/pass-00002"
ok "$TMP/early" 2 1 1 "" --resume="$(printf 'pass-00001-batch-%06d' $((n / 5 * 5)))" --saving_period_by_batches=5
same "$TMP/early" "$early"
consistent "$TMP/job.log"
grep -o 'Pass 2/3 done: .*' "$TMP/job.log" | sed 's/ in .*s), / /' | cmp -s - "$TMP/early.said" || die "other totals than $(cat "$TMP/early.said"): $(cat "$TMP/job.log")"
took=$(sed -n 's/.*Pass 2\/3 done: .* samples in \([0-9.]*\) s .*/\1/p' "$TMP/job.log")
[ "${took/./}" -ge 4 ] || die "$took s for a pass of which five batches took 0.1 s each" # a tenth of a second is a digit
rm -r train && mv train.even train

# --- start_pass, a name, only one is kept, a folder without the state ---
rm -rf "$TMP/saved/pass-00002" && ok "$TMP/saved" 2 2 1 "" --start_pass=2 && same "$TMP/saved" "$want"
rm -rf "$TMP/saved/pass-00002" && ok "$TMP/saved" 2 2 1 "" --resume=pass-00001-batch-000003 --save_only_one=1 && same "$TMP/saved" "$want"
[ "$(ls "$TMP/saved")" = pass-00002 ] || die "left: $(ls "$TMP/saved")"
ok "$TMP/values" 1 1 1 "" --save_state=0 --num_passes=1
job "$TMP/values" 1 1 1 "x 0" --resume=pass-00000 && die "a model without state was resumed"
grep -q 'without the optimizer.s state' "$TMP/job.log" || die "$(cat "$TMP/job.log")"
job "$TMP/values" 1 1 1 "x 0" --resume=pass-00007 && die "nothing was resumed"
grep -q 'there is no checkpoint output/pass-00007' "$TMP/job.log" || die "$(cat "$TMP/job.log")"
job "$TMP/values" 1 1 1 "x 0" --resume=latest --init_model_path=output/pass-00000 && die "two beginnings"

# --- without a barrier there are no same bits: a job that was killed and went on ends as good as one that was not ---
cost() { sed -n 's/.*Test after pass 3.* cost \([0-9.]*\).*/\1/p' "$TMP/job.log"; }
for update in async ssp geo; do
    U="--update=$update --staleness=2 --geo_sgd_need_push_nums=3 --saving_period_by_batches=5"
    # shellcheck disable=SC2086
    ok "$TMP/$update-plain" 2 2 1 "" $U && undisturbed=$(cost)
    # Behind the first pass, whose end is common: by then trainer 0 has a checkpoint. (A pass has 13 steps of each trainer.)
    for fault in "t1 $((14 + $(rand 20)))" "s1 $((30 + $(rand 20)))" ""; do
        # shellcheck disable=SC2086
        if job "$TMP/$update" 2 2 1 "$fault" $U --resume=latest --resume_older=1; then break; fi
        [ -n "$fault" ] || die "$update: nobody was killed, and it failed: $(tail -n 3 "$TMP"/t$RUN-*.log)"
    done
    grep -q 'Resuming from output/pass-' "$TMP/job.log" || die "$update: it did not go on: $(cat "$TMP/job.log")"
    echo "$update: cost of the test data $undisturbed, killed $(cost)"
    holds "plain > 0 && cost > 0 && cost < 3.5 && cost - plain < 0.5" \
        plain="$undisturbed" cost="$(cost)"
done

# --- trainer 0 saves before another trainer has ended its first step of the pass: the checkpoint is whole, and says of that trainer's
# streams that this pass has not begun, not where they ended in the pass before ---
for update in async ssp geo; do
    U="--update=$update --staleness=100 --geo_sgd_need_push_nums=3 --saving_period_by_batches=1 --num_passes=2"
    rm -rf "$TMP/behind"
    # shellcheck disable=SC2086
    ok "$TMP/behind" 2 2 1 "slow1 300" $U --saving_period=1
    for pass in 0 1; do
        # shellcheck disable=SC2086
        ok "$TMP/behind" 2 2 1 "" $U --resume=pass-0000$pass-batch-000001
        grep -q "Pass $((pass + 1))/2 done: .* 960 samples" "$TMP/job.log" || die "$update: not all samples after pass-0000$pass-batch-000001: $(cat "$TMP/job.log")"
    done
done

# --- other numbers of trainers, servers and threads; each server has its own disk ---
T="--reproducible=topology"
ok "$TMP/topology" 1 1 1 "" $T
want=$(digest "$TMP/topology")
OWN=1
dir=$TMP/moved
while read -r trainers servers threads fault; do
    if job "$dir" "$trainers" "$servers" "$threads" "$fault" $T --saving_period_by_batches=3 --saving_deltas=3 --resume=latest --resume_older=1; then
        [ -z "$fault" ] || die "nobody was killed: $fault"
    elif [ -z "$fault" ]; then
        die "it failed: $(tail -n 3 "$TMP"/t$RUN-*.log "$TMP"/s$RUN-*.log)"
    fi
done <<END
2 2 1 t1 $((8 + $(rand 8)))
3 2 2 s1 $((9 + $(rand 8)))
1 3 1 s0 $((9 + $(rand 8)))
6 1 1
END
grep -q 'Resuming from output/pass-' "$TMP/job.log" || die "it did not go on: $(cat "$TMP/job.log")"
mkdir "$TMP/merged" && cp -R "$dir"/*/pass-00002 "$TMP/merged/" && same "$TMP/merged" "$want"

# --- checkpoint_copies: of three servers any one loses its disk, or one part of it is damaged, and the job goes on with the same bits ---
dir=$TMP/copies
ok "$dir" 2 3 1 "" $T --saving_period_by_batches=10 --saving_period=1 --checkpoint_copies=2 --saving_deltas=2
for i in 0 1 2; do rm -r "$dir/$i/pass-00002"; [ "$(ls "$dir/$i/pass-00001" | grep -c -e ^sparse -e ^dense)" -ge 4 ] || die "no copies: $(ls "$dir/$i/pass-00001")"; done
# Of a save of changes only the changes were copied: its other files are links to those of the save before, the copies' too.
n=0
for f in "$dir"/?/pass-*/sparse-*.delta-*.bin; do
    below=${f%.delta-*}.bin
    [ "$(stat -c %h "$below")" -gt 1 ] || die "copied again: $below"
    n=$((n + 1))
done
[ $n -ge 8 ] || die "only $n saves of changes: $(ls "$dir"/?/*)"
cp -R "$dir" "$dir.whole"
for lost in 0 1 2 damaged; do
    rm -r "$dir" && cp -R "$dir.whole" "$dir"
    if [ $lost = damaged ]; then
        for i in 0 1; do printf X | dd of="$(ls "$dir/$i/pass-00001/sparse-0000$i"* | tail -1)" bs=1 seek=700 conv=notrunc 2>"$TMP/dd.log"; done
    else
        rm -r "${dir:?}/$lost"
    fi
    ok "$dir" 2 3 1 "" $T --resume=pass-00001 --checkpoint_copies=2
    grep -q 'Resuming from output/pass-00001: pass 3/3' "$TMP/job.log" || die "lost $lost: it did not go on: $(cat "$TMP/job.log")"
    for i in 0 1 2; do
        rm -rf "$TMP/merged" && mkdir "$TMP/merged"
        for k in 0 1 2; do [ $k = $i ] || cp -R "$dir/$k/pass-00002" "$TMP/merged/"; done
        same "$TMP/merged" "$want" # what two of them have is complete
    done
done
# Two of three cannot stand in for each other: that is said, with the part's name.
rm -r "$dir/0" "$dir/1"
job "$dir" 2 3 1 "x 0" $T --resume=pass-00002 && die "went on from a third of a checkpoint"
grep -q 'output/pass-00002: .*\.bin is missing' "$TMP/job.log" || die "$(cat "$TMP/job.log")"

# --- what is wrong with a checkpoint is said by name, and the one before it is used when asked to ---
part=local-00000-of-00001.bin
alone() { expect "$1" "$WORKER" trainer --local=1 --num_passes=1 --save_dir="$TMP/alone" "${@:2}"; }
alone 0 --saving_period_by_batches=10
want=$("$TOP/tests/support/model-digest" "$TMP/alone/pass-00000" | cut -d' ' -f1)
cp -R "$TMP/alone" "$TMP/whole"
damaged() { # damaged TEXT COMMAND...: done to the last checkpoint
    rm -rf "$TMP/alone" && cp -R "$TMP/whole" "$TMP/alone"
    (cd "$TMP/alone/pass-00000" && "${@:2}") || die "${*:2}"
    alone 1 --resume=latest
    has "alone/pass-00000: " && has "$1" && has "resume_older = 1"
    alone 0 --resume=latest --resume_older=1
    has "alone/pass-00000 cannot be used" && has "Resuming from $TMP/alone/pass-00000-batch-000020"
    [ "$("$TOP/tests/support/model-digest" "$TMP/alone/pass-00000" | cut -d' ' -f1)" = "$want" ] || die "other bits after: $1"
}
damaged "$part is damaged" sh -c "printf X | dd of=$part bs=1 seek=9000 conv=notrunc 2>/dev/null"
damaged "$part is missing" rm $part
damaged "$part is missing, or has another size" truncate -s -64 $part
damaged "$part is missing, or has another size" cp ../pass-00000-batch-000010/$part $part
damaged "$part is damaged: its checksum differs" sh -c "n=\$(stat -c %s $part) && cp ../pass-00000-batch-000010/$part $part && truncate -s \$n $part"

# The disk is full while a checkpoint is written, and a process is killed between the parts and the name: what was there stays.
rm -rf "$TMP/alone"
PADDLE_FAULT=model.write:2 alone 3 --saving_period_by_batches=10
has "No space left"
PADDLE_FAULT=kill.model.commit:2 alone 137 --resume=latest --saving_period_by_batches=5
[ "$(echo $(ls "$TMP/alone"))" = "pass-00000-batch-000010 pass-00000-batch-000015" ] || die "left: $(ls "$TMP/alone")"
alone 0 --resume=latest --saving_period_by_batches=5 --save_only_one=1
has "Resuming from"
[ "$(ls -A "$TMP/alone")" = pass-00000 ] || die "left: $(ls -A "$TMP/alone")"
[ "$("$TOP/tests/support/model-digest" "$TMP/alone/pass-00000" | cut -d' ' -f1)" = "$want" ] || die "other bits after a full disk"

# A job that is started again before it has saved anything begins where it was told to the first time.
rm -rf "$TMP/alone"
PADDLE_RESTART_COUNT=1 alone 0 --resume="$TMP/whole/pass-00000-batch-000010"
has "There is no checkpoint in $TMP/alone: starting again from where the job first began" && has "Resuming from $TMP/whole/pass-00000-batch-000010: pass 1/1, batch 10"
[ "$("$TOP/tests/support/model-digest" "$TMP/alone/pass-00000" | cut -d' ' -f1)" = "$want" ] || die "other bits after a restart"
# A part that is missing from a checkpoint that was complete is an error: passes of training are in it.
rm -rf "$TMP/alone" && mkdir "$TMP/alone" && cp -R "$TMP/whole/pass-00000-batch-000010" "$TMP/alone"
rm "$TMP/alone/pass-00000-batch-000010/$part"
PADDLE_RESTART_COUNT=1 alone 1
has "there is no whole checkpoint" && has "$part is missing"

# A job whose servers were killed while they completed its first checkpoint begins anew: one server does not have it.
# A lost node may have had its parts, so then it is an error.
OWN=1 ok "$TMP/first" 2 2 1 "" --num_passes=1
torn() { rm -rf "$TMP/torn" && cp -R "$TMP/first" "$TMP/torn" && rm -r "$TMP/torn/1/pass-00000"; }
torn
export PADDLE_RESTART_COUNT=1
! PADDLE_LOST_NODES="node 1 (there)" OWN=1 job "$TMP/torn" 2 2 1 "fails 0" --num_passes=1 || die "it began anew without the parts of a lost node"
grep -q "there is no whole checkpoint.*lost: node 1 (there)" "$TMP/job.log" || die "$(cat "$TMP/job.log")"
torn
OWN=1 ok "$TMP/torn" 2 2 1 "" --num_passes=1
unset PADDLE_RESTART_COUNT
grep -q "pass-00000 cannot be used: " "$TMP/job.log" && grep -q "training starts from the beginning" "$TMP/job.log" ||
    die "$(cat "$TMP/job.log")"
for i in 0 1; do diff -r "$TMP/first/$i" "$TMP/torn/$i" || die "other bits after a first save that was cut short"; done

# --- on_failure = restart: every process dies in its 34th step, again and again, and the job comes to its end by itself ---
cd "$TMP" || exit 1
cat >conf.ini <<END
[cluster]
hosts = local*2
root_dir = $TMP/root%n
port = 0
[job]
job_dispatch_package = ws
on_failure = restart
max_restarts = 5
[env]
PADDLE_FAULT = kill.train.step:34
[train]
reproducible = topology
saving_period_by_batches = 4
END
expect 0 "$BIN/paddlectl" run --conf=conf.ini
has "restart 2 of 5" && has_not "restart 3 of 5" && has "Resuming from output/pass-00002-batch-"
same "$TMP/output/latest" "$(digest "$TMP/topology")"

# --- on_trainer_lost = wait: the others wait where they are, and only the trainer that was lost is started again ---
for node in 0 1; do
    cat >one.ini <<END
[cluster]
hosts = local*2
root_dir = $TMP/one%n
port = 0
[host local.$node]
env.PADDLE_FAULT = kill.train.step:34
[job]
job_dispatch_package = ws
on_failure = restart
max_restarts = 9
outputs = $TMP/one
[train]
on_trainer_lost = wait
END
    rm -rf one
    expect 0 "$BIN/paddlectl" run --conf=one.ini
    has "restart 1 of 9 after trainer $node on local.$node: signal 9" && has "Restarted: resuming in pass" && has_not "Resuming from"
    same "$TMP/one/latest" "$(digest "$TMP/plain")"
    # Cost and samples of every pass, that of both processes too, are those of the undisturbed job.
    echo "$OUT" >one.log
    if said one.log | grep -vxFf "$TMP/plain.said"; then die "node $node: other totals than $(cat "$TMP/plain.said")"; fi
    consistent one.log
done

# --- a trainer dies between its messages of a step to the server threads: that step cannot be repeated, so all processes start again. Without
# shared memory such a message leaves before the next one is made ---
sed -i 's/kill.train.step:34/net.arena:1,net.arena:2,net.arena:3,net.arena:4,kill.ps.step_end:204/; $a saving_period_by_batches = 4' one.ini
rm -rf one
expect 0 "$BIN/paddlectl" run --conf=one.ini
has "restart 1 of 9 after trainer 1 on local.1: signal 9" && has "had ended a step at some server threads only" && has "restart 2 of 9"
has "Resuming from output/pass-" && has_not "restart 3 of 9"
same "$TMP/one/latest" "$(digest "$TMP/plain")"

# --- the same of the pservers, of which each has its own disk, and a copy of the other's part ---
sed -i 's/kill.train.step:34/kill.ps.step:70/; $a checkpoint_copies = 2\nsaving_deltas = 1' conf.ini
expect 0 "$BIN/paddlectl" run --conf=conf.ini
has "restart 1 of 5" && has "Resuming from output/pass-0000"
same "$TMP/output/latest" "$(digest "$TMP/topology")"
