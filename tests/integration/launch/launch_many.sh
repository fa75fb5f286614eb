#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 150 nodes on this machine (bench/thousand.sh has a thousand): the job starts, ends by
# itself, answers ps, status and logs, and ends by Ctrl-C and by stop; no process is left. The
# processor time of a node is about the same in a job of 25 and of 150 nodes. Ctrl-C while 40 nodes start, of which
# some wait for their turn.
# limit 1200
# alone (150 agents beside other tests are late for their lease)
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
export PYTHONDONTWRITEBYTECODE=1 LIMIT_S=280
printf '[cluster]\nhosts = local*40\nroot_dir = %s/early/%%n\npservers = none\n[job]\njob_workspace = %s/ws\ntrainer_command = sleep 1000\n' \
    "$TMP" "$TMP" >"$TMP/early.ini"
mkdir "$TMP/ws"
for after in 0 0.1 0.3; do
    start early "$BIN/paddlectl" run --conf="$TMP/early.ini"
    wait_for 60 "the first node" test -e "$TMP/early/0"
    sleep $after
    kill -INT "$PID"
    wait "$PID"
    [ $? = 130 ] || die "Ctrl-C $after s after the first node: $(cat "$TMP/early.log")"
    none() { ! pgrep -f -- "--root=$TMP/early/" >/dev/null; }
    wait_for 60 "the end of the agents" none
    ! grep -E 'Sanitizer|runtime error' "$TMP/early.log" || die "see above"
    rm -r "$TMP/early"
done
for n in 25 150; do
    mkdir "$TMP/$n"
    /usr/bin/python3 "$TOP/bench/drivers/thousand.py" "$TMP/$n" "$BIN/paddlectl" $n 3 >"$TMP/$n.log" 2>&1 ||
        die "$n nodes: $(cat "$TMP/$n.log")"
    for what in seconds node launcher idle ps status top logs ctrlc stop; do
        grep -q "^bench thousand-$what ratio [0-9.]* target " "$TMP/$n.log" || die "no line of $what: $(cat "$TMP/$n.log")"
    done
    cat "$TMP/$n.log"
done
ms() { sed -n 's/^.*of CPU, \([0-9.]*\) ms a node$/\1/p' "$TMP/$1.log"; }
holds "many < 2 * few" many="$(ms 150)" few="$(ms 25)"
