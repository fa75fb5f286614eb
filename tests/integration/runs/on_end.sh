#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# on_end: a command that runs once when a job has ended: well, with a failure, stopped by Ctrl-C, or
# followed by attach. What it does never changes the exit status, and it has a time limit.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#" ws/train.ini
echo "on_end = env | grep ^PADDLE_JOB_ | sort >>said; echo printed; echo =end >>said" >>conf.ini
value() { sed -n "s/^PADDLE_JOB_$1=//p" said; }
once() { [ "$(grep -c '^=end$' said)" = 1 ] || die "not run once: $(cat said)"; }

# --- done: after the outputs and the record
expect 0 "$ctl" run --conf=conf.ini --name=good --num_passes=3
has "printed"
once
dir=$(readlink -f output/latest)
[ "$(value ID) $(value NAME) $(value STATE) $(value EXIT_STATUS)" = "${dir##*/} good done 0" ] || die "$(cat said)"
[ "$(readlink -f "$(value OUTPUT)")" = "$dir" ] && [ "$(value FAILURE)" = "" ] || die "$(cat said)"
/usr/bin/python3 - "$dir/run.json" "$(value TEST)" "$(value TEST_VALUE)" "$(value TEST_PASS)" "$(value BEST_VALUE)" "$(value BEST_PASS)" "$(value METRICS)" <<'E' || die "$(cat said)"
import json, sys
run, (by, value, last, best, best_pass, metrics) = json.load(open(sys.argv[1])), sys.argv[2:]
assert by == run["test"]["by"] == "err"
assert float(value) == run["test"]["value"] and int(last) == 3
assert float(best) == run["best"]["value"] and int(best_pass) == run["best"]["pass"] + 1
assert json.loads(metrics) == run["test"]["metrics"]
E
"$ctl" run --conf=conf.ini --json --num_passes=1 >json 2>words || die "$(cat words)"
/usr/bin/python3 -c 'import json, sys
for line in open(sys.argv[1]):
    json.loads(line)' json || die "its output is among the JSON: $(cat json)"
grep -qx printed words || die "its output is not on standard error: $(cat words)"

# --- a failure of the job, of the command, of both; a command that does not end
rm said
expect 1 "$ctl" run --conf=conf.ini --trainer_command='exit 7'
once
[ "$(value STATE) $(value EXIT_STATUS)" = "failed 1" ] && [[ $(value FAILURE) == trainer\ ?\ on\ local.?": exit status 7" ]] && [ -z "$(value TEST)" ] && [ "$(value METRICS)" = "{}" ] || die "$(cat said)"
expect 0 "$ctl" run --conf=conf.ini --num_passes=1 --on_end='exit 9'
has "warning: on_end has failed with status 9"
began=$SECONDS
expect 0 "$ctl" run --conf=conf.ini --num_passes=1 --on_end_timeout=0.5 --on_end='sleep 31537 & trap "" TERM; sleep 31537'
has "warning: on_end was ended after 0.5 s"
[ $((SECONDS - began)) -lt 100 ] || die "no time limit"
pgrep -f '^sleep 31537$' >/dev/null && die "a process of on_end is left"
# The shell ends at TERM, and what it has started ignores it.
expect 0 "$ctl" run --conf=conf.ini --num_passes=1 --on_end_timeout=0.5 --on_end='(trap "" TERM; exec sleep 31539) & sleep 31540'
has "warning: on_end was ended after 0.5 s"
pgrep -f '^sleep 315(39|40)$' >/dev/null && die "a process of on_end is left"
# A job that never began has no end.
rm -f said
expect 2 "$ctl" run --conf=conf.ini --job_dispatch_package=nowhere
[ ! -e said ] || die "ran for a job that never began"

# --- Ctrl-C; detached and attached
start stopped "$ctl" run --conf=conf.ini --name=stopped
pid=$PID
passes() { grep -q '"ev":"pass"' "$(grep -ls '"name": "stopped"' output/JOB*/run.json | xargs dirname)/metrics.jsonl"; }
wait_for 60 "a pass" passes
kill -INT "$pid"
wait "$pid"
[ $? = 130 ] || die "the exit status is not 130: $(cat stopped.log)"
once
[ "$(value NAME) $(value STATE) $(value EXIT_STATUS)" = "stopped stopped 130" ] || die "$(cat said)"
rm said
sed -i 's/^num_passes = .*/num_passes = 200/' ws/train.ini
expect 0 "$ctl" run --conf=conf.ini --name=alone --detach
[ ! -e said ] || die "ran when the job was detached"
expect 0 "$ctl" attach --conf=conf.ini
once
[ "$(value STATE)" = "done" ] || die "$(cat said)"
