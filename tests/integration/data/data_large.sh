#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A file larger than the memory there is: 1 GB of text, packed, train through a shuffle buffer in 700 MB of address space (of which OpenBLAS
# takes 128 MB, and each thread's stack 8), and infer says something of each line in as much; and what is said where there is too little.
# release only
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker LINES_OF=60000
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
cat >train.ini <<'END'
[data]
format = csv
train = data.zst
columns = x y rest
separator = bar
fields = x:dense y:label
[layer p]
type = fc
inputs = x
size = 1
act = sigmoid
[cost c]
type = binary_cross_entropy
input = p
label = y
[optimizer]
type = sgd
learning_rate = 0.1
[train]
batch_size = 500
shuffle_buffer = 5000
reader_threads = 2
END
awk -v n=$LINES_OF 'BEGIN { for (rest = "10 bytes. "; length(rest) < 16000;) rest = rest rest
    for (i = 0; i < n; i++) print i % 7 - 3 "|" (i % 7 > 3) "|" rest }' | zstd -q -1 -o data.zst || die "zstd"
limited() { (ulimit -v 700000 && MALLOC_ARENA_MAX=1 timeout 300 "$@"); }
expect 0 limited "$WORKER" trainer --local=1
has "$LINES_OF samples"
limited "$WORKER" infer --model=output/pass-00000 --data=data.zst >out || die "infer: $?"
[ "$(wc -l <out)" = $LINES_OF ] || die "infer: $(wc -l <out) lines"

# --- too little address space for OpenBLAS, which would try for ever: told at once
tight() { (ulimit -v 150000 && MALLOC_ARENA_MAX=1 timeout 300 "$@"); }
expect 1 tight "$WORKER" trainer --local=1 --save_dir=tight
has "no memory for the work buffers of 1 threads, 128 MB each"
