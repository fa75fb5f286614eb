#!/usr/bin/env bash
# overlap = 1 against 0: the time of a pass of a job whose trainer and parameter server are joined by a slow link
#
# Two network namespaces, a link between them, tc tbf on both ends (RATES, Mbit/s). One pserver, one trainer; dense layers of 4 MB in all
# and a table, so that computing and sending take about as long as each other. Rounds alternate; the median of the ratios of neighbours
# counts: time without overlap over time with. Needs root, ip and tc; elsewhere it says so and measures nothing.
set -eu
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
WORKER=$PWD/build/release/paddle_worker ROUNDS=${ROUNDS:-3} RATES=${RATES:-"1000 300"} TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
NS=pdov$$ PIDS=()
cleanup() {
    for p in ${PIDS[@]+"${PIDS[@]}"}; do kill "$p" 2>/dev/null || true; done
    ip netns delete "$NS-s" 2>/dev/null || true
    ip netns delete "$NS-t" 2>/dev/null || true
    rm -rf "$TMP"
}
trap cleanup EXIT
refuse() { echo "bench overlap: not measured: $*" >&2; exit 0; }
[ "$(id -u)" = 0 ] || refuse "network namespaces need root"
ip netns add "$NS-s" 2>/dev/null || refuse "network namespaces are not allowed here"
ip netns add "$NS-t"
ip -n "$NS-s" link add e0 type veth peer name e0 netns "$NS-t" || refuse "this kernel has no veth"
ip -n "$NS-s" addr add 10.78.0.1/24 dev e0
ip -n "$NS-t" addr add 10.78.0.2/24 dev e0
for n in s t; do ip -n "$NS-$n" link set lo up; ip -n "$NS-$n" link set e0 up; done

mkdir -p "$TMP/data"
awk 'BEGIN { srand(1); for (i = 0; i < 15360; i++) print int(rand() * 200000), int(rand() * 512) }' >"$TMP/data/a"
cat >"$TMP/train.ini" <<'END'
[data]
format = ids
train = data/*
fields = x y
vocabulary = 200000
[field y]
vocabulary = 512
[layer e]
type = embedding
inputs = x
size = 64
init_std = 0.1
sparse_update = true
[layer h1]
type = fc
inputs = e
size = 512
act = tanh
[layer h2]
type = fc
inputs = h1
size = 512
act = tanh
[layer h3]
type = fc
inputs = h2
size = 512
act = tanh
[layer h4]
type = fc
inputs = h3
size = 512
act = tanh
[layer p]
type = fc
inputs = h4
size = 512
act = softmax
[cost c]
type = cross_entropy
input = p
label = y
[optimizer]
type = adagrad
learning_rate = 0.05
[train]
log_period = 100000
batch_size = 768
END
head -c 32 /dev/urandom >"$TMP/key"
chmod 600 "$TMP/key"

pass() { # pass OVERLAP: seconds
    local i port=''
    : >"$TMP/server.log"
    ip netns exec "$NS-s" "$WORKER" pserver --nics=10.78.0.1 --port=0 --num_gradient_servers=1 --key_file="$TMP/key" >"$TMP/server.log" 2>&1 &
    PIDS=($!)
    for ((i = 0; i < 600; i++)); do
        port=$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/\1/p' "$TMP/server.log")
        [ -z "$port" ] || break
        sleep 0.05
    done
    (cd "$TMP" && ip netns exec "$NS-t" "$WORKER" trainer --pservers="10.78.0.1:$port" --num_gradient_servers=1 --key_file="$TMP/key" \
        --overlap="$1" --save_dir="$TMP/out" >"$TMP/trainer.log" 2>&1) || { tail -5 "$TMP/trainer.log" >&2; return 1; }
    wait "${PIDS[0]}"
    PIDS=()
    sed -n 's/.*Pass 0 done: .* in \([0-9.]*\) s .*/\1/p' "$TMP/trainer.log" | head -1
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for rate in $RATES; do
    for n in s t; do
        tc -n "$NS-$n" qdisc replace dev e0 root tbf rate "${rate}mbit" burst 256kb latency 50ms 2>/dev/null || refuse "there is no tc tbf"
    done
    : >"$TMP/ratios"
    for ((r = 0; r < ROUNDS; r++)); do
        without=$(pass 0)
        with=$(pass 1)
        echo "$without $with"  >>"$TMP/ratios"
    done
    ratio=$(awk '{ print $1 / $2 }' "$TMP/ratios" | median)
    with=$(awk '{ print $2 }' "$TMP/ratios" | median)
    without=$(awk '{ print $1 }' "$TMP/ratios" | median)
    printf 'bench overlap_%s_mbit ratio %.2f target 1.00 peer "overlap = 0" ours %s theirs %s\n' "$rate" "$ratio" "$with" "$without"
done
