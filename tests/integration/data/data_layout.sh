#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data_layout on three ssh hosts. dispatched: each node has the data files of its streams and no others, an archive likewise, and the model is that
# of all files everywhere, bit for bit; a second job sends nothing; a host that is left out changes the shares. shared: all have all.
# local: each trainer reads what its own folder holds. Links among the data: nothing is split.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl digest=$TOP/tests/support/model-digest
ssh_hosts 3
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
[train]
seed = 5
batch_size = 60
num_passes = 2
reproducible = topology
END
cd "$TMP" || exit
mkdir -p ws/data/deep ws/held ws/notes
for i in 0 1 2 3 4 5 6; do
    awk -v s=$i 'BEGIN { srand(s + 1); for (i = 0; i < 40 + 9 * s; i++) { x = int(rand() * 20); print x, (x * 7 + 3) % 20 } }' >"ws/data/p-$i"
    [ $i -gt 5 ] || head -20 "ws/data/p-$i" >"ws/held/h-$i"
done
awk 'BEGIN { srand(99); for (i = 0; i < 150; i++) { x = int(rand() * 20); print x, (x * 7 + 3) % 20 } }' >"ws/data/deep/q name
2" # found by the pattern's second part
echo kept >ws/data/readme.md
echo kept >ws/notes/n
cat >ws/train.ini <<'END'
[data]
format = ids
train = data/p-* ./data//deep/q*
test = held/h-?
fields = word next
vocabulary = 20
[layer e]
type = embedding
inputs = word
size = 8
init_std = 0.1
sparse_update = true
[layer out]
type = fc
inputs = e
size = 20
act = softmax
[cost c]
type = cross_entropy
input = out
label = next
[optimizer]
type = adagrad
learning_rate = 0.05
[train]
n_streams = 6
END

