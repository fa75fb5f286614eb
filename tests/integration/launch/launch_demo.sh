#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make demo` runs with each ENGINE, on a little of the text: to its end, and interrupted in the
# middle. Nothing stays, and a stop looks like none of its processes had failed.
# release only (launch_job and slurm run with sanitizers)
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
[ -r /usr/share/wordnet/data.noun ] || skip "wordnet-base is not installed"
unset SSH_AUTH_SOCK
export TMP DEMO_DIR=$TMP/demo DEMO_SHARE=0.02 DEMO_PASSES=1 PADDLE_BUILD=$BIN
demo=$TOP/tests/support/demo fixture=$TOP/tests/support/sshd-fixture
slurm=$TOP/tests/support/engines/slurm-fixture
. "$TOP/tests/support/engines/mpi.sh"
on_cleanup() {
    [ ! -d "$TMP/demo/hosts" ] || "$fixture" stop "$TMP/demo/hosts"
    "$slurm" stop "$TMP/demo/slurm"
}

engines=(ssh)
without=$(mpi_missing | head -n 1)
[[ $BIN != */san-* ]] || without="the agent with sanitizers is too large for mpirun's command line"
if [ -z "$without" ]; then engines+=(mpi); else echo "skipped: $without"; fi
if without=$("$slurm" start "$TMP/demo/slurm" 1); then
    engines+=(slurm)
    "$slurm" stop "$TMP/demo/slurm"
else
    echo "skipped: ${without#skip: }"
fi
for engine in "${engines[@]}"; do
    expect 0 "$demo" "$engine"
    has "on 3 nodes"
    has "Test after pass 1/"
    has "./pass-00000/manifest.json"
    has "all processes are gone, all ports are closed"
    [ "$engine" = ssh ] || grep -q "^engine = $engine" "$TMP/demo/conf.ini" || die "$OUT"
done
expect 2 "$demo" rsh
has "ENGINE is ssh, slurm or mpi, not 'rsh'"

# The recording of README.md: frames of a real run, in a file that an XML parser reads
expect 0 "$TOP/tests/support/documents/record.py" "$TMP/run.svg" --share=0.02
has " frames, "
for f in "$TMP/run.svg" "$TOP/docs/demo.svg"; do
    OUT=$(/usr/bin/python3 -c 'import sys, xml.etree.ElementTree as x
print("\n".join(t.text for t in x.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}text")))' "$f") ||
        die "$f is not XML"
    has "$ paddlectl run"
    has "paddlectl | model: output/JOB"
done

export DEMO_SHARE=1 DEMO_PASSES=100
for how in "${engines[@]/%/ INT}" "ssh TERM"; do
    engine=${how% *} sig=${how#* }
    : >"$TMP/demo.log"
    # a new session, with SIGINT as a terminal leaves it: a background job of a script would ignore it
    setsid env --default-signal=INT "$demo" "$engine" >"$TMP/demo.log" 2>&1 </dev/null &
    pid=$!
    PIDS+=("$pid")
    # One that has ended is not waited for: it says why.
    wait_for 180 "it trains" bash -c "grep -q 'progress | pass 1' '$TMP/demo.log' || ! kill -0 $pid"
    grep -q 'progress | pass 1' "$TMP/demo.log" || die "it ended before it trained: $(tail -20 "$TMP/demo.log")"
    kill -$sig "$pid"
    wait "$pid"
    status=$?
    OUT=$(cat "$TMP/demo.log")
    [ $status = 130 ] || die "$engine: status $status after SIG$sig: $OUT"
    has "was stopped"
    has "all processes are gone, all ports are closed"
    # A healthy stop is no trouble to anybody, on the screen or in the nodes' logs. (A wait of 10 s is told: on a machine that is busy.)
    troubles=$({ grep -E '\| [WE][0-9]{4} ' "$TMP/demo.log"; grep -E '^[WE]' "$TMP"/demo/hosts/node*/root/JOB*/log/paddle_{pserver,trainer}.INFO; } |
        grep -vE ', for [0-9]+ s')
    [ -z "$troubles" ] || die "$engine: warnings after SIG$sig: $troubles"
done
exit 0
