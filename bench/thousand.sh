#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A thousand nodes on this machine: how long to start and end, how much memory, how soon an answer?
#
# hosts = local*NODES (1000), each with a trainer that sleeps. Three jobs: one ends by itself after
# SLEEP_S (20) seconds, which are taken off; one answers ps, status, top and logs, and ends by Ctrl-C;
# one ends by stop. "idle" is what the second one uses meanwhile, for 1,000 nodes. CPU time is that of all processes, also of those that have ended. Private memory is
# that of an agent, its watcher, guardian and relay.
set -eu
cd "$(dirname "$0")/.."
TMP=$(mktemp -d "${TMPDIR:-/tmp}/bench-XXXXXX")
trap 'rm -rf "$TMP"' EXIT
/usr/bin/python3 bench/drivers/thousand.py "$TMP" "${CTL:-$PWD/build/release/paddlectl}" "${NODES:-1000}" "${SLEEP_S:-20}"
