#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pulls of 64 rows: how near to a bare round trip of TCP, and what do 32 under way gain?
. "$(dirname "$0")/lib/ps.sh"
best_one=1e9 best_rtt=1e9 best_many=0
for ((i = 0; i < ROUNDS; i++)); do
    rtt=$("$PS" rtt 64 64 "${FOR_S:-2}" | awk '{print $4}')
    read -r one rate <<<"$("$PS" small 64 1 "${FOR_S:-2}" | awk '{print $8, $10}')"
    many=$("$PS" small 64 32 "${FOR_S:-2}" | awk '{print $10}')
    echo "round trip $rtt us   one at a time p50 $one us, $rate/s   32 under way $many/s"
    best_one=$(min "$best_one" "$one") best_rtt=$(min "$best_rtt" "$rtt") best_many=$(max "$best_many" "$many")
done
line ps_small_latency "$(ratio "$best_one" "$best_rtt")" '<=1.5' "64-byte TCP round trip" "$best_one us" "$best_rtt us"
line ps_small_rate "$(awk -v a="$best_many" -v b="$best_one" 'BEGIN { printf "%.2f", a * b / 1e6 }')" '>=5' "one at a time" "$best_many/s" "$(awk -v b="$best_one" 'BEGIN { printf "%.0f", 1e6 / b }')/s"
