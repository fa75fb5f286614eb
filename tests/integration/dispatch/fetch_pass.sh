#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch: one model of a job, chosen by a person's words, also of a job that ended long ago; the
# folder that gets it; the progress on terminals of 140, 80 and 40 columns; the last lines of run
# there.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
cd "$TMP" || exit 1
mkdir ws
tiny_data ws/data
cp -R ws/data ws/test
tiny_model vocabulary=300 test='test/*' <<'E' >ws/train.ini
batch_size = 40
num_passes = 4
saving_period = 1
[evaluator err]
type = classification_error
input = p
label = y
E
{ local_nodes 3; printf '[job]\njob_dispatch_package = ws\n'; } >conf.ini
expect 0 "$ctl" run --conf=conf.ini
job=$(readlink output/latest)
has "Pass 4/4 done"
has "Saved output/pass-00003 (pass 4/4)"
has "paddlectl | done in "
has "test after pass 4/4: cost "
has "paddlectl | model: output/$job/pass-00003 (pass 4)
paddlectl | next: paddlectl infer --model=output/$job/pass-00003 --data=FILE"
# status and ps show the values of the last test, behind which no progress comes
"$ctl" status --conf=conf.ini --json "$job" >status.json || die "status"
value=$(/usr/bin/python3 - node0/"$job"/log/events status.json <<'END'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
test = [e for e in events if e["ev"] == "test"][-1]
assert events.index(test) > max(i for i, e in enumerate(events) if e["ev"] == "progress"), events[-3:]
shown = json.load(open(sys.argv[2]))["progress"]["metrics"]["test.err"]
before = [e for e in events if e["ev"] == "test"][-2]["metrics"]["test.err"]
assert shown == test["metrics"]["test.err"] != before, (shown, test, before)
print("%.5g" % shown)
END
) || die "status shows an older test"
expect 0 "$ctl" ps --conf=conf.ini
has "test.err $value"
# the next command is one that works
expect 0 "$ctl" infer --model="output/$job/pass-00003" --data='ws/test/part-00000' --workspace=ws

# --- which pass is best is known to node 0; other numbers there give another answer
best() { # best VALUE...: of passes 1, 2, ...
    local i=0 v
    for v in "$@"; do
        printf '{"ev":"test","when":"after pass %d/4","pass":%d,"by":"auc",' $((i + 1)) $i
        printf '"better":"higher","value":%s}\n' "$v"
        i=$((i + 1))
    done >"node0/$job/passes"
}
fetch() { local want=$1; shift; expect "$want" "$ctl" fetch --conf=conf.ini "$@"; }
fetch 0 --pass=best --to=real
has "$job: the best saved pass is pass "
has "): err 0."
best 0.5 0.75 0.7 0.75
fetch 0 --pass=best --to=model
has "$job: the best saved pass is pass 2 (pass-00001): auc 0.75"
has "$job (done): fetched from 3 nodes into model/pass-00001"
[ "$(ls -A model)" = pass-00001 ] || die "more than the pass: $(ls -A model)"
digest() { "$TOP/tests/support/model-digest" "$1" | cut -d' ' -f1; }
[ "$(digest model/pass-00001)" = "$(digest "output/$job/pass-00001")" ] ||
    die "another model than run fetched"
[ "$(readlink output/latest)" = "$job" ] || die "--to moved latest"
sed -i 's/higher/lower/' "node0/$job/passes"
fetch 0 --pass=best --to=low
has "the best saved pass is pass 1 (pass-00000): auc 0.5"
rm "node0/$job/passes"
fetch 2 --pass=best
has "no test compares its passes"

# --- by number from 1, by name, the latest; messages say both; JSON names the folder
rm -r output
fetch 0 --pass=3
has "$job: pass 3 (pass-00002)"
[ "$(ls "output/$job")" = pass-00002 ] || die "not one pass: $(ls "output/$job")"
fetch 0 --pass=pass-00000 --json
has '"model": "pass-00000"'
fetch 0 --pass=latest --to=new "$job"
has "$job: pass 4 (pass-00003)"
for bad in 0 x pass-1 1.5 -1; do
    fetch 2 --pass=$bad
    has "'$bad' is no pass: latest, best, a number from 1 (6 is the folder pass-00005), or the name"
done
fetch 2 --pass=5
saved="pass-00003 (pass 4), pass-00002 (pass 3), pass-00001 (pass 2), pass-00000 (pass 1)"
has "$job has not saved pass 5 (pass-00004); saved: $saved"
fetch 2 --to="$TMP/conf.ini/x"
has "--to"

# --- a part that no host has is missed aloud
mv "node1/$job/output/pass-00003" gone
fetch 1 --pass=4 --to=part
has "part/pass-00003 is incomplete: "
fetch 0 --to=all # the other models are complete
has "paddlectl: all/pass-00003 is incomplete: "
[ "$(grep -c incomplete <<<"$OUT")" = 1 ] || die "$OUT"
fetch 0 --to=all --json
has $'"incomplete": [\n    "pass-00003"\n  ]'
mv gone "node1/$job/output/pass-00003"

# --- a node's folder is on no host: fetch brings the rest, says so, and does not end as if all had come
mv "node0/$job" gone
fetch 3 --to=rest
has "no host of conf.ini has the folder of $job for node 0: the outputs of this node are missing"
has "fetched from 2 nodes into rest"
fetch 2 --pass=best --to=rest # node 0 had the tests
has "for node 0"
mv gone "node0/$job"

# --- progress on terminals
head -c 40000000 /dev/urandom >"node1/$job/output/pass-00003/big"
/usr/bin/python3 "$TOP/tests/support/fetch_screen.py" "$ctl" "$job" || die "the screens"

# --- another folder with the same hosts and root_dir: without JOB its own newest job is fetched
rm "node1/$job/output/pass-00003/big"
expect 0 "$ctl" run --conf=conf.ini
job=$(readlink output/latest)
mkdir other
(cd other && cp -R ../ws . && cp ../conf.ini .) || die cp
(cd other && expect 0 "$ctl" run --conf=conf.ini --num_passes=1 --name=six) || exit 1
expect 0 "$ctl" fetch --conf=conf.ini
has "$job (done): fetched "
[ "$(readlink output/latest)" = "$job" ] || die "another folder's job: $OUT"
expect 0 "$ctl" fetch --conf=conf.ini --to=named six
has "$(readlink other/output/latest) (done): fetched "
expect 0 "$ctl" status --conf=conf.ini six
has "$(readlink other/output/latest)"
