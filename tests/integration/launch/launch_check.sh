#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl check on three ssh hosts and this machine: good ones, each kind of bad one with what helps, and nothing left there.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
ssh_hosts 3
hosts=$(cat "$fx/hosts") first=${hosts%%,*}
check() { "$ctl" check --conf="$fx/conf.ini" --connect_timeout=20 "$@"; }

# --- good hosts: an address each (the one that the others reached), a verdict, nothing but the cached program
expect 0 check --verbose --hosts="$hosts, local"
for i in 1 2 3; do [[ $OUT =~ 127\.0\.0\.$i\ +(ok|warning)\ .*\ at\ 127\. ]] || die "$OUT"; done
[[ $OUT =~ local\.3\ +(ok|warning)\ .*\ at\ .*,\ ports\ [0-9]+\ [0-9]+ ]] || die "$OUT"
has_not UNUSABLE
# good hosts share a line, and so do dead ones
expect 0 check
[ "$(grep -c '^127' <<<"$OUT")" = 1 ] && [[ $OUT =~ ^127\.0\.0\.\[1-3\]\ +(ok|warning)\ .*\ cores\ .*\ free,\ clocks\ within ]] || die "$OUT"
expect 3 check --hosts="$hosts, 127.0.0.[10-50]:1"
[ "$(grep -c 'cannot connect to port 1' <<<"$OUT")" = 1 ] && [[ $OUT =~ 127\.0\.0\.\[10-50\]\ +UNUSABLE ]] || die "$OUT"
has "41 unusable"
wait_for 20 "no process" "$fixture" left "$fx"
wait_for 20 "nothing but the program" bash -c "[ \"\$(find '$fx'/node?/root -type f | grep -v '/.paddlectl/bin/\(agent-[0-9a-f]*\|hashed-[^/]*\)\$')\" = '' ]"
[ ! -e "$fx/node3" ] || die "root_dir of a node on this machine was made"
"$ctl" check --conf="$fx/conf.ini" --json >"$TMP/json" || die "json"
OUT=$(/usr/bin/python3 - "$TMP/json" <<'END'
import json, sys
v = [json.loads(l) for l in open(sys.argv[1])]
assert [r["host"] for r in v] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"], v
for r in v:
    assert r["verdict"] in ("ok", "warning") and r["facts"]["libc"] and r["facts"]["ports"] and r["address"], r
    assert sorted(p["node"] for p in r["reached"]) == sorted({0, 1, 2} - {r["node"]}), r
print("fine")
END
)
has fine

# --- hosts that can't be reached, each with its step and what helps; the others are checked all the same
sed 1d "$fx/known_hosts" >"$TMP/known_two"
expect 3 check --verbose --hosts="$hosts, ${first%:*}:1, nowhere.invalid" --known_hosts="$TMP/known_two"
has "is not in $TMP/known_two"
has "host_key_policy = accept-new"
has "cannot connect to port 1: Connection refused"
has "is sshd running there"
has "nowhere.invalid"
has "cannot resolve the name"
has "3 unusable"
[[ $OUT =~ 127\.0\.0\.3\ +(ok|warning)\ .*\ at\ 127\. ]] || die "$OUT"

# --- one root_dir for two nodes, made already and not; one that can't be written
expect 3 check --root_dir="$fx/shared"
has "it shares root_dir $fx/shared with 127.0.0."
has "%n"
expect 3 check --hosts="local*2" --root_dir="$fx/not-made"
has "it shares root_dir $fx/not-made with local"
[ ! -e "$fx/not-made" ] || die "root_dir was made"
[ -z "$(find "$fx" -name 'check-*')" ] || die "marks are left"
: >"$TMP/file"
expect 3 check --hosts="local" --root_dir="$TMP/file/below"
has "cannot use $TMP/file/below"
expect 2 check --hosts='a[3-1]'
expect 3 check --nic=10.255.255.0/30
has "no interface or address here matches nic"

# --- a log-in that prints and is slow
if [ "$(basename "$(getent passwd "$(id -un)" | cut -d: -f7)")" = bash ]; then
    printf '%s\n' 'echo 12345' 'sleep 2.5' >"$fx/node1/home/.bashrc"
    expect 0 check
    has "start-up files print 6 bytes"
    has "start-up files take "
    # Ctrl-C while one hangs
    echo 'sleep 50' >"$fx/node1/home/.bashrc"
    start slow "$ctl" check --conf="$fx/conf.ini"
    sleep 1
    kill -INT "$PID"
    wait "$PID"
    [ $? = 130 ] || die "Ctrl-C: $(cat "$TMP/slow.log")"
fi
exit 0
