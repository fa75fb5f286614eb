#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever is killed while a package is on its way, each host has old trees or new ones, never a mix: kill -9 of paddlectl, of a relay's agent, of
# a connection, at random moments (PADDLE_TEST_SEED); afterwards nothing unfinished stays. And a file that changes behind its hashing.
# both
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
on_cleanup() {
    [ -z "${stopped:-}" ] || kill -CONT "$stopped" 2>/dev/null
    hosts_end
}
ssh_hosts 3
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
END
cd "$TMP" || exit
RANDOM=${PADDLE_TEST_SEED:-20261122}
rounds=9
[[ $BIN != *san-* ]] || rounds=4

edit() { # another version of the workspace
    local i
    mkdir -p ws/many
    head -c 8000000 /dev/urandom >ws/large
    for i in $(seq 40); do echo "$1 $i $RANDOM" >"ws/many/$i"; done
    printf '%s\n' "$1" >ws/version
}
agents_of() { # the agents that run on that host, by pid
    local p exe
    for p in /proc/[0-9]*; do
        exe=$(head -zn 1 "$p/cmdline" 2>/dev/null | tr -d "\0") && [[ $exe == "$fx/node$1/root/.paddlectl/bin/agent-"* ]] && echo "${p#/proc/}"
    done
}
sessions_of() { # the processes that sshd has for connections to that host
    local listener
    read -r listener <"$fx/sshd.$1/pid" && ps -o pid= --ppid "$listener"
}
check_trees() { # every tree of every host is one that was dispatched, complete
    local i d
    for i in 0 1 2; do
        for d in "$fx/node$i"/root/workspaces/*; do
            [ -d "$d" ] && [[ $d != *.part-* ]] || continue
            diff -r "$d" "kept-$(cat "$d/version")" >differs || die "$1: node $i has a mix: $(head -3 differs)"
        done
    done
}

edit 0
cp -a ws kept-0
expect 0 "$ctl" dispatch
for round in $(seq $rounds); do
    edit "$round"
    cp -a ws "kept-$round"
    "$ctl" dispatch >out.txt 2>&1 &
    pid=$!
    PIDS+=("$pid")
    sleep "0.$(printf %03d $((RANDOM % 700)))"
    victim=$((RANDOM % 3)) what=$((RANDOM % 3))
    case $what in
    0) kill -9 "$pid" 2>/dev/null ;;
    1) kill -9 $(agents_of $victim) 2>/dev/null ;;
    2) kill -9 $(sessions_of $victim) 2>/dev/null ;;
    esac
    wait "$pid" 2>/dev/null
    status=$?
    echo "round $round: $([ $what = 0 ] && echo paddlectl || echo "node $victim's $([ $what = 1 ] && echo agent || echo connection)") killed, status $status"
    if [ $what != 0 ] && [ $status != 0 ]; then # the others are complete, the one is named
        grep -q "127.0.0.$((victim + 1))" out.txt || die "node $victim is not named: $(cat out.txt)"
        for i in 0 1 2; do
            [ $i = $victim ] || grep -qx "$round" "$fx/node$i"/root/workspaces/*/version || die "node $i did not complete: $(cat out.txt)"
        done
    fi
    check_trees "round $round"
done
expect 0 "$ctl" dispatch
check_trees "at the end"
for i in 0 1 2; do
    grep -qx "$rounds" "$fx/node$i"/root/workspaces/*/version || die "node $i lacks the last one"
    none_unfinished() { [ -z "$(ls "$fx/node$i"/root/workspaces/*.part-* "$fx/node$i"/root/.paddlectl/chunks/*.part 2>/dev/null)" ]; }
    wait_for 30 "node $i keeps nothing unfinished" none_unfinished
done

# --- a file that changes between hashing and sending: all hosts are waited for before anything is sent, and one does not answer yet
read -r stopped <"$fx/sshd.2/pid"
kill -STOP "$stopped"
cat >>conf.ini <<END
trainer_command = true
[cluster]
pservers = none
END
edit changes
start run "$ctl" run --connect_timeout=120
log=$TMP/run.log
wait_for 60 "two hosts have answered" bash -c "[ \$(ls -d '$fx'/node[01]/root/JOB* 2>/dev/null | wc -l) = 2 ]"
sleep 3 # hashing takes some hundredths of that, and began before the first log-in
printf changed | dd of=ws/large bs=1 seek=4000000 conv=notrunc status=none
kill -CONT "$stopped"
stopped=
wait "$PID"
status=$?
[ $status = 1 ] && grep -q 'ws/large changed while it was sent' "$log" || die "status $status: $(cat "$log")"
[ "$(grep -c 'changed while' "$log")" = 1 ] || die "told more than once: $(cat "$log")"
gone() { ! ls -d "$fx"/node?/root/JOB*; }
wait_for 60 "nothing is left of that job" gone
