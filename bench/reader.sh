#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A click log in Criteo's form: how many lines a CPU second against getline and strtoul?
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory -s build/release/bench/reader
R=build/release/bench/reader dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$R" gen "${LINES_N:-400000}" "$dir/day"
cat "$dir/day" >/dev/null
best=0 plain=0
for ((i = 0; i < ${ROUNDS:-3}; i++)); do
    o=$("$R" ours "$dir/day" | awk '{print $3}') p=$("$R" plain "$dir/day" | awk '{print $3}')
    best=$((o > best ? o : best)) plain=$((p > plain ? p : plain))
done
n=$(wc -l <"$dir/day")
wc_s=$({ TIMEFORMAT='%U %S'; time wc -l "$dir/day" >/dev/null; } 2>&1 | awk '{print $1 + $2}')
awk -v o="$best" -v w="$wc_s" -v n="$n" -v b="$(stat -c %s "$dir/day")" \
    'BEGIN { printf "%d lines of %.0f bytes: %.0f ms of CPU for the reader, %.0f ms for wc -l\n", n, b / n, n / o * 1e3, w * 1e3 }'
awk -v o="$best" -v p="$plain" \
    'BEGIN { printf "bench reader ratio %.2f target >=1.00 peer \"getline + strtoul\" ours %.0f lines/CPU s theirs %.0f lines/CPU s\n", o / p, o, p }'
