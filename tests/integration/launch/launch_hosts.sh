#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts that can't be used: each is named with its reason, the status is 3, and nothing stays on the good ones.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
on_cleanup() {
    hosts_end
    [ ! -e "$TMP/mounted" ] || umount "$fx/node1/root"
}
ssh_hosts 3
mkdir -p "$TMP/ws"
echo x >"$TMP/ws/file"
hosts=$(cat "$fx/hosts") first=${hosts%%,*} rest=${hosts#*, }
args=(--conf="$fx/conf.ini" --job_dispatch_package="$TMP/ws" --trainer_command=./any --connect_timeout=3)

nothing_left() {
    wait_for 10 "no process below the nodes' folders" "$fixture" left "$fx"
    ls -d "$fx"/node*/root/JOB* 2>/dev/null && die "a job's folder is left"
    return 0
}
for sub in dispatch run; do
    if [ $sub = run ] && [ ! -x "$BIN/paddle_worker" ]; then continue; fi
    # one that refuses, one good, one without a name
    expect 3 "$ctl" $sub "${args[@]}" --hosts="${first%:*}:1, $rest, nowhere.invalid"
    has "cannot connect to port 1: Connection refused"
    has "nowhere.invalid: cannot resolve the name"
    nothing_left

    # a host key that changed, an unknown one
    sed -E '1s/[^ ]+$/AAAAC3NzaC1lZDI1NTE5AAAAIKg6QkTmXDQ4wLjd5Iv+R1rP1xQxgpW5fJ5o6Y9aAAAA/' "$fx/known_hosts" >"$TMP/known_changed"
    expect 3 "$ctl" $sub "${args[@]}" --known_hosts="$TMP/known_changed"
    has "known_changed:1: HOST KEY CHANGED"
    expect 3 "$ctl" $sub "${args[@]}" --known_hosts="$TMP/known_changed" --host_key_policy=accept-new
    has "known_changed:1: HOST KEY CHANGED"
    sed 1d "$fx/known_hosts" >"$TMP/known_two"
    expect 3 "$ctl" $sub "${args[@]}" --known_hosts="$TMP/known_two"
    has "is not in $TMP/known_two"
    nothing_left

    # a key that is not let in
    [ -f "$TMP/other" ] || ssh-keygen -q -t ed25519 -N '' -f "$TMP/other"
    expect 3 "$ctl" $sub "${args[@]}" --identity_file="$TMP/other"
    has "authentication failed for user"
    nothing_left

    # a root_dir that can't be made
    expect 3 "$ctl" $sub "${args[@]}" --root_dir="$TMP/ws/file/below"
    has "cannot make the folder"
    nothing_left
done

# a full disk: too small for the agent, for the worker, for the workspace
if [ "$(id -u)" = 0 ] && [ -x "$BIN/paddle_worker" ]; then
    agent=$(stat -c %s "$BIN/paddle_agent") worker=$(stat -c %s "$BIN/paddle_worker")
    head -c 20000000 /dev/urandom >"$TMP/ws/large"
    for size in $((agent / 2)) $((agent + worker / 2)) $((agent + worker + 10000000)); do
        mkdir -p "$fx/node1/root"
        mount -t tmpfs -o size=$size tmpfs "$fx/node1/root" 2>/dev/null || break
        touch "$TMP/mounted"
        expect 3 "$ctl" run "${args[@]}"
        has "127.0.0.2: "
        has "o space left"
        has_not "127.0.0.1: "
        nothing_left
        umount "$fx/node1/root" || die "something uses the folder still"
        rm "$TMP/mounted"
    done
    rm "$TMP/ws/large"
fi

# Ctrl-C while a login takes long
if [ "$(basename "$(getent passwd "$(id -un)" | cut -d: -f7)")" = bash ] && [ -x "$BIN/paddle_worker" ]; then
    echo 'sleep 20' >"$fx/node2/home/.bashrc"
    start slow "$ctl" run "${args[@]}"
    wait_for 5 "it began" grep -q JOB "$TMP/slow.log"
    kill -INT "$PID"
    wait "$PID"
    [ $? = 130 ] || die "Ctrl-C while preparing: $(cat "$TMP/slow.log")"
    rm "$fx/node2/home/.bashrc"
    # an agent that was just starting gives up ten seconds after its start
    wait_for 20 "no process" "$fixture" left "$fx"
    wait_for 10 "no job folder" bash -c "! ls -d '$fx'/node*/root/JOB* 2>/dev/null"
fi

# accept-new notes an unknown key
: >"$TMP/known_none"
expect 0 "$ctl" dispatch "${args[@]}" --known_hosts="$TMP/known_none" --host_key_policy=accept-new
[ "$(wc -l <"$TMP/known_none")" = 3 ] || die "known_hosts: $(cat "$TMP/known_none")"
expect 0 "$ctl" dispatch "${args[@]}" --known_hosts="$TMP/known_none"

# an agent in the cache that a power cut or a full disk has damaged is replaced
agent=$(echo "$fx"/node1/root/.paddlectl/bin/agent-*)
damage_tail() { dd if=/dev/zero of="$agent" bs=1 count=64 seek=$(($(stat -c %s "$agent") - 64)) conv=notrunc status=none; }
for damage in ': >"$agent"' 'truncate -s 100000 "$agent"' damage_tail; do
    wait_for 30 "no process that still has it open" "$fixture" left "$fx"
    eval "$damage"
    cmp -s "$agent" "$BIN/paddle_agent" && die "no damage: $damage"
    expect 0 "$ctl" dispatch "${args[@]}"
    cmp "$agent" "$BIN/paddle_agent" || die "not replaced after $damage"
    [ "$(ls "$fx/node1/root/.paddlectl/bin" | grep -c 'agent\|tmp')" = 1 ] || die "$(ls "$fx/node1/root/.paddlectl/bin")"
done
# a login shell that prints and dawdles, if the shell here is one that reads a file for it
if [ "$(basename "$(getent passwd "$(id -un)" | cut -d: -f7)")" = bash ]; then
    printf '%s\n' 'echo Welcome; printf "no newline"; echo note >&2; sleep 1' >"$fx/node1/home/.bashrc"
    expect 0 "$ctl" dispatch "${args[@]}"
    last_line
    [[ $OUT == "$fx/node%n/root/workspaces/ws-"* ]] || die "$OUT"
fi
nothing_left
