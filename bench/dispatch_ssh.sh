#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 256 MB to one host over the loopback: how near is dispatch to ssh with its fastest cipher?
#
# Incompressible, a new file each round. ssh only throws away what it brings; ours is hashed before and after, written to a tmpfs (where
# there is /dev/shm) and renamed. Both with their log-in. ROUNDS (3), MB (256), CIPHERS; rounds alternate, the best counts.
set -eu
cd "$(dirname "$0")/.."
[ -x /usr/sbin/sshd ] || { echo "bench dispatch_ssh: no sshd (Debian: openssh-server)" >&2; exit 1; }
exec /usr/bin/python3 bench/drivers/dispatch_ssh.py
