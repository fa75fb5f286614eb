# tiny_model.sh - a small train.ini for tests of anything but the network: of lines "x y" in data/*, y is predicted from x.
#
#   tiny_model [NAME=VALUE...] <<END >train.ini       stdin: the lines of [train]
#     vocabulary=100  size=8 (of the embedding)  hidden=N (a layer of so many between)  optimizer=sgd  rate=0.05  test=PATTERN
tiny_model() {
    local vocabulary=100 size=8 hidden='' optimizer=sgd rate=0.05 test='' "$@"
    cat <<END
[data]
format = ids
train = data/*
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
}[layer p]
type = fc
inputs = $([ -n "$hidden" ] && echo h || echo e)
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
