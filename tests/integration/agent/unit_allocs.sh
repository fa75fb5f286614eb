#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The n-th allocation of a unit test fails: no crash, no leak, no hang. Tests are drawn for 45 s by a
# fixed seed (docs/faults.md). make soak takes all of them.
# san only
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
start allocs env PADDLE_BUILD="$BIN" "$TOP/tests/faults/unit_allocs" \
    --seconds=45 --sample=5 --seed="${ALLOCS_SEED:-1}"
wait "$PID" || die "$(cat "$TMP/allocs.log")"
grep '^unit_allocs: ' "$TMP/allocs.log"
