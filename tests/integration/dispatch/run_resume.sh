#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run --resume: from an earlier job on the nodes, also if its parts lie on hosts that run no pserver
# now; from a folder here; bit for bit what an undisturbed job gives. The last line of a failed and
# of a stopped job is a command that continues. No .paddleignore is edited.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
cd "$TMP" || exit 1
mkdir ws
tiny_data ws/data
tiny_model vocabulary=300 <<'E' >ws/train.ini
batch_size = 48
n_streams = 3
reproducible = topology
saving_period = 1
E
{ local_nodes 3; printf '[job]\njob_dispatch_package = ws\n'; } >conf.ini
run() { local want=$1; shift; expect "$want" "$ctl" run --conf=conf.ini "$@"; }
digest() { "$TOP/tests/support/model-digest" "$1" | cut -d' ' -f1; }
job_of() { sed -n 's/.*paddlectl | \(JOB[-0-9a-f]*\) on .*/\1/p' <<<"$OUT" | head -1; }
same() {
    [ "$(digest "output/$(job_of)/pass-00003")" = "$whole" ] ||
        die "$1: other bits than the whole job: $OUT"
}

run 0 --num_passes=4
whole=$(digest "output/$(job_of)/pass-00003")
run 0 --num_passes=2
first=$(job_of)

# --- from a job: the furthest checkpoint, a pass by its folder's name, by its number
run 0 --num_passes=4 --resume="$first"
has "paddlectl | resuming from $first: pass 2 (pass-00001)"
has "Resuming from resume/pass-00001: pass 3/4, batch 0"
same "from the job"
run 0 --num_passes=4 --resume="$first/pass-00000"
has "Resuming from resume/pass-00000: pass 2/4, batch 0"
same "from its first pass"
run 0 --num_passes=4 --resume="${first: -4}/1"
has "resuming from $first: pass 1 (pass-00000)"
run 0 --num_passes=4 --resume="$first/1"
has "resuming from $first: pass 1 (pass-00000)"
same "from pass 1"
[ ! -e node0/"$first"/resume ] && [ "$(find node1/"$first"/output -name '*.bin' | wc -l)" = 4 ] ||
    die "the earlier job was changed: $(find node1/"$first")"

# --- one pserver, on a node that had no part or only its own: the parts are moved
run 0 --num_passes=4 --resume="$first" --pservers='nodes 2'
has "its parts come over this machine"
same "one pserver"
run 0 --num_passes=2 --pservers='nodes 0-1'
two=$(job_of)
rm -r "output/$two"
run 0 --num_passes=4 --resume="$two" --pservers='nodes 1-2'
has "resuming from $two: pass 2 (pass-00001); its parts come over this machine"
same "moved to other hosts"
# all parts lie on hosts of pservers, in another order: trainer 0 moves them between the pservers
run 0 --num_passes=4 --resume="$two" --pservers='nodes 0-2'
has_not "over this machine"
same "moved between pservers"

# --- the job was killed while it saved: the newest model whose parts are all there
rm -r "node1/$two/output/pass-00001"
run 0 --num_passes=4 --resume="$two"
has "resuming from $two: pass 1 (pass-00000), since pass-00001 is incomplete"
same "from the model before an incomplete one"
rm -r "node1/$two/output/pass-00000"
run 2 --num_passes=4 --resume="$two"
has "parts of pass-00000 of $two are missing, and there is no model before it"

# --- a folder of this machine: a checkpoint, or the newest one in a folder of outputs
run 0 --num_passes=4 --resume="output/$first/pass-00000"
has "resuming from output/$first/pass-00000, which is sent"
has "Resuming from resume/pass-00000: pass 2/4, batch 0"
same "from a folder"
cp -R "output/$first" mine
mv mine/pass-00001 mine/good
run 0 --num_passes=4 --resume=mine
has "resuming from mine/good, which is sent"
has "Resuming from resume/pass-resumed: pass 3/4, batch 0"
same "from a folder with a name of its own"
# a folder whose name begins with JOB, but is no complete id of a job; a complete id is the job
cp -R mine JOB-mine
run 0 --num_passes=4 --resume=JOB-mine
has "resuming from JOB-mine/good, which is sent"
same "from a folder JOB-mine"
cp -R mine "$first"
run 0 --num_passes=4 --resume="$first"
has "paddlectl | resuming from $first: pass 2 (pass-00001)"
rm -r "$first" JOB-mine
# --- the --set of the earlier job is used again, also by the job after that, unless it is given anew
sets=(--set optimizer.learning_rate=0.05 --set train.seed=7)
run 0 --num_passes=3 "${sets[@]}"
changed=$(digest "output/$(job_of)/pass-00002")
run 0 --num_passes=1 "${sets[@]}"
set_job=$(job_of)
run 0 --num_passes=2 --resume="$set_job"
has "paddlectl | as in the earlier job: --set "
has " --set optimizer.learning_rate=0.05"
has " --set train.seed=7"
second=$(job_of)
# conf and --dry-run know it, too, without a host, from what was fetched
for from in "$second" "output/$second/pass-00001"; do
    run 0 --dry-run --resume="$from"
    has "resuming from $from, which "
    has "as in the earlier job: --set "
    has " --set optimizer.learning_rate=0.05"
    expect 0 "$ctl" conf --conf=conf.ini --resume="$from"
    [[ $OUT =~ "# learning_rate = 0.05 "\ *"; resumed job: --set optimizer.learning_rate" ]] || die "$OUT"
    [[ $OUT =~ $'\n'"seed = 7 "\ *"; resumed job: --set train.seed" ]] || die "$OUT"
