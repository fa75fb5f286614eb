#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# [host ...] sections, groups and files of hosts on real ssh hosts: each key does what it says, in run and in dispatch.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
ctl=$BIN/paddlectl
ssh_hosts 2
IFS=', ' read -r first second <"$fx/hosts"
user=${first%@*} first=${first#*@} second=${second#*@}
ssh-keygen -q -t ed25519 -N '' -f "$TMP/other"
mkdir -p "$TMP/ws"
cat >"$TMP/ws/train.sh" <<'SH'
#!/bin/sh
echo "node $PADDLE_NODE_ID: ALL=$ALL OWN=$OWN"
pwd
SH
cp "$TOP/tests/support/own-server.py" "$TMP/ws/"
chmod +x "$TMP/ws/train.sh"
# names that resolve nowhere, a key that is let in nowhere: only the sections make it work
cat >"$TMP/conf.ini" <<END
[cluster]
hosts = @both
root_dir = /proc/nope
[groups]
both = @more.txt, two.invalid
[host *.invalid]
user = $user
identity_file = fx/client_key
root_dir = $fx/node0/root
env.OWN = one
[host one.invalid]
address = ${first%:*}
port = ${first#*:}
[host two.invalid]
address = ${second%:*}
port = ${second#*:}
root_dir = $fx/node%n/root
env.ALL = replaced
env.OWN = two
[ssh]
identity_file = other
known_hosts = $fx/known_hosts
config = /dev/null
[job]
job_dispatch_package = ws
trainer_command = ./train.sh
pserver_command = sleep 100
[env]
ALL = all
END
echo "one.invalid  # the first" >"$TMP/more.txt"
cd "$TMP" || die cd

expect 0 "$ctl" conf --nodes
[ "$OUT" = "0	one.invalid	$user@${first%:*}:${first#*:}	$fx/node0/root	pserver.0,trainer.0
1	two.invalid	$user@${second%:*}:${second#*:}	$fx/node1/root	pserver.1,trainer.1" ] || die "$OUT"
expect 0 "$ctl" conf --json
has '"env.ALL": "conf.ini:'
has '"root_dir": "'"$fx/node1/root"

# dispatch to folders that differ; its answer is relative to them
expect 0 "$ctl" dispatch
last_line
[[ $OUT == workspaces/ws-* ]] || die "$OUT"
for n in 0 1; do [ -x "$fx/node$n/root/$OUT/train.sh" ] || die "not dispatched to node $n"; done

# a job on both, in that workspace, then in one of its own
conf=(--conf=conf.ini --pservers="nodes 0" --pserver_command="/usr/bin/python3 own-server.py" --port=$((10000 + RANDOM % 10000)))
for workspace in "--job_workspace=$OUT" --; do
    expect 0 "$ctl" run "${conf[@]}" $workspace
    has "one.invalid/trainer | node 0: ALL=all OWN=one"
    has "two.invalid/trainer | node 1: ALL=replaced OWN=two"
    wait_for 60 "no process is left" "$fixture" left "$fx"
done
has "one.invalid/trainer | $fx/node0/root/JOB"
has "two.invalid/trainer | $fx/node1/root/JOB"

# the command line's word is the last
expect 3 "$ctl" dispatch --identity_file=other
has "one.invalid,two.invalid: authentication failed"
expect 0 "$ctl" dispatch --root_dir="$fx/node%n/elsewhere"
last_line
[[ $OUT == "$fx/node%n/elsewhere/workspaces/ws-"* ]] || die "$OUT"

# a key that is not there is told with its line, before anything is done
sed -i 's|^identity_file = fx/client_key|identity_file = fx/nope|' conf.ini
expect 2 "$ctl" dispatch
has "conf.ini:8: cannot read the private key "
exit 0
