#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl prepare on files of samples, against a few lines of Python that do the same: dealt, held out, packed, rare categories, numbers
# for categories, broken lines, images.
. "$(dirname "$0")/../../support/lib.sh"
cd "$TMP" || exit 1
ctl=$BIN/paddlectl
prepare() { expect 0 "$ctl" prepare "$@"; }

cat >ref.py <<'PY'
import collections, glob, gzip, io, random, struct, subprocess, sys
def lines(path):
    raw = open(path, 'rb').read()
    if raw[:2] == b'\x1f\x8b': raw = gzip.decompress(raw)
    if raw[:4] == b'\x28\xb5\x2f\xfd': raw = subprocess.run(['zstd', '-dc', path], check=True, stdout=subprocess.PIPE).stdout
    return raw.decode().split('\n')[:-1]
def shards(kind, out):
    paths = sorted(glob.glob('%s/%s_data_dir/*' % (out, kind)))
    return [lines(p) for p in paths]
def same(got, want, what):
    assert got == want, '%s: %r\n instead of %r' % (what, [g[:3] for g in got], [w[:3] for w in want])
def deal(rows, n): return [rows[i::n] for i in range(n)]
def split(rows, k, last):
    if last and k: last = min(last, len(rows) // k)
    if last: return rows[:-last], rows[-last:]
    return [r for i, r in enumerate(rows) if not k or (i + 1) % k], [r for i, r in enumerate(rows) if k and (i + 1) % k == 0]
def counted(train, columns, min_count):
    vocab = {}
    for c in columns:
        n = collections.Counter(r.split('\t')[c] for r in train)
        kept = sorted(((-v, k.encode()) for k, v in n.items() if v >= min_count))
        vocab[c] = [(b'<rare>', sum(v for v in n.values() if v < min_count))] + [(k, -v) for v, k in kept]
    return vocab
def rewritten(rows, vocab, encode):
    out = []
    for r in rows:
        cols = r.split('\t')
        for c, words in vocab.items():
            number = {w.decode(): i for i, (w, _) in enumerate(words)}
            i = number.get(cols[c], 0)
            if encode == 'index': cols[c] = str(i)
            elif i == 0 and cols[c]: cols[c] = '<rare>'
        out.append('\t'.join(cols))
    return out
PY

# --- click logs: from gzip, in two files, held out, packed; then with rare categories and numbers for them
python3 - <<'PY' || die "made-up clicks"
import gzip, random
random.seed(7)
def line():
    cats = ['' if random.random() < .1 else '%08x' % int(4 ** (6 * random.random())) for _ in range(26)]
    counts = ['' if random.random() < .1 else str(random.randrange(-1, 50)) for _ in range(13)]
    return '\t'.join([str(random.randrange(2))] + counts + cats) + '\n'
with gzip.open('day_0.gz', 'wt') as f: f.writelines(line() for _ in range(700))
with open('day_1', 'w') as f: f.writelines(line() for _ in range(333))
PY
prepare --format=criteo --out=plain --shards=4 day_0.gz day_1
has "lines          1033"
has "test_lines     0"
has_not "categories"
has_not "rare"
[ "$(cat plain/train_data_dir/* | sort | sha256sum)" = "$(zcat -f day_0.gz day_1 | sort | sha256sum)" ] || die "lines were lost"
[ ! -e plain/vocabulary ] || die "a vocabulary that nobody asked for"
for how in "gzip 10 0 1 text" "none 7 0 3 text" "none 0 100 2 index" "none 3 0 1 index" "none 6 40000 1 text" \
    "none 6 100 1 text"; do
    read -r pack k last min encode <<<"$how"
    prepare --format=criteo --out=ctr --shards=3 --holdout="$k" --holdout_last="$last" --pack="$pack" --min_count="$min" --encode="$encode" --json \
        day_0.gz day_1
    echo "$OUT" >counts.json
    python3 - "$k" "$last" "$min" "$encode" <<'PY' || die "criteo $how"
import json, sys
from ref import *
k, last, least, encode = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
train, test = split(lines('day_0.gz') + lines('day_1'), k, last)
counts = json.load(open('counts.json'))
assert (counts['train_lines'], counts['test_lines'], counts['lines']) == (len(train), len(test), 1033), counts
if least > 1 or encode == 'index':
    vocab = counted(train, range(14, 40), least)
    train, test = rewritten(train, vocab, encode), rewritten(test, vocab, encode)
    for c, words in vocab.items():
        want = ''.join('%s\t%d\n' % (w.decode(), n) for w, n in words)
        assert open('ctr/vocabulary/C%d.tsv' % (c - 13)).read() == want, c
    assert counts['categories'] == sum(len(v) - 1 for v in vocab.values()), counts
same(shards('train', 'ctr'), deal(train, 3), 'train')
same(shards('test', 'ctr'), deal(test, 3), 'test')
PY
done
prepare --format=criteo --out=ctr --shards=2 day_1 # held-out lines of before, and the third shard, must not stay
[ "$(ls ctr/train_data_dir ctr/test_data_dir | tr '\n' ' ')" = "ctr/test_data_dir:  ctr/train_data_dir: train.txt-00000 train.txt-00001 " ] ||
    die "left behind: $(ls ctr/*_data_dir)"
prepare --format=criteo --out=mixed --shards=2 --shuffle=true --seed=5 day_1
[ "$(cat mixed/train_data_dir/* | sort | sha256sum)" = "$(sort day_1 | sha256sum)" ] || die "shuffled lines were lost"
cmp -s <(cat mixed/train_data_dir/train.txt-00000) <(awk NR%2 day_1) && die "nothing was shuffled"
if command -v zstd >/dev/null; then
    zstd -q day_1 -o day_1.zst
    prepare --format=criteo --out=packed --shards=2 --pack=zstd day_1.zst
    [ "$(zstd -dc packed/train_data_dir/train.txt-00001.zst | sha256sum)" = "$(awk 'NR % 2 == 0' day_1 | sha256sum)" ] || die "zstd"
fi
expect 0 sh -c "zcat day_0.gz | '$ctl' prepare --format=criteo --out=piped -"
cmp <(zcat day_0.gz) piped/train_data_dir/train.txt-00000 || die "standard input"

# --- a log that is not Criteo's: what it has, what it should have, and where its own columns are described
own="A log with other columns needs a train.ini that names them, and prepare --config=train.ini: docs/tutorial.md, 'A log with your own columns'"
grep -q "^## A log with your own columns$" "$TOP/docs/tutorial.md" || die "the tutorial has no such section"
printf 'click,user,city\n%s' "$(seq -f '1,u%g,c1' 300)" >own.csv
for bad in 0 100; do
    expect 1 "$ctl" prepare --format=criteo --out=own --max_bad_lines=$bad own.csv
    has "own.csv:1: 1 column, but there should be 40 between tabs (the line has 2 commas); format criteo is Criteo's click logs: a label, 13 counts, 26 categories between tabs. $own"
    [ "$(wc -l <<<"$OUT")" = 1 ] || die "more than one line: $OUT"
done
head -3 own.csv | tr , '\t' >own.tsv
for last in "" "--holdout=6 --holdout_last=40000"; do # as in the template
    # shellcheck disable=SC2086
    expect 1 "$ctl" prepare --format=criteo --out=own --max_bad_lines=100 $last own.tsv
    has "own.tsv:1: 3 columns, but there should be 40 between tabs; format criteo is"
done
expect 1 "$ctl" prepare --format=criteo --out=own --holdout_last=40000 day_1
has "333 lines, 40000 of them should be held out: give a smaller holdout_last"
# Nobody is sent to --config who gave it.
printf '[data]\nformat = criteo\ntrain = x\n' >criteo.ini
expect 1 "$ctl" prepare --config=criteo.ini --out=own own.tsv
has "own.tsv:1: 3 columns, but there should be 40 between tabs; format criteo is"
has "This format is in [data] of criteo.ini; a log with other columns has format = csv or tsv"
has_not "--config"
{ cat own.tsv day_1; } >damaged # a damaged beginning is no other format
prepare --format=criteo --out=own --max_bad_lines=3 damaged
has "damaged:3: 3 columns, but there should be 40 between tabs"
has "bad_lines      3"

# --- ratings, with lines that are none; pairs of index and value
printf '1::17::5::978300760\n2::17::four::978300761\n2::3::4::978300762\n\n3::17::1\n9::9::0.5::1\n' >ratings.dat
expect 1 "$ctl" prepare --format=movielens --out=ml ratings.dat
has "ratings.dat:2: 'four' is not a number (bad lines: 1, allowed: 0)"
[ -z "$(ls ml/*_data_dir)" ] || die "half of a result: $(ls -a ml/*)"
prepare --format=movielens --out=ml --max_bad_lines=2 ratings.dat
has "ratings.dat:5: 3 columns, but there should be 4"
has "bad_lines      2"
[ "$(cat ml/train_data_dir/train.txt-00000)" = "$(sed -n '1p;3p;6p' ratings.dat)" ] || die "ratings: $(cat ml/train_data_dir/*)"
printf '1 3:0.5 7:1\n-1 2:1 # a comment\n2 1:1\n' >svm
expect 1 "$ctl" prepare --format=libsvm --out=svm.out svm
has "svm:3: '2' is not a class of the label"

# --- a table as train.ini describes it: header, quotes, several texts in a column; the rare ones go
cat >train.ini <<'INI'
[data]
format = csv
header = true
train = train_data_dir/*
fields = age:dense job:category tags:categories income:label
missing = ?
[layer p]
type = fc
inputs = age
size = 2
act = softmax
[cost c]
type = cross_entropy
input = p
label = income
[optimizer]
type = sgd
INI
printf 'age,job,tags,income\r\n30,"a ""b"", c",x|y,1\r\n41, clerk ,y||z,0\r\n52,?,,1\r\n63,"a ""b"", c",y|w,0\r\n' >people.csv
cp people.csv more.csv
prepare --config=train.ini --out=people --min_count=3 --test=more.csv people.csv people.csv
has "train_lines    8"
has "test_lines     4"
diff - people/train_data_dir/train.txt-00000 <<'CSV' || die "a table"
age,job,tags,income
30,"a ""b"", c",<rare>|y,1
41,<rare>,y|<rare>,0
52,?,,1
63,"a ""b"", c",y|<rare>,0
30,"a ""b"", c",<rare>|y,1
41,<rare>,y|<rare>,0
52,?,,1
63,"a ""b"", c",y|<rare>,0
CSV
[ "$(head -2 people/test_data_dir/test.txt-00000)" = "$(printf 'age,job,tags,income\n30,"a ""b"", c",<rare>|y,1')" ] || die "the held-out table"
printf '<rare>\t4\na "b", c\t4\n' | diff - people/vocabulary/job.tsv || die "vocabulary of job"
prepare --config=train.ini --out=people --encode=index people.csv
printf 'age,job,tags,income\n30,1,3|1,1\n41,3,1|4,0\n52,2,,1\n63,1,1|2,0\n' >want
printf '<rare>\t0\na "b", c\t2\n\t1\nclerk\t1\n' >want.job
diff want.job people/vocabulary/job.tsv || die "vocabulary of job with numbers"
diff want people/train_data_dir/train.txt-00000 || die "a table with numbers"
mkdir elsewhere && cp train.ini elsewhere/ # the files are relative to the current folder, not to train.ini's
prepare --config=elsewhere/train.ini --out=again --encode=index people.csv
cmp again/train_data_dir/train.txt-00000 people/train_data_dir/train.txt-00000 || die "a table, with a train.ini in another folder"
expect 2 "$ctl" prepare --config=train.ini --out=people - <people.csv
has "the header of a pipe can't name the columns"
printf 'other,header\n' >more.csv
expect 1 "$ctl" prepare --config=train.ini --out=people people.csv more.csv
has "more.csv:1: the header differs from that of the first file"

# --- images
python3 - <<'PY' || die "made-up images"
import gzip, random, struct
random.seed(3)
for name, n in (('train', 23), ('t10k', 5)):
    with gzip.open(name + '-images-idx3-ubyte.gz', 'wb') as f: f.write(struct.pack('>IIII', 2051, n, 4, 3) + bytes(random.randrange(256) for _ in range(12 * n)))
    with gzip.open(name + '-labels-idx1-ubyte.gz', 'wb') as f: f.write(struct.pack('>II', 2049, n) + bytes(random.randrange(10) for _ in range(n)))
PY
prepare --format=idx --out=digits --shards=3 --holdout=4 --test=t10k-images-idx3-ubyte.gz --pack=gzip train-images-idx3-ubyte.gz
has "train_lines    18"
has "test_lines     10"
python3 - <<'PY' || die "images"
import gzip, struct
def read(images, labels):
    x, y = gzip.open(images).read(), gzip.open(labels).read()
    n = struct.unpack('>IIII', x[:16])
    assert n[0] == 2051 and n[2:] == (4, 3) and struct.unpack('>II', y[:8]) == (2049, n[1]) and len(x) == 16 + 12 * n[1] and len(y) == 8 + n[1], (n, len(x), len(y))
    return [(x[16 + 12 * i:28 + 12 * i], y[8 + i]) for i in range(n[1])]
a, b = (read(k + '-images-idx3-ubyte.gz', k + '-labels-idx1-ubyte.gz') for k in ('train', 't10k'))
train, test = [r for i, r in enumerate(a) if (i + 1) % 4], [r for i, r in enumerate(a) if (i + 1) % 4 == 0] + b
for kind, rows in (('train', train), ('test', test)):
    for i in range(3):
        where = 'digits/%s_data_dir/%s-%%s-ubyte-%05d.gz' % (kind, kind, i)
        assert read(where % 'images-idx3', where % 'labels-idx1') == rows[i::3], (kind, i)
PY

# --- the templates that use it, with files of the real data's form
cp -R "$TOP/workspace_template/ctr" "$TOP/workspace_template/recognize_digits" .
PADDLECTL=$ctl expect 0 sh ctr/prepare --shards=2 --holdout=33 day_0.gz day_1
[ "$(cat ctr/test_data_dir/* | wc -l) $(cat ctr/train_data_dir/* | wc -l)" = "33 1000" ] || die "ctr/prepare: $OUT"
mkdir mnist && mv ./*-ubyte.gz mnist && gunzip mnist/train-images* mnist/train-labels*
PADDLECTL=$ctl expect 0 sh recognize_digits/prepare --shards=2 mnist
[ "$(cd recognize_digits && echo t*_data_dir/*-labels-*)" = "test_data_dir/test-labels-idx1-ubyte-00000 test_data_dir/test-labels-idx1-ubyte-00001 \
train_data_dir/train-labels-idx1-ubyte-00000 train_data_dir/train-labels-idx1-ubyte-00001" ] || die "recognize_digits/prepare: $OUT"

# --- texts: test files of their own (PTB, WikiText); a text in which no word is found
printf 'the cat sat\nthe dog sat\n' >ptb.train
printf 'the cat ran\n' >ptb.test.1
printf 'a dog sat\n' >ptb.test.2
prepare --out=ptb --shuffle=false --test='ptb.test.*' ptb.train
has "train_lines    2"
has "test_lines     2"
[ "$(sed 's/ /\n/g' ptb/test_data_dir/* | grep -cx "$(grep -nx '<unk>' ptb/dict.txt | awk -F: '{ print $1 - 1 }')")" = 2 ] ||
    die "ran and a are not in the dictionary: $(cat ptb/dict.txt ptb/test_data_dir/*)"
prepare --out=ptb --holdout=2 --test=ptb.test.1 ptb.train # both kinds of held-out lines
has "test_lines     2"
prepare --out=ptb ptb.train
[ -z "$(ls ptb/test_data_dir)" ] || die "test lines of before: $(ls ptb/test_data_dir)"
printf '\346\210\221 \347\210\261\n' >chinese
expect 2 "$ctl" prepare --out=zh chinese
has "there is no word in chinese: --tokens=words finds words of the letters a to z, and numbers; --tokens=blanks takes any text"
expect 2 "$ctl" prepare --out=zh --test=chinese ptb.train
[ ! -e zh/dict.txt ] || die "a dictionary without words"
prepare --out=zh --tokens=blanks chinese
has "train_words    2"

# --- what cannot be
while IFS='|' read -r text args; do
    # shellcheck disable=SC2086
    expect 2 "$ctl" prepare --out=never $args
    has "$text"
done <<'ROWS'
unknown data format 'nope'|--format=nope day_1
for other files --config=train.ini describes the columns|--format=csv people.csv
tokens has no meaning with format criteo|--format=criteo --tokens=words day_1
min_count has no meaning with format lines|--min_count=3 day_1
standard input can be read only once|--format=criteo --min_count=2 -
format movielens has no category columns here|--format=movielens --encode=index ratings.dat
buckets needs encode = hash|--format=criteo --buckets=9 day_1
format is libsvm, but train.ini says csv|--format=libsvm --config=train.ini people.csv
encode must be text, index or hash|--format=criteo --encode=numbers day_1
no file matches|--format=criteo --test=nofile* day_1
ROWS
# --- a text whose words are too rare for the dictionary: the counts alone are easily overlooked
printf 'the cat sat on the mat\nthe dog sat on the log\n' >rare.txt
expect 0 "$ctl" prepare --format=lines --min_word_freq=3 --holdout=0 --out=rare rare.txt
has "67 % of the training words are unknown, since they occur fewer than 3 times: give a smaller --min_word_freq"
expect 0 "$ctl" prepare --format=lines --min_word_freq=2 --holdout=0 --out=common rare.txt
has_not "unknown, since"

[ ! -e never/train_data_dir/train.txt-00000 ] || die "a refused prepare has written"
exit 0
