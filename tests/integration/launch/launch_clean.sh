#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What clean removes and what it keeps: running jobs, the newest, what is young, what is not ours; links are not followed.
. "$(dirname "$0")/../../support/lib.sh"
ctl=$BIN/paddlectl
cd "$TMP" || exit 1
on_cleanup() { "$ctl" stop --conf="$TMP/conf.ini" --force >/dev/null 2>&1; } # the detached job of a test that failed
mkdir -p ws precious && echo data >precious/file
cat >ws/go.sh <<'END'
#!/bin/sh
ln -s "$PRECIOUS" "$PADDLE_OUTPUT_DIR/link"
while [ -n "$STAY" ] && [ ! -f "$STAY" ]; do sleep 0.1; done
END
chmod +x ws/go.sh
cat >conf.ini <<END
[cluster]
hosts = local*2
root_dir = $TMP/root%n
pservers = none
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
trainer_command = ./go.sh
[env]
PRECIOUS = $TMP/precious
END
jobs_of() { (cd "$TMP/root$1" && echo JOB*-????); }
age() { # age NODE JOB SECONDS: as if it had ended so long ago
    touch -d "$3 seconds ago" "$TMP/root$1/$2/.agent" "$TMP/root$1/$2" || die "age"
}
ids=()
for i in 1 2 3; do
    expect 0 "$ctl" run
    ids[i]=$(basename "$(readlink output/latest)")
done
wait_for 30 "the agents end" bash -c "! ls '$TMP'/root*/JOB*/.agent/pid"
for n in 0 1; do
    mkdir -p root$n/.paddlectl/bin
    age $n "${ids[1]}" 9000
    age $n "${ids[2]}" 8000
    age $n "${ids[3]}" 7000
    mkdir "root$n/JOB20200101000000-abcd" root$n/mine
    touch -d '3 days ago' "root$n/JOB20200101000000-abcd"
    : >root$n/.paddlectl/bin/worker-00 && : >root$n/.paddlectl/bin/worker-11 && : >root$n/.paddlectl/bin/tmp-1-x
    touch -d '5 days ago' root$n/.paddlectl/bin/worker-00 root$n/.paddlectl/bin/tmp-1-x
    touch -d '4 days ago' root$n/.paddlectl/bin/worker-11
done
printf 'STAY = %s\n' "$TMP/go" >>conf.ini
running=$("$ctl" run --detach 2>err.log) || die "run --detach: $(cat err.log)"
for n in 0 1; do age $n "$running" 99999; done

# a dry run says it and does nothing
expect 0 "$ctl" clean --keep=1 --dry-run
# Equal sizes on both nodes make one line of the two.
grep -qE '^local\.(1|\[0-1\]): would remove 2 jobs' <<<"$OUT" || die "$OUT"
has "  job ${ids[1]}"
has_not "${ids[3]}"
[ -d "root1/${ids[1]}" ] || die "the dry run removed something"

# two of the three that are over go; what runs, what is not ours and what links lead to stays, executables too while a job runs
expect 0 "$ctl" clean --keep=1
for n in 0 1; do # in one line, if both removed as many bytes
    grep -Eq "^local.($n|\[0-1\]): removed 2 jobs" <<<"$OUT" || die "no line of local.$n: $OUT"
done
has "2 jobs kept"
for n in 0 1; do
    [ "$(jobs_of $n)" = "$(printf '%s\n' JOB20200101000000-abcd "${ids[3]}" "$running" | sort | tr '\n' ' ' | sed 's/ $//')" ] || die "left on $n: $(jobs_of $n)"
    [ -d root$n/mine ] && [ -e root$n/.paddlectl/bin/worker-00 ] || die "too much was removed on $n"
done
[ "$(cat precious/file)" = data ] || die "a link was followed"

# --keep=0 removes all, also the job that has ended just now
: >go
wait_for 30 "the job ends" bash -c "[ -f '$TMP/root0/$running/result.json' ] && [ -f '$TMP/root1/$running/result.json' ]"
wait_for 30 "the agents end" bash -c "! ls '$TMP'/root*/JOB*/.agent/pid"
cp -r "root0/$running" saved
expect 0 "$ctl" clean --keep=0 --json
echo "$OUT" | /usr/bin/python3 -c '
import json, sys
h = json.load(sys.stdin)["hosts"]
assert len(h) == 2 and all(x["kept"] == [] and x["freed"] > 0 and not x["failed"] for x in h), h
kinds = sorted(e["kind"] + e["name"][:6] for e in h[1]["removed"] if e["kind"] != "chunks")
assert kinds == ["executabletmp-1-", "executableworker"] + 2 * ["jobJOB202"], kinds' || die "$OUT"
for n in 0 1; do
    [ ! -e root$n/.paddlectl/bin/worker-00 ] && [ -e root$n/.paddlectl/bin/worker-11 ] || die "the newest worker goes, or an old one stays"
done
expect 2 "$ctl" clean --keep=x

# nobody answers for a job without a result: it goes when this machine was started again since, but not when another machine
# that has this folder may still run it
lost=JOB20300101000000-lost
for host in another-machine "$(uname -n)"; do
    rm -rf "root0/$lost" && cp -r saved "root0/$lost" && rm "root0/$lost/result.json" || die "no job to copy"
    sed -i 's/"host": "[^"]*"/"host": "'"$host"'"/; s/"boot": "[^"]*"/"boot": "an earlier one"/' "root0/$lost/.agent/state.json"
    grep -q "\"$host\"" "root0/$lost/.agent/state.json" || die "state.json does not name the host"
    age 0 "$lost" 99999
    expect 0 "$ctl" clean --keep=0
    [ -d "root0/$lost" ] && left=another-machine || left=$(uname -n)
    [ "$left" = "$host" ] || die "a lost job of $host: $OUT"
done

# a deployed workspace in which a job runs stays, however its folder was written; when that job is gone it goes, too
rm -f go
ln -s . spelled
path=$("$ctl" dispatch 2>err.log) || die "dispatch: $(cat err.log)"
[[ $path == "$TMP/root%n/workspaces/"* ]] || die "dispatch: $path"
running=$("$ctl" run --detach --job_workspace="$TMP/spelled/${path#"$TMP/"}" 2>err.log) || die "run in a deployed workspace: $(cat err.log)"
touch -d '3 days ago' root0/workspaces/* root1/workspaces/*
expect 0 "$ctl" clean --workspaces
for n in 0 1; do [ -e "${path/\%n/$n}/go.sh" ] || die "the workspace of a running job was removed: $OUT"; done
: >go
wait_for 30 "the job ends" bash -c "[ -f '$TMP/root0/$running/result.json' ] && [ -f '$TMP/root1/$running/result.json' ]"
wait_for 30 "the agents end" bash -c "! ls '$TMP'/root*/JOB*/.agent/pid"
for n in 0 1; do age $n "$running" 99999; done
expect 0 "$ctl" clean --workspaces --keep=0
[[ $OUT == *"1 workspace, "*" of the store ("* ]] || die "$OUT"
for n in 0 1; do [ ! -e "${path/\%n/$n}" ] || die "a workspace that nobody uses is left: $OUT"; done

# with another number a job that has ended just now stays, and does not count
expect 0 "$ctl" run
wait_for 30 "the agents end" bash -c "! ls '$TMP'/root*/JOB*/.agent/pid"
expect 0 "$ctl" clean --keep=1
has "removed nothing; 1 job kept"
expect 0 "$ctl" clean --keep=0
has "removed 1 job"
[ -z "$(find root? -path '*JOB*/.agent')" ] || die "left: $(ls -d root?/JOB*)"
