#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl check on hosts of their own that all have 172.17.0.1 (docker's bridge) and 127.0.1.1: no address that means another
# machine passes, and a way that is cut between two nodes, which no log-in from here shows, is found.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
net_hosts 4
hosts_of() { grep -- '-n[0-9]*$' "$ns/namespaces"; }
for h in $(hosts_of); do
    ip -n "$h" link add docker0 type bridge || die "no docker0 in $h"
    ip -n "$h" addr add 172.17.0.1/16 dev docker0 && ip -n "$h" addr add 127.0.1.1/8 dev lo || die "addresses of $h"
    ip -n "$h" link set docker0 up
done
check() { "$fixture" exec "$ns" "$ctl" check --verbose --conf="$ns/conf.ini" "$@"; }

expect 0 check
for i in 1 2 3 4; do [[ $OUT =~ 10\.77\.0\.$i\ .*\ at\ 10\.77\.0\.$i, ]] || die "$OUT"; done

# node 0 finds no way to node 1, and itself behind 172.17.0.1
ip -n "$(hosts_of | head -1)" route add blackhole 10.77.0.2/32 || die "no blackhole"
expect 3 check
has "1 of 2 nodes that tried could not reach it: 10.77.0.1 (10.77.0.2 port "
has "1 unusable"
[[ $OUT =~ 10\.77\.0\.2\ +UNUSABLE ]] || die "$OUT"
expect 3 check --nic=docker0
has "4 unusable"
has " answers at 172.17.0.1)"
# the ports are as free as before, also right after the probes
for i in 1 2 3 4; do [[ $OUT =~ 10\.77\.0\.$i\ .*,\ ports\ 7164\ 7165, ]] || die "$OUT"; done
exit 0
