#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# job = online, with the template's drifting clicks: what it gains over a model that was trained once; killed at any moment and started again it
# ends with the same bits; two servers and two trainers see folders appear while they run; stop file, Ctrl-C, quiet time, done-files.
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
DIGEST=$TOP/tests/support/model-digest
unset OPENBLAS_CORETYPE
cp -R "$TOP/workspace_template/online_ctr" "$TMP/ws" && cd "$TMP/ws" || exit 1
rm -rf stream output
./prepare --minutes=4 --rows=1500 >"$TMP/prepare.log" || die "prepare: $(cat "$TMP/prepare.log")"
online() { "$WORKER" trainer --local=1 --online_idle=0.3 "$@"; }
# mean of AUC before the passes of a day: auc_of DAY FILE
auc_of() { sed -n "s/^Test before pass [0-9]* ($1.*, auc \([0-9.]*\),.*/\1/p" "$2" | awk '{ s += $1; n++ } END { if (n) print s / n }'; }

# --- what it gains, against a model of the first day ---
online >"$TMP/whole.log" 2>&1 || die "$(tail -3 "$TMP/whole.log")"
mv output "$TMP/whole"
expect 0 online --online_until=20300101
has "Ending after 20300101/0003: the last folder (online_until) is trained"
sed 's,^train = .*,&\ntest = stream/20300103/*/part-*,' train.ini >test.ini
expect 0 online --config=test.ini --job=test --resume= --init_model_path=output/pass-00003
once=$(sed -n 's/.*of the saved model.*, auc \([0-9.]*\),.*/\1/p' <<<"$OUT") going=$(auc_of 20300103 "$TMP/whole.log")
holds "once > 0.5 && going > once + 0.03" once="$once" going="$going"
echo "AUC on day 3: $going online, $once of a model of day 1"

# --- days end, rows go, and most ids never have one ---
[ "$(grep -c '^Day 2030010[12] is over: [1-9][0-9]* rows removed, [1-9][0-9]* left' "$TMP/whole.log")" = 2 ] || die "days: $(grep ^Day "$TMP/whole.log")"
/usr/bin/env python3 - "$TMP/whole/pass-00011/manifest.json" <<'END' || die "rows"
import json, sys
m = json.load(open(sys.argv[1]))
rows = {p["name"]: p["rows"] for p in m["parameters"] if p["kind"] == "table"}
assert m["resume"]["data"] == "20300103/0003", m["resume"]
assert 50 < rows["embedding.w"] < rows["weight.w"] < 2500, rows  # some 12000 users were seen
END

# --- done-files: a base at each day's first pass, changes behind it, each whole; the last one is what there is to poll ---
for i in 00 01 02 03 04 05 06 07 08 09 10 11; do
    f=$TMP/whole/online/pass-000$i.json kind=delta
    case $i in 00 | 04 | 08) kind=base ;; esac
    grep -q "\"kind\": \"$kind\"" "$f" && grep -q "\"path\": \"output/pass-000$i\"" "$f" || die "pass $i: $(cat "$f")"
done
cmp "$TMP/whole/online/latest.json" "$TMP/whole/online/pass-00011.json" && cmp "$TMP/whole/online/base.json" "$TMP/whole/online/pass-00008.json" || die "latest"
if command -v xxh128sum >/dev/null; then
    grep -q "\"$(xxh128sum <"$TMP/whole/pass-00011/manifest.json" | cut -d' ' -f1)\"" "$TMP/whole/online/latest.json" || die "checksum"
fi

# --- killed again and again, started again: the same bits, and every done-file ---
digest() { "$DIGEST" "$1" | cut -d' ' -f1; }
whole=$(digest "$TMP/whole/pass-00011")
rm -rf output
for fault in kill.train.step:7 kill.train.saved:1 kill.train.step:45 kill.train.saved:3 kill.train.step:100; do # 30 steps a folder
    PADDLE_FAULT=$fault online >"$TMP/killed.log" 2>&1 && die "$fault: nobody was killed"
