#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl exec on three ssh hosts and this machine: words as ssh passes them, outputs folded, lines as they come, exit statuses,
# signals, dead hosts, much output, and commands that end with paddlectl however it ends.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
ssh_hosts 3
hosts=$(cat "$fx/hosts") first=${hosts%%,*}
x() { "$ctl" exec --conf="$fx/conf.ini" "$@"; }
on_second='case $SSH_CONNECTION in *" 127.0.0.2 "*)'

# --- words are joined by blanks and go through the shell, once
expect 0 x echo 'a   b' '$((1+2))'
[ "$OUT" = "127.0.0.[1-3]: a b 3" ] || die "$OUT"
expect 0 x -- printf '%s-' -n "'x  y'" 'ä€😀'
[ "$OUT" = "127.0.0.[1-3]: -n-x  y-ä€😀-" ] || die "$OUT"
expect 0 x --node=0,127.0.0.3 echo --json
[ "$OUT" = "127.0.0.[1,3]: --json" ] || die "$OUT"
expect 2 x --node=7 true
has "there is no node 7"
expect 2 x
has "no command given"
expect 2 x --frobnicate true

# --- folded, stdout and stderr apart, in the order of the hosts
x "$on_second printf 'one\ntwo';; *) echo same;; esac; echo oops >&2" >"$TMP/out" 2>"$TMP/err" || die "$?"
printf '127.0.0.[1,3]: same\n---------------\n127.0.0.2\n---------------\none\ntwo\n' | cmp - "$TMP/out" || die "$(cat "$TMP/out")"
[ "$(cat "$TMP/err")" = "127.0.0.[1-3]: oops" ] || die "$(cat "$TMP/err")"
x --no-fold 'echo a; printf "b\nlast"; echo e >&2' >"$TMP/out" 2>"$TMP/err" || die "$?"
[ "$(grep -c '^127\.0\.0\.[123]: \(a\|b\|last\)$' "$TMP/out")" = 9 ] && [ "$(wc -l <"$TMP/out")" = 9 ] || die "$(cat "$TMP/out")"
[ "$(sort "$TMP/err" | tr '\n' ' ')" = "127.0.0.1: e 127.0.0.2: e 127.0.0.3: e " ] || die "$(cat "$TMP/err")"

# --- what a login shell's start-up file prints comes once, and what it defines is there
if [ "$(basename "$(getent passwd "$(id -un)" | cut -d: -f7)")" = bash ]; then
    for i in 0 1 2; do printf 'echo welcome\nf() { echo "f $1"; }\n' >"$fx/node$i/home/.bashrc"; done
    expect 0 x f 7
    [ "$OUT" = $'---------------\n127.0.0.[1-3] (3)\n---------------\nwelcome\nf 7' ] || die "$OUT"
    rm "$fx"/node?/home/.bashrc
fi

# --- the highest exit status; signals; hosts that are not there
expect 7 x "$on_second exit 7;; esac; exit 3"
has "paddlectl: 127.0.0.[1,3]: exit status 3"
has "paddlectl: 127.0.0.2: exit status 7"
expect 137 x 'kill -9 $$'
has "127.0.0.[1-3]: ended by signal KILL"
expect 255 x --hosts="$hosts, ${first%:*}:1, nowhere.invalid" echo here
has "127.0.0.[2-3],${first}: here"
has "cannot connect to port 1: Connection refused"
has "nowhere.invalid: cannot resolve the name"
expect 124 x --timeout=1 --hosts="$hosts, local" "$on_second exec sleep 300.5;; esac; [ -n \"\$SSH_CONNECTION\" ] || sleep 300.5"
has "timed out after 1 s"

