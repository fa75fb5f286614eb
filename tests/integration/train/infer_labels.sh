#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# infer without labels: in every format lines may lack the label, and the answers are those for the same
# lines with it. A layer that reads the label needs it; other lines have a message with all numbers.
# A network whose cost is a layer predicts nothing.
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker CTL=$BIN/paddlectl
unset OPENBLAS_CORETYPE
cd "$TMP" || exit 1

tail_of() { # tail_of INPUT TYPE LABEL COST SIZE ACT
    cat <<END
[layer a]
type = $2
inputs = $1
size = 4
[layer p]
type = fc
inputs = a
size = $5
act = $6
[cost c]
type = $4
input = p
label = $3
[optimizer]
type = sgd
learning_rate = 0.1
[train]
batch_size = 10
num_passes = 1
END
}
# same NAME WITH WITHOUT: a model of NAME.ini gives the same answers for both files, and another file
# gives other ones.
same() {
    "$WORKER" trainer --local=1 --config="$1.ini" --save_dir="$1" >"$1.log" 2>&1 || die "$1: $(tail -3 "$1.log")"
    "$CTL" infer --model="$1/pass-00000" --data="$2" --ids >"$1.with" 2>err || die "$1 with labels: $(cat err)"
    "$CTL" infer --model="$1/pass-00000" --data="$3" --ids >"$1.without" 2>err || die "$1 without labels: $(cat err)"
    cmp "$1.with" "$1.without" || die "$1: other answers without labels"
    [ "$(sort -u "$1.with" | wc -l)" -gt 3 ] || die "$1: all answers are equal: $(head -2 "$1.with")"
}

# --- a table whose header names the columns; with the columns in train.ini; between tabs; with quotes
awk 'BEGIN { print "x,y,word"; for (i = 0; i < 60; i++) print i % 7 - 3 "," (i % 7 > 3) ",w" i % 5 }' >header.csv
{ printf '[data]\nformat = csv\nheader = true\ntrain = header.csv\nfields = x:dense word:category y:label\n'
    tail_of x fc y binary_cross_entropy 1 sigmoid; } >header.ini
cut -d, -f1,3 header.csv >header.none
same header header.csv header.none
sed 1d header.csv >columns.csv
sed 's/^header = true/columns = x y word/; s/header.csv/columns.csv/' header.ini >columns.ini
cut -d, -f1,3 columns.csv | sed 's/^\([^,]*\),\(.*\)/ "\1","\2"/' >columns.none
same columns columns.csv columns.none
# Lines with and without the label may be mixed, and a label that is none does not count.
{ sed -n 1p columns.csv; sed -n 2p columns.none; sed -n '3s/,[01],/,?,/p' columns.csv; } >mixed
"$CTL" infer --model=columns/pass-00000 --data=mixed --ids 2>err | cmp - <(head -3 columns.with) ||
    die "mixed lines: $(cat err)"
echo 1,2,3,4 >bad
expect 1 "$CTL" infer --model=columns/pass-00000 --data=bad
has "bad:1: 4 columns, but there should be 3 between commas, or 2 without the label"
# Training needs the label.
cp columns.none columns.csv
expect 1 "$WORKER" trainer --local=1 --config=columns.ini --save_dir=none
has "columns.csv:1: 2 columns, but there should be 3 between commas"

# --- Criteo's click logs, ratings, index:value, ids
awk 'BEGIN { for (i = 0; i < 40; i++) { printf "%d", i % 2; for (k = 0; k < 13; k++) printf "\t%d", i * k % 9
    for (k = 0; k < 26; k++) printf "\tc%d", i % 3; print "" } }' >clicks
{ printf '[data]\nformat = criteo\ntrain = clicks\n'; tail_of dense fc label binary_cross_entropy 1 sigmoid; } >criteo.ini
cut -f2- clicks >clicks.none
same criteo clicks clicks.none
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 9 "::" i % 4 "::" 1 + i % 5 "::" 1000 + i }' >ratings
{ printf '[data]\nformat = movielens\ntrain = ratings\n[field user]\nvocabulary = 9\n[field movie]\nvocabulary = 4\n'
    tail_of user embedding rating square_error 1 ''; } | sed '/^act = $/d' >movielens.ini
