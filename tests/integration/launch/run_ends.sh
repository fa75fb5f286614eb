#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of our own programs on nodes of this machine that end in the middle: a trainer that is killed and a job that goes on
# after it, data that no restart makes better, a stop that saves the model; and which of many failures is told.
# release only (a sanitizer finds in agent_run.sh and in the unit tests what there is to find, in less time)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
cd "$TMP" || die cd
mkdir -p ws/data
for f in a b c; do awk 'BEGIN { for (i = 0; i < 3000; i++) print i % 500, (i * 7) % 500 }' >ws/data/$f; done
tiny_model vocabulary=500 size=16 optimizer=adagrad rate=0.1 test='data/*' <<'END' >ws/train.ini
log_period = 10
END
{ local_nodes 3; cat; } >conf.ini <<END
[job]
job_dispatch_package = ws
[train]
batch_size = 96
END

# agents and what they started run in folders of their jobs
nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$TMP/node"; }
on_cleanup() { wait_for 20 "no process of a job is left" nothing_left; }
# trainer NODE: the pid of its trainer
trainer() {
    local p
    for p in $(pgrep -x paddle_trainer); do
        grep -qsz "PADDLE_OUTPUT_DIR=$TMP/node$1/" "/proc/$p/environ" && echo "$p"
    done
}

# --- a killed trainer: all are started again, and the job is done
start killed "$ctl" run --conf=conf.ini --num_passes=30 --on_failure=restart --max_restarts=2 --bind=cores
run=$PID
wait_for 60 "training" grep -q "Batch 10," killed.log
kill -9 "$(trainer 1)" || die "no trainer on node 1: $(tail -5 killed.log)"
wait "$run" || die "$(grep -v Batch killed.log)"
OUT=$(grep -v Batch killed.log)
has "restarting: restart 1 of 2 after trainer 1 on local.1: signal 9 (Killed)"
has "local.0/trainer | --- restart 1 of 2 after trainer 1 on local.1: signal 9 (Killed) ---"
has "local.2/pserver | --- restart 1 of 2 after trainer 1"
has_not "restart 2"
has "Saved output/pass-00029 (pass 30/30)"
[ "$(grep -c "Pass 30/30 done" killed.log)" = 1 ] || die "the last pass: $OUT"
[ -s output/latest/pass-00029/manifest.json ] || die "no model: $(find output)"
grep -q '"restarts": 1' node0/JOB*/result.json || die "$(cat node0/JOB*/result.json)"

# --- of 64 that fail one after the other the first is told, with its last lines, and the others are counted
cat >ws/fail.sh <<END
#!/bin/sh
if [ "\$PADDLE_TRAINER_ID" = 17 ]; then
    until [ "\$(ls "$TMP/up" | wc -l)" = 63 ]; do sleep 0.1; done
    seq 1 30
    echo \$\$ >"$TMP/first.part" && mv "$TMP/first.part" "$TMP/first"
    sleep 0.5
    exit 3
fi
: >"$TMP/up/\$PADDLE_TRAINER_ID"
until [ -e "$TMP/first" ]; do sleep 0.4; done
read -r pid <"$TMP/first"
echo "trainer \$PADDLE_TRAINER_ID waits for process \$pid"
while kill -0 "\$pid" 2>/dev/null; do sleep 0.1; done # its peer is gone: the echo
sleep 0.2 # the shell around that one has to end, too, and its agent to see it
exit 1
END
chmod +x ws/fail.sh
mkdir up
expect 1 "$ctl" run --conf=conf.ini --hosts='local*64' --pservers=none --trainer_command=./fail.sh
OUT=$(sed -n '/failed: /,$p' <<<"$OUT")
has "failed: local.17 (node 17), trainer 17: exit status 3"
[ "$(grep -c '^    | ' <<<"$OUT")" = 20 ] || die "not 20 lines: $OUT"
has "    | 11
"
has "    | 30
"
# (those that fail while the job is being ended are not counted: on a slow machine that may be all)
if [[ $OUT =~ \ ([0-9]+)\ more\ failed\ after\ it ]]; then [ "${BASH_REMATCH[1]}" -le 63 ] || die "counted: $OUT"; fi

