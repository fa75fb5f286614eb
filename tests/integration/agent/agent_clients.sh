#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Clients of the agents of a job: logs, status, and clients that stall or are cut off.
# both
. "$(dirname "$0")/../../support/lib.sh"
PYTHONPATH=$TOP/tests/support timeout 600 python3 "$TOP/tests/support/agent/agent_clients.py" "$BIN/paddle_agent" "$TMP/root" "$@" || die "see above"
# A daemon's stderr is its job's log/agent.log; a sanitizer writes there.
if grep -rlE 'Sanitizer|runtime error' "$TMP"; then die "the agent's own errors, see above"; fi
