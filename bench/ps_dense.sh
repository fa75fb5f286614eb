#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 64 MB of dense values, 1 + 1: how near are shared memory to memcpy and TCP to iperf3?
#
# ps_dense-shm: both on this machine, so the bytes lie in memory that both map. The gradients are lent:
# the server reads them in place. The peer is memcpy, one process for each core at once.
# ps_dense-tcp: the server and the trainer in two network namespaces, where they have TCP only, as has
# iperf3 between the same two. GB/s of both directions together; rounds alternate, the median of
# each counts. MB=64, FOR_S=3 seconds a measurement, IPERF_S=2, ROUNDS=3.
. "$(dirname "$0")/lib/ps.sh"
MB=${MB:-64} FOR_S=${FOR_S:-3}
shm=() copy=() tcp=() iperf=() link=yes
link_up || link=
for ((i = 0; i < ROUNDS; i++)); do
    a=$("$PS" dense "$MB" "$FOR_S" | awk '{print $3}') b=$(copy_gbs "$(nproc)" "$MB" "$FOR_S")
    echo "shared memory $a GB/s   memcpy $b GB/s"
    shm+=("$a") copy+=("$b")
    [ -n "$link" ] || continue
    a=$(BENCH_LINK=$LINK "$PS" dense "$MB" "$FOR_S" | awk '{print $3}') b=$(iperf_gbs link)
    echo "TCP $a GB/s   iperf3 $b GB/s"
    tcp+=("$a") iperf+=("$b")
done
shm=$(median "${shm[@]}") copy=$(median "${copy[@]}")
line ps_dense-shm "$(ratio "$shm" "$copy")" '>=0.80' "memcpy, $(nproc) processes at once" "$shm GB/s" "$copy GB/s"
[ -n "$link" ] || { no_tcp ps_dense-tcp; exit 0; }
tcp=$(median "${tcp[@]}") iperf=$(median "${iperf[@]}")
line ps_dense-tcp "$(ratio "$tcp" "$iperf")" '>=0.80' "iperf3, the better of --bidir and one way, same namespaces" "$tcp GB/s" "$iperf GB/s"