# --- one role is enough for programs of one's own, and for ours it is not
expect 0 "$ctl" run --conf=conf.ini --pservers=none --trainer_command='echo "own $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM"'
has "local.2/trainer | own 2 of 3"
expect 2 "$ctl" run --conf=conf.ini --pservers=none
has "the built-in trainer needs at least one pserver"
expect 2 "$ctl" run --conf=conf.ini --trainers=0
has "the built-in pserver needs at least one trainer"
expect 2 "$ctl" run --conf=conf.ini --trainers=0 --pservers=none
has "neither a pserver nor a trainer"

# --- bad data is the same next time
echo "1 2 3" >>ws/data/b
expect 1 "$ctl" run --conf=conf.ini --on_failure=restart
has_not restart
has "data/b:3001"
sed -i '$d' ws/data/b

# --- a stop that saves: all trainers end after the same step, the model is whole, and training goes on from it
start stopped "$ctl" run --conf=conf.ini --num_passes=100000
run=$PID
wait_for 60 "training" grep -q "Pass 2/100000, Batch 10," stopped.log
job=$(grep -o 'JOB[0-9]*-[0-9a-f]*' stopped.log | head -1)
expect 0 "$ctl" stop --conf=conf.ini --save "$job"
wait "$run"
status=$?
[ $status = 130 ] || die "status $status: $(grep -v Batch stopped.log)"
OUT=$(grep -v Batch stopped.log)
model=$(sed -n 's/^paddlectl: saved: \([^ ]*\) (pass .*; to continue: paddlectl run --resume=JOB.*/\1/p' stopped.log)
# (a stop that comes while held-out data is evaluated finds a whole pass)
[[ $model =~ ^output/pass-[0-9]{5}(-stopped)?$ ]] || die "saved: '$model': $OUT"
has "saving: the trainers save the model and end"
has "Asked to stop"
has "Saved $model"
cp -R node0/"$job"/"$model" model
for i in 1 2; do cp -n node$i/"$job"/"$model"/* model/; done
[ "$(ls model | wc -l)" = 7 ] || die "parts of three servers with two threads, and a manifest: $(ls model)"
cp -R model ws/model
expect 0 "$BIN/paddle_worker" trainer --help
(cd ws && "$BIN/paddle_worker" trainer --local=1 --job=test --init_model_path=model) >test.log 2>&1 || die "$(cat test.log)"
grep -q "Test of the saved model" test.log || die "$(cat test.log)"

# --- Ctrl-C with save_on_stop: the model is there, fetched and whole
start ctrlc "$ctl" run --conf=conf.ini --num_passes=100000 --save-on-stop
wait_for 60 "training" grep -q "Pass 2/100000, Batch 10," ctrlc.log
kill -INT "$PID"
wait "$PID"
status=$?
OUT=$(grep -v Batch ctrlc.log)
[ $status = 130 ] || die "status $status: $OUT"
has "saving the model and stopping"
has "its outputs are in output/JOB"
model=$(sed -n 's/^paddlectl: saved: \([^ ]*\) (pass .*/\1/p' ctrlc.log)
[ "$(ls output/latest/"${model#output/}" | wc -l)" = 7 ] || die "model '$model': $(find output/latest)"

# --- by hand: the first Ctrl-C saves, when that is asked for
cd ws || die cd
for sig in INT TERM USR1; do
    start hand$sig env PADDLE_LOG_DIR= "$BIN/paddle_worker" trainer --local=1 --num_passes=100000 --save_on_stop=1 --save_dir="$TMP/mine-$sig"
    wait_for 60 "training" grep -q "Batch 10," "$TMP/hand$sig.log"
    kill -$sig "$PID"
    wait "$PID" || die "$sig: status $?: $(tail -3 "$TMP/hand$sig.log")"
    [ -s "$TMP/mine-$sig"/pass-*-stopped/manifest.json ] || [ -s "$TMP/mine-$sig"/pass-?????/manifest.json ] || die "$sig: $(ls "$TMP/mine-$sig")"
done
exit 0
