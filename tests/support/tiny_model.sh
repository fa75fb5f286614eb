# SPDX-License-Identifier: Apache-2.0
# tiny_model.sh - a small train.ini, and data, for tests of everything except the network. The data
# are lines "x y" in data/*; the model predicts y from x.
#
#   tiny_model [NAME=VALUE...] <<END >train.ini       stdin: the lines of [train]
#     vocabulary=100  size=8 (of the embedding)  hidden=N (a hidden layer of N)
#     dropout=RATE (of the hidden layer)
#     optimizer=sgd  rate=0.05  train='data/*'  test=PATTERN
#   endless_job         in $TMP: conf.ini of two local nodes, and ws, whose training does not end.
#                       At the end of the test no process of a job is left. Needs hosts.sh
#   tiny_data DIR       six files of 120, 160, 200, 120, ... lines, vocabulary 300, always the same
tiny_data() {
    mkdir -p "$1" && awk -v dir="$1" 'BEGIN { x = 7
        for (f = 0; f < 6; f++) for (i = 0; i < 40 * (3 + f % 3); i++) {
            x = (x * 1103515245 + 12345) % 2147483648; a = int(x / 65536) % 300
            x = (x * 1103515245 + 12345) % 2147483648; print a, (a * 7 + int(x / 65536) % 3) % 20 > (dir "/part-0000" f) } }'
}

tiny_model() {
    local vocabulary=100 size=8 hidden='' dropout='' optimizer=sgd rate=0.05 train='data/*' test='' "$@"
    cat <<END
[data]
format = ids
train = $train
${test:+test = $test
}fields = x y
vocabulary = $vocabulary
[layer e]
type = embedding
inputs = x
size = $size
init_std = 0.1
sparse_update = true
${hidden:+[layer h]
type = fc
inputs = e
size = $hidden
act = tanh
}${dropout:+[layer d]
type = dropout
inputs = h
rate = $dropout
}[layer p]
type = fc
inputs = $([ -n "$dropout" ] && echo d || { [ -n "$hidden" ] && echo h; } || echo e)
size = vocabulary
act = softmax
[cost c]
type = cross_entropy
input = p
label = y
[optimizer]
type = $optimizer
learning_rate = $rate
[train]
END
    cat
}

endless_job() {
    ctl=$BIN/paddlectl
    cd "$TMP" || exit 1
    mkdir ws && tiny_data ws/data
    printf '%s\n' 'num_passes = 1000000' 'batch_size = 48' 'log_period = 100' |
        tiny_model vocabulary=300 >ws/train.ini
    { local_nodes 2; printf '[job]\njob_dispatch_package = ws\n'; } >conf.ini
    nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$TMP/[a-z]*[0-9]"; }
    on_cleanup() { wait_for 20 "no process of a job is left" nothing_left; }
}
