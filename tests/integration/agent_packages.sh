#!/usr/bin/env bash
# Packages and sessions of paddle_agent over its relay: without a job, with a daemon, and a daemon that is killed.
. "$(dirname "$0")/../support/lib.sh"
PYTHONPATH=$TOP/tests/support timeout 300 python3 "$TOP/tests/support/agent_packages.py" "$BIN/paddle_agent" "$TMP/root" || die "see above"
