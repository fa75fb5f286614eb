#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# infer --tokens: the word2vec template, trained with sentences that follow a rule, continues a sentence of words. The answer is that
# for the ids of the words; capitals, punctuation, unknown words and standard input; each mistake has a message.
. "$(dirname "$0")/../../support/lib.sh"
CTL=$BIN/paddlectl
export PADDLECTL=$CTL
cd "$TMP" || exit 1

# Each sentence counts on from a random number: the next word follows from the last one.
numbers="zero one two three four five six seven eight nine ten eleven"
awk -v words="$numbers" 'BEGIN { srand(2); n = split(words, w, " ")
    for (i = 0; i < 1500; i++) { s = int(rand() * n); for (k = 0; k < 7; k++) printf "%s ", w[(s + k) % n + 1]; print "rare number", i } }' >text
"$CTL" init word2vec >/dev/null || die "init"
cd word2vec || exit 1
workspace/prepare --min_word_freq=20 --shards=2 ../text >/dev/null || die "prepare"
expect 0 "$CTL" run --root_dir="$TMP/root%n" --port=0 --nic=lo --num_passes=3 --batch_size=64 </dev/null

after() { "$CTL" infer --data=- "$@" 2>"$TMP/err" | tail -1; }
best() { # best SENTENCE WORD OPTION... : the most probable word behind the sentence
    local answer
    answer=$(after --tokens=words "${@:3}" <<<"$1") || die "infer: $(cat "$TMP/err")"
    [[ $answer == "$2":0.[5-9]* || $answer == "$2":1* ]] || die "behind '$1' comes not $2 but $answer"
}
best "two three four five" six
best "Nine, ten; ELEVEN!" zero
best "one two three four five six seven eight" nine
best "one two three four five six seven eight" nine --batch_size=1
best "eight nine ten eleven zero one two rare number" '<unk>' --top=1
best "eight nine ten eleven zero one two rare number $(printf '%070000d' 0)" '<e>'
# the same as for the ids, each window of each line
sentences=$'four five six seven\n\nten eleven zero nonsense one'
awk 'NR == FNR { id[$1] = FNR - 1; next } { for (i = 1; i <= NF; i++) printf "%d ", id[$i]; print "" }' \
    workspace/dict.txt - <<<"$sentences" >ids
[ "$(tr -d '\n' <ids | wc -w)" = 9 ] || die "ids: $(cat ids)"
"$CTL" infer --data=ids --ids >want 2>err || die "infer of ids: $(cat err)"
[ "$(wc -l <want)" = 5 ] || die "windows: $(cat want)"
for tokens in words blanks; do
    echo "$sentences" >words
    "$CTL" infer --data=words --ids --tokens=$tokens 2>err | cmp - want || die "other answers for words ($tokens): $(cat err)"
done
# blanks: only the bytes themselves
[ "$(after --tokens=blanks <<<"ONE two, three;")" = "$(after --tokens=words <<<"u u u")" ] ||
    die "--tokens=blanks knows words in capitals"
# A sentence without a window is named, and its neighbours have their answers
printf 'one\n\nfour five six seven\n?!\ntwo three four five six seven' >some
"$CTL" infer --data=some --tokens=words --ids >answers 2>err || die "infer of short sentences: $(cat err)"
cmp <(head -2 want) <(head -2 answers) || die "other answers beside short sentences"
[ "$(wc -l <answers)" = 6 ] || die "$(wc -l <answers) answers"
[ "$(grep -v ^paddlectl err)" = "infer: some:1: no answer: the sentence has 1 word, with <s> and <e> 3, and the network reads 5
infer: some:4: no answer: the line has no words" ] || die "what is said of short sentences: $(cat err)"
echo 3 >some
expect 0 "$CTL" infer --data=some
has "infer: some:1: no answer: the sentence has 1 word, with <s> and <e> 3, and the network reads 5"

# --- mistakes
expect 2 "$CTL" infer --data=words --tokens=letters
has "tokens is words or blanks, not 'letters'"
expect 1 "$CTL" infer --data=words
has "'four' is not an id (bad lines: 1, allowed: 0); if these are sentences, give --tokens=words"
cp workspace/dict.txt kept && sed -i 's/^<unk>$/unknown/' workspace/dict.txt
expect 1 "$CTL" infer --data=words --tokens=words
has "dict.txt: the line '<unk>' is missing"
rm workspace/dict.txt
expect 2 "$CTL" infer --data=words --tokens=words
has "cannot open vocabulary_file"
cp kept workspace/dict.txt
cd .. && "$CTL" init fit_a_line >/dev/null && cd fit_a_line || die "init fit_a_line"
workspace/prepare --rows=200 >/dev/null || die "prepare fit_a_line"
(cd workspace && "$BIN/paddle_worker" trainer --local=1 --num_passes=1) >log 2>&1 || die "fit_a_line: $(tail -3 log)"
expect 2 "$CTL" infer --data=../word2vec/words --tokens=words
has "train.ini: --tokens needs data of ids, and a vocabulary_file that has their words"
exit 0
