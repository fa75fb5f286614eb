#!/usr/bin/env bash
# What overlapping gains (gradients leave during backward, rows are asked for ahead): 2 + 2 on two hosts in network namespaces
#
# MODELS="ngram ctr_dnn", RATE=1gbit. The ratio is overlap = 1 over overlap = 0 in the same run; costs are printed, they are the same.
set -eu
cd "$(dirname "$0")/.."
for name in ${MODELS:-ngram ctr_dnn}; do
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/overlap.py "$name"
done
