#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --set SECTION.KEY=VALUE: any key of train.ini and conf.ini from the command line. A mistake ends
# with status 2 before anything is sent; conf shows the origin; the model keeps the text.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
CTL=$BIN/paddlectl WORKER=$BIN/paddle_worker
cd "$TMP" || exit 1

mkdir -p ws/data ws/more
for f in data/a data/b more/a more/b; do
    awk 'BEGIN { for (i = 0; i < 200; i++) print i % 40, (i + 1) % 40 }' >"ws/$f"
done
tiny_model vocabulary=40 size=8 hidden=8 optimizer=adagrad rate=0.1 </dev/null >ws/train.ini
sed -i 's/^\[layer h\]/[layer hid.den]/; s/^inputs = h$/inputs = hid.den/' ws/train.ini
cat >conf.ini <<END
[cluster]
hosts = local*2
root_dir = $TMP/node%n
port = 0
[job]
job_dispatch_package = ws
[env]
A = b
END
config() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["config"])' "$1"; }

# --- mistakes: status 2, the text that was typed, nothing done
wrong() { # wrong TEXT SETTING...
    local text=$1 s args=()
    shift
    for s in "$@"; do args+=(--set "$s"); done
    expect 2 "$CTL" run --conf=conf.ini "${args[@]}"
    has "$text"
    [ ! -e node0 ] && [ ! -e output ] || die "something was done: $(ls -d node0 output)"
}
wrong "--set layer.hid.de.size=512: there is no layer 'hid.de'; did you mean 'hid.den'?" \
    layer.hid.de.size=512
wrong "--set layer.hid.den.size=eight: size is a whole number" layer.hid.den.size=eight
wrong "--set layer.hid.den.sise=8: unknown key 'sise' in [layer]" layer.hid.den.sise=8
wrong "--set layer.hid.den.act=tanhh: unknown activation 'tanhh'" layer.hid.den.act=tanhh
wrong "--set optimizer.lerning_rate=1: an optimizer has no setting 'lerning_rate'" \
    optimizer.lerning_rate=1
wrong "--set optimizer.clip_norm=x: clip_norm is a number" optimizer.clip_norm=x
wrong "--set optimiser.l2=1: there is no section 'optimiser'; did you mean 'optimizer'?" \
    optimiser.l2=1
wrong "--set cluster.port: port is 0..65535, not '99999'" cluster.port=99999
wrong "--set train.n_streams: n_streams is 1, fewer than the 2 trainers" train.n_streams=1
wrong "--set host.zz.user: [host zz]: there is no such host" host.zz.user=me
wrong "--set size=3: a setting is written SECTION.KEY=VALUE" size=3
expect 2 "$CTL" run --conf=conf.ini --set
has "--set needs a value: SECTION.KEY=VALUE"
tar -C ws -cf ws.tar .
expect 2 "$CTL" run --conf=conf.ini --job_dispatch_package=ws.tar --set layer.hid.den.act=tanhh
has "ws.tar: --set layer.hid.den.act=tanhh: unknown activation 'tanhh'"
expect 2 "$CTL" conf --conf=conf.ini --set layer.hid.de.size=512
has "did you mean 'hid.den'?"

# --- conf: the last value of a key, with its origin
SETS=(--set layer.hid.den.size=12 --set optimizer.learning_rate=0.9 --set layer.hid.den.size=16
    --set=optimizer.learning_rate=0.3 --set train.seed=4)
expect 0 "$CTL" conf --conf=conf.ini "${SETS[@]}" --set env.A=c --set cluster.port=7777
for line in '# \[layer hid.den\]' '# size = 16 +; command line: --set layer.hid.den.size' \
    '# learning_rate = 0.3 +; command line: --set optimizer.learning_rate' \
    'seed = 4 +; command line: --set train.seed' 'A = c +; command line: --set env.A' \
    'port = 7777 +; command line: --set cluster.port'; do
    grep -qE "^$line\$" <<<"$OUT" || die "no line '$line': $OUT"
