#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A trainer and a pserver on this machine: do records of the run slow them?
#
# bench/run records; MODELS="ngram mlp" only these. on: `paddlectl run` with its record, event files for
# TensorBoard, and a dashboard whose page and metrics are read every two seconds, hosts asked. off: the same
# two programs started by hand, which report nothing. Same data, batches and first values, one thread each.
# Runs alternate; the best pass of each side counts. The costs of the passes must be equal.
set -eu
cd "$(dirname "$0")/.."
TOP=$PWD BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX) ROUNDS=${ROUNDS:-5} PASSES=${PASSES:-2}
TMP=$PWD/$TMP
. bench/lib/models.sh
. bench/lib/ps.sh
helpers=()
finish() {
    [ ${#helpers[@]} -eq 0 ] || kill "${helpers[@]}" 2>/dev/null || :
    wait
    rm -rf "$TMP"
}
trap finish EXIT
trainer=(--num_passes="$PASSES" --saving_period=0 --save_state=0 --log_period=100000 --trainer_count=1)
by_hand() { # the rate without records
    local port server rc=0
    port=$(free_port)
    (cd ws && exec "$BIN/paddle_worker" pserver --port="$port" --num_gradient_servers=1) >server.log 2>&1 &
    server=$!
    (cd ws && "$BIN/paddle_worker" trainer --pservers=127.0.0.1:"$port" --trainer_id=0 --num_gradient_servers=1 "${trainer[@]}") >off.log 2>&1 || rc=$?
    kill "$server" 2>/dev/null || :
    wait "$server" || :
    [ $rc -eq 0 ] || { tail -3 off.log server.log >&2; exit 1; }
    our_rate off.log
}
recorded() { # the rate with all records
    "$BIN/paddlectl" run --conf=conf.ini --tensorboard=events "${trainer[@]}" >on.log 2>&1 || { tail -5 on.log >&2; exit 1; }
    our_rate on.log
}
# A dashboard for the jobs of conf.ini, and somebody who looks at it.
look() {
    local url
    "$BIN/paddlectl" dashboard --conf=conf.ini >address 2>dashboard.log &
    helpers=($!)
    for _ in $(seq 100); do
        url=$(cat address)
        [ -z "$url" ] || break
        sleep 0.1
    done
    [ -n "$url" ] || { cat dashboard.log >&2; exit 1; }
    /usr/bin/python3 -c 'import sys, time, urllib.request
while True:
    for part in ("data", "metrics"):
        urllib.request.urlopen(sys.argv[1] + part, timeout=60).read()
    time.sleep(2)' "$url" &
    helpers+=($!)
}

for name in ${MODELS:-ngram ctr_dnn wide_deep mlp}; do
    prepare "$name"
    mkdir ws && cp train* ws && printf '[cluster]\nhosts = local\nroot_dir = %s/node%%n\n[job]\njob_dispatch_package = %s/ws\noutputs = %s/output\n' \
        "$PWD" "$PWD" "$PWD" >conf.ini
    look
    on=0 off=0
    for ((i = 0; i < ROUNDS; i++)); do
        off=$(max "$(by_hand)" "$off")
        on=$(max "$(recorded)" "$on")
    done
    kill "${helpers[@]}"
    wait "${helpers[@]}" || :
    helpers=()
    [ "$(our_costs on.log)" = "$(our_costs off.log)" ] || { echo "bench records: other costs: $(our_costs on.log), $(our_costs off.log)" >&2; exit 1; }
    line_samples "records-$name" 0.99 "the same programs without records" "$on" "$off" "record, event files, dashboard"
    cd "$TOP"
done
