#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 8 trainers + 8 pservers against 2 + 2: do the bytes a second hold?
#
# ps_many-shm, -tcp: 8 + 8 over 2 + 2 with the same transport: all on this machine, or the pservers
# in one network namespace and the trainers in another. ps_many-shm-copy, -tcp-iperf3: 8 + 8 over
# what memcpy moves (a process for each core, at once; 64 MB, since the models do not fit a cache
# either) and iperf3 between the same namespaces. GB/s of both directions; rounds alternate, the best
# of each counts. FOR_S=3 seconds a measurement, ROUNDS=3.
. "$(dirname "$0")/lib/ps.sh"
GROUP=build/release/bench/ps_group FOR_S=${FOR_S:-3}
group() { "$GROUP" "$1" 16 "$FOR_S" | awk '{print $8}'; } # N: GB/s
few=0 many=0 copy=0 tcp_few=0 tcp_many=0 iperf=0 link=yes
link_up || link=
for ((i = 0; i < ROUNDS; i++)); do
    a=$(group 2) b=$(group 8) c=$(copy_gbs "$(nproc)" 64 "$FOR_S")
    echo "shared memory: 2 + 2 $a GB/s   8 + 8 $b GB/s   memcpy $c GB/s"
    few=$(max "$few" "$a") many=$(max "$many" "$b") copy=$(max "$copy" "$c")
    [ -n "$link" ] || continue
    a=$(BENCH_LINK=$LINK group 2) b=$(BENCH_LINK=$LINK group 8) c=$(iperf_gbs link)
    echo "TCP: 2 + 2 $a GB/s   8 + 8 $b GB/s   iperf3 $c GB/s"
    tcp_few=$(max "$tcp_few" "$a") tcp_many=$(max "$tcp_many" "$b") iperf=$(max "$iperf" "$c")
done
line ps_many-shm "$(ratio "$many" "$few")" '>=0.70' "2 trainers + 2 pservers, shared memory" "$many GB/s" "$few GB/s"
line ps_many-shm-copy "$(ratio "$many" "$copy")" '>=0.80' "memcpy, $(nproc) processes at once" "$many GB/s" "$copy GB/s"
[ -n "$link" ] || { no_tcp ps_many-tcp; exit 0; }
line ps_many-tcp "$(ratio "$tcp_many" "$tcp_few")" '>=0.70' "2 trainers + 2 pservers, TCP" "$tcp_many GB/s" "$tcp_few GB/s"
line ps_many-tcp-iperf3 "$(ratio "$tcp_many" "$iperf")" '>=0.80' "iperf3, the better of --bidir and one way, same namespaces" "$tcp_many GB/s" "$iperf GB/s"
