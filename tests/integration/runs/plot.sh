#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl plot: curves of records, in braille and in ASCII, in the width of COLUMNS; and of a job
# that runs, on a terminal that changes its size. The points of the picture are those of the record.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#" ws/train.ini
plot() { expect 0 env LC_ALL=C.UTF-8 COLUMNS=60 "$ctl" plot --conf=conf.ini "$@"; }
expect 2 "$ctl" plot --conf=conf.ini
has "there is no record of a run 'latest'"
expect 0 "$ctl" run --conf=conf.ini --name=short --num_passes=4
expect 0 "$ctl" run --conf=conf.ini --name=slow --num_passes=2 --set optimizer.learning_rate=0.001

# --- records
plot short --metric=test.err
has "test.err by pass"
has "JOB"
[ "$(LC_ALL=C.UTF-8 wc -L <<<"$OUT")" -le 60 ] || die "wider than COLUMNS: $OUT"
LC_ALL=C.UTF-8 grep -q '⠉⠉⠉' <<<"$OUT" || die "no braille: $OUT"
last=$(/usr/bin/python3 -c 'import json, sys
e = [json.loads(l) for l in open(sys.argv[1])]
print("%.6g" % [x for x in e if x.get("ev") == "test"][-1]["metrics"]["test.err"])' "$(grep -ls '"name": "short"' output/JOB*/run.json | xargs dirname)/metrics.jsonl")
has " short  $last"
axis=$(tail -2 <<<"$OUT" | head -1)
[ "$(xargs <<<"$axis")" = "0 1 2 3 4" ] || die "not four passes: $OUT"
plot short slow --metric=cost,rate
[ "$(grep -c ' by pass$' <<<"$OUT")" = 2 ] && has "cost by pass" && has "rate by pass" || die "$OUT"
[ "$(grep -c '^a  JOB.* short ' <<<"$OUT")" = 2 ] && [ "$(grep -c '^b  JOB.* slow ' <<<"$OUT")" = 2 ] || die "$OUT"
expect 0 env LC_ALL=C.UTF-8 COLUMNS=60 "$ctl" compare --conf=conf.ini short slow
has "test.err by pass"
grep -q '^b  JOB.* slow ' <<<"$OUT" || die "no curves: $OUT"
plot slow --x=time
has "cost by seconds"
has "test.err by seconds" # the tests' value, without being asked for
expect 0 env LC_ALL=C "$ctl" plot --conf=conf.ini short slow
LC_ALL=C grep -q '[^ -~]' <<<"$OUT" && die "not ASCII: $OUT"
grep -q '|.*a' <<<"$OUT" || die "$OUT"
expect 2 "$ctl" plot --conf=conf.ini short --metric=test.f1
has "no run has values of test.f1; there are: "
has "test.err"
expect 2 "$ctl" plot --conf=conf.ini nobody
expect 2 "$ctl" plot --conf=conf.ini --x=cost
has "give pass or time"
# A record that is cut off: what can be read is drawn.
dir=$(grep -ls '"name": "slow"' output/JOB*/run.json | xargs dirname)
head -c -20 "$dir/metrics.jsonl" >cut && sed '3s/.*/{"ev":/' cut >"$dir/metrics.jsonl"
lacks="2 of $(($(wc -l <cut) + 1)) lines of metrics.jsonl cannot be read: they are damaged, or the record is cut off"
plot slow
has "cost by pass"
has "$lacks"
expect 0 env LC_ALL=C.UTF-8 COLUMNS=60 "$ctl" compare --conf=conf.ini short slow
has "$lacks"
expect 0 "$ctl" runs --conf=conf.ini --tensorboard=events slow
has "$lacks"

# --- a job that runs
start live "$ctl" run --conf=conf.ini --name=live
pid=$PID
named() { grep -ls '"name": "live"' output/JOB*/run.json; }
wait_for 60 "the record of the job" named
PYTHONPATH=$TOP/tests/support PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8 /usr/bin/python3 - "$ctl" "$pid" <<'END' || die "following a live job"
import os, re, signal, sys
from screen import Screen
ctl, job = sys.argv[1], int(sys.argv[2])
command = [ctl, "plot", "--conf=conf.ini", "live", "-f"]
def shown(s): return s.lines[s.top:]
def passes(s):
    """The last number below the axis of the first picture."""
    axis = [i for i, l in enumerate(shown(s)) if "└" in l]
    return float(shown(s)[axis[0] + 1].split()[-1]) if axis and len(shown(s)) > axis[0] + 2 else 0
def pictures(s): return sum("cost by pass" == l.strip() for l in shown(s))
s = Screen(command, cols=90, rows=30)
s.until(lambda: passes(s) >= 2 and pictures(s) == 1, "a picture of the running job")
first = passes(s)
s.until(lambda: passes(s) > first, "the picture grows")
assert pictures(s) == 1, s
assert b"\x1b[36m" in s.raw, "no colour"
for cols, rows in (50, 24), (100, 40), (40, 12):
    s.resize(cols, rows)
    s.until(lambda: pictures(s) == 1 and all(len(l) < cols for l in shown(s)) and
            max(len(l) for l in shown(s)) > cols - 12, "%d columns" % cols)
s.proc.send_signal(signal.SIGINT)
assert s.wait() == 130, s
os.kill(job, 0)  # the job goes on
s = Screen(command, cols=90, rows=30)
s.until(lambda: passes(s) >= 2, "a picture")
os.kill(job, signal.SIGINT)
assert s.wait() == 0, s
assert pictures(s) == 1, s
END
wait "$pid"
plot live -f # has ended: one picture
has "cost by pass"
