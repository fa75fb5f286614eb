#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sealed against plain connections, between two network namespaces: what does encrypt = all cost?
#
# The same program, sealed and not, in alternating rounds over a link of 1 and of 10 Gbit/s (tbf at
# both ends) and over one without a limit. dense: 64 MB pushed and pulled, 1 + 1. pull and push:
# 13,000 rows of 16 floats of a million. step: a synchronous step of 16 MB, 2 + 2. The medians of
# the rounds are compared. Without a limit both ends share this machine's cores with the link
# itself, so the ratio there is the cost in CPU time, without a target. RATES="1gbit 10gbit none",
# FOR_S=3 seconds a measurement, ROUNDS=3.
FOR_S=${FOR_S:-3}
. "$(dirname "$0")/lib/ps.sh"
GROUP=build/release/bench/ps_group
link_up || { no_tcp secure; exit 77; }
export BENCH_LINK=$LINK
# A burst of a tenth of a millisecond: with a larger burst a request would pass as if without limit.
set_rate() { # RATE BURST: of both ends
    local at
    for at in a b; do
        ip netns exec "$NS-$at" tc qdisc del dev eth0 root 2>/dev/null || :
        [ "$1" = none ] || ip netns exec "$NS-$at" tc qdisc add dev eth0 root \
            tbf rate "$1" burst "$2" latency 50ms || return 1
    done
}
measure() { # dense GB/s, pull and push Mkeys/s, steps a second
    printf '%s %s %s\n' "$("$PS" dense 64 "$FOR_S" | awk '{print $3}')" \
        "$("$PS" sparse 16 1000000 13000 "$FOR_S" | awk '{print $7, $9}')" \
        "$("$GROUP" 2 16 "$FOR_S" | awk '{printf "%.2f", 1000 / $6}')"
}
column() { # shellcheck disable=SC2046
    median $(awk -v k="$2" '{ print $k }' "$1")
}
DIR=$(mktemp -d)
trap 'link_down; rm -rf "$DIR"' EXIT
names=(dense pull push step) units=(GB/s Mkeys/s Mkeys/s steps/s)
for rate in ${RATES:-1gbit 10gbit none}; do
    case $rate in 1gbit) burst=16kb ;; *) burst=128kb ;; esac
    set_rate "$rate" "$burst" || { echo "skipped: bench secure at $rate: tc has no tbf here"; continue; }
    : >"$DIR/plain"
    : >"$DIR/sealed"
    for ((i = 0; i < ROUNDS; i++)); do
        measure >>"$DIR/plain"
        BENCH_SEALED=1 measure >>"$DIR/sealed"
        echo "$rate: plain $(tail -1 "$DIR/plain")   sealed $(tail -1 "$DIR/sealed")"
    done
    case $rate in
    1gbit) target='>=0.97' ;;
    none) target='>=0' ;;
    *) target='>=0.85' ;;
    esac
    for k in 0 1 2 3; do
        a=$(column "$DIR/sealed" $((k + 1))) b=$(column "$DIR/plain" $((k + 1)))
        line "secure-$rate-${names[k]}" "$(ratio "$a" "$b")" "$target" "the same without a seal" \
            "$a ${units[k]}" "$b ${units[k]}"
    done
done
