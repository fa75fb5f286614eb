#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packages and sessions of paddle_agent over its relay: without a job, with a daemon, and a daemon that is killed.
. "$(dirname "$0")/../../support/lib.sh"
PYTHONPATH=$TOP/tests/support timeout 300 python3 "$TOP/tests/support/agent/agent_packages.py" "$BIN/paddle_agent" "$TMP/root" || die "see above"
# A daemon's stderr is its job's log/agent.log; a sanitizer writes there.
if grep -rlE 'Sanitizer|runtime error' "$TMP"; then die "the agent's own errors, see above"; fi
