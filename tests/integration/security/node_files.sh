#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cached programs on a node. Another user who could write to their folder, or to a folder above,
# could put his own program there: the node is refused, with the command that mends it. An agent in
# the cache whose bytes, mode or kind is not right is not run, but replaced. Hosts without b2sum
# compare SHA-256; hosts without either take the agent anew.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
ssh_hosts 1
cd "$TMP" || exit
mkdir ws && echo some >ws/file
root=$fx/node0/root bin=$fx/node0/root/.paddlectl/bin
args=(--conf="$fx/conf.ini" --job_dispatch_package=ws --json)
ended() { wait_for 60 "the processes on the host have ended" "$fixture" left "$fx"; }
ok() { ended; expect 0 "$ctl" dispatch "${args[@]}" "$@"; SENT=$(sed -n 's/.*"agent_bytes": *\([0-9]*\).*/\1/p' <<<"$OUT" | tail -1); }
cached() { ok; [ "$SENT" = 0 ] || die "$1: the agent came again ($SENT bytes)"; }
replaced() { ok; [ "$SENT" -gt 0 ] || die "$1: the cached agent was run"; whole "$1"; }
whole() {
    cmp "$agent" "$BIN/paddle_agent" || die "$1: another agent is cached"
    [ "$(stat -c %A "$agent")" = -rwx------ ] || die "$1: $(ls -l "$agent")"
}
# refused WHAT PATTERN: by the script over ssh, and by the agent of a local host
refused() {
    ended
    expect 3 "$ctl" dispatch "${args[@]}"
    has "others could replace the programs in"
    has "$2"
    has "mend it with: $3"
    expect 3 "$ctl" dispatch "${args[@]}" --hosts=local --root_dir="$root"
    has "others could replace the programs in"
    has "mend it with: $3"
}

# --- a first start, with a login umask that lets a group write
echo 'umask 002' >"$fx/node0/home/.bashrc"
ok
agent=$(echo "$bin"/agent-*)
[ "$(basename "$agent")" = "agent-$(b2sum -l 256 <"$BIN/paddle_agent" | cut -d' ' -f1)" ] || die "$agent"
whole "first start"
[ "$(stat -c %a "$root/.paddlectl" "$bin" | uniq)" = 700 ] || die "$(ls -ld "$root/.paddlectl" "$bin")"
cached "second start"
# what the user's own programs make has the modes that the user's umask gives
expect 0 "$ctl" run --conf="$fx/conf.ini" --pservers=none --trainer_command='touch output/made'
[ "$(stat -c %a "$fx"/node0/root/JOB*/output/made)" = 664 ] || die "$(ls -l "$fx"/node0/root/JOB*/output)"
ended

