#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A trainer and a pserver on this machine: do records of the run slow them?
#
# bench/run records; MODELS="ngram mlp" only these. on: `paddlectl run` with its record, event files for
# TensorBoard, and a dashboard whose page and metrics are read every two seconds, hosts asked. off: the same
# two programs started by hand, which report nothing. Same data, batches and first values, one thread each.
# Runs alternate; the median of all passes of each side counts. The costs must be equal.
set -eu
cd "$(dirname "$0")/.."
TOP=$PWD BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX)
ROUNDS=${ROUNDS:-12} PASSES=${PASSES:-3}
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
rates() { sed -n 's/.*Pass [0-9\/]* done: .*(\([0-9]*\) .*\/s).*/\1/p' "$1"; }
by_hand() { # without records: off+=(rate of each pass)
    local port server rc=0
    port=$(free_port)
    (cd ws && exec "$BIN/paddle_worker" pserver --nics=127.0.0.1 --port="$port" --num_gradient_servers=1) >server.log 2>&1 &
    server=$!
    (cd ws && exec "$BIN/paddle_worker" trainer --pservers=127.0.0.1:"$port" --trainer_id=0 \
        --num_gradient_servers=1 "${trainer[@]}") >off.log 2>&1 || rc=$?
    kill "$server" 2>/dev/null || :
    wait "$server" || :
    [ $rc -eq 0 ] || { tail -n 3 off.log; tail -n 3 server.log; exit 1; } >&2
    mapfile -t -O ${#off[@]} off < <(rates off.log)
}
recorded() { # with all records, and a viewer: on+=(rate of each pass)
    look
    "$BIN/paddlectl" run --conf=conf.ini --tensorboard=events "${trainer[@]}" >on.log 2>&1 ||
        { tail -n 5 on.log >&2; exit 1; }
    kill "${helpers[@]}"
    wait "${helpers[@]}" || :
    helpers=()
    mapfile -t -O ${#on[@]} on < <(rates on.log)
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
    mkdir ws && cp train* ws
    printf '%s\n' '[cluster]' 'hosts = local' "root_dir = $PWD/node%n" '[job]' "job_dispatch_package = $PWD/ws" \
        "outputs = $PWD/output" >conf.ini
    on=() off=()
    for ((i = 0; i < ROUNDS; i++)); do
        by_hand
        recorded
    done
    [ "$(our_costs on.log)" = "$(our_costs off.log)" ] || {
        echo "bench records: other costs: $(our_costs on.log), $(our_costs off.log)" >&2
        exit 1
    }
    line_samples "records-$name" 0.99 "the same programs without records" "$(median "${on[@]}")" \
        "$(median "${off[@]}")" "record, event files, dashboard"
    cd "$TOP"
done
