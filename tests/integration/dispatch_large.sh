#!/usr/bin/env bash
# A file of 300 MB and a sparse one of 20 GB through a dispatch to two ssh hosts: they are equal there, and paddlectl takes less than 256 MB.
# (The agents' memory, with 100,000 small files too: agent_dispatch.sh.) In memory, where there is room.
# release only (a sanitizer's memory is not ours)
. "$(dirname "$0")/../support/lib.sh"
[ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
room=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }')
[ "${room:-0}" -gt 2000 ] && [ "$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)" -gt 3000 ] || skip "no 2 GB of /dev/shm or memory"
unset SSH_AUTH_SOCK
mem=$(mktemp -d /dev/shm/paddle-large-XXXXXX)
export XDG_CACHE_HOME=$mem/cache LC_ALL=C
ctl=$BIN/paddlectl fixture=$TOP/tests/support/sshd-fixture fx=$mem/fx
on_cleanup() {
    "$fixture" stop "$fx"
    rm -rf "$mem"
}
"$fixture" start "$fx" 2 || die "no ssh hosts"
cd "$mem" || exit
cat "$fx/conf.ini" - >conf.ini <<END
[job]
job_dispatch_package = ws
END
mkdir ws
head -c 300000000 /dev/urandom >ws/large
truncate -s 20G ws/sparse
printf middle | dd of=ws/sparse bs=1 seek=10000000000 conv=notrunc status=none
"$ctl" dispatch >out.txt 2>err.txt &
pid=$!
PIDS+=("$pid")
peak=0
while v=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$pid/status" 2>/dev/null) && [ -n "$v" ]; do
    peak=$v
    sleep 0.02
done
wait "$pid" || die "dispatch: $(cat out.txt err.txt)"
OUT=$(cat out.txt)
echo "paddlectl: $peak MB"
[ "$peak" -gt 0 ] && [ "$peak" -lt 256 ] || die "paddlectl took $peak MB"
for i in 0 1; do
    there=${OUT//%n/$i}
    cmp ws/large "$there/large" || die "node $i: large"
    [ "$(stat -c %s "$there/sparse")" = 21474836480 ] && [ "$(stat -c %b "$there/sparse")" -lt 1000 ] || die "node $i: $(stat "$there/sparse")"
    [ "$(dd if="$there/sparse" bs=1 skip=10000000000 count=6 status=none)" = middle ] || die "node $i: what is in the sparse file"
done
