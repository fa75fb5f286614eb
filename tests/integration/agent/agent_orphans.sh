#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kill -9 of agent, guardian, watcher, worker, client, alone and in pairs at once, in the start of a job and later: nothing of
# the job stays, whatever its processes did to get away, and other jobs go on. SEED=n repeats a run.
# release only
. "$(dirname "$0")/../../support/lib.sh"
PYTHONPATH=$TOP/tests/support timeout 300 python3 "$TOP/tests/support/agent/agent_orphans.py" "$BIN/paddle_agent" "$TMP/root" "$@" || die "see above"
