#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A fixed dozen of real faults: processes killed and stopped, links cut, a full disk, a reboot. The
# model, what is said and what stays are checked (docs/faults.md). make soak runs 1,000.
# release only
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
unset SSH_AUTH_SOCK
start faults env PADDLE_BUILD="$BIN" "$TOP/tests/faults/faults" --lanes=3
wait "$PID" || die "$(cat "$TMP/faults.log")"
grep -E '^(faults: |skipped: )' "$TMP/faults.log"
