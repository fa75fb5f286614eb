#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A training job on three hosts that share nothing: own addresses, own processes, own file systems, links of 200 Mbit/s. The
# model comes back whole and equal to that of one process on this machine; nothing is left on the hosts.
# release only (three links of 200 Mbit/s and a sanitizer take too long)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -e /usr/share/wordnet/data.noun ] || skip "no WordNet here (Debian: wordnet-base)"
net_hosts 3 200mbit
cd "$TMP" || exit 1
cp -R "$TOP/workspace_template/word2vec" ws
"$BIN/paddlectl" prepare --format=wordnet --out=ws --shards=3 --holdout=20 --share=0.05 --min_word_freq=20 \
    /usr/share/wordnet/data.noun >prepare.log || die "prepare"
cat "$ns/conf.ini" - >conf.ini <<END
[job]
job_dispatch_package = ws
[train]
num_passes = 1
batch_size = 96
END
expect 0 "$fixture" exec "$ns" "$BIN/paddlectl" run --conf=conf.ini
has "Test after pass 1/1"
# Every part that the manifest names is here, though each was written on another machine.
model=output/latest/pass-00000
[ -s $model/manifest.json ] || die "no model came back"
for f in $(grep -o '"file": *"[^"]*"' $model/manifest.json | cut -d'"' -f4); do
    [ -s "$model/$f" ] || die "part $f is missing"
done
[ "$(ls $model | wc -l)" = 7 ] || die "parts of three servers with two threads, and a manifest: $(ls $model)"
after=$(sed -n 's/.*Test after pass 1\/1: .*perplexity \([0-9.]*\),.*/\1/p' <<<"$OUT")
local=$(cd ws && "$BIN/paddle_worker" trainer --local=1 --n_streams=3 --num_passes=1 --batch_size=96 --save_dir=../mine 2>&1 |
    sed -n 's/.*Test after pass 1\/1: .*perplexity \([0-9.]*\),.*/\1/p')
holds "hosts > 1 && hosts / one < 1.001 && one / hosts < 1.001" hosts="$after" one="$local"
none_left() { [ -z "$("$fixture" pids "$ns")" ]; }
wait_for 60 "nothing is left on the hosts" none_left
echo "perplexity $after on three hosts, $local in one process"
