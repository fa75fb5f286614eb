#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job on three hosts with addresses, file systems and processes of their own (network namespaces), and one that is cut off.
# both
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
net_hosts 3
mkdir -p "$TMP/ws"
cp "$TOP/tests/support/own-server.py" "$TMP/ws/"
cat >"$TMP/ws/train.sh" <<'END'
#!/bin/sh
echo "trainer $PADDLE_TRAINER_ID on $(hostname) at $POD_IP, servers $PADDLE_PSERVERS_IP_PORT_LIST"
echo "$PADDLE_TRAINER_ID" >"$PADDLE_OUTPUT_DIR/from.$PADDLE_TRAINER_ID"
for i in $(seq "${MY_LINES:-0}"); do
    echo "line $i of $PADDLE_TRAINER_ID"
    sleep 0.1
done
[ -z "${MY_WAIT:-}" ] || exec sleep 1000
END
chmod +x "$TMP/ws/train.sh"
cat "$ns/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
trainer_command = ./train.sh
pserver_command = /usr/bin/python3 own-server.py
attach_lease = 2
END
cd "$TMP" || die cd
none_left() { [ -z "$("$fixture" pids "$ns")" ]; }

expect 0 "$fixture" exec "$ns" "$ctl" run --conf=conf.ini
for i in 0 1 2; do
    has "trainer $i on node$i at 10.77.0.$((i + 1)), servers 10.77.0.1:7164,10.77.0.2:7164,10.77.0.3:7164"
    [ -f output/latest/from.$i ] || die "no output of node $i: $(find output)"
done
wait_for 60 "nothing is left on the hosts" none_left

# A host that is cut off and comes back within the lease: nothing says so but silence; the job goes on, with every line.
comes_back() {
    { cat conf.ini; printf '[env]\nMY_LINES = 100\n'; } >back.ini
    start back "$fixture" exec "$ns" "$ctl" run --conf=back.ini --attach_lease=9
    wait_for 30 "lines" grep -q 'line 5 of 1' back.log
    "$fixture" cut "$ns" 1
    wait_for 20 "the silence is noticed" grep -q '10.77.0.2: nothing was heard' back.log
    "$fixture" join "$ns" 1
    wait "$PID" || die "a host that came back: $(cat back.log)"
    for i in 0 1 2; do
        grep -o "line [0-9]* of $i" back.log | cut -d' ' -f2 | numbered 1 100 "lines of trainer $i"
    done
    OUT=$(cat back.log)
    has "10.77.0.2: connected again"
}
case $BIN in *san*) ;; *) comes_back ;; esac # a sanitizer's slowness would only be measured against the lease

# A host that is cut off while the job runs: it is named, the job fails, nothing stays anywhere.
printf '[env]\nMY_WAIT = 1\n' >>conf.ini
start run "$fixture" exec "$ns" "$ctl" run --conf=conf.ini
wait_for 30 "three trainers" bash -c "[ \$(grep -c ' servers ' run.log) = 3 ]"
"$fixture" cut "$ns" 1
t=$SECONDS
wait "$PID"
status=$?
OUT=$(cat run.log)
[ $status = 1 ] || die "status $status: $OUT"
[ $((SECONDS - t)) -lt 40 ] || die "it took $((SECONDS - t)) s"
has "10.77.0.2"
wait_for 70 "nothing is left, on the host that was cut off either" none_left
exit 0
