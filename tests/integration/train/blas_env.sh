#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The worker decides its BLAS environment itself: what a login environment exports about OpenBLAS changes neither the kernels nor the threads nor
# a bit of the costs; PADDLE_BLAS_CORETYPE does choose the kernels.
. "$(dirname "$0")/../../support/lib.sh"
cd "$TMP" || exit 1
cat >train.ini <<'END'
[data]
format = csv
train = train-0
columns = a b c d y
fields = x:dense y:label
[field x]
columns = a b c d
[layer h]
type = fc
inputs = x
size = 40
act = tanh
[layer p]
type = fc
inputs = h
size = 2
act = softmax
[cost c]
type = cross_entropy
input = p
label = y
[optimizer]
type = adam
learning_rate = 0.01
END
awk -v OFS=, 'BEGIN { for (i = 0; i < 600; i++) print i % 7 / 7, i % 5 / 5, i % 3 / 3, i % 11 / 11, (i % 7 > i % 5) }' >train-0

run() { # run NAME VARIABLE=VALUE...: NAME.blas is what the log says of OpenBLAS, NAME.costs the costs
    local name=$1
    shift
    env -u OPENBLAS_CORETYPE -u OPENBLAS_NUM_THREADS -u PADDLE_BLAS_CORETYPE "$@" "$BIN/paddle_worker" trainer --local=1 --trainer_count=2 --batch_size=60 \
        --num_passes=1 --log_period=1 >"$name.log" 2>&1 || die "$name: $(tail -3 "$name.log")"
    sed -n 's/.*\(2 thread(s), OpenBLAS for .* each\).*/\1/p' "$name.log" | head -1 >"$name.blas"
    sed -n 's/.*Batch [0-9]*, Cost \([^ ]*\) .*/\1/p' "$name.log" >"$name.costs"
    [ "$(wc -l <"$name.costs")" -eq 10 ] && [ -s "$name.blas" ] || die "$name: $(cat "$name.log")"
}

run plain A=b
run login OPENBLAS_CORETYPE=Nehalem OPENBLAS_NUM_THREADS=7 GOTO_NUM_THREADS=5 OMP_NUM_THREADS=3
run chosen PADDLE_BLAS_CORETYPE=Nehalem OPENBLAS_CORETYPE=Haswell
grep -q 'with 1 each' plain.blas || die "not one thread each: $(cat plain.blas)"
cmp plain.blas login.blas || die "a login environment was heard: $(cat plain.blas login.blas)"
cmp plain.costs login.costs || die "a login environment changed the costs"
case $(uname -m) in
x86_64) grep -q 'for Nehalem with 1 each' chosen.blas || die "PADDLE_BLAS_CORETYPE was not heard: $(cat chosen.blas)" ;;
esac
echo "$(cat plain.blas), whatever the environment says; chosen: $(cat chosen.blas)"