job_dir() { ls -d "$fx/node$1"/*/JOB* | tail -1; } # the newest on that node
data_of() { # the data files of that job, sorted, the newline in a name as ?
    (cd "$(job_dir "$1")/workspace" && find data held -type f ! -name readme.md -print0 | sort -z | tr '\n\0' '?\n' | tr '\n' ' ')
}
run() { # run OPTIONS...: a job; its model's digest in $DIGEST
    sleep 1.1 # job ids sort by seconds
    expect 0 "$ctl" run "$@"
    DIGEST=$("$digest" output/latest/pass-00001 | cut -d' ' -f1)
    [ -n "$DIGEST" ] || die "no model: $OUT"
}

# --- all files everywhere, as it was before there were layouts
run --data_layout=shared
all='data/deep/q name?2 data/p-0 data/p-1 data/p-2 data/p-3 data/p-4 data/p-5 data/p-6 held/h-0 held/h-1 held/h-2 held/h-3 held/h-4 held/h-5 '
for i in 0 1 2; do [ "$(data_of $i)" = "$all" ] || die "shared: node $i has $(data_of $i)"; done
want=$DIGEST

# --- each its own: file i of the sorted list belongs to stream i mod 6, of which a trainer owns two
run
[ "$DIGEST" = "$want" ] || die "the model is another one than with all files everywhere"
[ "$(data_of 0)" = 'data/deep/q name?2 data/p-0 data/p-5 data/p-6 held/h-0 held/h-1 ' ] || die "node 0 has $(data_of 0)"
[ "$(data_of 1)" = 'data/p-1 data/p-2 held/h-2 held/h-3 ' ] || die "node 1 has $(data_of 1)"
[ "$(data_of 2)" = 'data/p-3 data/p-4 held/h-4 held/h-5 ' ] || die "node 2 has $(data_of 2)"
for i in 0 1 2; do
    j=$(job_dir $i)/workspace
    cmp -s ws/data/readme.md "$j/data/readme.md" && cmp -s ws/notes/n "$j/notes/n" || die "node $i lacks what is no data"
    [ "$(stat -c %Y "$j/data/deep")" = "$(stat -c %Y ws/data/deep)" ] || die "another time of a folder on node $i"
    ls -d "$(job_dir $i)"/data-* 2>/dev/null && die "something is left beside node $i's workspace"
done

# --- and that is what a dry run says: the same files by trainer, and how much they are; with other trainers other shares
expect 0 "$ctl" run --dry-run --verbose
all_bytes=0
for i in 0 1 2; do
    listed=$(awk -v t="  trainer $i " 'index($0, "  trainer ") == 1 { on = index($0, t) == 1; next } on && /^    / { sub(/^    /, ""); sub(/  [0-9]+$/, ""); print }' <<<"$OUT" |
        sort | tr '\n' ' ')
    [ "$listed" = "$(data_of $i)" ] || die "a dry run promises trainer $i $listed, it got $(data_of $i)"
    bytes=$(cd "$(job_dir $i)/workspace" && find data held -type f ! -name readme.md -print0 | xargs -0 cat | wc -c)
    all_bytes=$((all_bytes + bytes))
    has "  trainer $i  127.0.0.$((i + 1))  $(data_of $i | grep -o '/[ph]-\|/q' | wc -l) files, $bytes bytes"
done
has "of these, 14 data files, $all_bytes bytes, each sent to its trainer only (data_layout = dispatched):"
has "would send ws: 17 files, $(find ws -type f -print0 | xargs -0 cat | wc -c) bytes; "
short=$("$ctl" run --dry-run) && [ "$(grep -c '^    ' <<<"$short")" = 0 ] && [ "$(grep -c '^  trainer ' <<<"$short")" = 3 ] || die "without --verbose: $short"
"$ctl" run --dry-run --json | /usr/bin/python3 -c '
import json, sys
t = json.load(sys.stdin)["data_files"]
assert [x["n_files"] for x in t] == [6, 4, 4] and [len(x["files"]) for x in t] == [6, 4, 4], t
assert [x["host"] for x in t] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"] and sum(x["bytes"] for x in t) == int(sys.argv[1]), t' $all_bytes || die "--json"
expect 0 "$ctl" run --dry-run --trainers='nodes 0,2'
has "  trainer 1  127.0.0.3  "
has_not "  trainer 2  "
expect 0 "$ctl" run --dry-run --data_layout=shared
has_not "data files"

# --- once more: nothing of the data travels; and from an archive
run
for i in 0 1 2; do
    came=$(sed -n 's/.*package data: .*; \([0-9]*\) bytes came.*/\1/p' "$(job_dir $i)/log/paddle_agent.INFO")
    [ "$came" = 0 ] || die "$came bytes came to node $i, which has its files from the job before"
done
tar --format=pax -C ws -cf ws.tar .
run --job_dispatch_package=ws.tar
[ "$DIGEST" = "$want" ] && [ "$(data_of 1)" = 'data/p-1 data/p-2 held/h-2 held/h-3 ' ] || die "from an archive: node 1 has $(data_of 1)"

# --- a host that can't be used: two trainers share all
sed "s/^hosts = .*/&, nobody@127.0.0.77:9/" conf.ini >four.ini
run --conf=four.ini --min_nodes=3
[ "$DIGEST" = "$want" ] || die "another model when a host is left out"
[ "$(data_of 2)" = 'data/p-3 data/p-4 held/h-4 held/h-5 ' ] || die "with a host left out node 2 has $(data_of 2)"

# --- a server without a trainer gets no data
run --trainers='nodes 0,2'
[ -z "$(data_of 1)" ] || die "node 1 has no trainer, but $(data_of 1)"
[ "$DIGEST" = "$want" ] || die "another model with two trainers"

# --- links among the data: what a node's own listing would find can't be told from here, so all get all
ln -s p-1 ws/data/p-1b
run
[ "$(data_of 1)" = "$all" ] || die "with a link node 1 has $(data_of 1)"
rm ws/data/p-1b

# --- local: what is on the node, whoever else has what
where=$("$ctl" dispatch) || die "dispatch"
samples=0
for i in 0 1 2; do # a folder of each node's own; its trainer has two of the six streams
    f=${where//%n/$i}
    find "$f/data" -name 'p-*' -delete
    cp "ws/data/p-$i" "$f/data/p-own-$i"
    samples=$((samples + $(cat "$f"/data/p-* "$f"/data/deep/q* | wc -l)))
done
run --data_layout=local --job_workspace="$where"
has "$samples samples"
