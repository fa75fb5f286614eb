#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A click log in Criteo's form: how many lines a CPU second against getline and strtoul?
#
# And 10,000 records of runs: how long does `paddlectl runs` take against ls -l of the same files?
# The records have four hosts, five passes and two metrics. The first call makes the index, and is
# shown, too. Then both commands are called in turns; the best of each counts. RUNS=10000, ROUNDS=3.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory -s build/release/bench/reader build/release/paddlectl
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

P=$PWD/build/release/paddlectl
/usr/bin/python3 bench/drivers/records.py "$dir/output" "${RUNS:-10000}"
cd "$dir"
sleep 3 # a record that is younger than two seconds is not indexed
seconds() { { TIMEFORMAT=%R; time "$@" >/dev/null 2>&1 || echo 9999; } 2>&1; } # a failure is no result
all_files() { printf '%s\0' output/*/run.json | xargs -0 ls -l; }
[ "$("$P" runs --csv | wc -l)" = $((${RUNS:-10000} + 1)) ] || { echo "bench reader: not all runs are listed" >&2; exit 1; }
rm -f output/.runs.index
first=$(seconds "$P" runs) ours=99 ls=99
for ((i = 0; i < ${ROUNDS:-3}; i++)); do
    o=$(seconds "$P" runs)
    l=$(seconds all_files)
    read -r ours ls < <(awk -v a="$ours" -v b="$o" -v c="$ls" -v d="$l" 'BEGIN { print (b < a ? b : a), (d < c ? d : c) }')
done
echo "${RUNS:-10000} records: $first s without an index, $ours s with it; ls -l of their run.json: $ls s"
awk -v o="$ours" -v l="$ls" 'BEGIN { o = o ? o : .001;
    printf "bench reader-runs ratio %.2f target >=1.00 peer \"the limit of 0.2 s\" ours %.3f s theirs 0.200 s\n", .2 / o, o
    printf "bench reader-runs-ls ratio %.2f target >=0.50 peer \"ls -l\" ours %.3f s theirs %.3f s\n", l / o, o, l }'
