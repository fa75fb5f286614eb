#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl sweep: a grid, the winner, a trial that is hopeless; Ctrl-C and kill -9, then --resume,
# which repeats only what has failed or did not end; another workspace is refused.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
sed -i 's/local\*2/local*1/' conf.ini
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#; s/^num_passes = .*/num_passes = 6/" ws/train.ini
sweep=("$ctl" sweep --conf=conf.ini --metric=test.err)
# state NAME EXPRESSION: of the state `o` of a sweep
state() { /usr/bin/python3 -c 'import json,sys; o = json.load(open(f"output/sweep-{sys.argv[1]}/state.json")); print(eval(sys.argv[2]))' "$@"; }
n_runs() { ls -d output/JOB* | wc -l; }

# --- a grid of four
rates=0.2,0.1
expect 0 "${sweep[@]}" --name=grid --set optimizer.learning_rate=$rates --set optimizer.l2=0,0.001 --no-early-stop
[ "$(n_runs)" = 4 ] || die "$(n_runs) runs: $OUT"
[ "$(state grid '[t["state"] for t in o["trials"]]')" = "['done', 'done', 'done', 'done']" ] || die "$OUT"
best=$(state grid 'min(range(4), key=lambda i: o["trials"][i]["value"]) + 1')
has "the best: trial $best, optimizer.learning_rate="
grep -qE "^ *\*$best +done " <<<"$OUT" || die "$OUT"
cmp "output/$(state grid "o['trials'][$best - 1]['job']")/train.ini" output/sweep-grid/train.ini || die "not the train.ini of the best trial"
# The values are those of the records.
/usr/bin/python3 - <<'E' || die "$(cat output/sweep-grid/state.json)"
import json
for t in json.load(open("output/sweep-grid/state.json"))["trials"]:
    run = json.load(open(f"output/{t['job']}/run.json"))
    e = [json.loads(l) for l in open(f"output/{t['job']}/metrics.jsonl")]
    assert t["value"] == min(x["metrics"]["test.err"] for x in e if x.get("ev") == "test"), t
    for pair in t["settings"].split():
        key, value = pair.split("=")
        assert f"{key.split('.')[1]} = {value} ; --set" in open(f"output/{t['job']}/train.ini").read(), (t, run)
E
expect 2 "${sweep[@]}" --name=grid --set optimizer.learning_rate=$rates
has "there is a sweep 'grid' already"
expect 2 "${sweep[@]}" --name=other --resume --set optimizer.learning_rate=$rates
has "there is no sweep 'other' to resume"
expect 0 "${sweep[@]}" --name=grid --set optimizer.learning_rate=$rates --set optimizer.l2=0,0.001 --resume
[ "$(n_runs)" = 4 ] || die "a complete sweep ran again: $OUT"

# --- random trials, as many as wanted: this seed always draws three short ones that learn, then a long
# one that does not. The median rule ends that one.
expect 0 "${sweep[@]}" --name=median --set optimizer.learning_rate=0.2,0.000001 --set train.num_passes=4,5,6,400 --trials=4 --seed=276
[ "$(state median '[t["state"] for t in o["trials"]]')" = "['done', 'done', 'done', 'hopeless']" ] || die "$OUT $(state median 'o["trials"]')"
[ "$(state median 'o["trials"][3]["settings"]')" = "optimizer.learning_rate=0.000001 train.num_passes=400" ] || die "another draw: $OUT"
job=$(state median 'o["trials"][3]["job"]')
grep -q '"pass":399,' "output/$job/metrics.jsonl" && die "the hopeless trial ran to its end"

