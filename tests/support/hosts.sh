# SPDX-License-Identifier: Apache-2.0
# hosts.sh - sourced after lib.sh: the nodes of a test, which are removed at its end.
#
#   ssh_hosts N             N sshds on 127.0.0.x (sshd-fixture, with its SSHD_FIXTURE_* variables);
#                           all files in $fx: conf.ini, hosts, node0..
#   net_hosts N [RATE...]   N machines in network namespaces (netns-fixture); all files in $ns:
#                           conf.ini, hosts
#   local_nodes N [NAME]    prints a [cluster] section of N nodes on this machine, with root_dirs
#                           $TMP/NAME0.. (node0..)
#
# $fixture is the program that made the hosts. If hosts can't be made, the test is skipped with the
# reason. A test that defines its own on_cleanup must call hosts_end there.
fx=$TMP/fx ns=$TMP/ns fixture=

hosts_end() {
    case $fixture in
    */sshd-fixture) "$fixture" stop "$fx" ;;
    */netns-fixture) [ ! -f "$ns/name" ] || "$fixture" stop "$ns" ;;
    esac
}
on_cleanup() { hosts_end; }

ssh_hosts() {
    [ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
    unset SSH_AUTH_SOCK
    fixture=$TOP/tests/support/sshd-fixture
    "$fixture" start "$fx" "$1" || die "no ssh hosts"
}

net_hosts() {
    local out rc
    fixture=$TOP/tests/support/netns-fixture
    out=$("$fixture" start "$ns" "$@")
    rc=$?
    [ $rc -ne 77 ] || skip "${out#skip: }"
    [ $rc -eq 0 ] || die "no namespaces: $out"
}

local_nodes() {
    printf '%s\n' '[cluster]' "hosts = local*$1" "root_dir = $TMP/${2:-node}%n" "port = $((10000 + RANDOM % 10000))"
}
