#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trainers that do not fit together, input that cannot be used, and gradients that are still on their way when the next batch needs
# more room: each ends with one clear message, or with the right numbers.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
cd "$TMP" || exit 1

# ids 0..3999; batch 1 has few different ones, batch 2 twice as many, batch 3 few again
mkdir data && awk 'BEGIN { for (b = 0; b < 4; b++) for (i = 0; i < 2000; i++) print (b == 1 ? i : i % 1000) + b, i % 4000 }' >data/a
cp data/a data/b
tiny_model vocabulary=4000 size=8192 hidden=8 optimizer=adagrad rate=0.1 <<'END' >train.ini
log_period = 1
END
costs() { sed -n 's/.*Batch \([0-9]*\), Cost \([^ ]*\) .*/\1 \2/p' "$1"; }

servers() { # servers NAME N_TRAINERS: one pserver; its address in $LIST
    start "$1-s" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --num_gradient_servers="$2"
    wait_for 30 "the pserver listens" grep -q '^pserver listens' "$TMP/$1-s.log"
    LIST=$(sed -n 's/^pserver listens.*): \([0-9]*\);.*/127.0.0.1:\1/p' "$TMP/$1-s.log")
}

# A push that is still queued must not lose its memory to a larger batch (found by review: it trained on freed memory).
"$WORKER" trainer --local=1 --batch_size=2000 --save_dir=m0 >local.log 2>&1 || die "local: $(tail -2 local.log)"
servers grow 1
expect 0 "$WORKER" trainer --pservers="$LIST" --batch_size=2000 --save_dir=m1
echo "$OUT" >remote.log
paste <(costs local.log) <(costs remote.log) | awk '
    { n++; d = $4 / $2 - 1; if ($1 != $3 || d > 1e-6 || d < -1e-6) { print "batch " $1 ": " $2 " alone, " $4 " with a server"; bad = 1 } }
    END { exit bad || n != 8 }' || die "one process and one server do not agree"

# Folders that the server was not started with are refused before the first step.
for wrong in --save_dir=/tmp/not-ours --init_model_path=/etc --resume=/etc/models/pass-00001; do
    servers "folder${wrong%%=*}" 1
    expect 2 "$WORKER" trainer --pservers="$LIST" --batch_size=2000 "$wrong"
    has "'${wrong#*=}"
    has "its folders are output, $TMP; start it with the save_dir"
    has_not "Batch 1,"
    [ ! -e /tmp/not-ours ] || die "a server wrote in /tmp/not-ours"
done

# Two trainers with different options, then with different lists of files: both stop before the first step.
pair() { # pair NAME TEXT ARGS_OF_1...: trainer 0 as usual, trainer 1 with ARGS (and in folder $DIR1)
    local name=$1 text=$2 t0
    shift 2
    servers "$name" 2
    start "$name-t0" "$WORKER" trainer --pservers="$LIST" --num_gradient_servers=2 --batch_size=2000 --server_timeout=30
    t0=$PID
    OUT=$(cd "${DIR1:-.}" && "$WORKER" trainer --pservers="$LIST" --num_gradient_servers=2 --trainer_id=1 --batch_size=2000 \
        --server_timeout=30 "$@" 2>&1)
    [ $? -ne 0 ] || die "$name: trainer 1 went on"
    wait "$t0" && die "$name: trainer 0 went on"
    OUT="$OUT $(cat "$name-t0.log")"
    has "$text"
    has_not "Batch 1,"
}
pair options "has other options" --batch_size=1000
mkdir other && cp train.ini other && mkdir other/data && cp data/a other/data/a && cp data/b other/data/c
DIR1=other pair files "has another list of training files"

# Settings of the optimizer: what is wrong has its line; what is right does something.
optimizer() { sed "s/^learning_rate = 0.1/$1/" train.ini >t.ini; }
optimizer 'learning_rate = 0.1\nbeta3 = 1'
expect 2 "$WORKER" trainer --local=1 --config=t.ini
has "t.ini:$(grep -n beta3 t.ini | cut -d: -f1): an optimizer has no setting 'beta3'"
optimizer 'learning_rate = 0.1\nlearning_rate_schedule = poly'
expect 2 "$WORKER" trainer --local=1 --config=t.ini
has "needs learning_rate_decay_a"
for how in 'clip_norm = 1e-12' 'clip_value = 1e-15' 'warmup_steps = 1e12' 'learning_rate_schedule = manual\nlearning_rate_args = 1:0, 2:0'; do
    optimizer "learning_rate = 0.1\n$how"
    sed -i 's/adagrad/sgd/' t.ini
    "$WORKER" trainer --local=1 --config=t.ini --batch_size=2000 --num_passes=2 --save_dir=m2 >t.log 2>&1 || die "$how: $(tail -2 t.log)"
    [ "$(costs t.log | cut -d" " -f2 | head -8)" = "$(costs t.log | cut -d" " -f2 | tail -8)" ] && [ "$(costs t.log | wc -l)" = 16 ] || die "$how: the second pass costs something else than the first"
