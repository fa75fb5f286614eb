#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl run --tensorboard: event files that an independent reader compares with the record, of a
# job that runs, of one whose paddlectl is killed, one that is detached and attached, one whose disk
# is full. runs --tensorboard writes the same bytes later.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
/usr/bin/python3 -c 'import google.protobuf, crcmod' 2>/dev/null ||
    skip "no python3-protobuf or no python3-crcmod"
endless_job
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#" ws/train.ini
read_events() { PYTHONDONTWRITEBYTECODE=1 "$TOP/tests/support/tfevents.py" "$@" || die "$*: see above"; }
# of NAME FOLDER: $DIR is the record, $FILE the event file of the run with this name
of() {
    DIR=$(grep -ls "\"name\": \"$1\"" output/JOB*/run.json | xargs dirname)
    FILE=$(echo "$2/${DIR##*/}"/*)
    [ "$(echo "$2/${DIR##*/}"/*)" = "$2/${DIR##*/}/events.out.tfevents.$(/usr/bin/python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["started_ms"] // 1000)' "$DIR/run.json").paddlectl" ] || die "another name: $FILE"
}

# --- a run from its beginning to its end
expect 0 "$ctl" run --conf=conf.ini --name=first --num_passes=3 --tensorboard=events
of first events
first=$FILE first_dir=$DIR
read_events whole "$FILE" "$DIR"
OUT=$(read_events tags "$FILE")
has_tags() { for tag; do grep -qx "$tag" <<<"$OUT" || die "no $tag: $OUT"; done; }
has_tags cost/train cost/pass cost/test pass/err test/err speed/job memory/trainer-1 memory/pserver-0 \
    network/sent/trainer-0 rows/e.w seconds/pass/trainer-0
has_not "test.err"

# --- later: the same bytes; what is there stays, what differs is written anew
expect 0 "$ctl" run --conf=conf.ini --name=second --num_passes=1 --set optimizer.learning_rate=0.01
expect 0 "$ctl" runs --conf=conf.ini --tensorboard=later
has "later: event files of 2 runs"
of first later
cmp "$first" "$FILE" || die "other bytes"
of second later
read_events whole "$FILE" "$DIR"
inode=$(stat -c %i "$first")
cp "$first" copy
for change in 'truncate -s -5' 'truncate -s 0' 'dd of=%s bs=1 seek=300 conv=notrunc status=none' 'tee -a'; do
    head -c 40 /dev/urandom | case $change in dd*) ${change/\%s/$first} ;; *) $change "$first" >/dev/null ;; esac
    expect 0 "$ctl" runs --conf=conf.ini --tensorboard=events first
    has "events: event files of 1 run"
    cmp copy "$first" || die "after $change: other bytes"
done
[ "$(stat -c %i "$first")" = "$inode" ] || die "another file"
[ "$(ls events)" = "${first_dir##*/}" ] || die "files of other runs: $(ls events)"
flock "$first" "$ctl" runs --conf=conf.ini --tensorboard=events first >out 2>&1 && die "written by two"
grep -q "no event file of ${first_dir##*/}: $first: another paddlectl writes this file" out || die "$(cat out)"

# --- a job that runs: complete records, and more with time; its paddlectl is killed
# Its passes take more than the 0.1 s between two events from which shares are known.
start live "$ctl" run --conf=conf.ini --name=live --batch_size=2 --tensorboard=events
pid=$PID
has_bytes() {
    local dir
    dir=$(grep -ls '"name": "live"' output/JOB*/run.json | xargs -r dirname) &&
        [ "$(cat "events/${dir##*/}"/* | wc -c)" -gt "$1" ]
}
wait_for 60 "events of the job" has_bytes 3000
of live events
size=$(stat -c %s "$FILE")
read_events whole "$FILE" "$DIR" cut
shares() { read_events tags "$FILE" | grep -qx share/wait/trainer-1; }
wait_for 60 "shares of trainer 1" shares
OUT=$(read_events tags "$FILE")
has_tags speed/trainer-0 speed/trainer-1 share/wait/trainer-0 share/forward/trainer-1
wait_for 60 "more events" has_bytes $((size + 2000))
kill -9 "$pid"
wait "$pid" 2>/dev/null
read_events whole "$FILE" "$DIR" cut
expect 0 "$ctl" runs --conf=conf.ini --tensorboard=events live
read_events whole "$FILE" "$DIR"
"$ctl" stop --conf=conf.ini >stop.log 2>&1 || grep -q 'no job is running' stop.log || die "$(cat stop.log)" # its lease may have ended it

# --- detached: attach goes on
sed -i 's/^num_passes = .*/num_passes = 300/' ws/train.ini
expect 0 "$ctl" run --conf=conf.ini --name=alone --detach --tensorboard=events
has "the events for TensorBoard end here; 'paddlectl attach --tensorboard=events JOB"
expect 0 "$ctl" attach --conf=conf.ini --tensorboard=events
of alone events
read_events whole "$FILE" "$DIR"

# --- a disk that is full: a warning, and the job goes on
expect 0 env PADDLECTL_FAULT=tensorboard.write:1 "$ctl" run --conf=conf.ini --name=full --num_passes=2 --tensorboard=events
has "warning: no more events for TensorBoard: events/JOB"
has "No space left on device"
has "Pass 2/2 done"
of full events
[ ! -s "$FILE" ] || die "a part of a record is left"
expect 0 "$ctl" runs --conf=conf.ini --tensorboard=events full
read_events whole "$FILE" "$DIR"

# --- a disk that is slow: each write takes longer than the lease of the job, which goes on nevertheless
expect 0 env PADDLECTL_FAULT=slow.tensorboard.write:6000 "$ctl" run --conf=conf.ini --name=sluggish --num_passes=400 \
    --attach_lease=4 --tensorboard=events
has "Pass 400/400 done"
has_not "no more events for TensorBoard"
of sluggish events
read_events whole "$FILE" "$DIR"

# --- mistakes: found before anything is sent
runs_before=$(ls output)
: >file
for dir in file file/below /proc/below; do
    expect 2 "$ctl" run --conf=conf.ini --tensorboard=$dir
    has "--tensorboard: "
    has "${dir%%/below}"
    expect 2 "$ctl" runs --conf=conf.ini --tensorboard=$dir
    expect 2 "$ctl" attach --conf=conf.ini --tensorboard=$dir
done
if [ "$(id -u)" != 0 ]; then
    mkdir closed && chmod 555 closed
    expect 2 "$ctl" run --conf=conf.ini --tensorboard=closed
    has "--tensorboard: nothing can be written in closed: Permission denied"
else
    echo "skipped: root may write everywhere: a folder without permission is not tried"
fi
[ "$(ls output)" = "$runs_before" ] || die "a job began"
expect 2 "$ctl" runs --conf=conf.ini --tensorboard=events --csv
has "--json, --csv and --tensorboard exclude each other"
expect 2 "$ctl" runs --conf=conf.ini --tensorboard=events nobody
has "there is no record of a run 'nobody'"
# A file where the folder of the run should be: the others are written.
rm -r later && mkdir later && : >"later/${first_dir##*/}"
expect 1 "$ctl" runs --conf=conf.ini --tensorboard=later
has "no event file of ${first_dir##*/}: "
of second later
read_events whole "$FILE" "$DIR"
# Without a record on this machine: a warning.
expect 0 "$ctl" run --conf=conf.ini --name=bare --detach
last_line
mv "output/$OUT" elsewhere
expect 0 "$ctl" attach --conf=conf.ini --tensorboard=events
has "warning: no events for TensorBoard without the record: "
exit 0