# --- the file of the hash that was right: written when the agent is 6 s old, and only good for this inode at this ctime
# younger than 6 s is younger than the clock's steps; a busy machine may start the second one later
early=$(find "$bin" -name 'hashed*' -printf '%C@ ')
[ -z "$early" ] || [ $((${early%%.*} - $(stat -c %Z "$agent"))) -gt 5 ] || die "a hash is known too early: $(ls --full-time -c "$bin")"
sleep 6.5
cached "third start"
if ls --time=ctime --time-style=+%s.%N / >/dev/null 2>&1; then
    hash=${agent##*/agent-}
    stamp=$bin/hashed-$hash:$(stat -c %i:%A:%u:%s: "$agent")$(stat -c %.9Z "$agent")
    [ "$(echo "$bin"/hashed*)" = "$stamp" ] || die "$(ls -l "$bin"), $(stat "$agent")"
    [ "$(stat -c %a:%s "$stamp")" = 600:0 ] || die "$(ls -l "$stamp")"
    # b2sum is not asked again
    mkdir "$fx/node0/home/slow" && printf '#!/bin/sh\nexit 1\n' >"$fx/node0/home/slow/b2sum"
    cp "$fx/node0/home/slow/b2sum" "$fx/node0/home/slow/sha256sum" && chmod +x "$fx"/node0/home/slow/*
    echo 'umask 002; PATH=$HOME/slow:$PATH' >"$fx/node0/home/.bashrc"
    cached "no tool for hashes, but a known hash"
    echo 'umask 002' >"$fx/node0/home/.bashrc"
    # other bytes in the same file, with the old size and the old time of change
    cp -p "$agent" "$TMP/kept" && printf evil | dd of="$agent" bs=1 seek=5000 conv=notrunc 2>/dev/null
    touch -r "$TMP/kept" "$agent"
    [ "$(stat -c %i:%s:%Y "$agent")" = "$(cut -d: -f2,5 <<<"$stamp"):$(stat -c %Y "$TMP/kept")" ] || die "$(stat "$agent")"
    replaced "other bytes in the same inode"
    # another file in its place, with a file of the hash that was made for the right one
    cp -p "$TMP/kept" "$agent.evil" && printf evil | dd of="$agent.evil" bs=1 seek=5000 conv=notrunc 2>/dev/null
    mv "$agent.evil" "$agent"
    replaced "another inode"
    for name in "" "-" "-$hash" "-$hash:::::" "-$hash:*"; do
        cp -p "$TMP/kept" "$agent.evil" && printf evil | dd of="$agent.evil" bs=1 seek=5000 conv=notrunc 2>/dev/null
        mv "$agent.evil" "$agent"
        rm -f "$bin"/hashed* && touch "$bin/hashed$name"
        replaced "a file hashed$name"
    done
else
    echo "skipped: this ls shows no ctime"
fi

# --- the cached agent: other bytes, a mode that lets others write, a link
python3 - "$agent" <<'END'
import sys, zlib
# other bytes with the same size and the same CRC-32, which is no protection against an attacker
path = sys.argv[1]
data = bytearray(open(path, "rb").read())
want = zlib.crc32(data)
data[5000:5004] = b"evil"
table = [0] * 256
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0xEDB88320 if c & 1 else 0)
    table[i] = c
back = {t >> 24: (i, t) for i, t in enumerate(table)}
crc = want ^ 0xFFFFFFFF
for _ in range(4):  # the state before the last four bytes, if they are zero
    i, t = back[crc >> 24]
    crc = ((crc ^ t) << 8 | i) & 0xFFFFFFFF
state = zlib.crc32(data[:-4]) ^ 0xFFFFFFFF
data[-4:] = (crc ^ state).to_bytes(4, "little")
assert zlib.crc32(data) == want
open(path + ".evil", "wb").write(data)
END
chmod 700 "$agent.evil" && mv "$agent.evil" "$agent" || die "cannot exchange the agent"
replaced "other bytes with the same CRC-32"
# A user's own group, with the user's number, is nobody else (Ubuntu's umask is 002).
own_group=$([ "$(id -u)" = 0 ] || [ "$(id -u)" != "$(id -g)" ] || echo yes)
if [ -z "$own_group" ]; then
    chmod 770 "$agent"
    replaced "a group may write the agent"
fi
chmod 702 "$agent"
replaced "all may write the agent"
mv "$agent" "$TMP/elsewhere" && ln -s "$TMP/elsewhere" "$agent"
replaced "a link"
if [ "$(id -u)" = 0 ]; then
    chown 12345 "$agent"
    replaced "another's agent"
fi

# --- the folders
chmod 775 "$bin"
ok
[ "$(stat -c %a "$bin")" = 700 ] || die "$(ls -ld "$bin")"
chmod 777 "$root"
refused "all may write above" "has mode drwxrwxrwx" "chmod go-w $root"
chmod 1777 "$root"
cached "a sticky folder"
chmod 700 "$root"
chmod g+w "$fx/node0"
if [ "$own_group" ]; then
    cached "the user's own group may write above"
else
    refused "a group may write above" "$fx/node0 belongs to" "chmod go-w $fx/node0"
fi
chmod g-w "$fx/node0"
if [ "$(id -u)" = 0 ]; then
    chown 12345 "$fx/node0"
    refused "another's folder" "$fx/node0 belongs to" "another root_dir, or as root, chown"
    chown 0 "$fx/node0"
    chown 12345 "$root/.paddlectl"
    refused "another's .paddlectl" "/.paddlectl belongs to" "another root_dir, or as root, chown"
    chown 0 "$root/.paddlectl"
fi
cached "mended"

# --- other tools
if [ "$(basename "$(getent passwd "$(id -un)" | cut -d: -f7)")" = bash ]; then
    mkdir path
    for tool in uname head wc chmod mv mkdir rm sync ls id sha256sum gzip; do
        ln -sf "$(command -v $tool)" path/
    done
    echo "PATH=$TMP/path" >"$fx/node0/home/.bashrc"
    cached "with sha256sum"
    ended # nobody writes to a program that runs
    printf evil | dd of="$agent" bs=1 seek=5000 conv=notrunc status=none
    replaced "other bytes, with sha256sum"
    rm path/sha256sum
    replaced "without a hash"
fi
ended
