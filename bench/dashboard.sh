#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A dashboard of 100 trainers with four events a second each, and a viewer: how much of a core, how large a page?
#
# The record has ten minutes when the dashboard starts; reading them is not counted. The page asks less often when an
# answer costs more CPU time, so the share of a core alone says little: the third line is the time between answers.
# -hosts-cpu: the same while it asks 100 hosts, with five old jobs each, for jobs. DASHBOARD_S=60, NODES=100.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory -s build/release/paddlectl
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
top=$PWD nodes=${NODES:-100}
cd "$dir"
record() { # OUTPUT [HOSTS]: the four numbers of live_record.py
    /usr/bin/python3 "$top/bench/drivers/live_record.py" "$dir/$1" "$nodes" "${DASHBOARD_S:-60}" "$top/build/release/paddlectl" ${2:+"$2"} >numbers
    read -r used took page answers <numbers
}
record output
echo "$answers answers in $took s, $used s of CPU; a page of $page bytes"
awk -v u="$used" -v t="$took" -v p="$page" -v a="$answers" 'BEGIN { u = u ? u : .01
    printf "bench dashboard-cpu ratio %.2f target >=1.00 peer \"1 %% of a core\" ours %.2f %% theirs 1.00 %%\n", .01 / (u / t), 100 * u / t
    printf "bench dashboard-page ratio %.2f target >=1.00 peer \"300 kB\" ours %.0f kB theirs 300 kB\n", 300000 / p, p / 1000
    printf "bench dashboard-refresh ratio %.2f target >=1.00 peer \"5 s\" ours %.1f s theirs 5.0 s\n", 5 / (t / a), t / a }'
record other "$nodes"
awk -v u="$used" -v t="$took" 'BEGIN { u = u ? u : .01
    printf "bench dashboard-hosts-cpu ratio %.2f target >=1.00 peer \"1 %% of a core\" ours %.2f %% theirs 1.00 %%\n", .01 / (u / t), 100 * u / t }'
