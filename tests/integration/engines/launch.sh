#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# [cluster] launch: one command starts all nodes. Debian's mpirun over sshds on loopback addresses,
# two slots on one host: commands, jobs, Ctrl-C, losses, and what is refused. The agent with sanitizers
# is so large that the hashes of its chunks do not fit the words of a command: launch_srun.sh has them.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
. "$TOP/tests/support/engines/mpi.sh"
reason=$(mpi_missing | head -n 1)
[ -z "$reason" ] || skip "$reason"
ctl=$BIN/paddlectl
cd "$TMP" || die cd
ssh_hosts 2

mpi_hosts "$fx" "$TMP"
printf 'host-0 slots=2\nhost-1 slots=1\n' >hostfile
mpi="mpirun $([ "$(id -u)" != 0 ] || echo --allow-run-as-root) --bind-to none --hostfile $TMP/hostfile"
tiny_data ws/data
tiny_model vocabulary=300 test='data/*' <<'END' >ws/train.ini
END
conf() {
    printf '%s\n' '[cluster]' "hosts = ${hosts:-mpi}" "launch = $1" "root_dir = $TMP/node%n" \
        "port = $((10000 + RANDOM % 10000))" '[job]' 'job_dispatch_package = ws' '[train]' 'num_passes = 2'
}
conf "$mpi" >conf.ini
left() { pgrep -f "$TMP/node|$TMP/hostfile" >/dev/null; }
none_left() { wait_for 60 "no process is left: $(pgrep -af "$TMP/node|$TMP/hostfile")" eval '! left'; }
on_cleanup() {
    pids=$(pgrep -f "$TMP/node|$TMP/hostfile") && kill $pids
    hosts_end
}
x() { "$ctl" exec --conf=conf.ini "$@"; }
host=$(uname -n | tr -c 'A-Za-z0-9._\n' -)

