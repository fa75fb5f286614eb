#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job without its launcher: run --detach, attach, fetch, from any folder with the conf.ini; hosts that can't be used, left out by
# min_nodes; what --dry-run and --json say.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
ssh_hosts 2
on_cleanup() { end_jobs "$TMP/conf.ini" "$fx"/node0/root/JOB*; hosts_end; }
mkdir -p "$TMP/ws" "$TMP/elsewhere"
cp "$TOP/tests/support/own-server.py" "$TMP/ws/"
# Prints a line every so often until the file `go` lies in its folder; then ends with the status in it.
cat >"$TMP/ws/train.sh" <<'END'
#!/bin/sh
echo "trainer $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM"
echo model >"$PADDLE_OUTPUT_DIR/model.$PADDLE_TRAINER_ID"
n=0
until [ -f go ]; do
    n=$((n + 1))
    echo "line $n of $PADDLE_TRAINER_ID"
    sleep 0.1
done
echo "the last words of $PADDLE_TRAINER_ID"
echo more >"$PADDLE_OUTPUT_DIR/more.$PADDLE_TRAINER_ID"
exit "$(cat go)"
END
chmod +x "$TMP/ws/train.sh"
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[cluster]
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
trainer_command = ./train.sh
pserver_command = /usr/bin/python3 own-server.py
END
cd "$TMP" || die cd
# detach [OPTIONS]: JOB
detach() {
    JOB=$("$ctl" run --conf=conf.ini --detach "$@" 2>detach.err) || die "run --detach: $? $(cat detach.err)"
    [[ $JOB =~ ^JOB[0-9]{14}-[0-9a-f]{4}$ ]] || die "stdout of run --detach: $JOB"
}
go() { # the file appears with its text
    for i in 0 1; do
        echo "${1:-0}" >"$TMP/go" && mv "$TMP/go" "$fx/node$i/root/$JOB/workspace/go"
    done
}

# --- nothing is done by a dry run
expect 0 "$ctl" run --conf=conf.ini --dry-run --trainers=1
has "would run on 2 hosts: 2 pservers, 1 trainer"
has "  node 1  "
has "would send ws: 2 files"
expect 0 "$ctl" dispatch --conf=conf.ini --dry-run
has "/workspaces/ws-"
[ ! -e "$fx/node0/root" ] && [ ! -e output ] || die "a dry run did something"

# --- it goes on without us; attach shows it, and leaves it
detach
cd elsewhere || die cd
: >attach.log
start attach "$ctl" attach --conf=../conf.ini
wait_for 30 "lines of both" bash -c "grep -q 'line .* of 0' '$TMP/attach.log' && grep -q 'line .* of 1' '$TMP/attach.log'"
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "Ctrl-C on attach: $(cat "$TMP/attach.log")"
OUT=$(cat "$TMP/attach.log")
has "$JOB continues"
has "paddlectl stop $JOB"
expect 0 "$ctl" fetch --conf=../conf.ini # while it runs
has "$JOB (running): fetched from 2 nodes into"
[ "$(cat ../output/latest/model.0 ../output/latest/model.1 | tr '\n' ' ')" = "model model " ] || die "outputs: $(find ..)"
echo mine >../output/latest/notes
: >"$TMP/again.log"
start again "$ctl" attach --conf=../conf.ini --lines=all "${JOB#*-}"
wait_for 30 "lines" grep -q 'line 1 of 1' "$TMP/again.log"
go 0
wait "$PID"
[ $? = 0 ] || die "attach to the end: $(cat "$TMP/again.log")"
for i in 0 1; do
    grep -o "line [0-9]* of $i" "$TMP/again.log" | cut -d' ' -f2 >"$TMP/lines"
    numbered 1 "$(tail -1 "$TMP/lines")" "lines of trainer $i" <"$TMP/lines"
    grep -q "the last words of $i" "$TMP/again.log" || die "no last line: $(cat "$TMP/again.log")"
