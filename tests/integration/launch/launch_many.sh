#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 150 nodes on this machine (bench/thousand.sh has a thousand): the job starts, ends by
# itself, answers ps, status and logs, and ends by Ctrl-C and by stop; no process is left. The
# processor time of a node is about the same in a job of 25 and of 150 nodes.
# limit 1200
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
export PYTHONDONTWRITEBYTECODE=1 LIMIT_S=280
for n in 25 150; do
    mkdir "$TMP/$n"
    /usr/bin/python3 "$TOP/bench/drivers/thousand.py" "$TMP/$n" "$BIN/paddlectl" $n 3 >"$TMP/$n.log" 2>&1 ||
        die "$n nodes: $(cat "$TMP/$n.log")"
    for what in seconds node launcher ps status logs ctrlc stop; do
        grep -q "^bench thousand-$what ratio [0-9.]* target " "$TMP/$n.log" || die "no line of $what: $(cat "$TMP/$n.log")"
    done
    cat "$TMP/$n.log"
done
ms() { sed -n 's/^.*of CPU, \([0-9.]*\) ms a node$/\1/p' "$TMP/$1.log"; }
holds "many < 2 * few" many="$(ms 150)" few="$(ms 25)"