done

# paddlectl run finds what can be found here before it connects: status 2, with file:line, and nothing is done. Of a folder, and of an archive.
CTL=$BIN/paddlectl
mkdir ws && cp -R data train.ini ws/
seq 4000 >ws/words
printf '%s\n' '[cluster]' 'hosts = local*2' "root_dir = $TMP/node%n" "port = $((10000 + RANDOM % 10000))" '[job]' 'job_dispatch_package = ws' '[train]' 'batch_size = 40' >conf.ini
early() { # early TEXT OPTION...
    local text=$1
    shift
    expect 2 "$CTL" run --conf=conf.ini "$@"
    has "$text"
    has_not "JOB"
    [ ! -e node0 ] && [ ! -e output ] || die "something was done: $(ls -d node0 output)"
}
line_of() { grep -n "$1" "$2" | cut -d: -f1; }
early "--data: data = queue needs update = async, ssp or geo" --data=queue
early "--reproducible: reproducible = topology needs n_streams" --reproducible=topology --dry-run
early "--batch_size: batch_size is 1, fewer than one sample for each of 2 streams" --batch_size=1
early "--checkpoint_copies: checkpoint_copies = 2 needs a second pserver" --checkpoint_copies=2 --pservers=1
early "ws/none.ini: No such file" --config=none.ini
cp conf.ini good.ini && echo 'n_streams = 1' >>conf.ini
early "conf.ini:9: n_streams is 1, fewer than the 2 trainers"
cp good.ini conf.ini
printf '%s\n' 'update = async' 'data = queue' 'job = online' >>ws/train.ini
early "ws/train.ini:$(line_of '^data = queue' ws/train.ini): data = queue hands out the files of a pass"
sed 's/^size = 8$/size = eight/' train.ini >ws/train.ini
early "ws/train.ini:$(line_of eight ws/train.ini): size is a whole number"
sed 's/^act = tanh/act = tanhh/' train.ini >ws/train.ini
for kind in ws.tar ws.tar.gz; do
    tar -C ws -caf $kind .
    early "$kind: train.ini:$(line_of tanhh ws/train.ini): unknown activation 'tanhh'" --job_dispatch_package=$kind
done
sed 's/^vocabulary = 4000/vocabulary_file = words\nvocabulary = 4001/' train.ini >ws/train.ini
tar -C ws -cf ws.tar . # with the file that the network names
early "train.ini:$(line_of 4001 ws/train.ini): vocabulary is 4001, but ./words has 4000 lines" --job_dispatch_package=ws.tar --dry-run
sed 's/^vocabulary = 4000/vocabulary_file = words/' train.ini >ws/train.ini
tar -C ws -rf ws.tar train.ini # an archive that was appended to: the last one counts
for kind in ws ws.tar; do expect 0 "$CTL" run --conf=conf.ini --dry-run --job_dispatch_package=$kind; done
# What is put aside of an archive goes again, also when somebody ends paddlectl in the middle of the check.
mv ws/words few && seq 1000000 >ws/words && tar -C ws -cf big.tar . && mv few ws/words && mkdir aside
TMPDIR=$TMP/aside start ended "$CTL" run --conf=conf.ini --dry-run --job_dispatch_package=big.tar
until [ -n "$(ls aside)" ] || ! kill -0 "$PID" 2>/dev/null; do :; done
kill -TERM "$PID" 2>/dev/null
wait "$PID"
[ -z "$(ls aside)" ] || die "left behind: $(ls -R aside)"
sed 's,^vocabulary = 4000,vocabulary_file = /nowhere/words,' train.ini >ws/train.ini # a file of the nodes
expect 0 "$CTL" run --conf=conf.ini --dry-run
sed 's/^learning_rate = 0.1/&\nbeta3 = 1/' train.ini >ws/train.ini
early "ws/train.ini:$(line_of beta3 ws/train.ini): an optimizer has no setting 'beta3'"
expect 0 "$CTL" run --conf=conf.ini --pservers=none --trainer_command='test -e train.ini' # whose own train.ini that is

# A cost or gradient that is not finite ends the job, under every update rule.
cp -R "$TOP/workspace_template/fit_a_line" line
PADDLECTL=$CTL expect 0 line/prepare --shards=2 --rows=300
for update in sync async ssp geo; do
    expect 1 "$CTL" run --conf=conf.ini --job_dispatch_package=line --update=$update --num_passes=60 \
        --set optimizer.learning_rate=1e6
    has "is not a finite number"
    has "(stop_on_nan)"
done
rm -rf output node0 node1

# A file that cannot be looked at, and a train.ini that no manifest could hold.
ln -s nowhere data/dangling
expect 1 "$WORKER" trainer --local=1 --batch_size=2000
has "data/dangling: No such file"
rm data/dangling
printf '; caf\351\n' >>train.ini
expect 2 "$WORKER" trainer --local=1 --batch_size=2000
has "train.ini:$(wc -l <train.ini): this line is not UTF-8"
