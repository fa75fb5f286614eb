#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests' own ssh hosts: they end also when their folder is reached through a link, a second start ends those of the first,
# a sourced fixture leaves the caller's variables alone, and root may log in although its password is locked.
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
unset SSH_AUTH_SOCK
fixture=$TOP/tests/support/sshd-fixture
mkdir "$TMP/real"
ln -s real "$TMP/link"
fx=$TMP/link/fx
on_cleanup() { "$fixture" stop "$fx"; }

pids() { cat "$TMP"/real/fx/sshd.*/pid; }
all_run() { for p in $1; do kill -0 "$p" || die "$p does not run"; done; }
# A process that nobody waits for stays as a zombie where process 1 does not care.
gone() { ! kill -0 "$1" 2>/dev/null || grep -qs '^State:.*Z' "/proc/$1/status"; }
all_gone() { # twice: a zombie may be taken away between the two looks
    for p in $1; do gone "$p" || gone "$p" || die "$p runs still: $(ps -o args= -p "$p")"; done
}
login() { # login COMMAND: on the first host
    local host
    host=$(cut -d, -f1 "$fx/hosts")
    ssh -F none -o BatchMode=yes -o UserKnownHostsFile="$fx/known_hosts" -i "$fx/client_key" -p "${host##*:}" "${host%:*}" "$1"
}

# --- through a link
"$fixture" start "$fx" 2 || die "no ssh hosts"
first=$(pids)
all_run "$first"
expect 0 login 'echo "home $HOME"'
has "home $(readlink -f "$fx")/node0/home"
(cd "$fx/node1" && exec sleep 100) &
PIDS+=($!)
wait_for 60 "the process below the folder is seen" bash -c "! '$fixture' left '$fx'"
kill $!
wait $! 2>/dev/null
"$fixture" left "$fx" || die "left"
"$fixture" start "$fx" 2 || die "no second start"
all_gone "$first"
second=$(pids)
[ "$(wc -w <<<"$second")" = 2 ] || die "not two: $second"
"$fixture" stop "$fx"
all_gone "$second"
"$fixture" stop "$TMP/nowhere" || die "a folder that is not there has nothing to stop"
[ ! -e "$TMP/nowhere" ] || die "stop made a folder"

# --- sourced
(
    cd "$TMP/link" || exit
    d=1 p=2 f=3 l=4 n=5
    . "$fixture"
    sshd_fixture_start fx 1 || exit
    sshd_fixture_left fx
    sshd_fixture_stop fx
    [ "$d$p$f$l$n" = 12345 ] || { echo "changed: $d$p$f$l$n"; exit 1; }
) || die "sourced"

# --- a locked password of root
[ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || { echo "not tested here: a locked password (needs root)"; exit 0; }
sed 's/^root:[^:]*/root:!/' /etc/shadow >"$TMP/shadow"
chmod 600 "$TMP/shadow"
mkdir "$TMP/no_pam"
locked() { unshare -m sh -c 'mount --bind "$1/shadow" /etc/shadow && '"$1" sh "$TMP" "$fixture" "$fx"; }
if [ -f /etc/pam.d/sshd ]; then
    locked '"$2" start "$3" 1' || die "no ssh host"
    expect 0 login 'echo in'
    has in
    "$fixture" stop "$fx"
fi
if [ -d /etc/pam.d ]; then
    expect 1 locked 'mount --bind "$1/no_pam" /etc/pam.d && "$2" start "$3" 1'
    has "root's password is locked"
fi
exit 0
