#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The client of a job against agents that do wrong things at every step (tests/support/agent/fake_agent.py, nodes of this machine).
. "$(dirname "$0")/../../support/lib.sh"
ctl=$BIN/paddlectl
export PADDLECTL_LIBEXEC=$TMP/libexec FAKE_AGENT=$TMP/scenario
mkdir -p "$TMP/libexec" "$TMP/ws"
echo x >"$TMP/ws/file"
cp "$TOP/tests/support/agent/fake_agent.py" "$TMP/libexec/paddle_agent"
cp "$TOP/tests/support/agent/agent_client.py" "$TOP/tests/support/agent/agent_package.py" "$TMP/libexec/"
echo worker >"$TMP/libexec/paddle_worker"
cd "$TMP" || die cd
cat >conf.ini <<END
[cluster]
hosts = local*3
root_dir = $TMP/root%n
[job]
job_dispatch_package = ws
trainer_command = ./file
END

scenario() { rm -f "$TMP"/scenario.*.log; printf '%s' "$1" >"$FAKE_AGENT"; }
run() { local want=$1; shift; expect "$want" "$ctl" run --conf=conf.ini "$@"; }
said() { grep -q "$2" "$TMP/scenario.$1.log" || die "node $1 did not get $2: $(cat "$TMP/scenario.$1.log")"; }
said_not() { ! grep -q "$2" "$TMP/scenario.$1.log" || die "node $1 got $2"; }

# --- all goes well: log lines of all nodes, whole although they come in pieces; outputs of all nodes in one folder
scenario '{"*": {"log": {"train.log": "über\nzwei\r\nlast", "server.log": "served\n"}, "piece": 3, "have": false},
  "0": {"output": {"m/a": "0", "both": "x"}}, "1": {"output": {"m/b": "1", "both": "x"}}, "2": {"output": null}}'
run 0
for n in 0 1 2; do
    has "local.$n/trainer | über
"
    has "local.$n/trainer | zwei
"
    has "local.$n/trainer | last
"
    has "local.$n/pserver | served
"
    [ "$(tr '\n' ' ' <scenario.$n.log | sed 's/ {[^}]*}//g')" != "" ] || die "no requests"
    said $n 'BYE {"abandon":false'
done
[ "$(cat output/latest/m/a output/latest/m/b output/latest/both)" = "01x" ] || die "outputs: $(find output)"
[[ $(readlink output/latest) =~ ^JOB[0-9]{14}-[0-9a-f]{4}$ ]] || die "latest: $(readlink output/latest)"
[ "$(find output -name '.*' ! -name .files | wc -l)" = 0 ] || die "something is left in output: $(find output)"

# --- one node fails before the start, at any step: it is named, the job does not run, the others are told to forget it
for step in DS_BEGIN DS_SOURCE JOB_SETUP; do
    scenario '{"*": {"have": false}, "1": {"error": {"'$step'": [13, "no space left on /home"]}}}'
    run 3
    has "local.1: "
    has "no space left on /home"
    has "not started"
    for n in 0 1 2; do said $n '"abandon":true'; said_not $n JOB_PEERS; said_not $n JOB_RUN; done
    scenario '{"*": {"have": false}, "1": {"die": "'$step'"}}'
    run 3
    has "local.1: "
    has "the remote command ended with exit status 9"
    for n in 0 2; do said $n '"abandon":true'; said_not $n JOB_RUN; done
done
scenario '{"*": {"have": false}, "1": {"mute": ["DS_SOURCE"]}}' # an agent that stands still
run 3 --silence_timeout=2
has "local.1: it was silent for 2 s while taking the w"
said_not 1 JOB_RUN
scenario '{"2": {"hello_error": [15, "node 2 and node 1 share root_dir /x: use %n in root_dir"]}}'
run 2
has "local.2: node 2 and node 1 share root_dir"
scenario '{"1": {"error": {"JOB_SETUP": [11, "there is no folder /nope"]}}, "2": {"error": {"JOB_SETUP": [11, "there is no folder /nope"]}}}'
run 2 --job_workspace=/nope
has "2 of 3 hosts cannot be used"
has "  local.[1-2]: there is no folder /nope"
said_not 0 DS_SOURCE

