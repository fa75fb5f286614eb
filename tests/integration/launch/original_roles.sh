#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One program for both roles, as scripts of the original system start it: TRAINING_ROLE and the
# variables of its transpiler and fleet. CPU_NUM and trainer_count = auto.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
unset TRAINING_ROLE PADDLE_JOB_ID CPU_NUM
cd "$TMP" || exit 1
tiny_data data
tiny_model vocabulary=300 hidden=8 </dev/null >train.ini

free_port() { # a port that is free together with the next one
    python3 - <<'PY'
import socket
while True:
    a, b = socket.socket(), socket.socket()
    a.bind(('127.0.0.1', 0))
    try:
        b.bind(('127.0.0.1', a.getsockname()[1] + 1))
    except (OSError, OverflowError):
        continue
    print(a.getsockname()[1])
    break
PY
}
PORT=$(free_port)
LIST=127.0.0.1:$PORT,127.0.0.1:$((PORT + 1))
server() { # server NAME VARIABLE=VALUE...
    start "$1" env TRAINING_ROLE=PSERVER PADDLE_TRAINERS_NUM=2 "${@:2}" "$WORKER"
    SERVER=$PID
    wait_for 30 "$1 listens" grep -q '^pserver listens' "$TMP/$1.log"
}
# Two pservers of one machine with neighbouring ports, in both spellings.
server s0 PADDLE_CURRENT_ENDPOINT=127.0.0.1:"$PORT"
S0=$SERVER
server s1 POD_IP=localhost PADDLE_PORT=$((PORT + 1))
grep -q "127.0.0.1, ports (dense; sparse): $PORT; .*trainers to come: 2" s0.log || die "$(cat s0.log)"
grep -q "127.0.0.1, ports (dense; sparse): $((PORT + 1)); " s1.log || die "$(cat s1.log)"
expect 1 env TRAINING_ROLE=PSERVER PADDLE_TRAINERS_NUM=2 PADDLE_CURRENT_ENDPOINT=127.0.0.1:"$PORT" \
    "$WORKER"
has "PADDLE_CURRENT_ENDPOINT: cannot bind 127.0.0.1:$PORT: Address already in use"

trainer() { env TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID="$1" PADDLE_TRAINERS_NUM=2 "${@:2}"; }
start t1 trainer 1 PADDLE_PSERVERS_IP_PORT_LIST="$LIST" "$WORKER" --batch_size=20
T1=$PID
expect 0 trainer 0 PADDLE_PSERVERS_IP_PORT_LIST="$LIST" CPU_NUM=3 PADDLE_LOG_DIR="$TMP" "$WORKER" \
    --batch_size=20
has "Saved output/pass-00000"
wait "$T1" || die "trainer 1: $(cat t1.log)"
grep -q "trainer 0 of 2, streams 0 to 0 of 2, 3 thread(s)" paddle_trainer.INFO || die "CPU_NUM"
wait "$S0" "$SERVER" || die "the pservers: $(cat s0.log s1.log)"
"$WORKER" trainer --local --n_streams=2 --batch_size=20 --save_dir=alone >alone.log 2>&1 || die alone
costs() { sed -n 's/.*Pass .* done.*cost \([0-9.]*\).*/\1/p'; }
holds "a / b < 1.00001 && b / a < 1.00001" a="$(costs <<<"$OUT")" b="$(costs <alone.log)"

# PADDLE_INIT_* and the command line have priority; the list of the transpiler has no ports.
server s2 POD_IP=127.0.0.1 PADDLE_PORT="$PORT" PADDLE_INIT_NUM_GRADIENT_SERVERS=1
expect 0 env TRAINING_ROLE=TRAINER PADDLE_TRAINERS=7 PADDLE_PSERVERS=127.0.0.1 PADDLE_PORT="$PORT" \
    CPU_NUM=3 PADDLE_LOG_DIR="$TMP/log2" sh -c "mkdir log2; exec '$WORKER' --num_gradient_servers=1 \
    --batch_size=20 --trainer_count=2"
grep -q "trainer 0 of 1, .* 2 thread(s)" log2/paddle_trainer.INFO || die "$(cat log2/*)"

# trainer_count = auto: a thread for each core that the process may use
cores=$(taskset -c 0 "$WORKER" trainer --local --batch_size=20 --trainer_count=auto 2>&1 |
    sed -n 's/.* \([0-9]*\) thread(s).*/\1/p')
[ "$cores" = 1 ] || die "auto on one CPU: '$cores' threads"
printf 'trainer_count = auto\n' >>train.ini
expect 0 "$WORKER" trainer --local --batch_size=300
n=$(sed -n 's/.* \([0-9]*\) thread(s).*/\1/p' <<<"$OUT")
holds "n >= 1 && n <= cpus" n="$n" cpus="$(nproc)"
expect 2 "$WORKER" trainer --local --trainer_count=many
has "trainer_count is 1..256 threads, or auto, not 'many'"

# --- mistakes
expect 2 env TRAINING_ROLE=WORKER "$WORKER"
has "TRAINING_ROLE is TRAINER or PSERVER, not 'WORKER'"
expect 2 "$WORKER" --num_passes=1
has "no role: the first word is pserver or trainer, or the environment has TRAINING_ROLE"
expect 2 env TRAINING_ROLE=PSERVER PADDLE_CURRENT_ENDPOINT=6170 "$WORKER"
has "PADDLE_CURRENT_ENDPOINT is ADDRESS:PORT, not '6170'"
expect 2 env TRAINING_ROLE=TRAINER CPU_NUM=0 "$WORKER"
has "CPU_NUM: trainer_count is 1..256 threads, or auto, not '0'"

# --- conf.py of the Fabric launcher: conf.ini has its hosts; an existing file stays
printf 'HOSTS = ["root@10.1.9.7",\n"b"]\nPADDLE_PORT = 7000\nSPARE = 1\n' >conf.py
expect 0 "$BIN/paddlectl" import
has "conf.py:4: SPARE is not known and left out"
has "then: 'paddlectl check --conf=conf.ini'"
expect 0 "$BIN/paddlectl" conf --conf=conf.ini
has "hosts = root@10.1.9.7, b"
has "port = 7000"
expect 2 "$BIN/paddlectl" import
has "conf.ini exists; nothing was changed"
echo 'HOSTS = hosts()' >conf.py
expect 2 "$BIN/paddlectl" import conf.py other.ini
has "conf.py:1: "
[ ! -e other.ini ] || die "a conf.ini of a conf.py that cannot be read"
expect 2 "$BIN/paddlectl" import nothing.py other.ini
has "nothing.py"
exit 0
