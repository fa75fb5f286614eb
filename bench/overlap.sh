#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Links of 1 Gbit/s: what does sending gradients during the backward pass gain?
#
# MODELS="ngram ctr_dnn", RATE=1gbit. The ratio is overlap = 1 over overlap = 0 in the same run; costs are printed, they are the same.
set -eu
cd "$(dirname "$0")/.."
for name in ${MODELS:-ngram ctr_dnn}; do
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/drivers/overlap.py "$name"
done
