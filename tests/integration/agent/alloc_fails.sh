#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The n-th allocation of the trainer or the pserver of a small job fails: the job ends in time,
# without a crash, and says that there was no memory. The seed is drawn and printed (docs/faults.md).
# release only
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
start allocs env PADDLE_BUILD="$BIN" "$TOP/tests/faults/allocs" \
    --seconds=20 ${ALLOCS_SEED:+--seed=$ALLOCS_SEED} trainer pserver
wait "$PID" || die "$(cat "$TMP/allocs.log")"
grep '^allocs: ' "$TMP/allocs.log"
