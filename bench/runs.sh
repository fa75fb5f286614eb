#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 10,000 records of runs: how long does `paddlectl runs` take, against ls -l of the same files?
#
# The records have four hosts, five passes and two metrics. The first call makes the index, and is
# shown, too. Then both commands are called in turns; the best of each counts. RUNS=10000, ROUNDS=5.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory -s build/release/paddlectl
P=$PWD/build/release/paddlectl dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
/usr/bin/python3 bench/drivers/records.py "$dir/output" "${RUNS:-10000}"
cd "$dir"
sleep 3 # a record that is younger than two seconds is not indexed
seconds() { { TIMEFORMAT=%R; time "$@" >/dev/null 2>&1; } 2>&1; }
all_files() { printf '%s\0' output/*/run.json | xargs -0 ls -l; }
first=$(seconds "$P" runs) ours=99 ls=99
for ((i = 0; i < ${ROUNDS:-5}; i++)); do
    o=$(seconds "$P" runs) l=$(seconds all_files)
    read -r ours ls < <(awk -v a="$ours" -v b="$o" -v c="$ls" -v d="$l" 'BEGIN { print (b < a ? b : a), (d < c ? d : c) }')
done
echo "${RUNS:-10000} records: $first s without an index, $ours s with it; ls -l of their run.json: $ls s"
awk -v o="$ours" -v l="$ls" 'BEGIN { o = o ? o : .001;
    printf "bench runs ratio %.2f target >=1.00 peer \"0.2 s\" ours %.3f s theirs 0.200 s\n", .2 / o, o
    printf "bench runs-ls ratio %.2f target >=0.50 peer \"ls -l\" ours %.3f s theirs %.3f s\n", l / o, o, l }'