done
expect 0 "$ctl" conf --conf=conf.ini --resume="$second" --json
has '"from": "resumed job: --set"'
expect 0 "$ctl" conf --conf=conf.ini --resume=JOB19990101000000-0000
has "# resume: the keys that --set gave to the earlier job are known on its hosts"
run 0 --num_passes=3 --resume="output/$second/pass-00001"
has " --set optimizer.learning_rate=0.05"
[ "$(digest "output/$(job_of)/pass-00002")" = "$changed" ] || die "other bits than with --set: $OUT"
run 0 --num_passes=2 --resume="$set_job" --seed=7 --set optimizer.learning_rate=0.01
has_not "as in the earlier job"
[ ! -e ws/.paddleignore ] || die "a .paddleignore"

# --- what cannot be resumed is refused before anything is sent
run 2 --resume="$first/9"
has "$first has not saved pass 9 (pass-00008); saved: pass-00001 (pass 2), pass-00000 (pass 1)"
run 2 --resume="$first/x"
has "'x' is no pass"
run 2 --resume=JOB19990101000000-0000
has "JOB19990101000000-0000"
rm mine/good/dense-00001-of-00003.bin
run 2 --resume=mine/good
has "mine/good is incomplete: dense-00001-of-00003.bin is missing"
run 0 --num_passes=1 --save_state=0
values=$(job_of)
run 2 --resume="$values"
has "$values has saved no model from which training can continue"
run 2 --resume="output/$values/pass-00000"
has "was saved without the optimizer's state (save_state)"

# --- latest without a checkpoint: paddlectl says so, not only a trainer
run 0 --num_passes=1 --resume=latest
has "paddlectl | warning: resume = latest, but there is no checkpoint in output of this job:"
has "training starts from the beginning"

# --- the last line of a failed job, and of a stopped one, is a command that continues
start failing "$ctl" run --conf=conf.ini --num_passes=100000
wait_for 60 "a saved pass" grep -q 'Saved output/pass-00002' failing.log
trainer=$(pgrep -f '^paddle_trainer trainer' | while read -r p; do
    tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null |
        grep -q "^PADDLE_OUTPUT_DIR=$TMP/node1/" && echo "$p"
done | head -1)
kill -9 "${trainer:-none}" || die "no trainer on node 1"
wait "$PID" && die "a job with a killed trainer ended well"
last=$(tail -1 failing.log)
saved='^paddlectl: saved: output/pass-[0-9]{5} \(pass [0-9]+\)'
[[ $last =~ $saved"; to continue: paddlectl run --resume="(JOB[-0-9a-f]+/(pass-[0-9]{5}))$ ]] ||
    die "the last line of a failed job: $(tail -5 failing.log)"
again=${BASH_REMATCH[1]} at=$((10#${BASH_REMATCH[2]#pass-} + 1))
run 0 --num_passes=$((at + 1)) --resume="$again"
has "Pass $((at + 1))/$((at + 1)) done"
start stopped "$ctl" run --conf=conf.ini --num_passes=100000
wait_for 60 "a saved pass" grep -q 'Saved output/pass-00002' stopped.log
kill -INT "$PID"
wait "$PID"
last=$(tail -1 stopped.log)
[[ $last =~ $saved"; to continue: paddlectl run --resume=JOB".*/pass- ]] ||
    die "the last line of a stopped job: $(tail -5 stopped.log)"

# --- where that command would be refused, it is not printed
last_of() { # last_of WAIT_FOR OPTIONS...: the last line of a job that Ctrl-C ends
    local text=$1
    shift
    rm -f other.log
    start other "$ctl" run --conf=conf.ini --num_passes=100000 "$@"
    wait_for 60 "$text" grep -q "$text" other.log
    kill -INT "$PID"
    wait "$PID"
    OUT=$(tail -1 other.log)
}
last_of 'Saved output/pass-00001' --save_state=0
[[ $OUT =~ ^"paddlectl: saved: output/pass-"[0-9]{5}" (pass "[0-9]+")"$ ]] ||
    die "save_state = 0: $OUT"
last_of 'Saved output/x/pass-00001' --save_dir=output/x
[[ $OUT =~ ^"paddlectl: saved: output/x/pass-"[0-9]{5}" (pass "[0-9]+")"$ ]] ||
    die "save_dir: $OUT"
last_of 'Pass 2/100000' --saving_period=100000
[ "$OUT" = "paddlectl: no model was saved" ] || die "nothing saved: $OUT"

# --- parts on another file system cannot be linked: they are copied; what is no file is left out
[ "$(stat -c %d /dev/shm)" != "$(stat -c %d .)" ] || skip "/dev/shm is on the file system of $TMP"
shm=$(mktemp -d /dev/shm/paddle-resume-XXXXXX)
on_cleanup() { hosts_end; rm -rf "$shm"; }
mv "node1/$first/output/pass-00001" "$shm/pass"
ln -s "$shm/pass" "node1/$first/output/pass-00001"
mkdir "$shm/pass/folder"
run 0 --num_passes=4 --resume="$first"
has "Resuming from resume/pass-00001: pass 3/4, batch 0"
same "from copies"
