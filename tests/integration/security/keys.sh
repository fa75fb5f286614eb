#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job's key in the memory of a running job's agents and workers: each copy is in a page that is
# left out of core dumps and locked. Agents and paddlectl cannot be dumped or read by processes of their
# user; workers write no core, unless PADDLE_CORE=1 is set, and user programs as their limit says.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
endless_job
in_job() { # in_job NAME NODE: the pid of the worker
    local p
    for p in $(pgrep -x "$1"); do
        grep -qsz "PADDLE_OUTPUT_DIR=$TMP/node$2/" "/proc/$p/environ" && echo "$p"
    done
}

start run "$ctl" run --conf=conf.ini
run=$PID
wait_for 60 "training" grep -q "Pass 3" run.log
key=$(ls node0/JOB*/.agent/key)

# copies WHO PID LEAST: all copies of the key are in marked pages
copies() {
    local found rc
    found=$(python3 "$TOP/tests/support/agent/find_key.py" "$2" "$key")
    rc=$?
    [ $rc -ne 2 ] || { echo "skipped: $1: only root can read its memory"; return; }
    [ $(($(grep -c . <<<"$found") * (rc == 0))) -ge "$3" ] || die "$1: the key was not found: $found"
    ! grep -q DUMPED <<<"$found" || die "$1: a copy of the key would be dumped: $found"
    ! grep -q not-locked <<<"$found" || [ "$(ulimit -l)" != unlimited ] || die "$1: a copy is not locked: $found"
    echo "$1: $(grep -c . <<<"$found") copies of the key"
}
for i in 0 1; do
    copies "pserver $i" "$(in_job paddle_pserver $i)" 1
    copies "trainer $i" "$(in_job paddle_trainer $i)" 1
    copies "agent $i" "$(cat node$i/JOB*/.agent/pid)" 1
done

# A process that cannot be dumped belongs to root in /proc, and nobody else reads its memory.
dumpable() { # as another user than root: the process cannot be read
    [ "$(id -u)" = 0 ] || head -c 1 "/proc/$1/environ" >/dev/null 2>&1
}
if [ "$(id -u)" != 0 ]; then
    for p in $run $(cat node?/JOB*/.agent/pid); do
        ! dumpable "$p" || die "process $p can be read: $(tr '\0' ' ' <"/proc/$p/cmdline")"
    done
fi

# --- a crash: where the kernel writes cores into the folder
limit() { awk '/core file size/ { print $5 }' "/proc/$1/limits"; }
[ "$(limit "$(in_job paddle_trainer 0)")" = 1 ] || die "trainer: $(grep core "/proc/$(in_job paddle_trainer 0)/limits")"
kill -INT $run
wait $run
pattern=$(cat /proc/sys/kernel/core_pattern)
case $pattern in
*/* | "|"* | *%[!p]*) echo "skipped: cores: core_pattern is $pattern" && exit 0 ;;
esac
ulimit -c unlimited 2>/dev/null || { echo "skipped: cores: their limit cannot be raised" && exit 0; }
cores() { find "$TMP" -name 'core*' -type f | wc -l; }
(umask 077 && head -c 32 /dev/urandom >key)
# crash NAME: a pserver with the key ends by SIGABRT
crash() {
    start "$1" env "${@:2}" "$BIN/paddle_worker" pserver --nics=127.0.0.1 --port=0 --key_file=key --num_gradient_servers=1
    wait_for 60 "a pserver listens" grep -q '^pserver listens' "$1.log"
    kill -ABRT "$PID"
    wait "$PID" 2>/dev/null
}
crash silent X=1
[ "$(cores)" = 0 ] || die "a core was written"
crash wanted PADDLE_CORE=1
[ "$(cores)" = 1 ] || die "no core with PADDLE_CORE=1"
python3 - "$(find "$TMP" -name 'core*' -type f)" key <<'END' || die "the key is in the core"
import sys
core, key = (open(p, "rb").read() for p in sys.argv[1:])
assert len(core) > 100000 and b"PADDLE_CORE=1" in core, len(core)
sys.exit(key in core)
END
find "$TMP" -name 'core*' -type f -delete
start killed "$ctl" run --conf=conf.ini --root_dir="$TMP/killed%n"
wait_for 60 "training" grep -q "Pass 3" killed.log
kill -ABRT "$PID"
wait "$PID" 2>/dev/null
[ "$(cores)" = 0 ] || die "a core of paddlectl was written"
on_cleanup
for i in 0 1; do # an agent, and a user's program below it
    expect 1 "$ctl" run --conf=conf.ini --hosts=local --root_dir="$TMP/crash$i%n" --pservers=none \
        --trainer_command="$([ $i = 0 ] && echo 'ulimit -c; kill -SEGV $$' || echo "kill -SEGV \$(cat ../.agent/pid); sleep 100")" \
        --on_failure=stop
    [ "$(cores)" = $((1 - i)) ] || die "$([ $i = 0 ] && echo "no core of a user's program" || echo "a core of an agent"): $OUT"
    find "$TMP" -name 'core*' -type f -delete
done