# --- plain commands: fresh nodes, whose agent comes as chunks; outputs apart, status, stdin
expect 0 x echo 'a   b' '$((1+2))'
[ "$OUT" = "$host.[0-2]: a b 3" ] || die "$OUT"
ls node[0-2]/.paddlectl/bin/agent-* >/dev/null || die "no agent"
expect 7 x 'printf "no newline"; echo oops >&2; case $(hostname) in *) exit 7;; esac'
has "no newline"
has oops
has "exit status 7"
seq 300000 >input
expect 0 x --stdin=input cksum
[ "$OUT" = "$host.[0-2]: $(cksum <input)" ] || die "$OUT"
expect 0 x 'seq 200000'
[ "$(sed -n '/^1$/,$p' <<<"$OUT" | cksum)" = "$(seq 200000 | cksum)" ] || die "much output"
expect 124 x --timeout=1 sleep 303.$$
wait_for 20 "a command whose time is over ends" eval '! pgrep -f "^sleep 303.$$"'
expect 124 x --timeout=1 "sh -c 'trap \"\" TERM; sleep 306.$$; sleep 1'; true"
wait_for 20 "what ignores TERM ends, too" eval '! pgrep -f "^sleep 306.$$"'
# a command with -x of its own
SPARE=spare.$$ expect 0 x --launch="$mpi -x SPARE" 'echo "has $SPARE"'
has "has spare.$$"
expect 0 x 'env | grep -E "OMPI|PMI|PADDLECTL_LAUNCH" || echo clean'
has clean
expect 0 x --node=2 'setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!'
daemon=${OUT##*: }
sleep 1
kill "$daemon" 2>/dev/null || die "a daemon was ended: $OUT"
none_left

# --- the secret is on no command line
cat >spy <<END
#!/bin/bash
# spy COMMAND...: notes both secrets, and all command lines until the command ends
tr ' ' '\n' <<<"\$PADDLECTL_LAUNCH" | grep -oE '[0-9a-f]{64}' >$TMP/secret
"\$@" &
while kill -0 \$! 2>/dev/null; do
    cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | sort -u >>$TMP/commands
    sleep 0.02
done
wait \$!
END
chmod +x spy
rm -rf "$TMP"/node[0-2]/.paddlectl
expect 0 x --launch="$TMP/spy $mpi" true
grep -q "callback" commands || die "no command lines"
grep -qE '^[0-9a-f]{64}$' secret || die "no secret: $(cat secret)"
grep -qFf secret commands && die "the secret is on a command line"

# --- a job: the model comes back, and nothing stays
expect 0 "$ctl" run --conf=conf.ini
has "nodes"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
none_left
expect 0 "$ctl" ps --conf=conf.ini
has "done"
expect 0 "$ctl" logs --conf=conf.ini latest
has "$host.0/trainer"
expect 0 "$ctl" check --conf=conf.ini
has "$host.[0-2]"
none_left

# --- a job that goes on without paddlectl: attach and stop come by a command of their own
printf '#!/bin/sh\nexec sleep 305.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
three() { [ "$(pgrep -fc "^sleep 305.$$")" = 3 ]; }
expect 0 "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --detach
wait_for 60 "three trainers" three
sleep 2
three || die "the job did not survive --detach"
start attach "$ctl" attach --conf=conf.ini latest
wait_for 60 "attached" grep -q "$host" attach.log
expect 0 "$ctl" stop --conf=conf.ini latest
wait "$PID"
none_left

# --- Ctrl-C, and a paddlectl that is killed: the leases end all
for signal in INT KILL; do
    start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=5
    wait_for 60 "three trainers" three
    kill -$signal "$PID"
    wait "$PID" 2>/dev/null
    status=$?
    [ $signal = KILL ] || [ $status = 130 ] || die "Ctrl-C: $status: $(cat run.log)"
    none_left
done

# --- Ctrl-C saves the model first: mpirun ends last
printf '%s\n' 'num_passes = 1000000' 'batch_size = 48' 'log_period = 100' |
    tiny_model vocabulary=300 >ws/train.ini.endless
cp ws/train.ini ws/train.ini.two
mv ws/train.ini.endless ws/train.ini
start run "$ctl" run --conf=conf.ini --num_passes=1000000
wait_for 60 "training" eval 'grep -q "pass" run.log'
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "Ctrl-C: $(cat run.log)"
grep -q "saved" run.log || die "nothing was saved: $(tail -5 run.log)"
none_left

# --- a TERM of the cluster to a callback: paddlectl stops the job, and saves
start run "$ctl" run --conf=conf.ini --num_passes=1000000
wait_for 60 "training" eval 'grep -q "pass" run.log'
kill -TERM "$(pgrep -f "$TMP/node1/.*/agent-.* callback")" || die "no callback"
wait "$PID"
status=$?
[ $status = 130 ] || die "TERM: $status: $(cat run.log)"
grep -q "saved" run.log || die "nothing was saved: $(tail -5 run.log)"
none_left

mv ws/train.ini.two ws/train.ini

# --- a lost stream is made again by another call
start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=10
wait_for 60 "three trainers" three
kill -9 "$(pgrep -o -f "$TMP/node1/.*/agent-.* relay")" || die "no relay"
wait_for 30 "a new connection" grep -q "$host.1: connected again" run.log
three || die "the job did not survive a lost connection: $(cat run.log)"
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "$(cat run.log)"
none_left

# --- the command's own death ends the job, at once, and is shown once
start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=5
wait_for 60 "three trainers" three
kill -9 "$(pgrep -f "^([^ ]*prterun|mpirun) .*$TMP/hostfile")" || die "no mpirun"
wait_for 20 "paddlectl ends" eval '! kill -0 $PID 2>/dev/null'
wait "$PID"
status=$?
[ $status = 1 ] || die "exit status $status: $(cat run.log)"
[ "$(grep -c "^paddlectl: .*mpirun was ended by signal KILL" run.log)" = 1 ] || die "$(cat run.log)"
none_left

# --- a rank that never calls back, is missing, or does not start
cat >late <<END
#!/bin/bash
# late N COMMAND...: an mpirun of N ranks, of which rank 2 never starts
for ((i = 0; i < \$1; i++)); do
    [ \$i = 2 ] || OMPI_COMM_WORLD_RANK=\$i OMPI_COMM_WORLD_SIZE=\$1 "\${@:2}" &
done
echo "$TMP/hostfile is read" >&2
wait; sleep 100
END
chmod +x late
expect 3 x --launch="$TMP/late 3" --connect_timeout=3 true
has "rank 2 has not called back within 3 s"
[ "$(grep -c "rank 2" <<<"$OUT")" = 1 ] || die "$OUT"
expect 3 x --launch="$TMP/late 3" --hosts=a,b,c --connect_timeout=3 true
has "rank 2 (host c) has not called back within 3 s"
none_left
expect 3 x --launch="$mpi -n 2" --hosts=a,b,c true
has "the command starts 2 ranks, but there are 3 nodes"
none_left
expect 0 x --launch="$mpi -n 2" --hosts=a,b 'echo here'
has "a,b: here"
expect 3 x --launch="no-such-mpirun -n 3" true
has "no-such-mpirun"
printf 'host-0\nhost-9\n' >far
expect 3 x --launch="${mpi/$TMP\/hostfile/$TMP/far}" true
has "Could not resolve hostname host-9"
[ "$(grep -c "^paddlectl" <<<"$OUT")" = 1 ] || die "$OUT"
expect 3 x --launch="env -u PADDLECTL_LAUNCH -u OMPI_MCA_mca_base_env_list $mpi" true
has "there is no secret"
expect 3 x --launch="env" true
has "tells no rank"
none_left

# two HOSTS COMMAND...: an mpirun whose rank 0 runs here, and rank 1 on far-1
cat >two <<END
#!/bin/bash
case \$1 in *far-*,$host*) ;; *) exit 9;; esac
export OMPI_COMM_WORLD_SIZE=2
ME=0 OMPI_COMM_WORLD_RANK=0 "\${@:2}" &
ME=1 OMPI_COMM_WORLD_RANK=1 unshare -u sh -c 'hostname far-1; exec "\$@"' sh "\${@:2}" &
wait
END
chmod +x two

