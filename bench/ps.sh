# ps.sh - what the benchmarks of the parameter server share; sourced.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
make --no-print-directory -s bench-programs 2>/dev/null || make bench-programs
PS=build/release/bench/ps ROUNDS=${ROUNDS:-3} IPERF_S=${IPERF_S:-2}

max() { awk -v a="$1" -v b="$2" 'BEGIN { print (a > b) ? a : b }'; }
min() { awk -v a="$1" -v b="$2" 'BEGIN { print (a < b) ? a : b }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
line() { echo "bench $1 ratio $2 target $3 peer \"$4\" ours $5 theirs $6"; } # NAME RATIO TARGET PEER OURS THEIRS

# A port that nobody has, for a peer that can't look for one.
free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# GB/s between two processes on 127.0.0.1, both directions together; what iperf3 does better, both at once or one.
iperf_gbs() {
    local port pid one both said
    said=$(mktemp)
    for port in $(shuf -i 20000-30000 -n 10); do
        iperf3 -s -p "$port" --forceflush >"$said" 2>&1 &
        pid=$!
        until grep -q listening "$said" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        ! grep -q listening "$said" || break # else somebody has the port
    done
    rm "$said"
    one=$(iperf3 -c 127.0.0.1 -p "$port" -t "$IPERF_S" -J | /usr/bin/python3 -c 'import json,sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]/8e9)')
    both=$(iperf3 -c 127.0.0.1 -p "$port" -t "$IPERF_S" --bidir -J | /usr/bin/python3 -c 'import json,sys; e=json.load(sys.stdin)["end"]; print((e["sum_received"]["bits_per_second"]+e["sum_received_bidir_reverse"]["bits_per_second"])/8e9)')
    kill "$pid"
    wait "$pid" 2>/dev/null || :
    max "$one" "$both" | awk '{ printf "%.3f", $1 }'
}