# --- what a node says can't drive the terminal
esc=$(printf '\033')
scenario '{"1": {"error": {"JOB_SETUP": [13, "\u001b]0;owned\u0007 no space"]}}}'
run 3
has "]0;owned  no space"
has_not "$esc"
scenario '{"*": {"result": {"status": "failed", "first_failure": {"node": 1, "role": "trainer", "rank": 1, "exit_code": 3, "signal": 0,
  "reason": "a\u001b[2Jb", "last_lines": "c\u001b[2Jd\u009b2J\te"}}}}'
run 1
has "exit status 3: a [2Jb"
has "    | c [2Jd 2J	e"
has_not "$esc"

# --- the job fails: the first failure, with host, role, last lines
scenario '{"*": {"result": {"status": "failed", "later_failures": 4, "first_failure": {"node": 1, "host": "b", "role": "trainer",
  "rank": 1, "exit_code": 3, "signal": 0, "reason": "", "last_lines": "Traceback\nboom"}}}}'
run 1
has "failed: local.1 (node 1), trainer 1: exit status 3"
has "    | Traceback
    | boom"
has "4 other failures followed"
has "  logs: local.1:$TMP/root1/JOB"
said 0 'BYE {"abandon":false'
scenario '{"*": {"result": {"status": "failed", "first_failure": {"node": 0, "role": "pserver", "rank": 0, "exit_code": -1,
  "signal": 9, "reason": "", "last_lines": ""}}}}'
run 1
has "pserver 0: ended by signal 9 (Killed)"

# --- the last lines: last test, best pass by its own direction, duration, model, next command; JSON
tests='"test": {"ev": "test", "when": "after pass 2/2", "pass": 1, "cost": 0.5, "metrics": {"perplexity": 1.6, "test.auc": 0.75}},
  "best": {"ev": "test", "when": "after pass 1/2", "pass": 0, "by": "auc", "better": "higher", "value": 0.8}'
scenario '{"*": {"result": {"status": "done", "took_ms": 754000, "saved": "output/pass-00001", '"$tests"'}},
  "1": {"output": {"pass-00001/manifest.json": "{}"}}}'
run 0
job=$(readlink output/latest)
has "paddlectl | done in 12 min; test after pass 2/2: cost 0.5, perplexity 1.6, auc 0.75
paddlectl | best pass 1/2: auc 0.8, not saved
paddlectl | model: output/$job/pass-00001 (pass 2)
paddlectl | next: paddlectl infer --model=output/$job/pass-00001 --data=FILE"
run 0 --json
has '"saved":"output/pass-00001","test":{"ev":"test","when":"after pass 2/2"'
has '"seconds":754'
scenario '{"*": {"result": {"status": "done", "saved": "", "took_ms": 3000}}, "1": {"output": {"x": "y"}}}'
run 0
has "paddlectl | done in 3 s
paddlectl | the outputs are in output/JOB"
# The program is the user's own: --resume is not for it, and what it saves without a word is
# unknown (run_resume.sh has the others)
ended() { # ended RESULT
    scenario '{"*": {"result": {"status": "failed", '"$1"' "first_failure": {"node": 0, "role": "trainer", "rank": 0,
      "exit_code": 1, "signal": 0, "reason": "", "last_lines": ""}}}}'
    run 1
}
ended '"saved": "output/pass-00003-batch-000400", '"$tests,"
[ "${OUT##*$'\n'}" = "paddlectl: saved: output/pass-00003-batch-000400 (pass 4, batch 400)" ] ||
    die "the last line: $OUT"
ended ""
has_not "no model was saved"
# The best pass is looked for beside the last model; nothing is said about a folder that is not
# fetched.
odd='"test": {"ev": "test", "when": "after pass 2/2", "pass": 1, "cost": 0.5, "metrics": {"a\u001b[2Jb": 1.5}},
  "best": {"ev": "test", "when": "after pass 1/2", "pass": 0, "by": "auc", "better": "higher", "value": 0.8}'
scenario '{"*": {"result": {"status": "done", "saved": "output/x/pass-00001", '"$odd"'}},
  "1": {"output": {"x/pass-00001/manifest.json": "{}", "x/pass-00000/manifest.json": "{}"}}}'
