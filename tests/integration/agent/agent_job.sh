#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs on three agents, started through their relays: order, environment, exits, failures, stop, leases.
# both
. "$(dirname "$0")/../../support/lib.sh"
for part in agent_job agent_job_lost agent_job_vote; do
    PYTHONPATH=$TOP/tests/support timeout 600 python3 "$TOP/tests/support/agent/$part.py" "$BIN/paddle_agent" "$TMP/$part" "$@" || die "see above"
done
# A daemon's stderr is its job's log/agent.log; a sanitizer writes there.
if grep -rlE 'Sanitizer|runtime error' "$TMP"; then die "the agent's own errors, see above"; fi
