#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 16 nodes write 20,000 lines/s each, connections are cut: is each line shown once, in order?
#
# Every node has a port of its own (tests/support/cut-proxy) before one sshd. Lines are numbered: lost, doubled and misplaced ones are
# counted. The ratio is the time that the writers wanted over the time that they took (a launcher that is slow does not hold
# them up: logs are spooled on the nodes).
set -eu
cd "$(dirname "$0")/.."
[ -x /usr/sbin/sshd ] || { echo "bench logs: no sshd (Debian: openssh-server)" >&2; exit 1; }
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
unset SSH_AUTH_SOCK
trap '[ -n "${KEEP:-}" ] || rm -rf "$TMP"' EXIT
/usr/bin/python3 bench/drivers/logs.py "$TMP/hosts" "$PWD/build/release/paddlectl" "${NODES:-16}" "${RATE:-20000}" "${FOR_S:-10}" "${CUTS:-10}" "${SEED:-1}"
