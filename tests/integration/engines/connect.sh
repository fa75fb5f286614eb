#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# [cluster] connect: hosts behind a command in place of ssh: a program that behaves as kubectl does
# at its worst, and OpenSSH's ssh. Commands, jobs, lost bytes, lost connections, Ctrl-C, and what is
# refused.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
cd "$TMP" || die cd

# pod exec -i NAME -- COMMAND...: runs the command "in the pod", with streams that pass through this
# program, and a session that outlives it. As with kubectl, its own exit status is 0 whatever
# happened to the streams, and what is written before the pod is ready may be lost.
cat >pod <<'END'
#!/bin/bash
shift 2; name=$1; shift 2
top=$(dirname "$0")
[ -d "$top/$name" ] || { echo "Error from server (NotFound): pods \"$name\" not found" >&2; exit 1; }
echo $$ >>"$top/clients"
export HOME=$top/$name
cd "$HOME" || exit 1
[ ! -e "$top/lose" ] || timeout 0.7 cat >/dev/null
[ ! -e "$top/silent" ] || exec sleep 100
if [ -e "$top/tty" ]; then exec script -qec "$*" /dev/null; fi
exec 3<&0
if [ -e "$top/nosession" ]; then cat <&3 | "$@" 3<&- | cat; exit 0; fi
cat <&3 | setsid --wait "$@" 3<&- | cat
exit 0
END
chmod +x pod
mkdir pod-0 pod-1 pod-2
tiny_data ws/data
tiny_model vocabulary=300 test='data/*' <<'END' >ws/train.ini
END
cat >conf.ini <<END
[cluster]
hosts = pod-[0-2]
connect = $TMP/pod exec -i %h --
root_dir = $TMP/pod-%n/root
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
[train]
num_passes = 2
END
left() { pgrep -f "$TMP/pod-./root" >/dev/null; }
none_left() { wait_for 60 "no process is left" eval '! left'; }
x() { "$ctl" exec --conf=conf.ini "$@"; }

# --- plain commands: once through a shell, outputs apart, the right exit status, stdin
expect 0 x echo 'a   b' '$((1+2))'
[ "$OUT" = "pod-[0-2]: a b 3" ] || die "$OUT"
expect 7 x 'printf "no newline"; echo oops >&2; case $PWD in *1) exit 7;; esac; exit 3 # comment'
has "pod-[0-2]: no newline"
has "pod-[0-2]: oops"
has "pod-[0,2]: exit status 3"
has "pod-1: exit status 7"
expect 0 x $'echo one\necho "it'"'"'s two"'
has "it's two"
expect 0 x cat
[ -z "$OUT" ] || die "$OUT"
seq 300000 >input
expect 0 x --stdin=input cksum
[ "$OUT" = "pod-[0-2]: $(cksum <input)" ] || die "$OUT"
expect 0 x 'seq 200000'
[ "$(sed -n '/^1$/,$p' <<<"$OUT" | cksum)" = "$(seq 200000 | cksum)" ] || die "much output: $(tail -3 <<<"$OUT")"
expect 0 x --fanout=1 pwd
has "$TMP/pod-2"
expect 124 x --timeout=1 sleep 303.$$
wait_for 20 "a command whose time is over ends" eval '! pgrep -f "^sleep 303.$$"'

# --- the connection is lost, with exit status 0: not taken for success, and the command ends
: >clients
start lost x --node=1 "echo begun; sleep 304.$$; echo never"
wait_for 30 "a command" pgrep -f "^sleep 304.$$"
kill -9 -- -"$(tail -1 clients)" || die "no client"
wait $PID
status=$?
[ $status = 255 ] || die "exit status $status after a lost connection: $(cat lost.log)"
grep -q "paddlectl: pod-1: .*pod was ended by signal KILL" lost.log || die "$(cat lost.log)"
wait_for 20 "the command of a lost connection ends" eval '! pgrep -f "^sleep 304.$$"'
# the same behind a command that starts no session: the command ends, this shell's session does not
: >nosession
: >clients
start lost "$ctl" exec --conf=conf.ini --node=1 "sleep 306.$$; echo never"
wait_for 30 "a command" pgrep -f "^sleep 306.$$"
client=$(tail -1 clients)
pkill -9 -x -P "$client" cat || die "no streams"
kill -9 "$client" || die "no client"
wait $PID
status=$?
[ $status = 255 ] || die "exit status $status after a lost connection: $(cat lost.log)"
wait_for 20 "the command of a lost connection ends" eval '! pgrep -f "^sleep 306.$$"'
rm nosession
# a daemon that an ended command left behind stays
expect 0 x --node=0 'setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $! >daemon; sleep 0.2'
sleep 3
kill "$(cat pod-0/daemon)" 2>/dev/null || die "a daemon was ended"

# --- a job: the agent and the package come over the command; the model comes back
: >lose # stdin loses what comes first
expect 0 "$ctl" run --conf=conf.ini
has "3 nodes"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
none_left
rm lose
expect 0 "$ctl" ps --conf=conf.ini
has "done"
expect 0 "$ctl" logs --conf=conf.ini latest
has "pod-0/trainer"
expect 0 "$ctl" check --conf=conf.ini
has "pod-[0-2]"
has glibc

