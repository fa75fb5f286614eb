#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What can be known before the start is found before the start: a forgotten prepare, fewer files than
# streams, missing test data or dictionaries. Status 2, one message, no host is contacted. What only
# the nodes know is not refused. prepare makes as many shards as conf.ini has trainers.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
CTL=$BIN/paddlectl
export PADDLECTL=$CTL
cd "$TMP" || exit 1
seq 200 | awk '{ print "one two three four", "w" $1 % 7, "w" $1 % 5 }' >text

early() { # early TEXT ARGS...: run is refused with this text
    local text=$1
    shift
    expect 2 "$CTL" run "$@"
    has "$text"
    [ "$(wc -l <<<"$OUT")" = 1 ] || die "more than one line: $OUT"
    [ ! -e node0 ] && [ ! -e output ] || die "something was done: $(ls -d node0 output)"
}
fine() { expect 0 "$CTL" run --dry-run "$@"; }
line_of() { grep -n "$1" workspace/train.ini | cut -d: -f1; }

# --- a template, step by step: prepare is forgotten, then done
expect 0 "$CTL" init word2vec job
cd job || exit 1
sed -i "s,^root_dir.*,root_dir = $PWD/node%n," conf.ini
TRAIN="./workspace/train.ini:$(line_of '^train =')" TEST="./workspace/train.ini:$(line_of '^test =')"
early "$TRAIN: no file of the workspace matches train = train_data_dir/*: run './workspace/prepare' \
first, which makes the data"
early "run './workspace/prepare' first" --dry-run
prepare() { ./workspace/prepare --min_word_freq=1 --holdout=4 "$@" ../text >/dev/null || die prepare; }
shards() { echo $(cd workspace && ls -d t*_data_dir/* | wc -l); }
prepare
[ "$(shards)" = 4 ] || die "not two shards and two for the test: $(ls workspace/*)" # hosts = local*2
fine

# --- fewer files than streams
early "$TRAIN: train = train_data_dir/* matches 2 files for 5 streams (n_streams = 5, --n_streams); \
'paddlectl prepare' and 'paddlectl split' take --shards=5" \
    --n_streams=5
early "matches 2 files for 4 streams (one for each trainer)" --hosts='local*4'
fine --hosts='local*4' --min-nodes=2 # perhaps two hosts are left out
rm workspace/test_data_dir/*1
early "$TEST: test = test_data_dir/* matches 1 file for 2 streams"
rm workspace/test_data_dir/*
early "$TEST: no file of the workspace matches test = test_data_dir/*: run './workspace/prepare'"
echo 'n_streams = 3' >>conf.ini
prepare
[ "$(shards)" = 6 ] || die "not n_streams shards: $(ls workspace/*)"
fine
(cd workspace && rm train_data_dir/*0)
early "matches 2 files for 3 streams (n_streams = 3, conf.ini:"
sed -i '$d' conf.ini
prepare --shards=5
[ "$(shards)" = 10 ] || die "--shards: $(ls workspace/*)"
SPLIT_COUNT=4 prepare # the variable of the original's scripts
[ "$(shards)" = 8 ] || die "SPLIT_COUNT: $(ls workspace/*)"
prepare --shards=5

# --- a dictionary that is not there; files that .paddleignore leaves out
rm workspace/dict.txt
early "./workspace/train.ini:$(line_of '^vocabulary_file'): vocabulary_file = dict.txt: the workspace \
has no such file: run './workspace/prepare' first"
prepare
echo test_data_dir >workspace/.paddleignore
early "$TEST: the files that match test = test_data_dir/* are left out of the workspace"
echo dict.txt >workspace/.paddleignore
early ".paddleignore leaves out vocabulary_file = dict.txt"
rm workspace/.paddleignore

# --- packed: the message tells where prepare belongs
tar -C workspace -czf full.tgz .
tar -C workspace -czf bare.tgz --exclude='*_dir' .
fine --job_dispatch_package=full.tgz
early "bare.tgz: train.ini:${TRAIN##*:}: no file of the workspace matches train = train_data_dir/*: run \
the workspace's 'prepare', which makes the data, before it is packed" --job_dispatch_package=bare.tgz
early "full.tgz: train.ini:${TRAIN##*:}: train = train_data_dir/* matches 2 files for 6 streams" \
    --job_dispatch_package=full.tgz --n_streams=6

# --- options that only a trainer refused
early "--set data.train=data/x: train = data/x: job = online takes one pattern of files in folders" \
    --job=online --set data.train=data/x
early "--init_model_path: the workspace has no folder models/a" \
    --init_model_path=models/a
mkdir -p workspace/models/a && touch workspace/models/a/manifest.json
fine --init_model_path=models/a/
fine --init_model_path=/models/on/the/nodes
early "rows cannot be admitted or age under update = geo" --update=geo \
    --set layer.e1.admit_count=2
fine --update=async --set layer.e1.admit_count=2
cp workspace/train.ini keep.ini && sed -i '/^test = /d' workspace/train.ini
early "--job: job = test, but [data] of ./workspace/train.ini has no test" --job=test \
    --init_model_path=/m
sed -i '/^train = /d' workspace/train.ini
early "./workspace/train.ini: [data] has no train, the pattern of the training files"
fine --job=checkgrad # needs no data
mv keep.ini workspace/train.ini

# --- what is not refused
rm workspace/train_data_dir/*1
early "matches 1 file for 2 streams"
fine --update=async --data=queue # files belong to no trainer
fine --data_layout=local         # each node has the same file
early "no file of the workspace matches train = nothing/*" --data_layout=local \
    --set 'data.train=nothing/*'
fine --set 'data.train=/data/of/the/nodes/*'
fine --set 'data.train=../beside/*'
fine --trainer_command=true --set 'data.train=nothing/*'
fine --job=online --set 'data.train=stream/*/*/part-*' # folders that are still to come
fine --job_workspace=/on/the/nodes --n_streams=9
mkdir workspace/elsewhere && mv workspace/train_data_dir/* workspace/elsewhere
rmdir workspace/train_data_dir && ln -s elsewhere workspace/train_data_dir
fine # a link: the nodes look

# --- prepare and conf --streams
cd .. || exit 1
expect 0 "$CTL" conf --conf=job/conf.ini --streams --hosts='local*7'
[ "$OUT" = 7 ] || die "conf --streams: $OUT"
expect 0 "$CTL" prepare --conf=job/conf.ini --out=three --tokens=blanks text
[ "$(ls three/train_data_dir | wc -l)" = 2 ] || die "prepare --conf: $(ls three/*)"
expect 0 "$CTL" prepare --out=one text # no conf.ini here
[ "$(ls one/train_data_dir | wc -l)" = 1 ] || die "without a conf.ini: $(ls one/*)"
printf '[cluster]\nhosts = a[1-4], b\ntrainers = 3\n' >conf.ini
expect 0 "$CTL" prepare --out=here text
[ "$(ls here/train_data_dir | wc -l)" = 3 ] || die "trainers = 3: $(ls here/*)"
printf '[cluster]\nhosts = a[4-1]\n' >conf.ini
expect 2 "$CTL" prepare --out=none text
has "conf.ini:2: the range in 'a[4-1]' runs backwards"
expect 0 "$CTL" prepare --shards=2 --out=two text
exit 0
