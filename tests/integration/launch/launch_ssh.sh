#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ways to a host, with the program itself: jump hosts, ~/.ssh/config, locked keys at a terminal, an agent with too many keys,
# names with several addresses, link-local IPv6.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
unset SSH_AUTH_SOCK SSH_ASKPASS
ctl=$BIN/paddlectl
on_cleanup() {
    hosts_end
    [ -z "${SSH_AGENT_PID:-}" ] || kill "$SSH_AGENT_PID"
}
# servers that take none of the key exchanges that we like best
SSHD_FIXTURE_CONFIG=$'MaxAuthTries 2\nKexAlgorithms diffie-hellman-group14-sha256' ssh_hosts 3
hosts=$(cat "$fx/hosts") first=${hosts%%,*} rest=${hosts#*, }
third=${hosts##*, }
x() { "$ctl" exec --conf="$fx/conf.ini" "$@"; }
logins() { grep -c 'Accepted publickey' "$fx/sshd.$1/log"; }

# --- jump hosts: one connection, for all; a dead one is named, quickly, once for all the hosts behind it
expect 0 x --hosts="$rest" --proxy_jump="$first" 'echo $SSH_CONNECTION | cut -d" " -f1'
has "127.0.0.[2-3]: 127.0.0."
[ "$(logins 0)" = 1 ] || die "$(logins 0) log-ins at the jump host"
expect 0 x --hosts="$third" --proxy_jump="$first, ${rest%%,*}" hostname
expect 255 x --hosts="$rest" --proxy_jump="${first%:*}:1" true
has "jump host ${first%:*}:1: cannot connect to port 1: Connection refused"
printf '[ssh]\nproxy_jump = %s\nidentity_file = %s\nknown_hosts = %s\nconfig = /dev/null\n[cluster]\nhosts = %s\n' \
    "$first" "$fx/client_key" "$fx/known_hosts" "$rest" >"$TMP/jump.ini"
expect 0 "$ctl" exec --conf="$TMP/jump.ini" echo through
[ "$OUT" = "127.0.0.[2-3]: through" ] || die "$OUT"

# --- ~/.ssh/config, and what of it is not followed
cat >"$TMP/config" <<END
Host n?
    HostName 127.0.0.1
    Port ${first##*:}
    User $(id -un)
    IdentityFile $fx/client_key
    UserKnownHostsFile $fx/known_hosts
    Ciphers aes128-ctr
END
printf '[ssh]\nconfig = %s\n[cluster]\nhosts = n[1-9]\n' "$TMP/config" >"$TMP/names.ini"
expect 0 "$ctl" exec --conf="$TMP/names.ini" echo by name
has "n[1-9]: by name"
has "warning: $TMP/config:7: ciphers is not followed"
[ "$(grep -c warning <<<"$OUT")" = 1 ] || die "$OUT"
echo "Nonsense yes" >>"$TMP/config"
expect 255 "$ctl" exec --conf="$TMP/names.ini" true
has "line 8: Bad configuration option: nonsense"

# --- unknown and changed host keys say what helps, and it does
: >"$TMP/empty"
expect 255 x --known_hosts="$TMP/empty" --hosts="$first" true
has "SHA256:"
command=$(sed -n 's/.*log in once: \(ssh .*\), or take.*/\1/p' <<<"$OUT")
$command -i "$fx/client_key" -F none -o BatchMode=yes -o StrictHostKeyChecking=accept-new true || die "'$command' does not help: $OUT"
expect 0 x --known_hosts="$TMP/empty" --hosts="$first" true

# --- a private key that others may read is not used, as with ssh
cp "$fx/client_key" "$TMP/open_key" && chmod 640 "$TMP/open_key"
expect 255 x --hosts="$first" --identity_file="$TMP/open_key" true
has "$TMP/open_key (not used: mode 0640 is too open: 'chmod 600'"
chmod 600 "$TMP/open_key"
expect 0 x --hosts="$first" --identity_file="$TMP/open_key" true

# --- a locked key: asked for once, at a terminal, nothing of it shown; Ctrl-C at the question leaves a terminal that echoes
ssh-keygen -q -t ed25519 -N 'open sesame' -f "$TMP/locked"
cat "$TMP/locked.pub" >>"$fx/authorized_keys"
expect 255 setsid -w "$ctl" exec --conf="$fx/conf.ini" --identity_file="$TMP/locked" true </dev/null
has "locked (there is no terminal to ask on); the server offers: publickey"
if [ -x /usr/bin/python3 ]; then
    cat >"$TMP/person.py" <<'END'
import os, sys, termios
sys.path.insert(0, sys.argv[1])
from screen import Screen
def echoes(s): return bool(termios.tcgetattr(s.master)[3] & termios.ECHO)
command = sys.argv[2:]
s = Screen(command, cols=200)
s.until(lambda: b"Passphrase for" in s.raw, "the question")
assert not echoes(s)
os.write(s.master, b"open sesame\n")
assert s.wait() == 0, s
assert b"127.0.0.[1-3]: in" in s.raw and s.raw.count(b"Passphrase for") == 1 and b"sesame" not in s.raw, s
s = Screen(command, cols=200)
s.until(lambda: b"Passphrase for" in s.raw, "the question")
assert not echoes(s)
os.write(s.master, b"\x03")
status = s.wait()
assert status == 130 and echoes(s), (status, echoes(s), s.raw)
END
    expect 0 /usr/bin/python3 "$TMP/person.py" "$TOP/tests/support" "$ctl" exec --conf="$fx/conf.ini" --identity_file="$TMP/locked" echo in
fi

# --- an agent with more keys than the server has patience: IdentitiesOnly picks the right one
eval "$(ssh-agent -s)" >/dev/null
for i in 1 2 3; do
    ssh-keygen -q -t ed25519 -N '' -f "$TMP/other$i"
    ssh-add -q "$TMP/other$i"
done
ssh-add -q "$fx/client_key"
mkdir "$TMP/pub"
cp "$fx/client_key.pub" "$TMP/pub/key.pub"
cat >"$TMP/agent_config" <<END
Host *
    IdentityFile $TMP/pub/key
    IdentitiesOnly yes
END
agent() { "$ctl" exec --conf="$fx/conf.ini" --identity_file= --ssh.config="$1" echo by agent; }
expect 0 agent "$TMP/agent_config"
has "127.0.0.[1-3]: by agent"
sed -i 's/IdentitiesOnly yes/IdentitiesOnly no/' "$TMP/agent_config"
expect 255 agent "$TMP/agent_config"
has "Too many authentication failures"
printf 'IdentityFile %s\n' "$TMP/other1" "$TMP/other2" "$TMP/other3" "$fx/client_key" >"$TMP/agent_config"
SSH_AUTH_SOCK= expect 255 agent "$TMP/agent_config"
has "Too many authentication failures"

# --- as root: a name whose first address does not answer; an address with a scope
[ "$(id -u)" = 0 ] && unshare -mn true 2>/dev/null || { echo "not tested here: several addresses, scopes (needs root)"; exit 0; }
cat >"$TMP/inside.sh" <<'END'
set -e
ip link set lo up
ip link add d0 type veth peer name d1
ip addr add 10.9.9.1/24 dev d0
ip link set d0 up; ip link set d1 up
{ cat /etc/hosts; echo "10.9.9.99 twin"; echo "127.0.0.1 twin"; } >"$1/etc_hosts"
mount --bind "$1/etc_hosts" /etc/hosts
# (the resolver would put the other one first)
printf 'precedence ::ffff:10.9.9.99/128 100\nprecedence ::/0 40\nprecedence ::ffff:0:0/96 10\n' >"$1/gai.conf"
[ -e /etc/gai.conf ] && mount --bind "$1/gai.conf" /etc/gai.conf
getent ahosts twin | head -1
if [ -e /proc/sys/net/ipv6 ]; then
    ip -6 addr add fe80::77/64 dev d0 nodad
    export SSHD_FIXTURE_CONFIG='ListenAddress fe80::77%d0'
fi
"$3" start "$1/in" 1
trap '"$3" stop "$1/in"' EXIT
port=$(sed 's/.*://' "$1/in/hosts")
x() { "$2" exec --conf="$1/in/conf.ini" --host_key_policy=accept-new --known_hosts="$1/known" --connect_timeout=6 --hosts="$4" echo in; }
x "$1" "$2" "$3" "twin:$port"
[ ! -e /proc/sys/net/ipv6 ] || x "$1" "$2" "$3" "[fe80::77%d0]"
END
expect 0 unshare -mn sh "$TMP/inside.sh" "$TMP" "$ctl" "$fixture"
has "twin: in"
[ ! -e /proc/sys/net/ipv6 ] || has "fe80::77%d0: in"
exit 0
