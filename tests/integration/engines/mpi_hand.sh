#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `mpirun -n N paddle_worker ...` by hand: each rank finds its role and its peers. The model is that
# of the same processes with TRAINING_ROLE.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
. "$TOP/tests/support/engines/mpi.sh"
reason=$(mpi_missing | head -n 1)
[ -z "$reason" ] || skip "$reason"
cd "$TMP" || die cd
worker=$BIN/paddle_worker
tiny_data data
tiny_model vocabulary=300 test='data/*' <<'END' >train.ini
num_passes = 2
END
# two hosts that are this machine: mpirun's ssh runs its words here
printf '#!/bin/sh\nmkdir -p "%s/tmp/$1"; export TMPDIR="%s/tmp/$1"; shift; exec /bin/sh -c "$*"\n' "$TMP" "$TMP" >rsh
mkdir tmp
export TMPDIR=$TMP/tmp
mpi_rsh "$TMP/rsh"
mpi() { timeout 120 mpirun $([ "$(id -u)" != 0 ] || echo --allow-run-as-root) --oversubscribe --bind-to none "$@"; }
port=$((10000 + RANDOM % 10000))

# --- the same processes, with their roles in the environment
for id in 0 1; do
    start trainer$id env TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=$id PADDLE_TRAINERS_NUM=2 \
        PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:$port "$worker" --save_dir=by-hand
done
expect 0 env TRAINING_ROLE=PSERVER PADDLE_TRAINERS_NUM=2 PADDLE_CURRENT_ENDPOINT=127.0.0.1:$port "$worker" \
    --save_dir=by-hand
wait "${PIDS[@]}" || die "$(cat trainer0.log)"
result=$(grep 'Test after pass 2/2' trainer0.log) || die "$(cat trainer0.log)"

# --- one machine: rank 0 is the server; all ranks have one command line
expect 0 mpi -n 3 "$worker" --config=train.ini --port=$port --num_passes=2
has "trainers to come: 2"
has "$result"
ls output/pass-00001 >/dev/null || die "no model"

# --- two servers, three trainers, one of them without a port
expect 0 mpi -n 5 "$worker" --pservers="127.0.0.1:$((port + 10)),127.0.0.1" --port=$((port + 20)) --num_passes=1
has "trainers to come: 3"
has "Saved output/pass-00000"

# --- two hosts: the servers have to be named
hosts="--host host-0:1,host-1:2"
expect 2 mpi $hosts "$worker" --num_passes=1
has "the 3 ranks run on several hosts: give --pservers=ADDRESS:PORT"
expect 0 mpi $hosts "$worker" --pservers=127.0.0.1:$((port + 30)) --num_passes=1
has "Saved output/pass-00000"
expect 1 mpi -n 2 "$worker" --pservers=192.0.2.250:$((port + 30)) --num_passes=1
has "cannot bind 192.0.2.250"
expect 2 mpi -n 2 "$worker" --pservers=127.0.0.1:1,127.0.0.1:2
has "2 ranks are too few"
expect 2 mpi -n 3 "$worker" --nonsense=1
has "unknown option --nonsense"
expect 2 mpi -n 3 env TRAINING_ROLE=trainer "$worker"
has "TRAINING_ROLE is TRAINER or PSERVER"
