#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every part of a job is killed once, at a random moment, beside a job that must not notice: nothing
# stays. The seed is drawn and printed; SOAK_SEED=N repeats it. (make soak does it 200 times.)
# release only
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
unset SSH_AUTH_SOCK
start soak env PADDLE_BUILD="$BIN" SOAK_SEED="${SOAK_SEED:-}" SOAK_KILLS=18 SOAK_CUTS=0 \
    SOAK_HOSTS=3 SOAK_LANES=5 SOAK_SLACK=8 /usr/bin/python3 "$TOP/tests/soak/soak.py"
wait "$PID" || die "$(cat "$TMP/soak.log")"
grep -E '^(soak: |skipped: )' "$TMP/soak.log"
