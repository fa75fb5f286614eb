#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An interrupted transfer goes on: a cut connection, Ctrl-C, kill -9 of paddlectl, of the agent. The
# bytes that pass through a proxy are counted: the second try sends only what the first did not
# bring. Packages, the executables, data files that are sent apart, and outputs that are fetched.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl proxy=$TOP/tests/support/cut-proxy px=$TMP/px
ssh_hosts 1
root=$fx/node0/root
start proxy "$proxy" serve "$px" "$(sed 's/.*@//' "$fx/hosts")"
wait_for 20 "the proxy" test -f "$px/ports"
read -r at <"$px/ports"
echo "[${at%:*}]:${at#*:} $(cut -d' ' -f1,2 "$fx/sshd.0/host_key.pub")" >>"$fx/known_hosts"
tell() { "$proxy" tell "$px" "$@" || die "proxy: $*"; }
up() { tell bytes 0 | cut -d' ' -f1; }
down() { tell bytes 0 | cut -d' ' -f2; }
cd "$TMP" || die cd
{
    sed "s/^hosts = .*/hosts = $(id -un)@$at/" "$fx/conf.ini"
    printf '[job]\njob_dispatch_package = ws\nrelay = off\n'
} >conf.ini
MB=1000000
size=$((12 * MB))
edit() { # another version of the workspace: nothing of the last one is in it
    rm -rf ws && mkdir -p ws/many
    head -c $((size - 2 * MB)) /dev/urandom >ws/large
    for i in $(seq 40); do head -c 50000 /dev/urandom >"ws/many/$i"; done
}
agents() { # the agents of the host, by pid
    local p exe
    for p in /proc/[0-9]*; do
        { IFS= read -rd '' exe <"$p/cmdline"; } 2>/dev/null && [[ $exe == "$root/.paddlectl/bin/agent-"* ]] &&
            echo "${p#/proc/}"
    done
}
none_run() { [ -z "$(agents)" ]; }
passed() { [ $(($(up) - before)) -ge "$1" ]; }
begin() { # begin TEXT BYTES COMMAND...: in the background; it stands still after these bytes
    before=$(up)
    tell hang 0 "$2" >/dev/null
    start cut "${@:3}"
    wait_for 120 "$1" passed "$2"
}
go_on() { # slowly
    tell pass 0 >/dev/null
    tell delay 0 15 >/dev/null
}
over() { # the first try has ended; $brought: what it sent
    wait "$PID" 2>/dev/null
    wait_for 60 "no agent runs" none_run
    tell pass 0 >/dev/null
    brought=$(($(up) - before))
}
# The proxy held the first try at half of its bytes. Bytes that passed after the interrupt may have
# come too late: up to a buffer of each connection.
less_again() { holds "again < 0.75 * all && again > all / 50" again=$again all="$1"; }
rests() { ls -d "$root"/.paddlectl/chunks/*.tree 2>/dev/null | wc -l; }

edit
expect 0 "$ctl" dispatch # the agent is there
# --- packages
for how in cut ctrl-c kill-paddlectl kill-agent; do
    edit
    begin "$how: half of it" $((size / 2)) "$ctl" dispatch
    case $how in
    cut) tell reset 0 >/dev/null ;;
    ctrl-c) kill -INT "$PID" ;;
    kill-paddlectl) kill -9 "$PID" ;;
    # shellcheck disable=SC2046
    kill-agent) kill -9 $(agents) ;;
    esac
    go_on
    over
    [ ! -d "$root/workspaces/ws-"*".part-"* ] || [ $how = kill-agent ] || die "$how: an unfinished tree"
    before=$(up)
    expect 0 "$ctl" dispatch --json
    again=$(($(up) - before))
    # What was on its way, in sshd and in the agent's window, may come twice.
    less_again $size
    holds "again > all / 50" again=$again all=$size # it was cut before its end
    /usr/bin/python3 - "$again" <<END || die "$how: $OUT"
import json, sys
lines = [json.loads(x) for x in '''$OUT'''.splitlines() if x.startswith("{")]
done = [x for x in lines if x["event"] == "dispatched"][0]
assert $size * 0.2 < done["rest"] <= $size, done
assert done["rest"] + done["sent"] > $size * 0.99, done
assert done["sent"] <= int(sys.argv[1]), done
for x in lines: # counted from the start
    assert x["event"] != "dispatch" or x["have"] >= x["rest"], x
END
    diff -rq ws "$root/workspaces/$(basename "$(sed -n 's/.*"path": *"\([^"]*\)".*/\1/p' <<<"$OUT")")" ||
        die "$how: another workspace"
    [ "$(rests)" = 0 ] || die "$how: $(rests) rests are left"
    echo "$how: $brought bytes, then $again, of $size"
done
# A person sees it
edit
begin "half of it" $((size / 2)) "$ctl" dispatch
kill -INT "$PID"
go_on
over
[ "$(rests)" = 1 ] || die "$(rests) rests"
expect 0 "$ctl" clean --dry-run
[ "$(rests)" = 1 ] || die "a dry run removed it"
expect 0 "$ctl" dispatch
grep -qE 'dispatched 12\.[0-9] MB to 1 node in .* sent from here; an interrupted transfer had left [0-9.]+ MB there' <<<"$OUT" ||
    die "no word of the interrupted transfer: $OUT"
# The limit of the store counts it
edit
begin "half of it" $((size / 2)) "$ctl" dispatch
kill -INT "$PID"
go_on
over
expect 0 "$ctl" clean --store_limit=1M
[ "$(rests)" = 0 ] || die "the limit does not count the rest: $OUT"

# --- data files that are sent apart
# A job whose worker is cut, and one that brings the worker and a little data
mkdir job
tiny_data job/data
tiny_model vocabulary=300 <<<'batch_size = 100' >job/train.ini
sed 's/^job_dispatch_package.*/job_dispatch_package = job/' conf.ini >job.ini
printf '[cluster]\nport = 0\nnic = lo\n' >>job.ini
if packed=$(stat -c %s "$BIN/paddle_worker.zst" 2>/dev/null); then
    begin "half of the worker" $((packed / 2)) "$ctl" run --conf=job.ini --num_passes=1
    kill -INT "$PID"
    go_on
    over
    before=$(up)
    expect 0 "$ctl" run --conf=job.ini --num_passes=1
    again=$(($(up) - before))
    less_again "$packed"
    echo "worker: $brought bytes, then $again, of $packed"
else
    echo "elsewhere: a worker that is not packed is too large for this; the release flavour runs it"
    expect 0 "$ctl" run --conf=job.ini --num_passes=1
fi
rm -r job
for i in 0 1; do # packed, so that nothing is saved on the way
    mkdir -p job/data
    head -c 5000000 /dev/urandom | od -An -v -tu2 -w4 | awk '{ print $1 % 100, $2 % 20 }' |
        gzip -1 >"job/data/part-0000$i"
done
data=$(cat job/data/* | wc -c)
tiny_model <<<'batch_size = 20000' >job/train.ini
begin "half of the data" $((data / 2)) "$ctl" run --conf=job.ini --num_passes=1
kill -INT "$PID"
go_on
over
grep -q 'the dispatch was interrupted; what has arrived is not sent again' cut.log ||
    die "it was not interrupted: $(cat cut.log)"
before=$(up)
expect 0 "$ctl" run --conf=job.ini --num_passes=1
again=$(($(up) - before))
grep -q 'an interrupted transfer had left' <<<"$OUT" || die "no word of it: $OUT"
less_again "$data"
echo "data files: $brought bytes, then $again, of $data"

# --- outputs: nothing of a cut fetch looks like a result, and the next takes only the rest
sed -i 's/^relay = off/&\ntrainer_command = dd if=\/dev\/zero bs=1 count=0 2>\/dev\/null; mkdir "$PADDLE_OUTPUT_DIR\/m"; head -c 12000000 \/dev\/urandom >"$PADDLE_OUTPUT_DIR\/m\/big"/' job.ini
printf '[cluster]\npservers = none\n' >>job.ini
expect 0 "$ctl" run --conf=job.ini --outputs=whole
for how in ctrl-c cut kill; do
    before=$(down)
    tell hang 0 $((size / 2)) down >/dev/null
    start cut "$ctl" fetch --conf=job.ini --outputs="by-$how"
    came() { [ $(($(down) - before)) -ge $((size / 2)) ]; }
    wait_for 60 "half of the outputs" came
    case $how in
    ctrl-c) kill -INT "$PID" ;;
    cut) tell reset 0 >/dev/null ;;
    kill) kill -9 "$PID" ;;
    esac
    go_on
    wait "$PID" 2>/dev/null
    tell pass 0 >/dev/null
    brought=$(($(down) - before))
    [ -z "$(find "by-$how" -mindepth 1 -maxdepth 1 -name '[!.]*' ! -name latest)" ] ||
        [ $how = cut ] || die "$how: half a result: $(ls -A "by-$how")"
    [ -z "$(find "by-$how" -name big ! -path '*/.*')" ] || die "$how: half a file"
    [ $how != ctrl-c ] || grep -q "fetch JOB.*goes on where this one stopped" cut.log ||
        die "nobody says how to go on: $(cat cut.log)"
    before=$(down)
    [ $how != kill ] || export PADDLECTL_FAULT=slow.assemble.write:200
    expect 0 "$ctl" fetch --conf=job.ini --outputs="by-$how"
    unset PADDLECTL_FAULT
    if [ $how = kill ]; then # the progress begins with what is here, before it is read
        first=$(grep -oE '^paddlectl \| fetch +[0-9.]+ MB of 12.0' <<<"$OUT" | head -1 | grep -oE '[0-9.]+ MB')
        holds "first > 4.8" first="${first% MB}"
    fi
    again=$(($(down) - before))
    cmp whole/latest/m/big "by-$how/latest/m/big" || die "$how: another file"
    less_again $size
    [ -z "$(ls -d "by-$how"/.*.part 2>/dev/null)" ] || die "$how: $(ls -A "by-$how")"
    echo "outputs, $how: $brought bytes, then $again, of $size"
done
