#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One process, four networks: how fast against PyTorch, how near to the matrix products alone?
#
# bench/run models; MODELS="ngram mlp" only these. Same data, same batches, same first values, same
# optimizer; each side at its best. Ours: one and two threads. PyTorch: a brief trial of each
# setting first (1, 2 and all threads of PyTorch x as many of OpenBLAS x sparse or dense gradients x
# the optimizer's kernels; models_torch.py), then whole passes with the two fastest (SETTINGS=1: only
# the first setting at all). Passes alternate; the best pass of each side counts. The mean costs of
# the passes stand below each other: they are the same curve.
set -eu
cd "$(dirname "$0")/.."
BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX) ROUNDS=${ROUNDS:-2} PASSES=${PASSES:-2}
TMP=$PWD/$TMP
trap 'rm -rf "$TMP"' EXIT
make --no-print-directory -s build/release/bench/products
. bench/lib/models.sh

for name in ${MODELS:-ngram ctr_dnn wide_deep mlp}; do
    prepare "$name"
    best=0 peer=0 products=1e9 setting= peer_setting=
    read -ra settings <<<"$(torch "$name" . try)"
    [ ${#settings[@]} -gt 0 ] || { echo "bench models: no setting of PyTorch works" >&2; exit 1; }
    for ((i = 0; i < ROUNDS; i++)); do
        p=$("$BIN/bench/products" train.ini "$(batch)" 2 | sed 's/.*MFLOP, \([0-9.]*\) ms.*/\1/')
        products=$(awk -v a="$p" -v b="$products" 'BEGIN { print a < b ? a : b }')
        for threads in 1 2; do
            "$BIN/paddle_worker" trainer --local=1 --trainer_count=$threads --num_passes="$PASSES" --saving_period=0 --log_period=100000 >ours.log 2>&1 ||
                { tail -n 3 ours.log >&2; exit 1; }
            r=$(our_rate ours.log)
            [ "$r" -le "$best" ] || best=$r setting="$threads thread(s)"
        done
        for s in "${settings[@]:0:2}"; do
            torch "$name" . "$PASSES" "$s" >torch.log
            r=$(torch_rate torch.log)
            [ "$r" -le "$peer" ] || peer=$r peer_setting=$s
        done
    done
    echo "$name: costs of the passes: ours $(our_costs ours.log), PyTorch $(torch_costs torch.log); PyTorch's best settings in the trial: ${settings[*]:0:3}"
    line_samples "models-$name" "$(target "$name")" "PyTorch, $peer_setting" "$best" "$peer" "$setting"
    awk -v n="$name" -v p="$products" -v r="$best" -v b="$(batch)" 'BEGIN { s = b / r * 1e3
        printf "bench models-%s-products ratio %.2f target <=1.40 peer \"the step'"'"'s matrix products alone\" ours %.2f ms a step theirs %.2f ms\n", n, s / p, s, p }'
    cd "$BIN/../.."
done