done
expect 0 "$ctl" fetch --conf=../conf.ini --log --json
has '"state": "done"'
[ -f ../output/latest/more.1 ] && [ -f ../output/latest/notes ] && [ -f ../output/latest/model.0 ] || die "outputs: $(find ../output)"
grep -q "the last words of 1" ../output/latest/log/node-1/train.log || die "logs: $(find ../output)"
# the second one transfers what is new: nothing but what describes the folders
for i in 0 1; do head -c 3000000 /dev/urandom >"$fx/node$i/root/$JOB/output/same-name"; done
bytes() { printf '%s' "$OUT" | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["bytes"])'; }
expect 0 "$ctl" fetch --conf=../conf.ini --log --json
[ "$(bytes)" -gt 6000000 ] || die "transferred: $OUT"
rm ../output/latest/notes
cp -a ../output/latest/ before
echo mine >../output/latest/notes
expect 0 "$ctl" fetch --conf=../conf.ini --log --json
[ "$(bytes)" -lt 100000 ] || die "transferred again: $OUT"
[ -f ../output/latest/same-name.node-1 ] && rm ../output/latest/notes && diff -r before ../output/latest/ || die "a second fetch"
echo changed >>"$fx/node1/root/$JOB/output/same-name"
expect 0 "$ctl" fetch --conf=../conf.ini --json
[ "$(bytes)" -lt 700000 ] || die "transferred again: $OUT"
cmp ../output/latest/same-name.node-1 "$fx/node1/root/$JOB/output/same-name" || die "a changed file"
for i in 0 1; do ln -s /etc "$fx/node$i/root/$JOB/output/away"; done
expect 0 "$ctl" fetch --conf=../conf.ini
has "paddlectl: 127.0.0.[1-2]: output: 1 entry could not travel, the first: away: "
# a fetch that cannot write or place what comes says so, leaves nothing half, and can be repeated
for fault in assemble.write:1 assemble.rename:1; do
    expect 3 env PADDLECTL_FAULT=$fault "$ctl" fetch --conf=../conf.ini --to=$fault
    has "127.0.0."
    has "fetching output: "
    has_not "fetched from 2 nodes"
    for file in $fault/same-name*; do # of the other node, if it was faster
        [ ! -e "$file" ] || cmp "$file" "$fx/node0/root/$JOB/output/same-name" >/dev/null ||
            cmp "$file" "$fx/node1/root/$JOB/output/same-name" || die "$fault: half a file"
    done
done
echo changed >>"$fx/node1/root/$JOB/output/same-name"
expect 2 "$ctl" fetch --conf=../conf.ini --to=/proc/nope
has "cannot write to"
expect 0 "$ctl" fetch --conf=../conf.ini
cmp ../output/latest/same-name.node-1 "$fx/node1/root/$JOB/output/same-name" || die "after a full disk"
expect 0 "$ctl" attach --conf=../conf.ini latest # it is over: how it ended
has "done"
expect 2 "$ctl" attach --conf=../conf.ini
has "no job is running"
cd .. || die cd

# --- agents of another paddlectl: those of a supported version are used as our own; others: what can be done
other_version() { # other_version OLD=NEW...: the agents of $JOB say NEW
    others=()
    for i in 0 1; do
        start other "$TOP/tests/support/agent/other_version.py" "$fx/node$i/root/$JOB" "$@"
        others+=("$PID")
        wait_for 20 "the socket is ours" grep -q ready other.log
    done
}
same_version() { kill "${others[@]}"; wait "${others[@]}"; }
detach
other_version '"version":3="version":2' '"least":2=".....":2' # version 2 had no `least`
expect 0 "$ctl" status --conf=conf.ini "$JOB"
has "$JOB"
has_not "version"
expect 0 "$ctl" logs --conf=conf.ini "$JOB"
has "trainer 1 of 2"
expect 0 "$ctl" fetch --conf=conf.ini "$JOB"
has "fetched from 2 nodes"
start attach "$ctl" attach --conf=conf.ini "$JOB"
wait_for 30 "lines" grep -q 'line .* of 1' attach.log
expect 0 "$ctl" stop --conf=conf.ini "$JOB"
has "$JOB: stopped on 2 nodes"
wait "$PID"
same_version
detach
other_version '"version":3="version":9' '"least":2="least":8'
for command in status logs fetch attach stop; do
    expect 3 "$ctl" $command --conf=conf.ini "$JOB"
    has "speaks version 9 of the protocol, this paddlectl ($("$ctl" --version | cut -d' ' -f2)) versions 2 to 3"
    has "use the paddlectl that started the job, 0."
    has_not "0 nodes"