done
echo "$OUT" >copy.ini
expect 0 "$CTL" conf --conf=copy.ini --nodes # still a conf.ini
expect 0 "$CTL" conf --conf=conf.ini --json --set layer.hid.den.size=16
has '"section": "layer hid.den"'
has '"from": "command line: --set"'
expect 0 "$CTL" conf --conf=conf.ini --model "${SETS[@]}"
grep -qE '^hid.den +fc\+tanh +e +16 ' <<<"$OUT" || die "conf --model: $OUT"

# --- a job: each trainer gets the files that the changed pattern names; the model keeps the text
expect 0 "$CTL" run --conf=conf.ini "${SETS[@]}" --set data.train=more/a,data/b
[ "$(cd node0/JOB*/workspace && echo */[ab])" = "data/a data/b more/b" ] &&
    [ "$(cd node1/JOB*/workspace && echo */[ab])" = "data/a more/a more/b" ] ||
    die "other files: $(ls node?/JOB*/workspace/*)"
MODEL=output/latest/pass-00000
[ "$(config $MODEL/manifest.json | grep -c -e '^size = 16 ; --set$' \
    -e '^learning_rate = 0.3 ; --set$' -e '^train = more/a,data/b ; --set$' \
    -e '^seed = 4 ; --set$')" = 4 ] || die "the model's train.ini: $(config $MODEL/manifest.json)"
expect 0 "$CTL" infer --model=$MODEL --data=ws/data/a --layer=hid.den
[ "$(tail -n 1 <<<"$OUT" | wc -w)" = 16 ] || die "infer: $OUT"

# The same model from an edited train.ini, from an archive, and from a workspace on the nodes.
sum() { find "$1" -name '*.bin' | sort | xargs cat | sha256sum; }
want=$(sum $MODEL)
cp -R ws edited
sed -i '/^\[layer hid.den\]/,/^act/s/^size.*/size = 16/; s/^learning_rate.*/learning_rate = 0.3/
    s|^train = .*|train = more/a,data/b|; s/^\[train\]/&\nseed = 4/' edited/train.ini
same() { # same HOW ARGS...
    local how=$1
    shift
    expect 0 "$CTL" run --conf=conf.ini "$@"
    [ "$(sum $MODEL)" = "$want" ] || die "$how: another model"
}
same edited --job_dispatch_package=edited
same archive --job_dispatch_package=ws.tar "${SETS[@]}" --set data.train=more/a,data/b
expect 0 "$CTL" dispatch --conf=conf.ini
last_line
DEPLOYED=$OUT
same deployed --job_workspace="$DEPLOYED" "${SETS[@]}" --set data.train=more/a,data/b
# Of a workspace on this machine train.ini is checked before anything is sent. If only the nodes have
# it, the trainer names the setting.
n=$(ls -d node0/JOB* | wc -l)
expect 2 "$CTL" run --conf=conf.ini --job_workspace="$DEPLOYED" --set layer.hid.de.size=512
has "--set layer.hid.de.size=512: there is no layer 'hid.de'; did you mean 'hid.den'?"
[ "$(ls -d node0/JOB* | wc -l)" = "$n" ] || die "a job was begun"
(cd ws && expect 2 "$WORKER" trainer --local --set layer.hid.de.size=512 && has "did you mean 'hid.den'?") ||
    die "the trainer: $OUT"

# --- by hand, and the value of the environment gives way to that of the command line
cd ws || exit 1
expect 0 env PADDLE_INIT_SET=$'layer.hid.den.size=10\noptimizer.type=sgd' "$WORKER" trainer --local \
    --batch_size=20 --save_dir=../hand --set layer.hid.den.size=11
config ../hand/pass-00000/manifest.json >../hand.ini
grep -q '^size = 11 ; --set$' ../hand.ini && grep -q '^type = sgd ; --set$' ../hand.ini ||
    die "by hand: $(cat ../hand.ini)"
exit 0
