#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A dispatch where hosts do not reach each other: plain ssh from here takes over by itself. One whose cable is pulled in the middle: the others
# complete, it is named, soon. Three hosts in network namespaces with links of 100 Mbit/s.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
export XDG_CACHE_HOME=$TMP/cache
net_hosts 3 100mbit
read -r name <"$ns/name"
cat "$ns/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
END
cd "$TMP" || exit
number() { sed -n "s/.*\"event\": *\"result\".*\"$1\": *\([0-9]*\).*/\1/p" <<<"$OUT" | tail -1; }
path() { sed -n 's/.*"event": *"result".*"path": *"\([^"]*\)".*/\1/p' <<<"$OUT" | tail -1; }

isolate() { # on | off: bridge ports that pass frames only to and from those that are not isolated: the client's
    local p
    for p in p0 p1 p2; do ip -n "$name-br" link set "$p" type bridge_slave isolated "$1" 2>/dev/null || return 1; done
}
mkdir ws
head -c 3000000 /dev/urandom >ws/file
if isolate on; then
    expect 0 "$fixture" exec "$ns" "$ctl" dispatch --json
    [ "$(number sent_bytes)" -gt 8900000 ] || die "less than three times 3 MB from here: $OUT"
    where=$(path)
    expect 0 "$fixture" exec "$ns" "$ctl" exec "cat $where/file | sha256sum"
    has "$(sha256sum <ws/file | cut -d' ' -f1)"
    [ "$(grep -c "$(sha256sum <ws/file | cut -d' ' -f1)" <<<"$OUT")" = 1 ] || die "the hosts differ: $OUT"
    isolate off
else
    echo "skipped: hosts that do not reach each other: this kernel's bridge does not isolate ports"
fi

# --- a cable is pulled: nothing but silence tells
head -c 30000000 /dev/urandom >ws/file
start dispatch "$fixture" exec "$ns" "$ctl" dispatch --json
busy_hosts() { grep -q '"event": *"dispatch"' dispatch.log; }
wait_for 30 "bytes are on their way" busy_hosts
"$fixture" cut "$ns" 1
t=$SECONDS
wait "$PID"
status=$?
OUT=$(cat dispatch.log)
[ $status = 3 ] || die "status $status: $OUT"
has 10.77.0.2
echo "named after $((SECONDS - t)) s: $(grep -a '10.77.0.2' dispatch.log | tail -1)"
where=$(path)
"$fixture" join "$ns" 1
OUT=$("$fixture" exec "$ns" "$ctl" exec "cat $where/file | sha256sum" 2>&1)
has "$(sha256sum <ws/file | cut -d' ' -f1)"
for i in 1 3; do
    OUT=$("$fixture" exec "$ns" "$ctl" exec --hosts="root@10.77.0.$i" "ls $where" 2>&1)
    has file
done
expect 0 "$fixture" exec "$ns" "$ctl" dispatch --json
wait_for 20 "nothing is left on the hosts" bash -c "[ -z \"\$('$fixture' pids '$ns')\" ]"