done
for i in 0 1; do # the command that the message names; all hosts of this test have one file system
    OUT=$(grep -o "kill \$(cat [^)]*node$i/[^)]*)" <<<"$OUT")
    expect 0 "$ctl" exec --conf=conf.ini --node=$i "$OUT"
done
same_version
wait_for 20 "the processes end" "$fixture" left "$fx"

# --- it fails at once: that is said, and no id; it fails later: attach says so
for i in 0 1; do rm -rf "$fx/node$i/root/JOB"*; done
OUT=$("$ctl" run --conf=conf.ini --detach --trainer_command='echo why; exit 7' 2>detach.err)
[ $? = 1 ] && [ -z "$OUT" ] || die "failure at once: '$OUT' $(cat detach.err)"
OUT=$(cat detach.err)
has "exit status 7"
has "    | why"
detach
start failing "$ctl" attach --conf=conf.ini --json
wait_for 30 "lines" grep -q 'line' failing.log
go 9
wait "$PID"
[ $? = 1 ] || die "attach to a job that fails: $(cat failing.log)"
python3 - failing.log <<'END' || die "json: $(cat failing.log)"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
last = lines[-1]
assert last["event"] == "result" and last["status"] == "failed" and last["exit_status"] == 1, last
assert last["first_failure"]["exit_code"] == 9 and "the last words" in last["first_failure"]["last_lines"], last
assert any(l.get("role") == "trainer" and l["text"].startswith("line ") for l in lines)
END

# --- a host that can't be used: named, all else is done; or left out
sed 's/^hosts = \([^,]*\), /hosts = \1, 127.0.0.9:1, /' conf.ini >three.ini
printf '[host 127.0.0.2]\nroot_dir = %s\n' "$fx/node1/root" >>three.ini # its %n is another one now
expect 3 "$ctl" fetch --conf=three.ini --log "$JOB"
has "127.0.0.9: cannot connect to port 1"
has "fetched from 2 nodes"
grep -q "the last words of 0" "output/$JOB/log/node-0/train.log" || die "logs of a failed job: $(find output)"
expect 3 "$ctl" run --conf=three.ini
has "not started"
expect 3 "$ctl" run --conf=three.ini --min-nodes=3
has "2 of 3 hosts can be used, min_nodes is 3"
expect 2 "$ctl" run --conf=three.ini --min-nodes=4
has "min_nodes is 4, the list has 3 hosts"
expect 3 "$ctl" run --conf=three.ini --min-nodes=1 --trainers='nodes 1'
has "no host is left for the trainers (nodes 1)"
expect 0 "$ctl" run --conf=three.ini --min-nodes=2 --trainer_command='echo trainer $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM on node $PADDLE_NODE_ID at $PADDLE_CURRENT_ENDPOINT' --pservers='nodes 1-2'
has "warning: 127.0.0.9 is left out: cannot connect to port 1"
has "2 of 3 hosts are used"
has "127.0.0.2/trainer | trainer 1 of 2 on node 1 at 127.0.0."
has "127.0.0.2/pserver | serving"
has_not "127.0.0.1/pserver | serving"

# --- dispatch: what was sent, and what was there already
expect 0 "$ctl" dispatch --conf=conf.ini --json
[[ $(tr -d ' \n' <<<"$OUT") == *'"sent":["127.0.0.1","127.0.0.2"],"had":[]'* ]] || die "dispatch: $OUT"
expect 3 "$ctl" dispatch --conf=three.ini --json
[[ $(tr -d ' \n' <<<"$OUT") == *'"sent":[],"had":["127.0.0.1","127.0.0.2"],"failed":["127.0.0.9"]'* ]] || die "dispatch: $OUT"

# --- two launchers at once
start one "$ctl" run --conf=conf.ini --outputs=out1 --trainer_command='sleep 1; echo one'
one=$PID
start two "$ctl" run --conf=conf.ini --outputs=out2 --trainer_command='sleep 1; echo two'
wait "$one" || die "one: $(cat one.log)"
wait "$PID" || die "two: $(cat two.log)"
! grep -q two one.log && ! grep -q one$ two.log || die "one and two: $(cat one.log two.log)"
wait_for 20 "nothing is left" "$fixture" left "$fx"
exit 0
