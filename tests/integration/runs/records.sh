#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records of runs, and runs and compare, which read them: a run that ends, one with other settings,
# one whose paddlectl is killed, one that is detached and attached, one whose record is damaged. The figures
# of a record are compared with the logs of the run.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#" ws/train.ini
# get FILE EXPRESSION: of the JSON object `o`
get() { /usr/bin/python3 -c 'import json,sys; o = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }
runs() { expect 0 "$ctl" runs --conf=conf.ini "$@"; }
# run NAME [OPTION...]: $DIR is the folder of its outputs
run() {
    local name=$1
    shift
    expect 0 "$ctl" run --conf=conf.ini --name="$name" "$@"
    LOG=$OUT DIR=$(readlink -f output/latest)
}

# --- a run: what it was
run first --num_passes=3 --set optimizer.learning_rate=0.02 --set env.SECRET=xyz
for f in run.json metrics.jsonl conf.ini train.ini; do [ -s "$DIR/$f" ] || die "no $f"; done
for f in $(grep -l xyz "$DIR"/*.*); do # conf.ini has [env], run.json the command line
    [ "$(stat -c %a "$f")" = 600 ] || die "$f has a secret and may be read by others"
done
grep -q '^learning_rate = 0.02' "$DIR/train.ini" || die "train.ini of the record lacks --set"
grep -qx 'num_passes = 3' "$DIR/conf.ini" && grep -qx 'SECRET = xyz' "$DIR/conf.ini" ||
    die "$(cat "$DIR/conf.ini")"
grep -q '^ports_num' "$DIR/conf.ini" && die "conf.ini of the record has a default"
[ "$(get "$DIR/run.json" 'o["state"], o["exit_status"], o["name"], o["job"]')" = \
    "('done', 0, 'first', '${DIR##*/}')" ] || die "$(cat "$DIR/run.json")"
[ "$(get "$DIR/run.json" 'o["hosts"][1]["host"], o["trainers"], o["command"][1]')" = \
    "('local.1', [0, 1], 'run')" ] || die "$(cat "$DIR/run.json")"
[ "$(get "$DIR/run.json" 'len(o["workspace"]), len(o["worker"])')" = "(64, 64)" ] || die "no ids"

# --- and what it reached: as in the log
/usr/bin/python3 - "$DIR/metrics.jsonl" <<<"$LOG" <<'END' || die "metrics.jsonl: $(cat "$DIR/metrics.jsonl")"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
assert lines[0] == {"version": 1}, lines[0]
events = lines[1:]
assert all(e["t"] > 1.7e12 and e["ev"] for e in events)
passes = [e for e in events if e["ev"] == "pass" and e["rank"] == 0]
assert [e["pass"] for e in passes] == [0, 1, 2] and all(e["complete"] for e in passes)
assert all(e["peak_memory"] > 1e6 and e["sent"] > 0 and e["received"] > 0 and e["seconds"] > 0 for e in passes)
assert {e["node"] for e in events if e["ev"] == "pass"} == {0, 1}
assert all(0 < e["rows"]["e.w"] <= 300 for e in passes) # the vocabulary
assert all(sorted(e["server_memory"]) == ["0", "1"] and min(e["server_memory"].values()) > 1e6 for e in passes)
parts = [sum(e[k] for k in ("waited", "read", "forward", "backward", "push", "pull")) / e["seconds"] for e in passes]
assert all(0.1 < p < 1.05 for p in parts), parts
model, = [e for e in events if e["ev"] == "model"]
assert [n["name"] for n in model["nodes"]] == ["x", "y", "e", "p", "c"], model
assert model["nodes"][3]["in"] == ["e"] and model["nodes"][3]["flops"] == 2 * 8 * 300 == model["flops"], model
assert [e["host"] for e in passes] == ["local.0"] * 3
assert {"pservers", "trainers"} <= {e["state"] for e in events if e["ev"] == "state"}
assert [e["path"] for e in events if e["ev"] == "saved"][-1] == "output/pass-00002"
assert not [e for e in events if e["ev"] == "doing"]
END
# The cost and the error of the last pass, of the last test.
read -r cost error < <(sed -n 's/.*Pass 3\/3 done: .* cost \([0-9.]*\), err \([0-9.]*\).*/\1 \2/p' <<<"$LOG")
[ "$(get "$DIR/run.json" '"%g %g" % (o["pass"]["cost"], o["pass"]["metrics"]["err"])')" = "$cost $error" ] ||
    die "the record's last pass is not '$cost $error': $(cat "$DIR/run.json")"
read -r tested < <(sed -n 's/.*Test after pass 3\/3: .* err \([0-9.]*\),.*/\1/p' <<<"$LOG")
[ "$(get "$DIR/run.json" '"%g" % o["test"]["metrics"]["test.err"]')" = "$tested" ] || die "not $tested"
first=$DIR

# --- another one, and how they differ
run second --num_passes=1
runs
[ "$(awk 'NR > 1 { print $2, $3 }' <<<"$OUT")" = $'second done\nfirst done' ] || die "$OUT"
has "3/3"
runs --sort=name --state=done
[ "$(awk 'NR > 1 { print $2 }' <<<"$OUT")" = $'first\nsecond' ] || die "$OUT"
runs --sort=-passes --last=1
[ "$(awk 'NR > 1 { print $2 }' <<<"$OUT")" = second ] || die "$OUT"
runs --csv --sort=-passes
/usr/bin/python3 -c 'import csv, io, sys
rows = list(csv.DictReader(io.StringIO(sys.argv[1])))
assert [r["name"] for r in rows] == ["first", "second"], rows
assert float(rows[0]["test.err"]) == float(sys.argv[2]) and rows[0]["passes"] == "3", rows' "$OUT" "$tested" || die "$OUT"
runs --json
[ "$(/usr/bin/python3 -c 'import json, sys; print([r["passes"] for r in json.loads(sys.argv[1])["runs"]])' "$OUT")" = "[1, 3]" ] || die "$OUT"
[ "$(get "$first/run.json" 'o["settings"]["env.SECRET"], o["settings"]["train.num_passes"], o["failure"]')" = \
    "('xyz', '3', None)" ] || die "$(cat "$first/run.json")"
expect 2 "$ctl" runs --conf=conf.ini --sort=nothing
has "--sort=nothing: no run has it"
expect 0 "$ctl" compare --conf=conf.ini first second
grep -qE '^optimizer\.learning_rate +0\.02 +0\.05$' <<<"$OUT" || die "$OUT"
grep -qE '^train\.num_passes +3 +1$' <<<"$OUT" || die "$OUT"
grep -qE '^env\.SECRET +xyz +-$' <<<"$OUT" || die "$OUT"
grep -qE '^passes +3 +1$' <<<"$OUT" || die "$OUT"
grep -qE "^test.err +$tested " <<<"$OUT" || die "$OUT"
has_not "files of the workspace"
expect 2 "$ctl" compare --conf=conf.ini first
has "give two runs or more"
expect 2 "$ctl" compare --conf=conf.ini first nobody
has "there is no record of a run 'nobody'"
# A train.ini that cannot be read: the rest is compared.
mv "$first/train.ini" kept.ini && mkdir "$first/train.ini"
expect 0 "$ctl" compare --conf=conf.ini first second
has "${first##*/}: settings of train.ini are missing: "
grep -qE '^train\.num_passes +3 +1$' <<<"$OUT" || die "$OUT"
grep -qE "^test.err +$tested " <<<"$OUT" || die "$OUT"
rmdir "$first/train.ini" && mv kept.ini "$first/train.ini"
echo '# changed' >>ws/train.ini
run third --num_passes=1
expect 0 "$ctl" compare --conf=conf.ini
grep -qE '^files of the workspace +[0-9a-f]{12} +[0-9a-f]{12}$' <<<"$OUT" || die "$OUT"
has_not "data files"
sed -i '$d' ws/data/part-00005
run fourth --num_passes=1
expect 0 "$ctl" compare --conf=conf.ini
grep -qE '^data files +[0-9a-f]{12} +[0-9a-f]{12}$' <<<"$OUT" || die "$OUT"
# Without conf.ini: the folder "output" here.
mkdir empty && cd empty && expect 0 "$ctl" runs && has "no such run has a record in output" && cd ..

# --- paddlectl is killed: the record has what it wrote, and fetch --log completes it
start killed "$ctl" run --conf=conf.ini --name=killed
pid=$PID
killed_dir() { grep -ls '"name": "killed"' output/JOB*/run.json | xargs -r dirname; }
some_passes() { [ "$(grep -c '"ev":"pass"' "$(killed_dir)/metrics.jsonl")" -ge 4 ]; }
wait_for 60 "two passes of the job" some_passes
runs --last=1
has " running "
kill -9 "$pid"
wait "$pid" 2>/dev/null
runs --last=1
has " unknown "
dir=$(killed_dir)
wrote=$(grep -c '"ev":"pass"' "$dir/metrics.jsonl")
ended() { "$ctl" ps --conf=conf.ini | grep -q ' killed .* failed '; }
wait_for 60 "the lease ends the job" ended
expect 0 "$ctl" fetch --conf=conf.ini --log
runs --last=1
has " failed "
[ "$(grep -c '"ev":"pass"' "$dir/metrics.jsonl")" -ge "$wrote" ] || die "fetch --log lost passes"
# All events of both nodes' logs, but for what records leave out; in the order of time.
/usr/bin/python3 - "$dir" <<'END' || die "$dir/metrics.jsonl does not have what the logs have"
import glob, json, sys
def kept(e): return e["ev"] not in ("doing", "progress")
def load(path):
    for line in open(path):
        yield json.loads(line)
record = list(load(sys.argv[1] + "/metrics.jsonl"))[1:]
assert [e["t"] for e in record] == sorted(e["t"] for e in record)
for node in (0, 1):
    logs = [e for e in load(f"{sys.argv[1]}/log/node-{node}/events") if kept(e)]
    mine = [{k: v for k, v in e.items() if k not in ("node", "host")} for e in record if e.get("node") == node and kept(e)]
    assert logs == mine and len(logs) > 3, (len(logs), len(mine))
assert any(e["ev"] == "state" for e in record)
END

# --- detached: the record is of its beginning; attach continues it, and sees the end
sed -i 's/^num_passes = .*/num_passes = 300/' ws/train.ini
expect 0 "$ctl" run --conf=conf.ini --name=alone --detach
runs --last=1
has " detached "
expect 0 "$ctl" attach --conf=conf.ini
runs --last=1
grep -qE ' alone +done .* 300/300 ' <<<"$OUT" || die "$OUT"

# --- a record that is damaged: a warning, and the job goes on
expect 0 "$ctl" run --conf=conf.ini --name=odd --detach
last_line
echo '{' >"output/$OUT/run.json"
expect 0 "$ctl" attach --conf=conf.ini
has "warning: the record of this run is not complete: output/JOB"
has "Pass 300/300 done"
expect 1 "$ctl" runs --conf=conf.ini --last=1
has "a record cannot be read: output/JOB"
has " alone "