done
expect 0 online
has "Resuming from output/pass-0000"
[ "$(digest output/pass-00011)" = "$whole" ] || die "the model is another one after it was killed"
[ "$(sed -n 's/.*"pass": \([0-9]*\),/\1/p' output/online/latest.json)" = 11 ] || die "latest.json"

# --- inside a folder: a stop that saves, and on from there ---
rm -rf output
start stopped "$WORKER" trainer --local=1 --saving_period_by_batches=11
wait_for 300 "a first save" test -e output/online/latest.json
kill -TERM "$PID" 2>/dev/null
wait "$PID" || die "asked to stop: $(tail -3 "$TMP/stopped.log")"
expect 0 online
[ "$(digest output/pass-00011)" = "$whole" ] || die "the model is another one after it was stopped"

# --- a folder that is not complete; one that is since nothing changes any more ---
rm -rf output && rm stream/20300101/0001/_DONE
expect 0 online
has "Ending after 20300101/0000: no folder was complete for online_idle"
expect 0 online --online_idle=0 --online_done_file= --online_quiet=0.2 --online_until=20300101
has "Test before pass 2 (20300101/0001)"
has "Ending after 20300101/0003"
touch online.stop
expect 0 online --online_idle=0
has "the stop file exists"
rm online.stop
touch stream/20300101/0001/_DONE

# --- two servers and two trainers; folders appear while they run; four streams for three files ---
rm -rf output && mv stream come && mkdir -p stream
topology=(--reproducible=topology --n_streams=4 --online_idle=0)
PADDLE_OUTPUT_DIR=$TMP/servers start s0 "$WORKER" pserver --nics=127.0.0.1 --port=0 --num_gradient_servers=2
s0=$PID
PADDLE_OUTPUT_DIR=$TMP/servers start s1 "$WORKER" pserver --nics=127.0.0.1 --port=0 --num_gradient_servers=2
s1=$PID
list=
mkdir -p "$TMP/servers"
for i in 0 1; do
    wait_for 300 "pserver $i listens" grep -q '^pserver listens' "$TMP/s$i.log"
    list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$TMP/s$i.log")
done
trainers=()
for i in 0 1; do
    PADDLE_OUTPUT_DIR=$TMP/servers start "t$i" "$WORKER" trainer --pservers="${list#,}" --trainer_id=$i --num_gradient_servers=2 "${topology[@]}"
    trainers+=("$PID")
done
pass=0
for f in 20300101/0000 20300101/0001 20300102/0000; do
    mkdir -p "stream/${f%/*}" && mv "come/$f" "stream/$f"
    wait_for 300 "pass $pass is saved" test -e "$TMP/servers/online/pass-0000$pass.json" # the next folder comes while they wait for it
    pass=$((pass + 1))
done
touch online.stop
for p in "${trainers[@]}" "$s0" "$s1"; do wait "$p" || die "$(tail -3 "$TMP"/t?.log "$TMP"/s?.log)"; done
rm online.stop
grep -q '^Ending after 20300102/0000: the stop file exists' "$TMP/t0.log" || die "$(tail -3 "$TMP/t0.log")"
expect 0 "$WORKER" trainer --local=1 "${topology[@]}" --online_until=20300102/0000 --resume=
[ "$(digest output/pass-00002)" = "$(digest "$TMP/servers/pass-00002")" ] || die "two servers and two trainers make another model"
echo "folders that appear while two trainers run: the same bits as in one process"

# --- mistakes ---
expect 2 "$WORKER" trainer --local=1 --on_trainer_lost=wait
has "on_failure = restart"
sed 's,^train = .*,train = stream/part-*,' train.ini >flat.ini
expect 2 "$WORKER" trainer --local=1 --config=flat.ini
has "folders of a day and a minute"
