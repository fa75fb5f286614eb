#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C of a job on 64 hosts: how long until the last of its processes is dead?
#
# One sshd, 64 addresses (127.1.x.y), a node each; the job's program has a child and one in a session of
# its own. Ours: from SIGINT to the last death, median of ROUNDS. The peers end their ssh's, without and
# with a pseudo-terminal on the hosts (ssh -tt); what runs there LEFT_S (5) seconds later is counted, then killed by pid.
set -eu
cd "$(dirname "$0")/.."
[ -x /usr/sbin/sshd ] || { echo "bench ctrlc: no sshd (Debian: openssh-server)" >&2; exit 1; }
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
unset SSH_AUTH_SOCK
trap 'rm -rf "$TMP"' EXIT
/usr/bin/python3 bench/drivers/ctrlc.py "$TMP/hosts" "$PWD/build/release/paddlectl" "${HOSTS:-64}" "${ROUNDS:-5}"
