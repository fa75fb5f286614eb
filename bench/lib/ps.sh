# SPDX-License-Identifier: Apache-2.0
# ps.sh - what the benchmarks of the parameter server share; sourced.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
make --no-print-directory -s bench-programs 2>/dev/null || make bench-programs
PS=build/release/bench/ps ROUNDS=${ROUNDS:-3} IPERF_S=${IPERF_S:-2}

max() { awk -v a="$1" -v b="$2" 'BEGIN { print (a > b) ? a : b }'; }
min() { awk -v a="$1" -v b="$2" 'BEGIN { print (a < b) ? a : b }'; }
median() { printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
line() { echo "bench $1 ratio $2 target $3 peer \"$4\" ours $5 theirs $6"; } # NAME RATIO TARGET PEER OURS THEIRS

# A port that nobody has, for a peer that can't look for one.
# Not of the range from which the kernel takes ports for connections: such a port may be taken again
# before its program listens.
free_port() { /usr/bin/python3 -c 'import random, socket
while True:
    s, port = socket.socket(), random.randrange(12000, 30000)
    try:
        print(s.bind(("127.0.0.1", port)) or port)
        break
    except OSError:
        pass'; }

# Two network namespaces with a link of their own, $NS-a (10.88.0.1) and $NS-b (10.88.0.2), each with
# eth0; BENCH_LINK (place.h) names them. Where the machine allows none: 1, and the reason in $NO_LINK.
#
# All programs in them have the congestion control "reno", the only one that each kernel allows
# there: a default that paces (BBR) would be measured instead of the programs.
link_up() {
    NS=pdbench$$
    [ "$(id -u)" = 0 ] || { NO_LINK="network namespaces need root"; return 1; }
    command -v ip >/dev/null || { NO_LINK="there is no ip (Debian: iproute2)"; return 1; }
    trap link_down EXIT
    trap 'exit 130' INT TERM HUP
    { ip netns add "$NS-a" && ip netns add "$NS-b" &&
        ip -n "$NS-a" link add eth0 type veth peer name eth0 netns "$NS-b" &&
        ip -n "$NS-a" addr add 10.88.0.1/24 dev eth0 && ip -n "$NS-b" addr add 10.88.0.2/24 dev eth0 &&
        ip -n "$NS-a" link set lo up && ip -n "$NS-b" link set lo up &&
        ip -n "$NS-a" link set eth0 up && ip -n "$NS-b" link set eth0 up &&
        echo reno | on_a tee /proc/sys/net/ipv4/tcp_congestion_control &&
        echo reno | on_b tee /proc/sys/net/ipv4/tcp_congestion_control; } >/dev/null 2>&1 ||
        { NO_LINK="network namespaces with a veth pair are not allowed here"; return 1; }
    LINK="/run/netns/$NS-a 10.88.0.1 /run/netns/$NS-b 10.88.0.2"
}
link_down() {
    local ns
    for ns in "$NS-a" "$NS-b"; do
        # shellcheck disable=SC2046
        kill $(ip netns pids "$ns" 2>/dev/null) 2>/dev/null || :
        ip netns delete "$ns" 2>/dev/null || :
    done
}
on_a() { ip netns exec "$NS-a" "$@"; }
on_b() { ip netns exec "$NS-b" "$@"; }
no_tcp() { echo "skipped: bench $1: $NO_LINK"; } # NAME

# GB/s between two processes on 127.0.0.1, or with the argument "link" from $NS-b to $NS-a: both
# directions together; the better of both at once and one. iperf3 has "reno", as our connections
# within a machine (src/net/tune.c): with a default that paces (BBR) the limit would be too low.
iperf_gbs() {
    local port pid one both said at=127.0.0.1 server=() client=()
    if [ "${1:-}" = link ]; then
        at=10.88.0.1 server=(ip netns exec "$NS-a") client=(ip netns exec "$NS-b")
    fi
    said=$(mktemp)
    for port in $(shuf -i 20000-30000 -n 10); do
        ${server[@]+"${server[@]}"} iperf3 -s -p "$port" --forceflush >"$said" 2>&1 &
        pid=$!
        until grep -q listening "$said" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        ! grep -q listening "$said" || break # else somebody has the port
    done
    rm "$said"
    one=$(${client[@]+"${client[@]}"} iperf3 -C reno -c $at -p "$port" -t "$IPERF_S" -J | /usr/bin/python3 -c 'import json,sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]/8e9)')
    both=$(${client[@]+"${client[@]}"} iperf3 -C reno -c $at -p "$port" -t "$IPERF_S" --bidir -J | /usr/bin/python3 -c 'import json,sys; e=json.load(sys.stdin)["end"]; print((e["sum_received"]["bits_per_second"]+e["sum_received_bidir_reverse"]["bits_per_second"])/8e9)')
    kill "$pid"
    wait "$pid" 2>/dev/null || :
    max "$one" "$both" | awk '{ printf "%.3f", $1 }'
}

# GB/s that N processes copy at once, each between two buffers of MB: what shared memory is
# compared with.
copy_gbs() { # N MB SECONDS
    local i pids=() said
    said=$(mktemp)
    for ((i = 0; i < $1; i++)); do
        "$PS" copy "$2" "$3" >>"$said" &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i"; done
    awk '{ s += $3 } END { printf "%.3f", s }' "$said"
    rm "$said"
}
