#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packages as objects: from the launcher, from node to node, with relays that die, sources that lie, clients that go away. Agents only.
. "$(dirname "$0")/../../support/lib.sh"
PYTHONPATH=$TOP/tests/support timeout 500 python3 "$TOP/tests/support/agent/agent_dispatch.py" "$BIN/paddle_agent" "$TMP/root" || die "see above"
if grep -rlE 'Sanitizer|runtime error' "$TMP"; then die "the agent's own errors, see above"; fi