# --- Ctrl-C while ranks are missing
start run "$ctl" exec --conf=conf.ini --launch="$TMP/late 3" true
wait_for 30 "the command" pgrep -f "^/bin/bash $TMP/late"
sleep 1
kill -INT "$PID"
wait "$PID"
status=$?
[ $status = 130 ] || die "Ctrl-C: $status: $(cat run.log)"
none_left

# --- engine = mpi: one node for each host of mpirun's own hostfile; hosts of the list in its order,
# though mpirun puts its own machine first
sed "s|^root_dir.*|root_dir = $TMP/node%n|; s|^job_dispatch_package.*|job_dispatch_package = ws|" \
    "$TOP/conf/mpi.ini" >mpi.ini
engine() { OMPI_MCA_orte_default_hostfile=$TMP/hostfile PRTE_MCA_prte_default_hostfile=$TMP/hostfile "$ctl" "$1" --conf=mpi.ini "${@:2}"; }
expect 0 engine exec hostname
[ "$OUT" = "$host.[0-1]: $host" ] || die "$OUT"
expect 0 engine run --port=$((10000 + RANDOM % 10000))
has "2 nodes"
none_left
expect 0 engine conf
has "launch = mpirun --bind-to none --map-by ppr:1:node"
has "engine = mpi"
expect 0 engine exec --hosts=host-1,host-0 'echo here'
has "host-[0-1]: here"
if unshare -u true 2>/dev/null; then
    expect 0 "$ctl" exec --conf=conf.ini --hosts="far-1,$host" --launch="$TMP/two %H" 'echo $ME'
    has "$host: 0"
    has "far-1: 1"
    expect 3 "$ctl" exec --conf=conf.ini --hosts="far-1,$host,a" --launch="$TMP/two %H" true
    has "the command starts 2 ranks"
    expect 3 "$ctl" exec --conf=conf.ini --hosts="far-2,$host" --launch="$TMP/two %H" true
    has "rank 1 runs on far-1, which hosts does not name"
else
    echo "skipped: no namespaces of host names (unshare -u)"
fi
expect 2 env PATH=/nowhere "$ctl" exec --conf=mpi.ini true
has "engine = mpi needs mpirun, which is not installed here"
expect 2 "$ctl" exec --conf=mpi.ini --launch='mpirun --host %H' true
has "%H stands for the hosts"
none_left

# --- options that contradict each other, and hosts that are not known yet
expect 2 x --launch= true
has "hosts = mpi"
expect 2 x --connect='ssh %h' true
has "both launch and connect"
expect 2 x --hosts='local*2' true
has "local node"
expect 2 x --hosts='me@a' true
has "would have no effect"
expect 2 x --launch="mpirun 'a" true
has "a quote"
sed 's/%n//' conf.ini >bad.ini
expect 2 "$ctl" run --conf=bad.ini
has "%n"
expect 2 "$ctl" run --conf=conf.ini --dry-run
has "known only then"
none_left
