#!/usr/bin/env bash
# 64 MB of dense values pushed and pulled by one trainer and one pserver, against iperf3 between two processes
. "$(dirname "$0")/ps.sh"
best_ours=0 best_theirs=0
for ((i = 0; i < ROUNDS; i++)); do # alternating: the machine is not always equally busy
    ours=$("$PS" dense 64 "${FOR_S:-3}" | awk '{print $3}')
    theirs=$(iperf_gbs)
    echo "ours $ours GB/s   iperf3 $theirs GB/s (both directions together)"
    best_ours=$(max "$best_ours" "$ours") best_theirs=$(max "$best_theirs" "$theirs")
done
line ps_dense "$(ratio "$best_ours" "$best_theirs")" '>=0.80' "iperf3 --bidir or one way, the better" "$best_ours GB/s" "$best_theirs GB/s"