run 0
job=$(readlink output/latest)
has "; test after pass 2/2: cost 0.5, a [2Jb 1.5
paddlectl | best pass 1/2: auc 0.8, output/$job/x/pass-00000
paddlectl | model: output/$job/x/pass-00001 (pass 2)
"
scenario '{"*": {"result": {"status": "done", "saved": "/mnt/pass-00001", '"$odd"'}}, "1": {"output": {"x": "y"}}}'
run 0
has_not "not saved"

# --- a node is lost while the job runs: it is named, the others end their processes
scenario '{"*": {"forever": true}, "1": {"die_after_run": true}}'
t=$SECONDS
run 1
[ $((SECONDS - t)) -lt 10 ] || die "a lost node took $((SECONDS - t)) s"
has "local.1: the remote command ended with exit status 9; connecting again"
has "exit status 9, and then: there is no job JOB"
for n in 0 2; do said $n STOP; said $n 'BYE {"abandon":false'; done

# --- Ctrl-C: every node is asked with a second of grace; one that does not answer is named; a second Ctrl-C: no grace
stop_with() { # stop_with SIGNAL [AGAIN | --] [OPTION]
    : >run.log
    start run "$ctl" run --conf=conf.ini "${@:3}"
    wait_for 60 "the job runs" grep -q trainers run.log
    local began
    began=$(date +%s%N)
    kill -"$1" "$PID"
    [ "${2:---}" = -- ] || { wait_for 60 "first stop" grep -q 'grace_ms":1000' scenario.0.log; kill -"$2" "$PID"; }
    wait "$PID"
    status=$?
    took=$((($(date +%s%N) - began) / 1000000))
    OUT=$(cat run.log)
    [ $status = 130 ] || die "status $status after $1: $OUT"
    [ $took -lt 15000 ] || die "$took ms to stop: $OUT"
}
for s in INT TERM HUP; do
    scenario '{"*": {"forever": true}}'
    stop_with $s
    for n in 0 1 2; do said $n 'STOP.*"grace_ms":1000'; said $n 'BYE {"abandon":false'; done
    has "was stopped"
done
scenario '{"*": {"forever": true}, "1": {"mute": ["STOP"]}}'
stop_with INT
has "local.1: no answer while ending its processes"
scenario '{"*": {"forever": true, "mute": ["STOP"]}}'
stop_with INT INT
for n in 0 1 2; do said $n 'STOP.*"grace_ms":0,'; done

# --- save_on_stop: the first Ctrl-C asks for the model, which is then fetched; a second one does not wait; TERM asks for nothing
scenario '{"*": {"forever": true, "output": {"m/saved": "x"}}}'
stop_with INT -- --save-on-stop
for n in 0 1 2; do said $n 'STOP.*"save":true'; said $n FETCH; done
has "saving the model and stopping"
has "its outputs are in output/JOB"
[ "$(cat output/latest/m/saved)" = x ] || die "no saved model: $(find output)"
scenario '{"*": {"forever": true, "mute": ["STOP"]}}'
stop_with INT INT --save-on-stop
for n in 0 1 2; do said $n 'STOP.*"save":true'; said $n 'STOP.*"grace_ms":0,'; said_not $n FETCH; done
scenario '{"*": {"forever": true}}'
stop_with TERM -- --save-on-stop
for n in 0 1 2; do said_not $n "save\":true"; said_not $n FETCH; done

# --- nodes of another architecture are refused, by name, or left out
scenario '{"*": {"arch": "x86_64"}, "1": {"arch": "riscv64"}}'
run 3
has "local.1: its architecture is riscv64, but 2 of the hosts have x86_64"
has "not started"
run 0 --min-nodes=2
has "warning: local.1 is left out: its architecture is riscv64"
said 1 '"abandon":true'
grep -q JOB_PEERS scenario.2.log || die "node 2 was not used"

# --- Ctrl-C after a failure, while the others end: the failure is told still
scenario '{"*": {"forever": true}, "1": {"result": {"status": "failed", "first_failure": {"node": 1, "host": "b", "role": "trainer",
  "rank": 1, "exit_code": 3, "signal": 0, "reason": "", "last_lines": "Traceback\nboom"}}}}'
