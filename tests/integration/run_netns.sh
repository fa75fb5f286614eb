#!/usr/bin/env bash
# A training job on three hosts that share nothing: own addresses, own processes, own file systems, links of 200 Mbit/s. The
# model comes back whole, nothing is left on the hosts; a host whose cable is pulled ends the job on all of them, with its name.
# release only (the cut is timed against the lease)
. "$(dirname "$0")/../support/lib.sh"
. "$TOP/tests/support/netns-fixture"
on_cleanup() { netns_stop; }
NET=$TMP/net
netns_start "$NET" 3 200mbit >"$TMP/why" || skip "$(tail -1 "$TMP/why")"
cat "$TMP/why"
cp -R "$TOP/workspace_template/word2vec" "$NET/workspace"
"$BIN/paddlectl" prepare --format=wordnet --out="$NET/workspace" --shards=3 --holdout=20 --share=0.05 --min_word_freq=50 \
    /usr/share/wordnet/data.noun >"$TMP/prepare.log" || die "prepare"
cat >>"$NET/conf.ini" <<END
[job]
job_dispatch_package = ./workspace
attach_lease = 3
[train]
num_passes = 1
batch_size = 96
END
run() { netns_client env HOME="$TMP" "$BIN/paddlectl" run --conf="$NET/conf.ini" "$@"; }
quiet() { # host I runs nothing of ours
    ! netns_host "$1" ps -e -o comm= | grep -q '^paddle_'
}

expect 0 run
has "Test after pass 0"
ls "$NET/output/latest/pass-00000/manifest.json" >/dev/null || die "no model came back"
# Every part that the manifest names is here, though each was written on another machine.
for f in $(grep -o '"file": *"[^"]*"' "$NET/output/latest/pass-00000/manifest.json" | cut -d'"' -f4); do
    [ -s "$NET/output/latest/pass-00000/$f" ] || die "part $f is missing"
done
for i in 0 1 2; do
    quiet $i || die "host $i still runs: $(netns_host $i ps -e -o comm=)"
    [ "$(netns_host $i ls -d /home/paddle/JOB*/log/train.log | wc -l)" = 1 ] || die "host $i kept no log"
done

# Pull the cable of host 2 in the middle of the next run.
start cut netns_client env HOME="$TMP" "$BIN/paddlectl" run --conf="$NET/conf.ini" --num_passes=1000
job=$PID
wait_for 60 "training starts" grep -q 'Pass 0, Batch' "$TMP/cut.log"
netns_cut 2
wait "$job"
status=$?
PIDS=()
[ $status -eq 1 ] || [ $status -eq 3 ] || die "exit status $status after a cut: $(tail -5 "$TMP/cut.log")"
grep -q '10.77.0.13' "$TMP/cut.log" || die "the lost host is not named: $(tail -5 "$TMP/cut.log")"
for i in 0 1 2; do wait_for 10 "host $i ends its processes" quiet $i; done
echo "after the cut: $(grep '10.77.0.13' "$TMP/cut.log" | tail -1)"
