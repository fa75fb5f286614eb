#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release only
# What a person at a terminal sees: log lines, results after a bar, keys, Ctrl-Z, a closed terminal.
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
mkdir -p "$TMP/ws" "$TMP/large"
cd "$TMP" || die cd
on_cleanup() { end_jobs "$TMP/conf.ini" "$TMP"/root0/JOB*; }
cp "$TOP/tests/support/terminal_trainer.py" ws/train.py
head -c 60000000 /dev/urandom >large/data
cat >conf.ini <<END
[cluster]
hosts = local*3
pservers = 1
root_dir = $TMP/root%n
port = $((20000 + RANDOM % 5000))
[job]
attach_lease = 5
job_dispatch_package = ws
pserver_command = /usr/bin/python3 $TOP/tests/support/own-server.py
trainer_command = /usr/bin/python3 train.py
[env]
GO = $TMP/go
END
for part in lines dispatch bar_keys ps keys suspend background killed hangup; do
    /usr/bin/python3 "$TOP/tests/support/terminal.py" "$ctl" $part || die "on a terminal: $part"
done

# --- a reader that has enough is no error
"$ctl" ps --json 2>err | true
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s err ] || die "ps --json | true: $(cat err)"
"$ctl" ps 2>err | true
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s err ] || die "ps | true: $(cat err)"
expect 1 bash -c "'$ctl' ps --json >/dev/full"
has "cannot be written"

# --- ps and status: how a job ended, as `run` said it; a job that is sent does not run
state() { "$ctl" ps --json | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["state"])'; }
rm -f go.end
echo 3 >go
start run "$ctl" run --conf=conf.ini
wait_for 60 "it runs" grep -q 'step 3 of 2' run.log
kill -INT $PID
wait $PID
grep -q "was stopped" run.log && [ "$(state)" = stopped ] || die "after Ctrl-C: $(state)"
expect 0 "$ctl" status latest
has ": stopped after"
has "progress: pass 1/2 60 %, batch 3, cost 1.5, perplexity 4.5"
has_not words/s
rm -rf root?/JOB* root?/.paddlectl/chunks
start run "$ctl" run --conf=conf.ini --job_dispatch_package=large --relay=off
wait_for 30 "the job is there" bash -c "ls root0/JOB*"
[ "$(state)" = preparing ] || die "during dispatch: $(state)"
kill -KILL $PID
wait $PID 2>/dev/null
[[ $("$ctl" ps 2>&1) != *running* ]] || die "a ghost: $("$ctl" ps)"
wait_for 30 "nothing is left of it" bash -c "! ls root0/JOB*"
rm -rf root?/.paddlectl/chunks
start run "$ctl" run --conf=conf.ini --job_dispatch_package=large --relay=off
wait_for 30 "the job is there" bash -c "ls root0/JOB*"
kill -INT $PID
wait $PID
[[ $("$ctl" ps 2>&1) != *running* ]] || die "a ghost after Ctrl-C: $("$ctl" ps)"
expect 2 "$ctl" run --conf=conf.ini --name="$(printf %061d 7)"
has "name is longer than 60 bytes"

# --- 41 dead hosts are one line, whatever asks them
sed 's/^hosts = .*/hosts = local*2, 127.0.0.[10-50]:1/' conf.ini >dead.ini
for command in "run" "ps" "clean" "fetch latest" "logs latest" "dispatch --job_dispatch_package=ws" "exec true"; do
    read -ra words <<<"$command"
    OUT=$("$ctl" "${words[0]}" --conf=dead.ini "${words[@]:1}" 2>&1)
    [ "$(grep -c 'cannot connect to port 1' <<<"$OUT")" = 1 ] || die "$command: $OUT"
    has "127.0.0.[10-50]: cannot connect to port 1: Connection refused"
done
expect 0 "$ctl" run --conf=dead.ini --min-nodes=2 --trainer_command=true
has "warning: 127.0.0.[10-50] is left out: cannot connect to port 1"
/usr/bin/python3 "$TOP/tests/support/terminal.py" "$ctl" colours || die "on a terminal: colours"
rm -rf root?/JOB* root?/.paddlectl/chunks
expect 0 "$ctl" run --conf=conf.ini --trainer_command=true
expect 0 "$ctl" clean --conf=conf.ini --keep=1
[ "$OUT" = "local.[0-2]: removed nothing; 1 job kept" ] || die "clean: $OUT"
exit 0
