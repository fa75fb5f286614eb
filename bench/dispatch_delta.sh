#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 64 KB edited in one of 10,000 files, 16 hosts: how many bytes and seconds does dispatch take?
#
# Network namespaces with links of 100 Mbit/s; 9,999 files of 0.5 to 3 KB and one of 4 MB, in which 64 KB are overwritten each round. The
# bytes are the link's own counter, so log-ins, acknowledgements and ids count; how much of that `paddlectl exec true` takes is printed. A
# second dispatch without an edit: its time, and round trips a host: what 100 ms each way (a proxy before one host on the loopback) make
# it slower, less what they do to `exec true`. ROUNDS (3), HOSTS (16), FILES (10000); the best round counts, and the result is compared
# on every host.
set -eu
cd "$(dirname "$0")/.."
exec /usr/bin/python3 bench/drivers/dispatch_delta.py
