#!/usr/bin/env bash
# attach to a detached job on 16 hosts: milliseconds until a line of every node is shown; from its first line on, no line is lost
set -eu
cd "$(dirname "$0")/.."
[ -x /usr/sbin/sshd ] || { echo "bench detach: no sshd (Debian: openssh-server)" >&2; exit 1; }
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
unset SSH_AUTH_SOCK
trap 'rm -rf "$TMP"' EXIT
/usr/bin/python3 bench/detach.py "$TMP/hosts" "$PWD/build/release/paddlectl" "${NODES:-16}" "${ROUNDS:-5}"
