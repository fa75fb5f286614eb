#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Somebody on the path between agents, without the job's key: of a job, of packages, of data files.
# And between two seeds.
# both
. "$(dirname "$0")/../../support/lib.sh"
PYTHONPATH=$TOP/tests/support:$TOP/tests/support/agent timeout 800 python3 \
    "$TOP/tests/support/agent/agent_attacks.py" "$BIN/paddle_agent" "$TMP/root" "$BIN/paddle_seed" "$@" ||
    die "see above"
if grep -rlE 'Sanitizer|runtime error' "$TMP"; then die "the agent's own errors, see above"; fi
