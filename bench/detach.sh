#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# attach to a job on 16 hosts: how long until a line of every node is shown, and is any lost?
set -eu
cd "$(dirname "$0")/.."
[ -x /usr/sbin/sshd ] || { echo "bench detach: no sshd (Debian: openssh-server)" >&2; exit 1; }
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
unset SSH_AUTH_SOCK
trap 'rm -rf "$TMP"' EXIT
/usr/bin/python3 bench/drivers/detach.py "$TMP/hosts" "$PWD/build/release/paddlectl" "${NODES:-16}" "${ROUNDS:-5}"
