#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is large, through a dispatch to two ssh hosts: a file of 300 MB and a sparse one of twice this machine's memory, then 100,000 small
# files. All is equal there, and neither paddlectl nor an agent takes 256 MB, as the dispatch itself says. In memory, where there is room.
# release only (a sanitizer's memory is not ours)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
free_mb() { df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }'; }
room=$(free_mb)
[ "${room:-0}" -gt 2500 ] && [ "$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)" -gt 3500 ] || skip "no 2.5 GB of /dev/shm or memory"
mem=$(mktemp -d /dev/shm/paddle-large-XXXXXX)
export XDG_CACHE_HOME=$mem/cache LC_ALL=C
ctl=$BIN/paddlectl fx=$mem/fx
on_cleanup() {
    hosts_end
    rm -rf "$mem"
}
ssh_hosts 2
cd "$mem" || exit
cat "$fx/conf.ini" - >conf.ini <<END
[job]
job_dispatch_package = ws
END
# dispatch WHAT: to both; where it is there in $THERE, and no more memory than there may be
dispatch() {
    local who peak began=$SECONDS
    expect 0 "$ctl" dispatch --json
    OUT=$(grep '"event":"result"' <<<"$OUT")
    for who in launcher agents; do
        peak=$(sed -n 's/.*"peak_memory":{[^}]*"'$who'":\([0-9]*\).*/\1/p' <<<"$OUT")
        [ "${peak:-0}" -gt 0 ] && [ "$peak" -lt $((256 << 20)) ] || die "$1: $who: $((${peak:-0} >> 20)) MB: $OUT"
        echo "$1: $who: $((peak >> 20)) MB at most"
    done
    echo "$1: $((SECONDS - began)) s"
    THERE=$(sed -n 's/.*"path":"\([^"]*\)".*/\1/p' <<<"$OUT")
    [ -n "$THERE" ] || die "no path: $OUT"
    THERE=("${THERE//%n/0}" "${THERE//%n/1}")
}

mkdir ws
head -c 300000000 /dev/urandom >ws/large
size=$(awk '/^MemTotal/ { printf "%.0f", 2 * $2 * 1024 }' /proc/meminfo) at=$((size / 2 + 4321))
truncate -s "$size" ws/sparse
printf middle | dd of=ws/sparse bs=1 seek=$at conv=notrunc status=none
dispatch "a file of 300 MB, one of twice the memory"
for there in "${THERE[@]}"; do
    cmp ws/large "$there/large" || die "$there: large"
    [ "$(stat -c %s "$there/sparse")" = "$size" ] && [ "$(stat -c %b "$there/sparse")" -lt 1000 ] || die "$(stat "$there/sparse")"
    [ "$(dd if="$there/sparse" bs=1 skip=$at count=6 status=none)" = middle ] || die "$there: what is in the sparse file"
done

# Three times 100,000 inodes, most with contents of less than a page.
rm -rf ws "${THERE[@]}"
n=100000
[ "$(df -Pi /dev/shm | awk 'NR == 2 { print $4 }')" -gt $((n * 33 / 10)) ] && [ "$(free_mb)" -gt 2000 ] || n=10000
[ $n = 100000 ] || echo "skipped: /dev/shm has no room for three times 100,000 files: $n"
/usr/bin/python3 - ws $n <<'END' || die "no $n files"
import os, random, sys
r = random.Random(1)
top, n, modes = sys.argv[1], int(sys.argv[2]), [0o644, 0o600, 0o755, 0o444]
for i in range(n):
    folder = "%s/d%02d/%03d" % (top, i % 37, i % 370)
    if i < 370:
        os.makedirs(folder)
    fd = os.open("%s/some file %06d" % (folder, i), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, r.randbytes(r.choice((0, 1, 40, 40, 700))))
    os.fchmod(fd, modes[i % 4])
    os.close(fd)
END
dispatch "$n small files"
[[ $OUT == *"\"files\":$n,"* ]] || die "not all of them: $OUT"
/usr/bin/python3 "$TOP/tests/support/same_tree.py" ws "${THERE[@]}" || die "the trees differ: $OUT"
exit 0
