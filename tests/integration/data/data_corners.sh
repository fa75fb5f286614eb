#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data at its corners, as a user meets them: a table whose header names its columns and that comes through a pipe; folders with fewer files than
# streams; labels that a cost can't take; a day that ends while a save is due.
# both
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker CTL=$BIN/paddlectl
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1
cat >train.ini <<'END'
[data]
format = csv
header = true
train = stream/*/*/part-*
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
batch_size = 10
END
table() { awk -v n="$1" 'BEGIN { print "x,z,y"; for (i = 0; i < n; i++) print i % 7 - 3 ",0," (i % 7 > 3) }'; }
for f in d1/00 d1/01 d2/00 d2/01; do
    mkdir -p "stream/$f" && table 60 >"stream/$f/part-0" && touch "stream/$f/_DONE"
done

# --- each trainer trains its own folders: of four streams three have no file, and nothing to say about a header
expect 0 "$WORKER" trainer --local=1 --job=online --data_layout=local --n_streams=4 --online_idle=0.1 --save_dir=model
has ", 60 samples in"
model=model/pass-00003

# --- a header that names the columns: of a file; not of a pipe, which would lose what is read with it
table 3000 >table.csv
expect 0 "$CTL" infer --model=$model --data=table.csv
[ "$(wc -l <<<"$OUT")" = 3000 ] || die "a file: $(wc -l <<<"$OUT") lines"
expect 0 "$CTL" infer --model=$model --data=- <table.csv
[ "$(wc -l <<<"$OUT")" = 3000 ] || die "standard input from a file: $(wc -l <<<"$OUT") lines"
OUT=$("$CTL" infer --model=$model --data=- < <(cat table.csv) 2>&1) && die "a pipe: $(wc -l <<<"$OUT") lines"
has "the header of a pipe can't name the columns"
sed 's/^header = true/&\ncolumns = x z y/' train.ini >named.ini
OUT=$("$CTL" infer --model=$model --train_ini=named.ini --data=- < <(cat table.csv)) || die "a pipe with named columns: $OUT"
[ "$(wc -l <<<"$OUT")" = 3000 ] || die "a pipe with named columns: $(wc -l <<<"$OUT") lines"

# --- files without one sample: no model comes of them
echo x,z,y >empty.csv
sed 's,stream/.*,empty.csv,' train.ini >empty.ini
expect 1 "$WORKER" trainer --local=1 --config=empty.ini --save_dir=none
has "empty.ini:4: there is no sample in the files of 'train = empty.csv'"
[ ! -e none ] || die "a model was saved"

# --- labels of -1 and 1: the cost would fall for ever
sed 's/y:label/y:dense/; s,stream/.*,table-1.csv,' train.ini >minus.ini
sed 's/,0$/,-1/' table.csv >table-1.csv
expect 1 "$WORKER" trainer --local=1 --config=minus.ini --save_dir=none
has "stream 0, sample 0: label 'y' is -1, but cost 'c' (binary_cross_entropy) takes labels from 0 to 1"
expect 0 "$CTL" infer --model=$model --train_ini=minus.ini --data=table-1.csv # who asks has no labels

# --- a day ends between two saves: its last passes are saved before, so that who is stopped then does not end it again
online() { "$WORKER" trainer --local=1 --job=online --online_idle=0.1 --online_delta_period=3 "$@"; }
expect 0 online --save_dir=days
has "Saved days/pass-00001 (pass 2)
Day d1 is over"