sed -E 's/::[0-9]+(::[0-9]+)$/\1/' ratings >ratings.none
same movielens ratings ratings.none
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 2, "1:" i % 7, "3:" i % 3 }' >pairs
{ printf '[data]\nformat = libsvm\ntrain = pairs\nfields = label:label features:dense\n[field features]\nsize = 4\n'
    tail_of features fc label binary_cross_entropy 1 sigmoid; } >libsvm.ini
sed 's/^[01] //' pairs >pairs.none
same libsvm pairs pairs.none
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 2, i % 9 }' >numbers
{ printf '[data]\nformat = ids\nvocabulary = 9\ntrain = numbers\nfields = y w\n'; tail_of w embedding y cross_entropy 9 softmax; } >ids.ini
sed "s/^[01] //" numbers >numbers.none
same ids numbers numbers.none
echo 1 2 3 >bad
expect 1 "$CTL" infer --model=ids/pass-00000 --data=bad
has "bad:1: 3 ids, but there are 2 fields, or 1 without the label"

# --- images without their file of labels
/usr/bin/python3 - <<'PY' || die "made-up images"
import struct
pixels = bytes((7 * i) % 251 for i in range(40 * 6))
for name in ("small-images-idx3-ubyte", "pictures"):
    open(name, "wb").write(struct.pack(">IIII", 2051, 40, 2, 3) + pixels)
open("small-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, 40) + bytes(i % 10 for i in range(40)))
PY
{ printf '[data]\nformat = idx\ntrain = small-images-idx3-ubyte\n[field image]\nsize = 6\n'; tail_of image fc label cross_entropy 10 softmax; } >idx.ini
same idx small-images-idx3-ubyte pictures

# --- a layer that reads the label: no line may lack it; and such a cost is no prediction
{ printf '[data]\nformat = ids\nvocabulary = 9\ntrain = numbers\nfields = y w\n'
    tail_of w embedding y sum 9 '' | sed '/^act = $/d; /^label/d; s/^type = fc/type = nce/; s/^inputs = a$/inputs = a, y/; s/^size = 9/negatives = 3/'; } >nce.ini
"$WORKER" trainer --local=1 --config=nce.ini --save_dir=nce >nce.log 2>&1 || die "nce: $(tail -3 nce.log)"
expect 2 "$CTL" infer --model=nce/pass-00000 --data=numbers
has "the network predicts nothing, since its cost 'c' is layer 'p' itself: --layer=NAME prints another layer"
expect 1 "$CTL" infer --model=nce/pass-00000 --layer=p --data=numbers.none
has "numbers.none:1: 1 ids, but there are 2 fields"
has "; for layer 'p' no line may lack a field"
# The hint is for lines that lack a field, and for no other error.
for line in "1 2 3:3 ids, but there are 2 fields" "1 x:'x' is not an id" "1 9:id 9 is not below"; do
    echo "${line%%:*}" >bad
    expect 1 "$CTL" infer --model=nce/pass-00000 --layer=p --data=bad
    has "bad:1: ${line#*:}"
    has_not "no line may lack"
done
{ sed 's/^format = ids/format = csv\ncolumns = y w/; s/^fields = .*/fields = y:id w:id/' nce.ini; } >table.ini
sed -i '/^vocabulary/d' table.ini && printf '[field y]\nvocabulary = 9\n[field w]\nvocabulary = 9\n' >>table.ini
tr ' ' , <numbers >numbers.csv && sed -i 's/^train = numbers$/&.csv/' table.ini
"$WORKER" trainer --local=1 --config=table.ini --save_dir=table >table.log 2>&1 || die "table: $(tail -3 table.log)"
echo 3 >bad
expect 1 "$CTL" infer --model=table/pass-00000 --layer=p --data=bad
has "bad:1: 1 column, but there should be 2 between commas; for layer 'p' no line may lack a field"
echo 3,4,5 >bad
expect 1 "$CTL" infer --model=table/pass-00000 --layer=p --data=bad
has "bad:1: 3 columns, but there should be 2 between commas"
has_not "no line may lack"
expect 0 "$CTL" infer --model=nce/pass-00000 --layer=a --data=numbers
exit 0
