#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every evaluator says the same of a saved model whoever evaluates it: one thread, several, three trainers with one or two threads each
# and two servers. Under reproducible = topology in every digit; else outputs may differ in their last bits, as products of other shapes do.
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
mkdir train test
# clicks that follow from a number and two ids, mostly; files of unequal length
awk 'BEGIN { srand(7); for (i = 0; i < 4700; i++) { x = rand() * 4 - 2; a = int(rand() * 30); b = int(rand() * 30)
    y = rand() < 1 / (1 + exp(-(x + (a % 3) - (b % 2) * 2)))
    print x "," a "," b "," (y ? 1 : 0) > (i < 2000 ? "train/part-" i % 3 : "test/part-" (i % 7 < 4 ? 0 : i % 7 < 6 ? 1 : 2)) } }'
{
    printf '%s\n' '[data]' 'format = csv' 'train = train/*' 'test = test/*' 'columns = x a b y' 'fields = x:dense a:id b:id y:label' \
        '[field a]' 'vocabulary = 30' '[field b]' 'vocabulary = 30' \
        '[layer e]' 'type = embedding' 'inputs = a b' 'size = 8' 'sparse_update = true' 'init_std = 0.3' \
        '[layer h]' 'type = fc' 'inputs = e x' 'size = 40' 'act = tanh' '[layer n]' 'type = batch_norm' 'inputs = h' \
        '[layer p]' 'type = fc' 'inputs = n' 'size = 1' 'act = sigmoid' '[cost c]' 'type = binary_cross_entropy' 'input = p' 'label = y' \
        '[optimizer]' 'type = adagrad' 'learning_rate = 0.05'
    for e in classification_error auc log_loss rmse mae precision_recall calibration normalized_entropy; do
        printf '%s\n' "[evaluator $e]" "type = $e" 'input = p' 'label = y'
    done
    for e in gauc ndcg recall; do
        printf '%s\n' "[evaluator $e]" "type = $e" 'input = p' 'label = y' 'group = a'
    done
    printf '%s\n' '[evaluator slices]' 'type = log_loss' 'input = p' 'label = y' 'slice = b'
    printf '%s\n' '[evaluator some]' 'type = gauc' 'input = p' 'label = y' 'group = a' 'max_samples = 1024' # of 2700
    printf '%s\n' '[evaluator perplexity]' 'type = perplexity' 'input = c'
} >train.ini
OPTIONS="--n_streams=3 --batch_size=150 --num_passes=3"

said() { sed -n 's/.*Test of the saved model: //p' "$1"; }
test_of() { # test_of NAME TRAINERS THREADS OPTION...
    local name=$1 n=$2 threads=$3 list='' i trainers=()
    shift 3
    local options=(--job=test --init_model_path=output/pass-00002 --trainer_count="$threads" --n_streams=3 --batch_size=150 "$@")
    if [ "$n" = 0 ]; then
        "$WORKER" trainer --local=1 "${options[@]}" >"$name.log" 2>&1 || die "$name: $(tail -n 3 "$name.log")"
    else
        for i in 0 1; do
            start "s$i" "$WORKER" pserver --nics=127.0.0.1 --port=0 --num_gradient_servers="$n"
            wait_for 60 "pserver $i listens" grep -q '^pserver listens' "$TMP/s$i.log"
            list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$TMP/s$i.log")
        done
        for ((i = 0; i < n; i++)); do
            start "t$i" "$WORKER" trainer --pservers="${list#,}" --trainer_id="$i" --num_gradient_servers="$n" "${options[@]}"
            trainers+=("$PID")
        done
        for i in "${trainers[@]}"; do wait "$i" || die "$name: a trainer failed: $(tail -qn 3 "$TMP"/t?.log)"; done
        for i in "${PIDS[@]}"; do wait "$i" || die "$name: a pserver failed: $(tail -qn 3 "$TMP"/s?.log)"; done
        PIDS=()
        cp t0.log "$name.log"
    fi
    [ -n "$(said "$name.log")" ] || die "$name: $(cat "$name.log")"
}
# shellcheck disable=SC2086
"$WORKER" trainer --local=1 $OPTIONS >train.log 2>&1 || die "train: $(tail -n 3 train.log)"
test_of one 0 1
want=$(said one.log)
echo "$want"
for what in classification_error auc log_loss rmse mae precision_recall.precision precision_recall.recall precision_recall.f1 calibration.ratio \
    calibration.error normalized_entropy gauc ndcg recall some slices slices.0 slices.29 perplexity; do
    grep -q " $what [0-9]" <<<"$want" || die "no $what in: $want"
done
[[ $want =~ some\.share\ 0\.[1-4] && $want =~ gauc\.share\ 1, ]] || die "the shares of the samples: $want"
[[ $want == *" 2700 samples" ]] || die "not 2700 samples: $want"
test_of topology 0 1 --reproducible=topology
exact=$(said topology.log)
same_figures 12 "$exact" "$want" || die "topology: $exact"
while read -r trainers threads; do
    name="$trainers trainers, $threads threads"
    test_of run "$trainers" "$threads"
    same_figures 12 "$(said run.log)" "$want" || die "$name: $(said run.log)"
    test_of run "$trainers" "$threads" --reproducible=topology
    [ "$(said run.log)" = "$exact" ] || die "$name, topology: $(said run.log), one thread: $exact"
done <<<'0 2
0 5
3 1
3 2'
