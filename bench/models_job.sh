#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 2 trainers + 2 pservers on one machine: how fast against PyTorch DistributedDataParallel?
#
# bench/run models_job; MODELS="ngram mlp" only these. Same data, same batches (half of each to a
# trainer), same first values. Ours: one thread a process. PyTorch: a brief trial of each setting
# first (with and without a core of its own for each process, sparse or dense gradients, the
# optimizer's kernels; then, with the best of these, 2 threads of PyTorch, of OpenBLAS, of both),
# then whole passes with the fastest. Second line: the rate against 1 / (1/local + bytes/iperf3),
# local being our one process with as many samples a step, bytes what the loopback carries a
# sample, iperf3 its bytes/s in the same run. The trials take some 20 s a network.
set -eu
cd "$(dirname "$0")/.."
TOP=$PWD BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX) ROUNDS=${ROUNDS:-2} PASSES=${PASSES:-2} DDP_LIMIT_S=${DDP_LIMIT_S:-180}
TMP=$PWD/$TMP
trap 'rm -rf "$TMP"' EXIT
. bench/lib/models.sh
. bench/lib/ps.sh

# The two processes; the first one's words. A process for each setting, and both end in time,
# whatever they do.
ddp_once() { # NAME PASSES SETTING
    local port rc=0
    port=$(free_port)
    # not the function torch: timeout runs programs, and ends by pid the one that it started
    local cmd=(env PYTHONDONTWRITEBYTECODE=1 timeout -k 5 "$DDP_LIMIT_S" /usr/bin/python3 "$TORCH" "$1" . "$2" "$3")
    "${cmd[@]}" 1 2 "$port" >/dev/null &
    "${cmd[@]}" 0 2 "$port" || rc=1
    wait $! || rc=1
    return $rc
}
trials() { # NAME SETTING...: "SECONDS SETTING" a line, fastest first; a setting that fails is left out
    local s t name=$1
    shift
    for s; do
        t=$(ddp_once "$name" 0 "$s" 2>>trials.log | sed -n 's/^trial //p') && [ -n "$t" ] && echo "$t $s"
    done | sort -n
}
ddp_best() { # NAME: the setting whose trial was the fastest; the only one, if SETTINGS=1 leaves one
    case $(torch "$1" jobs) in *' '*) ;; *) torch "$1" jobs && return ;; esac
    # shellcheck disable=SC2046
    trials "$1" $(torch "$1" jobs) >tried
    [ -s tried ] || { tail -5 trials.log >&2; echo "bench models_job: no setting of PyTorch works" >&2; return 1; }
    # shellcheck disable=SC2046
    trials "$1" $(torch "$1" jobs "$(sed -n '1s/.* //p' tried)") >>tried
    sort -n tried | sed -n '1s/.* //p'
}
loopback() { awk '$1 == "lo:" { print $2 }' /proc/net/dev; }
job() { # bytes that the loopback carried
    local before
    before=$(loopback)
    "$BIN/paddlectl" run --conf=conf.ini --num_passes="$PASSES" --saving_period=0 --save_state=0 --log_period=100000 >job.log 2>&1 || { tail -5 job.log >&2; exit 1; }
    bytes=$(($(loopback) - before))
}

for name in ${MODELS:-ngram ctr_dnn wide_deep mlp}; do
    prepare "$name"
    mkdir ws && cp train* ws && printf '[cluster]\nhosts = local*2\nroot_dir = %s/node%%n\n[job]\njob_dispatch_package = %s/ws\noutputs = %s/output\n' \
        "$PWD" "$PWD" "$PWD" >conf.ini
    best=0 peer=0 local=0 wire=$(iperf_gbs) setting=$(ddp_best "$name")
    [ ! -s tried ] || echo "$name: PyTorch's trials, seconds of ten steps: $(sort -n tried | paste -sd';')"
    for ((i = 0; i < ROUNDS; i++)); do
        job
        best=$(max "$best" "$(our_rate job.log)")
        ddp_once "$name" "$PASSES" "$setting" >ddp.log || { echo "bench models_job: PyTorch's processes failed" >&2; exit 1; }
        peer=$(max "$peer" "$(torch_rate ddp.log)")
        "$BIN/paddle_worker" trainer --local=1 --num_passes="$PASSES" --saving_period=0 --log_period=100000 >local.log 2>&1
        local=$(max "$local" "$(our_rate local.log)")
    done
    samples=$(sed -n 's/.*Pass [0-9\/]* done: .* \([0-9]*\) samples.*/\1/p' job.log | awk '{ n += $1 } END { print n }')
    echo "$name: costs of the passes: ours $(our_costs job.log), PyTorch $(torch_costs ddp.log); PyTorch's setting: $setting"
    line_samples "models_job-$name" 2.00 "DistributedDataParallel, gloo, $setting" "$best" "$peer" "2 + 2"
    awk -v n="$name" -v r="$best" -v l="$local" -v b="$bytes" -v s="$samples" -v w="$wire" 'BEGIN { limit = 1 / (1 / l + b / s / (w * 1e9))
        printf "bench models_job-%s-limit ratio %.2f target >=0.80 peer \"1/(1/%d + %.0f bytes / iperf3 %.2f GB/s)\" ours %d samples/s theirs %d samples/s\n", n, r / limit, l, b / s, w, r, limit }'
    cd "$TOP"
done
