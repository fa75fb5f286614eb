#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data = queue: files are handed out to whoever is free. A slow trainer reads fewer; nothing is read twice or left out while nobody dies; what a
# killed trainer had not finished is read by another; one that is started again takes part; refused where it can't be meant.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1

FILES=24 LINES_OF=400 # 10 batches a file
mkdir data && for ((i = 0; i < FILES; i++)); do
    awk -v i=$i -v n=$LINES_OF 'BEGIN { for (k = 0; k < n; k++) { x = (i * n + k) * 7919 % 997; print x % 50, (x * 3) % 50 } }' >"data/part-$(printf %02d $i)"
done
tiny_model vocabulary=50 <<'END' >train.ini
batch_size = 40
data = queue
reader_threads = 1
END

job() { # job NAME UPDATE POLICY FAULT_OF_0 FAULT_OF_1 [OPTION...]: two servers, two trainers; their pids in $T0 $T1
    local name=$1 update=$2 policy=$3 fault0=$4 fault1=$5 i
    shift 5
    LIST='' SERVERS=() OPTIONS=("$@" --update="$update" --on_trainer_lost="$policy" --num_gradient_servers=2)
    for i in 0 1; do
        start "$name-s$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --ports_num=2 --ports_num_for_sparse=1 --reconnect_timeout=1 \
            --on_trainer_lost="$policy" --num_gradient_servers=2
        SERVERS+=("$PID")
        wait_for 60 "a pserver listens" grep -q '^pserver listens' "$name-s$i.log"
        LIST=$LIST,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$name-s$i.log")
    done
    LIST=${LIST#,}
    trainer "$name" 0 t0 "$fault0"; T0=$PID
    trainer "$name" 1 t1 "$fault1"; T1=$PID
}
trainer() { # trainer NAME ID LOG FAULT
    PADDLE_FAULT=$4 start "$1-$3" "$WORKER" trainer --pservers="$LIST" --trainer_id="$2" --save_dir="$TMP/$1" "${OPTIONS[@]}"
}
ends() { # ends STATUS PID WHAT
    wait "$2"
    local got=$?
    [ $got -eq "$1" ] || die "$3 ended with $got, not $1: $(tail -n 5 "$TMP"/*.log)"
}
all_end() {
    local p
    ends 0 "$T0" "trainer 0"; ends "${1:-0}" "$T1" "trainer 1"
    for p in "${SERVERS[@]}"; do ends 0 "$p" "a pserver"; done
    PIDS=()
}
# files SERVER_LOG PASS: "read of all, of trainer 0, of trainer 1, again"
files() { sed -n "s/.*pass $2: \([0-9]*\) of \([0-9]*\) files read (trainer 0: \([0-9]*\), trainer 1: \([0-9]*\)), \([0-9]*\) handed out again.*/\1 \2 \3 \4 \5/p" "$1"; }
samples() { sed -n "s/^Pass $2\/[0-9]*: this trainer read .* files, \([0-9]*\) samples$/\1/p" "$1"; } # samples LOG PASS

# --- everything once, the fast one more, under each rule; ssp waits for the slow one's steps, and does not hang
for update in async ssp geo; do
    slow=slow.train.step:60
    [ $update != ssp ] || slow=slow.train.step:5
    job "$update" "$update" fail '' $slow --num_passes=2 --geo_sgd_need_push_nums=3
    all_end
    for pass in 1 2; do
        read -r done all f0 f1 again <<<"$(files "$update-s0.log" $pass)"
        [ "$done $all $again" = "$FILES $FILES 0" ] || die "$update, pass $pass: $(cat "$update-s0.log")"
        [ $update = ssp ] || [ "$f1" -lt "$f0" ] || die "$update, pass $pass: the slow trainer read $f1 files, the other one $f0"
        [ $(($(samples "$update-t0.log" $pass) + $(samples "$update-t1.log" $pass))) = $((FILES * LINES_OF)) ] || die "$update: samples: $(cat "$update"-t?.log)"
        [ "$(samples "$update-t1.log" $pass)" = $((f1 * LINES_OF)) ] || die "$update: trainer 1 was handed $f1 files: $(cat "$update-t1.log")"
        grep -q "^Pass $pass/2 done: .* $((FILES * LINES_OF)) samples" "$update-t0.log" || die "$update: the pass: $(cat "$update-t0.log")"
    done
    [ -e "$update/pass-00001/manifest.json" ] || die "$update: no model"
done

# --- trainer 1 dies in the middle of its second file (the other one takes 4 s for all): it goes out again, all of it to the other one
job dies async continue slow.train.step:15 kill.train.step:15
all_end 137
read -r done all f0 f1 again <<<"$(files dies-s0.log 1)"
[ "$done $all $f1 $again" = "$FILES $FILES 1 1" ] || die "a killed trainer: $(cat dies-s0.log)"
[ "$(samples dies-t0.log 1)" = $(((FILES - 1) * LINES_OF)) ] || die "samples: $(cat dies-t0.log)"

# --- the same, and it is started again: it takes part, and nothing is left out
job again async wait slow.train.step:15 kill.train.step:15
wait "$T1"
trainer again 1 t1b ''; T1=$PID
all_end
read -r done all f0 f1 again <<<"$(files again-s0.log 1)"
[ "$done $all $again" = "$FILES $FILES 1" ] || die "a trainer that was started again: $(cat again-s0.log)"
grep -q "Restarted" again-t1b.log || die "it was not: $(cat again-t1b.log)"
[ $(($(samples again-t0.log 1) + $(samples again-t1b.log 1))) = $(((FILES - 1) * LINES_OF)) ] || die "samples: $(cat again-t*.log)"

# --- alone, in one process; a checkpoint inside a pass begins that pass again
expect 0 "$WORKER" trainer --local=1 --update=async --save_dir=alone --saving_period_by_batches=100 --num_passes=2
[ "$(samples /dev/stdin 1 <<<"$OUT")" = $((FILES * LINES_OF)) ] || die "local: $OUT"
rm -r alone/pass-00001* # pass-00000 was the last but one, and is not saved
expect 0 "$WORKER" trainer --local=1 --update=async --save_dir=alone --resume=latest --num_passes=1
has "Resuming from alone/pass-00000-batch-000200: pass 1/1, batch 0"
[ "$(samples /dev/stdin 1 <<<"$OUT")" = $((FILES * LINES_OF)) ] || die "after a checkpoint: $OUT"

# --- lines that can't be read are those of the pass, not of the file that was read last
mkdir bad && for i in 0 1 2 3; do (head -n 40 data/part-00; echo "x y"; echo "1 2 3") >bad/$i; done
sed 's,^train = .*,train = bad/*,' train.ini >bad.ini
expect 0 "$WORKER" trainer --local=1 --update=async --config=bad.ini --max_bad_lines=8 --num_passes=2
has "Pass 1/2: 8 unreadable lines were skipped"
has "Pass 2/2: 8 unreadable lines were skipped"
expect 1 "$WORKER" trainer --local=1 --update=async --config=bad.ini --max_bad_lines=4
has "bad/2:41: 'x' is not an id (bad lines: 5, allowed: 4)"

expect 2 "$WORKER" trainer --local=1
has "data = queue needs update = async, ssp or geo"
expect 2 "$WORKER" trainer --local=1 --update=geo --n_streams=3
has "n_streams has no meaning with data = queue"
exit 0
