#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The launcher's connections are cut while a job runs: it goes on, no line is lost or doubled; what does not come back in time ends
# the job, with the host and the reasons.
# release only (what is measured here is time: leases, and who is back before they are over)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl proxy=$TOP/tests/support/cut-proxy px=$TMP/px
ssh_hosts 2
# shellcheck disable=SC2046
start proxy "$proxy" serve "$px" $(tr -d , <"$fx/hosts" | tr ' ' '\n' | sed 's/.*@//')
wait_for 20 "the proxy" test -f "$px/ports"
tell() { "$proxy" tell "$px" "$@" >/dev/null || die "proxy: $*"; }
# The host keys stay, the addresses are the proxy's.
i=0 hosts=
while read -r at; do
    echo "[${at%:*}]:${at#*:} $(cut -d' ' -f1,2 "$fx/sshd.$i/host_key.pub")" >>"$fx/known_hosts"
    hosts="$hosts${hosts:+, }$(id -un)@$at"
    i=$((i + 1))
done <"$px/ports"
mkdir -p "$TMP/ws"
cat >"$TMP/ws/train.py" <<'END'
import os, sys, time
n, who = int(os.environ["MY_LINES"]), os.environ["PADDLE_TRAINER_ID"]
for i in range(n):
    print("line %d of trainer %s %s" % (i, who, "x" * 100), flush=i % 100 == 0)
    if i % 100 == 0:
        time.sleep(0.04)
with open(os.environ["PADDLE_OUTPUT_DIR"] + "/big." + who, "wb") as f:
    f.write(os.urandom(int(os.environ.get("MY_BYTES", "1000"))))
END
sed "s/^hosts = .*/hosts = $hosts/" "$fx/conf.ini" >"$TMP/conf.ini"
cp "$TOP/tests/support/own-server.py" "$TMP/ws/"
cat >>"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
trainer_command = exec /usr/bin/python3 train.py
pserver_command = exec /usr/bin/python3 own-server.py
attach_lease = 8
[cluster]
pservers = 1
port = $((10000 + RANDOM % 10000))
END
cd "$TMP" || die cd
# conf NAME LINES BYTES: how many lines each trainer prints, how many bytes it leaves as its output
conf() { { cat conf.ini; printf '[env]\nMY_LINES = %d\nMY_BYTES = %d\n' "$2" "$3"; } >"$1.ini"; }
# all_lines FILE N: each trainer's lines 0..N-1, once and in order
all_lines() {
    for t in 0 1; do
        grep -o "line [0-9]* of trainer $t " "$1" | cut -d' ' -f2 |
            numbered 0 "$2" "lines of trainer $t"
    done
}
ended() { # ended STATUS NAME: the run in the background; its output in $OUT, without the trainers' lines
    wait "$PID"
    local status=$?
    OUT=$(grep -v '| line' "$2.log")
    [ $status -eq "$1" ] || die "status $status, not $1: $OUT"
}

# --- the connections are cut again and again while the job writes, and once nothing passes and nothing says so
conf cuts 48000 1000
start cuts "$ctl" run --conf=cuts.ini
wait_for 60 "lines" grep -q 'line 100 of' cuts.log
for i in 0 1 0 1 all; do
    tell reset $i
    sleep 0.3
done
tell hang 1
wait_for 20 "a silent connection is noticed" grep -q 'nothing was heard' cuts.log
tell pass 1
ended 0 cuts
all_lines cuts.log 48000
has "; connecting again"
has ": connected again"

# --- an agent stands still, but its host acknowledges what is sent to it: the connection is kept. Without
# that it would be cut after 8 s.
conf busy 8000 1000
start busy "$ctl" run --conf=busy.ini --attach_lease=20
wait_for 60 "lines" grep -q 'line 100 of' busy.log
agent=$(cat "$fx"/node1/root/JOB*/.agent/pid)
kill -STOP "$agent"
sleep 10
kill -CONT "$agent"
ended 0 busy
all_lines busy.log 8000
has_not "nothing was heard"

# --- paddlectl gets the CPU only now and then, as on a machine that is overloaded: each time it renews the
# lease. With a ping every second time, it would be silent for 6.7 s.
conf starved 24000 1000
start starved "$ctl" run --conf=starved.ini --attach_lease=6
wait_for 60 "lines" grep -q 'line 100 of' starved.log
for _ in 1 2 3; do
    kill -STOP "$PID"
    sleep 3.3
    kill -CONT "$PID"
    sleep 0.1
done
ended 0 starved
all_lines starved.log 24000

# --- cut in the middle of the outputs: they are fetched again
conf outputs 10 3000000
tell limit 1 2400000
expect 0 "$ctl" run --conf=outputs.ini
has "connected again"
[ "$(stat -c %s output/latest/big.0 output/latest/big.1 | tr '\n' ' ')" = "3000000 3000000 " ] || die "outputs: $(ls -l output/latest)"
[ -z "$(find output -name '.*' ! -name .files)" ] || die "left: $(find output)"

# --- cut in the middle of the workspace, on its way to a host: it is sent again, once
head -c 3000000 /dev/urandom >ws/big
conf package 10 0
tell limit 0 1500000 up
expect 0 "$ctl" run --conf=package.ini --relay=off
has "connected again"
has "line 9 of trainer 0 "
rm ws/big

# --- a host that does not come back within the lease ends the job: since when, and why
conf gone 1000000 0
start gone "$ctl" run --conf=gone.ini --attach_lease=3
wait_for 60 "lines" grep -q 'line 100 of' gone.log
tell refuse 1
ended 1 gone
has "the connection was lost at "
has "and not made again in "
has "cannot connect to port"
tell pass 1
wait_for 20 "nothing is left" "$fixture" left "$fx"
exit 0
