#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl sweep --nodes-per-trial: trials side by side, with the values of trials one after the
# other; --halving: each round continues the better half, as if it had never stopped. Ctrl-C and
# --resume with both.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#; s/^num_passes = .*/num_passes = 3/" ws/train.ini
sed -i 's/local\*2/local*4/' conf.ini
sweep=("$ctl" sweep --conf=conf.ini --metric=test.cost)
# state NAME EXPRESSION: of the trials `t` of a sweep, and the records `r` of their jobs
state() {
    /usr/bin/python3 - "$@" <<'E'
import json, sys
t = json.load(open(f"output/sweep-{sys.argv[1]}/state.json"))["trials"]
t.sort(key=lambda x: x["number"])
class Records(dict):
    def __missing__(self, job):
        return json.load(open(f"output/{job}/run.json"))
r = Records()
print(eval(sys.argv[2]))
E
}
is() { # is NAME EXPRESSION TEXT
    local got
    got=$(state "$1" "$2") && [ "$got" = "$3" ] || die "$2 of $1: $got, not $3
$(cat "output/sweep-$1/state.json") ${OUT:-}"
}
states='" ".join(x["state"] or "-" for x in t)'
values='" ".join(str(x["value"]) for x in t)'

# --- side by side: two trials at a time, with the values of trials one after the other
rates=(--set optimizer.learning_rate=0.2,0.1,0.05 --no-early-stop)
expect 0 "${sweep[@]}" --name=pairs --nodes-per-trial=2 "${rates[@]}"
is pairs "$states" "done done done"
is pairs '[len(r[x["job"]]["hosts"]) for x in t]' "[2, 2, 2]"
is pairs 'r[t[1]["job"]]["started_ms"] < r[t[0]["job"]]["ended_ms"]' True
is pairs 'r[t[2]["job"]]["started_ms"] > min(r[x["job"]]["ended_ms"] for x in t[:2])' True
expect 0 "${sweep[@]}" --name=alone --hosts='local*2' "${rates[@]}"
is alone "$values" "$(state pairs "$values")"
expect 0 "${sweep[@]}" --name=odd --hosts='local*3' --nodes-per-trial=2 --set optimizer.learning_rate=0.2,0.1
has "the last 1 of 3 hosts get no trial"
is odd 'r[t[1]["job"]]["started_ms"] > r[t[0]["job"]]["ended_ms"]' True
expect 2 "${sweep[@]}" --name=odd --hosts='local*3' --nodes-per-trial=1 --set optimizer.learning_rate=0.2,0.1 --resume
has "the sweep 'odd' began with other options"

# --- Ctrl-C stops both; --resume runs them again
start cut "${sweep[@]}" --name=cut --nodes-per-trial=2 --no-early-stop --set train.num_passes=60,61,2
two_run() { [ "$(state cut 'all(x["state"] == "running" and bool(x["job"]) for x in t[:2])')" = True ]; }
wait_for 200 "two trials" two_run
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "the exit status is not 130: $(cat cut.log)"
is cut "$states" "stopped stopped -"
expect 0 "${sweep[@]}" --name=cut --nodes-per-trial=2 --no-early-stop --set train.num_passes=60,61,2 --resume
is cut "$states" "done done done"

# --- halving: 4 trials of one pass, 2 up to pass 2, one up to pass 4
halving=(--halving --num_passes=4 --set optimizer.learning_rate=0.2,0.1,0.05,0.000001)
expect 0 "${sweep[@]}" --name=half --hosts='local*2' "${halving[@]}"
is half "$states" "done done done done done done done"
is half '[x["settings"].split("=")[-1] for x in t]' "['1', '1', '1', '1', '2', '2', '4']"
rate_of='(lambda x: x["settings"].split()[0])' value_of='(lambda x: x["value"])'
is half "[$rate_of(x) for x in t[4:6]] == [$rate_of(x) for x in sorted(t[:4], key=$value_of)[:2]]" True
is half "$rate_of(t[6]) == $rate_of(min(t[4:6], key=$value_of))" True
has "the best: trial 7, $(state half 't[6]["settings"]');"
# The best one has the values of a run that never stopped.
expect 0 "$ctl" run --conf=conf.ini --hosts='local*2' --name=whole --num_passes=4 --set "$(state half "$rate_of(t[6])")"
tests() { grep -h '"ev":"test".*"when":"after' "$@" | sed 's/.*"pass":\([0-9]*\).*"cost":\([-+.e0-9]*\).*/\1 \2/' | sort -n; }
whole=$(basename "$(dirname "$(grep -ls '"name": "whole"' output/JOB*/run.json)")")
tests "output/$whole/metrics.jsonl" >whole.tests
for job in $(state half "' '.join(x['job'] for x in t if $rate_of(x) == $rate_of(t[6]))"); do
    tests "output/$job/metrics.jsonl"
done | sort -n >half.tests
[ "$(wc -l <whole.tests)" = 4 ] && cmp whole.tests half.tests || die "other values: $(paste whole.tests half.tests)"

# --- the same side by side, with Ctrl-C in the second round: the same trials and values
start again "${sweep[@]}" --name=again --nodes-per-trial=2 "${halving[@]}"
second() { [ "$(state again 'len(t) > 4 and bool(t[4]["job"])')" = True ]; }
wait_for 200 "the second round" second
kill -INT "$PID"
wait "$PID"
expect 0 "${sweep[@]}" --name=again --nodes-per-trial=2 "${halving[@]}" --resume
is again "$states" "done done done done done done done"
is again '[x["settings"] for x in t]' "$(state half '[x["settings"] for x in t]')"
is again "$values" "$(state half "$values")"

# --- wrong usage
try=(--set optimizer.learning_rate=0.2,0.1 --name=wrong)
expect 2 "${sweep[@]}" "${try[@]}" --nodes-per-trial=5
has "there are only 4 hosts"
expect 2 "${sweep[@]}" "${try[@]}" --nodes-per-trial=0
has "give the number of hosts"
expect 2 "${sweep[@]}" "${try[@]}" --nodes-per-trial=1 --engine=kubernetes
has "needs a list of hosts"
expect 2 "${sweep[@]}" "${try[@]}" --halving --num_passes=1
has "--halving needs --num_passes=2 or more"
expect 2 "${sweep[@]}" "${try[@]}" --halving --set train.num_passes=2,3
has "--halving gives trials their number of passes"
[ ! -e output/sweep-wrong ] || die "a wrong call has left a sweep"
