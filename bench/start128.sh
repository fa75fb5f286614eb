#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `exec true` on 128 hosts: how much wall clock and client CPU against pdsh and clush?
#
# One sshd, 128 addresses (127.1.x.y), no shared connections, everybody checks host keys. The
# client's CPU is user and system time of it and its children (pdsh's and clush's ssh), until it
# has ended. Each peer tries fanouts of 16, 32, 64 and 128 once; then rounds alternate, with the
# fastest fanout of each. The best of all runs counts. ROUNDS=5, HOSTS=128.
set -eu
cd "$(dirname "$0")/.."
[ -x /usr/sbin/sshd ] || { echo "bench start128: no sshd (Debian: openssh-server)" >&2; exit 1; }
for peer in pdsh clush; do command -v $peer >/dev/null || { echo "bench start128: no $peer (Debian: pdsh, clustershell)" >&2; exit 1; }; done
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
unset SSH_AUTH_SOCK
trap 'rm -rf "$TMP"' EXIT
/usr/bin/python3 bench/drivers/start128.py "$TMP/hosts" "$PWD/build/release/paddlectl" "${HOSTS:-128}" "${ROUNDS:-5}"
