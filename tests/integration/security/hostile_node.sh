#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node whose agent is not ours (tests/support/agent/fake_agent.py): what it sends cannot control
# the user's terminal, name a folder, cost minutes of CPU, or keep paddlectl from reacting to
# Ctrl-C. The same for outputs of commands and names of files.
. "$(dirname "$0")/../../support/lib.sh"
export PADDLECTL_LIBEXEC=$TMP/libexec FAKE_AGENT=$TMP/scenario XDG_CACHE_HOME=$TMP/cache
mkdir -p "$TMP/libexec" "$TMP/ws"
echo x >"$TMP/ws/file"
cp "$TOP/tests/support/agent/fake_agent.py" "$TMP/libexec/paddle_agent"
cp "$TOP"/tests/support/agent/agent_{client,package}.py "$TMP/libexec/"
echo worker >"$TMP/libexec/paddle_worker"
cd "$TMP" || die cd
cat >conf.ini <<END
[cluster]
hosts = local
root_dir = $TMP/root%n
[job]
job_dispatch_package = ws
trainer_command = ./file
END
# Folders that paddlectl does not read itself: others may write to them.
for n in 0 1 2; do mkdir -p "root$n/.paddlectl" && chmod 777 "root$n"; done
PYTHONPATH=$TOP/tests/support python3 "$TOP/tests/support/hostile_node.py" "$BIN/paddlectl" "$@" ||
    die "see above"
