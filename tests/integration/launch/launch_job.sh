#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user's own programs as a job on three ssh hosts: what they find in their environment, what comes back, what is said when one
# fails, and a workspace that is on the nodes already.
# both
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
# of the login environment of the nodes, the second one is inherited
SSHD_FIXTURE_ENV='CPU_NUM=2 LOGIN_VALUE=2' ssh_hosts 3
mkdir -p "$TMP/ws/data" "$TMP/ws/empty"
cp "$TOP/tests/support/own-server.py" "$TMP/ws/"
echo text >"$TMP/ws/data/file"
ln -s data/file "$TMP/ws/link"
cat >"$TMP/ws/train.sh" <<'END'
#!/bin/sh
# a user's trainer: says what it finds, writes an output
echo "trainer $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM on node $PADDLE_NODE_ID: $TRAINING_ROLE"
echo "an error line" >&2
env | sort >"$PADDLE_OUTPUT_DIR/env.$PADDLE_TRAINER_ID"
pwd >"$PADDLE_OUTPUT_DIR/pwd.$PADDLE_TRAINER_ID"
cat link >"$PADDLE_OUTPUT_DIR/link.$PADDLE_TRAINER_ID"
[ -d empty ] || exit 4
printf 'no newline at the end'
END
printf '#!/bin/sh\n[ "$PADDLE_TRAINER_ID" = 1 ] || exec sleep 100\necho about to fail; echo "cause of it" >&2; exit 7\n' >"$TMP/ws/fail.sh"
printf '#!/bin/sh\n[ "$PADDLE_TRAINER_ID" = 2 ] || exec sleep 100\nkill -SEGV $$\n' >"$TMP/ws/crash.sh"
chmod +x "$TMP"/ws/*.sh
# A range of its own: a user's own server binds a port that was only looked up, and other tests look for ports too.
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[cluster]
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
trainer_command = ./train.sh
pserver_command = /usr/bin/python3 own-server.py
[env]
MY_OWN = a value with blanks
[train]
num_passes = 3
END
cd "$TMP" || die cd

none_left() {
    wait_for 60 "no process is left below the nodes' folders" "$fixture" left "$fx"
}

# --- it runs, and comes back
expect 0 "$ctl" run --conf=conf.ini --batch-size=64
none_left
for i in 0 1 2; do
    has "/trainer | trainer $i of 3 on node $i: TRAINER"
    e=output/latest/env.$i
    [ -f "$e" ] || die "no $e: $(find output)"
    job=$(readlink output/latest)
    for want in "PADDLE_JOB_ID=$job" "PADDLE_NODE_ID=$i" TRAINING_ROLE=TRAINER "PADDLE_TRAINER_ID=$i" PADDLE_TRAINERS_NUM=3 \
        'MY_OWN=a value with blanks' PADDLE_INIT_NUM_PASSES=3 PADDLE_INIT_BATCH_SIZE=64 "PADDLE_INIT_TRAINER_ID=$i" \
        PADDLE_INIT_NUM_GRADIENT_SERVERS=3; do
        grep -qxF "$want" "$e" || die "no $want in $e: $(cat $e)"
    done
    grep -qxF LOGIN_VALUE=2 "$e" || die "no variable of the login environment in $e: $(cat $e)"
    ! grep -q ^CPU_NUM= "$e" || die "CPU_NUM of the login environment is in $e"
    for name in PADDLE_PSERVERS_IP_PORT_LIST PADDLE_PORT POD_IP PADDLE_CURRENT_ENDPOINT PADDLE_KEY_FILE PADDLE_OUTPUT_DIR \
        PADDLE_LOG_DIR PADDLE_INIT_PSERVERS; do
        grep -q "^$name=." "$e" || die "no $name in $e"
    done
    [ "$(sed -n 's/^PADDLE_PSERVERS_IP_PORT_LIST=//p' "$e" | tr ',' '\n' | wc -l)" = 3 ] || die "the list of servers in $e"
    [ "$(cat output/latest/pwd.$i)" = "$fx/node$i/root/$job/workspace" ] || die "it ran in $(cat output/latest/pwd.$i)"
    [ "$(cat output/latest/link.$i)" = text ] || die "the link"
    [ "$(cat "$fx/node$i/root/$job/nodefile")" = $i ] || die "nodefile"
    grep -q "an error line" "$fx/node$i/root/$job/log/train.log" || die "stderr is not in train.log"
    grep -q "no newline at the end" "$fx/node$i/root/$job/log/train.log" || die "the last line is not in train.log"
    grep -q "serving" "$fx/node$i/root/$job/log/server.log" || die "server.log"
done
has "/trainer | no newline at the end"
has "/trainer | an error line"
# the key is nowhere but in its file
[ -z "$(grep -l "PADDLE_KEY=" output/latest/env.* 2>/dev/null)" ] || die "a key in the environment"

# --- CPU_NUM of [env] reaches the own programs
sed 's/^MY_OWN/CPU_NUM = 3\n&/' conf.ini >cpu_num.ini
expect 0 "$ctl" run --conf=cpu_num.ini
none_left
grep -qxF CPU_NUM=3 output/latest/env.1 || die "no CPU_NUM of [env]: $(cat output/latest/env.1)"

# --- the first failure: host, role, status, its last lines
expect 1 "$ctl" run --conf=conf.ini --trainer_command=./fail.sh
none_left
has "failed: 127.0.0.2 (node 1), trainer 1: exit status 7"
has "    | cause of it"
has "  logs: 127.0.0.2:$fx/node1/root/JOB"
expect 1 "$ctl" run --conf=conf.ini --trainer_command=./crash.sh
none_left
# (through a shell it is exit status 139)
[[ $OUT =~ failed:\ 127.0.0.3\ \(node\ 2\),\ trainer\ 2:\ .*signal\ 11.*Segmentation\ fault ]] || die "$OUT"
expect 1 "$ctl" run --conf=conf.ini --trainer_command=./missing.sh
none_left
has "missing.sh"
expect 1 "$ctl" run --conf=conf.ini --pserver_command=/bin/false
none_left
has "pserver"

# --- roles on some nodes only
expect 0 "$ctl" run --conf=conf.ini --pservers=1 --trainers='nodes 1-2'
none_left
has "/trainer | trainer 1 of 2 on node 2: TRAINER"
[ ! -f output/latest/env.2 ] || die "a third trainer"

# --- dispatch once, use it in place
expect 0 "$ctl" dispatch --conf=conf.ini
path=$(tail -1 <<<"$OUT")
expect 0 "$ctl" run --conf=conf.ini --job_workspace="$path"
none_left
has "/trainer | trainer 2 of 3 on node 2: TRAINER"
[ "$(cat output/latest/pwd.1)" = "${path/\%n/1}" ] || die "it ran in $(cat output/latest/pwd.1)"
expect 2 "$ctl" run --conf=conf.ini --job_workspace=/does/not/exist
has "3 of 3 hosts cannot be used"
has "127.0.0.[1-3]: "
has "/does/not/exist"
none_left

# --- two nodes that share a root_dir
expect 2 "$ctl" run --conf=conf.ini --root_dir="$TMP/shared"
has "share root_dir"
has "%n"
wait_for 60 "no job folder in the shared root" bash -c "! ls -d '$TMP'/shared/JOB* 2>/dev/null"

# --- a slow, chatty login
if [ "$(basename "$(getent passwd "$(id -un)" | cut -d: -f7)")" = bash ]; then
    printf '%s\n' 'echo Welcome; printf "no newline"; echo note >&2; sleep 1' >"$fx/node1/home/.bashrc"
    expect 0 "$ctl" run --conf=conf.ini
    has_not Welcome
    none_left
fi

# --- nodes of this machine, without ssh
expect 0 "$ctl" run --conf=conf.ini --hosts='local*2' --root_dir="$TMP/local%n"
has "local.1/trainer | trainer 1 of 2 on node 1: TRAINER"
wait_for 60 "nothing runs" bash -c "! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q '$TMP/local'"
# --- the CPUs of their processes: each word of `bind` reaches the agents (agent_run.sh has what becomes of it)
for how in none auto cores numa; do
    expect 0 "$ctl" run --conf=conf.ini --hosts='local*2' --root_dir="$TMP/bound%n" --bind="$how" --pservers=none --trainer_command='echo "bind: $PADDLE_BIND."'
    case $how in cores | numa) has "bind: $how." ;; *) has "bind: ." ;; esac
done
# --- commands that need nothing but the hosts; and the worker goes only to who runs it
cat "$fx/conf.ini" - >bare.ini <<CONF
[cluster]
pservers = none
[job]
trainer_command = echo "I am \$PADDLE_TRAINER_ID in an empty folder: \$(ls)"
CONF
expect 0 "$ctl" run --conf=bare.ini
for i in 0 1 2; do has "/trainer | I am $i in an empty folder: output"; done
none_left
ls "$fx"/node?/root/.paddlectl/bin/worker-* 2>/dev/null && die "a job of commands needs no worker"
expect 0 "$ctl" run --conf=bare.ini --pservers="nodes 1" --job_dispatch_package=ws
none_left
[ -z "$(ls "$fx"/node[02]/root/.paddlectl/bin/worker-* 2>/dev/null)" ] && ls "$fx"/node1/root/.paddlectl/bin/worker-* >/dev/null ||
    die "the worker belongs on node 1 only: $(ls "$fx"/node?/root/.paddlectl/bin)"
exit 0
