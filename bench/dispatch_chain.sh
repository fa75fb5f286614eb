#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 16 MB to 8 and 16 hosts, links of 100 Mbit/s: how near is dispatch to size over bandwidth (S/B)?
#
# Network namespaces, tbf on both ends of every link; S/B counts the whole 100 Mbit/s, of which TCP gets some 95 %. `known`: the hosts
# have the agent (as after a first run). `fresh`: they have nothing, `paddlectl run` sends agent, worker and package; the limit is package
# and compressed worker (as sent, or by zlib if that is less) over B, and `paddlectl exec true` on top. `killed`: a host that others take
# from dies half-way, all its processes at once; `cut`: its cable is pulled (the survivors' time; no target of its own, since
# silence has to be noticed first). `slow`: a host that others take from has 10 Mbit/s. ROUNDS (3), HOSTS ("8 16"), BYTES
# (16000000), PARTS ("killed cut slow"); our best round
# counts, each round has new files, and everything is compared on every host, for us and for the peers,
# which have a round each: they take 7 to 12 times as long.
set -eu
cd "$(dirname "$0")/.."
exec /usr/bin/python3 bench/drivers/dispatch_chain.py