# --- Ctrl-C: the trial is stopped, the others wait for --resume
end() { # NAME SIGNAL CHECK: ends the sweep when the check succeeds for it
    wait_for 200 "the second trial of $1" "$3" "$1"
    kill "-$2" "$PID"
    wait "$PID"
}
trains() { second "$1" && grep -q '"ev":"pass"' "output/$(state "$1" 'o["trials"][1]["job"]')/metrics.jsonl"; }
second() { [ "$(state "$1" 'o["trials"][1]["state"] == "running" and bool(o["trials"][1]["job"])')" = True ]; }
long=(--no-early-stop --set train.num_passes=2,60,3) # the second one runs long enough for the signal
start cut "${sweep[@]}" --name=cut "${long[@]}"
end cut INT second
[ $? = 130 ] || die "the exit status is not 130: $(cat cut.log)"
[ "$(state cut '[t["state"] for t in o["trials"]]')" = "['done', 'stopped', '']" ] || die "$(cat cut.log)"
kept=$(state cut 'o["trials"][0]["job"]') before=$(n_runs)
expect 0 "${sweep[@]}" --name=cut "${long[@]}" --resume
[ "$(state cut '[t["state"] for t in o["trials"]]')" = "['done', 'done', 'done']" ] || die "$OUT"
[ "$(state cut 'o["trials"][0]["job"]')" = "$kept" ] && [ "$(n_runs)" = $((before + 2)) ] || die "a complete trial ran again: $OUT"

# --- kill -9: its trial goes on alone; --resume waits for it and takes its result. The first sweep is
# killed before the trial has a record, the second one while it trains.
two=(--no-early-stop --set train.num_passes=2,200)
for when in early late; do
    start $when "${sweep[@]}" --name=$when "${two[@]}"
    if [ $when = early ]; then end early KILL second; else end late KILL trains; fi 2>/dev/null
    alone=$(state $when 'o["trials"][1]["job"]')
    expect 0 "${sweep[@]}" --name=$when "${two[@]}" --resume
    has "trial 2 of an earlier call, or a command that it started, still runs: waiting for its end"
    [ "$(state $when '[t["state"] for t in o["trials"]]')" = "['done', 'done']" ] || die "$OUT"
    [ "$(state $when 'o["trials"][1]["job"]')" = "$alone" ] || die "the trial that went on ran again: $OUT"
    n=$(grep -l "\"name\": \"$when-" output/JOB*/run.json | wc -l)
    [ "$n" = 2 ] || die "$n runs of two trials: $OUT"
done

# --- the process of a trial is killed: the trial has failed, and --resume repeats it alone
start killed "${sweep[@]}" --name=killed "${two[@]}"
wait_for 200 "the second trial of killed" second killed
job=$(state killed 'o["trials"][1]["job"]')
kill -KILL "$(pgrep -P "$PID")"
wait "$PID"
[ $? = 0 ] && [ "$(state killed '[t["state"] for t in o["trials"]]')" = "['done', 'failed']" ] || die "$(cat killed.log)"
expect 0 "${sweep[@]}" --name=killed "${two[@]}" --resume
[ "$(state killed '[t["state"] for t in o["trials"]]')" = "['done', 'done']" ] || die "$OUT"
[ "$(state killed 'o["trials"][1]["job"]')" != "$job" ] || die "the killed trial did not run again: $OUT"

# --- trials that fail: said, and repeated alone; another workspace is refused
expect 1 "${sweep[@]}" --name=bad --set optimizer.learning_rate=x,y
has "trial 2: "
[ "$(state bad '[t["state"] for t in o["trials"]]')" = "['failed', 'failed']" ] || die "$OUT"
endless=(--no-early-stop --set train.num_passes=2,1000000)
start changed "${sweep[@]}" --name=changed "${endless[@]}"
wait_for 200 "the second trial of changed" second changed
expect 1 "${sweep[@]}" --name=changed "${endless[@]}" --resume
has "another paddlectl runs the sweep 'changed'"
kill -INT "$PID" && wait "$PID"
echo '# another' >>ws/train.ini
expect 2 "${sweep[@]}" --name=changed "${endless[@]}" --resume
has "the workspace differs from that of the sweep's first trial"

# --- wrong usage
expect 2 "${sweep[@]}" --name=none
has "give values to try"
expect 2 "${sweep[@]}" --goal=best --set a.b=1,2
has "give max or min"