stop_with INT
has "failed: local.1 (node 1), trainer 1: exit status 3"
has "    | boom"
has "was stopped"

only_records() { # of runs (docs/records.md)
    local left
    left=$(find output -mindepth 1 ! -path 'output/.*' ! -name 'JOB*' ! -path 'output/JOB*/run.json' \
        ! -path 'output/JOB*/metrics.jsonl' ! -path 'output/JOB*/conf.ini' ! -path 'output/JOB*/workspace.jsonl')
    [ -z "$left" ] || die "left: $left"
}

# --- Ctrl-C while outputs come: nothing half stays among the outputs; what has come stays hidden for the next fetch
scenario '{"0": {"output": {"m/a": "0"}}, "1": {"mute": ["FETCH"]}}'
rm -rf output
start run "$ctl" run --conf=conf.ini
wait_for 60 "outputs are fetched" bash -c "grep -q FETCH '$TMP/scenario.1.log' && ls -d output/.*.part"
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "Ctrl-C while fetching: $(cat run.log)"
only_records

# --- a folder that changes while it comes: the next round brings what is there then, and no object twice
scenario '{"0": {"output": [{"m/a": "0", "m/b": "old"}, {"m/a": "0", "m/c": "new"}]}, "1": {"output": null}, "2": {"skipped": 2}}'
run 0
[ "$(cat output/latest/m/a output/latest/m/c)" = "0new" ] && [ ! -e output/latest/m/b ] || die "outputs: $(find output)"
has "local.2: outputs: 2 entries could not travel, the first: f: why"
[ -z "$(sort scenario.0.log | grep sent | uniq -d)" ] || die "twice: $(cat scenario.0.log)"

# --- objects that are not what their ids say: that node is named, and nothing is among the outputs
rm -rf output
scenario '{"*": {"output": {"m/a": "0"}}, "1": {"output": {"m/a": "1"}, "wrong": true}}'
run 1
has "local.1"
has "fetching outputs: "
only_records

# --- a node is held to what it announces, and what all announce together to the free space
refused() { # what the node does, what paddlectl says
    rm -rf output
    scenario '{"*": {"output": {"m/a": "0"}}, "1": {"output": {"m/a": "1"}, '"$1"'}}'
    run 1
    has "local.1"
    has "$2"
    only_records
}
refused '"announces": 4000000000000' "no space left: the package has 40000000"
refused '"announces": 0' "the package is larger than it says (0 bytes)"
refused '"announces": 2' "the package has 2 entries and 1 bytes, not 2 and 2 as it says"
refused '"more": true' "more objects came than were requested"
n=$(($(df --output=avail -B1 "$TMP" | tail -1) * 6 / 10))
if [ $n -lt $((1 << 42)) ]; then # two nodes announce 60 % each
    scenario '{"*": {"output": {"m/a": "0"}, "announces": '$n', "mute": ["DS_NEED"]}, "2": {"output": null}}'
    start run "$ctl" run --conf=conf.ini
    wait_for 60 "both announce" bash -c "grep -q FETCH '$TMP/scenario.0.log' && grep -q FETCH '$TMP/scenario.1.log'"
    wait_for 60 "one is refused" bash -c "cat '$TMP'/scenario.[01].log | grep -q DS_END"
    kill -INT "$PID"
    wait "$PID"
    grep -q "(and others that are on their way have $n), " run.log || die "$(cat run.log)"
fi

# --- outputs that can't be written are noticed before anything is done
scenario '{}'
touch file
for bad in file file/below /proc/nope/below; do
    run 2 --outputs=$bad
    has "outputs"
    has "cannot write to"
    [ ! -e scenario.0.log ] || die "an agent was started: $(cat scenario.0.log)"
done
run 0 --outputs=deep/er/out
[ -d deep/er/out/latest/ ] || die "outputs: $(find deep)"

# --- killed: the agents see the end of their streams
scenario '{"*": {"forever": true}}'
: >run.log
start run "$ctl" run --conf=conf.ini
wait_for 60 "the job runs" grep -q trainers run.log
kill -KILL "$PID"
for n in 0 1 2; do wait_for 30 "EOF on node $n" grep -q EOF scenario.$n.log; done
exit 0
