#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The launcher's plan for 10 to 10,000 simulated nodes: how near is it to its formula?
#
# bench/dispatch_sim.c has the model. Measured first, on 8 network namespaces with links of 100 Mbit/s: the rate of a link (iperf3), and
# how much later than its source a node has everything (dispatch, the mean), which is c/B + l. Where that is impossible, or to choose, give
# RATE (bytes a second) and LATENCY (seconds). BYTES (16000000), NODES (10000: the most). PLOT: the file for the plot (build/release/bench/dispatch_sim.svg);
# docs/performance.md shows what PLOT=docs/dispatch_sim.svg wrote.
set -eu
cd "$(dirname "$0")/.."
make -s build/release/bench/dispatch_sim
exec /usr/bin/python3 bench/drivers/dispatch_sim.py