# --- stdin is empty, or a file
expect 0 x cat
[ -z "$OUT" ] || die "$OUT"
seq 300000 >"$TMP/input"
expect 0 x --hosts="$hosts, local" --stdin="$TMP/input" cksum
[[ $OUT == "127.0.0.[1-3],local.3: $(cksum <"$TMP/input")" ]] || die "$OUT"
OUT=$(x --stdin=- sh -s -- arg <<<'echo "script $1"')
[ "$OUT" = "127.0.0.[1-3]: script arg" ] || die "$OUT"
expect 0 x --stdin="$TMP/input" true # who does not read it is not waited for

# --- much from one host, little from the others; any bytes
many="$on_second head -c 100000000 /dev/zero;; *) echo small;; esac"
x "$many" >"$TMP/out" || die "$?"
[ "$(tr -d '\0' <"$TMP/out")" = $'127.0.0.[1,3]: small\n---------------\n127.0.0.2\n---------------' ] || die "$(tr -d '\0' <"$TMP/out" | head -c 500)"
[ "$(tr -cd '\0' <"$TMP/out" | wc -c)" = 100000000 ] || die "$(wc -c <"$TMP/out") bytes"
rm "$TMP/out"
head -c 300000 /dev/urandom >"$TMP/random"
x --node=1 cat "$TMP/random" | tail -n +4 | head -c 300000 | cmp - "$TMP/random" || die "not the bytes"
x --no-fold --node=1 seq 1000000 | sed 's/^127.0.0.2: //' | cmp - <(seq 1000000) || die "not the lines"
x --no-fold --node=0 yes | head -1 >"$TMP/out"
[ "$(cat "$TMP/out")" = "127.0.0.1: y" ] || die "$(cat "$TMP/out")"
OUT=$(TMPDIR=/nonexistent x --node=1 head -c 1000000 /dev/zero 2>&1 >/dev/null) && die "status 0"
has "127.0.0.2: its output is incomplete: cannot keep it in /nonexistent"

# --- JSON
x --json --hosts="$hosts, nowhere.invalid" "$on_second printf 'a\377\"';; esac; exit 2" >"$TMP/out"
[ $? = 255 ] || die "status"
OUT=$(/usr/bin/python3 - "$TMP/out" <<'END'
import json, sys
v = [json.loads(l) for l in open(sys.argv[1], encoding="utf-8")]
print([(r["node"], r["host"], r["status"], r.get("stdout"), "error" in r) for r in v])
END
)
has "[(0, '127.0.0.1', 2, '', False), (1, '127.0.0.2', 2, 'a�\"', False), (2, '127.0.0.3', 2, '', False), (3, 'nowhere.invalid', 255, '', True)]"

# --- Ctrl-C, and a paddlectl that is killed: whatever the command started ends; what an earlier one left running stays
mark=300.$$
alive() { pgrep -f "^sleep $mark$"; }
none() { ! alive; }
daemons=$(x --no-fold "sleep $mark </dev/null >/dev/null 2>&1 & echo \$!" | sed 's/.*: //') || die "$?"
[ "$(alive | wc -l)" = 3 ] || die "daemons: $(alive)"
sleep 1.5
[ "$(alive | wc -l)" = 3 ] || die "daemons that should stay: $(alive)"
# shellcheck disable=SC2086
kill $daemons
wait_for 60 "they end" none
for sig in INT KILL; do
    start end "$ctl" exec --conf="$fx/conf.ini" --hosts="$hosts, local" \
        "(sleep $mark &); timeout 1000 sleep $mark & sh -c 'trap \"\" TERM; sleep $mark & sleep $mark; sleep $mark'"
    wait_for 20 "16 processes" bash -c "[ \$(pgrep -fc '^sleep $mark\$') = 16 ]"
    kill -$sig "$PID"
    wait "$PID"
    status=$?
    [ $status = $([ $sig = INT ] && echo 130 || echo 137) ] || die "$sig: status $status"
    wait_for 20 "nothing is left after $sig" none
done
wait_for 60 "no process below the nodes' folders" "$fixture" left "$fx"
exit 0