# --- Ctrl-C, and a paddlectl that is killed: the leases end all
printf '#!/bin/sh\nexec sleep 305.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
for signal in INT KILL; do
    start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=5
    wait_for 60 "three trainers" eval '[ "$(pgrep -fc "^sleep 305.$$")" = 3 ]'
    kill -$signal "$PID"
    wait "$PID" 2>/dev/null
    status=$?
    [ $signal = KILL ] || [ $status = 130 ] || die "Ctrl-C: $status: $(cat run.log)"
    none_left
done

# --- one host's connection is cut while the job runs: it is made again
start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh --attach_lease=10
wait_for 60 "three trainers" eval '[ "$(pgrep -fc "^sleep 305.$$")" = 3 ]'
: >clients.before
cp clients clients.before
kill -9 -- -"$(tail -1 clients)" || die "no client"
wait_for 30 "a new connection" eval '! cmp -s clients clients.before'
sleep 1
[ "$(pgrep -fc "^sleep 305.$$")" = 3 ] || die "the job did not survive a lost connection: $(cat run.log)"
kill -INT "$PID"
wait "$PID"
[ $? = 130 ] || die "$(cat run.log)"
none_left

# --- the list of hosts is what a command prints, or a Slurm allocation
printf '# all pods\npod-[0-1]\npod-2 # the last one\n' >list
expect 0 x --hosts='$(cat list; echo "a warning" >&2)' 'echo $HOME'
for i in 0 1 2; do has "$TMP/pod-$i"; done
has "a warning"
expect 0 env SLURM_JOB_NODELIST='pod-[0,2]' "$ctl" exec --conf=conf.ini --hosts=slurm echo here
has "pod-[0,2]: here"
expect 2 env -u SLURM_JOB_NODELIST "$ctl" exec --conf=conf.ini --hosts=slurm echo here
has "--hosts: hosts = slurm, but SLURM_JOB_NODELIST is not set"
sed 's/^hosts = .*/hosts = $(exit 3)/' conf.ini >bad.ini
expect 2 "$ctl" run --conf=bad.ini
has "bad.ini:2: exit 3 ended with exit status 3"
for bad in 'true=prints no hosts' 'kill -9 $$=was ended by signal 9' 'printf "a\0b"=does not print text' \
    'cat /dev/zero=prints more than' 'echo a[=is missing'; do
    expect 2 x --hosts="\$(${bad%=*})" true
    has "${bad#*=}"
done
# a file that somebody else wrote names no command
echo '$(touch here)' >list
expect 2 x --hosts=@list true
[ ! -e here ] || die "a file's command ran"

# --- what is refused
expect 3 "$ctl" run --conf=conf.ini --hosts='pod-[0-1],pod-7'
has 'pod-7'
has 'pods "pod-7" not found'
expect 3 "$ctl" run --conf=conf.ini --connect='no-such-program exec %h'
has "no-such-program"
[ "$(grep -c no-such-program <<<"$OUT")" -le 2 ] || die "said for each host: $OUT"
: >silent
expect 3 "$ctl" run --conf=conf.ini --connect_timeout=1
has "no shell answered"
rm silent
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    : >tty
    expect 3 "$ctl" run --conf=conf.ini
    has "terminal"
    rm tty
fi
sed 's/%h/%q/' conf.ini >bad.ini
expect 2 "$ctl" run --conf=bad.ini
has "bad.ini:3: connect: %q is not known"
sed 's/%h --/"%h --/' conf.ini >bad.ini
expect 2 "$ctl" run --conf=bad.ini
has "bad.ini:3: connect: a quote"
sed 's/%h/pod-0/' conf.ini >bad.ini
expect 2 "$ctl" run --conf=bad.ini
has "bad.ini:3: connect has neither %h"
expect 2 "$ctl" run --conf=conf.ini --hosts='me@pod-[0-2]'
has "connect has no %u"
none_left

# --- OpenSSH's ssh, whose server joins the words and gives them to a shell
if [ -x /usr/sbin/sshd ] && command -v ssh >/dev/null; then
    ssh_hosts 3
    sed "s|^hosts = .*|&\nconnect = ssh -F none -o BatchMode=yes -o UserKnownHostsFile=$fx/known_hosts -i $fx/client_key -p %p %u@%h|" "$fx/conf.ini" >ssh.ini
    printf '[job]\njob_dispatch_package = ws\n' >>ssh.ini
    expect 7 "$ctl" exec --conf=ssh.ini 'echo "$SSH_CONNECTION" | cut -d" " -f3; exit 7'
    has "127.0.0.[1-3]: exit status 7"
    has 127.0.0.2
    expect 0 "$ctl" run --conf=ssh.ini --num_passes=1
    wait_for 60 "no process is left below the nodes' folders" "$fixture" left "$fx"
    hosts_end
    fixture=
else
    echo "skipped: no ssh or sshd for the part with ssh"
fi
