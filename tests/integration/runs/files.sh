#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files of a run's workspace are kept: `init --from` gives exactly these back, `compare` shows how
# those of two runs differ, and both say what is not at hand.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
endless_job
mkdir -p ws/lib/deep ws/empty
printf 'first\nline\n' >ws/lib/a.txt
: >ws/lib/nothing
printf '#!/bin/sh\nexit 0\n' >ws/lib/deep/tool
chmod 755 ws/lib/deep/tool
chmod 600 ws/lib/a.txt
ln -s ../a.txt ws/lib/deep/link
head -c 1500000 /dev/urandom >ws/large.bin
touch -d '2020-02-03 04:05:06.789012345' ws/lib/a.txt
touch -d '2021-01-01' ws/lib ws/empty
# tree FOLDER: names, types, modes, times, targets, contents
tree() { (cd "$1" && find . -mindepth 1 -printf '%P %y %m %l %T@ %s\n' | awk '$2 == "d" { $NF = "" } { print }' | sort && find . -type f -exec sha256sum {} + | sort -k 2); }
tree ws >before
expect 0 "$ctl" run --conf=conf.ini --name=one --num_passes=1
expect 0 "$ctl" init --from=one again
has "again/workspace: the files of the run"
tree again/workspace >after
diff before after || die "not the same files"
[ -s again/conf.ini ] && [ "$(stat -c %a again/conf.ini)" = 600 ] || die "no conf.ini of that run"
expect 2 "$ctl" init --from=one again
has "nothing was changed"
expect 2 "$ctl" init --from=nobody
expect 2 "$ctl" init --from=one word2vec there
has "takes one FOLDER"

# --- without data apart: the package as a whole, with what .paddleignore leaves out
mkdir -p own/sub && echo 'echo run by' "$$" >own/sub/run.sh && echo '*.tmp' >own/.paddleignore && echo x >own/a.tmp
expect 0 "$ctl" run --conf=conf.ini --name=own --job_dispatch_package=own --trainer_command='sh sub/run.sh'
expect 0 "$ctl" init --from=own own-again
has "own-again/workspace: the files of the run"
rm own/a.tmp
tree own >now
tree own-again/workspace >after
diff now after || die "not the files of the run with its own trainer"

# --- the workspace changes: the files are those of that time
printf 'second\nline\n' >ws/lib/a.txt
rm ws/lib/nothing ws/lib/deep/link
ln -s ../b.txt ws/lib/deep/link
echo new >ws/lib/b.txt
chmod 700 ws/lib/deep/tool
expect 0 "$ctl" run --conf=conf.ini --name=two --num_passes=1
expect 0 "$ctl" init --from=one older
has "older/workspace: the files of the run"
tree older/workspace >after
diff before after || die "not the files of the first run"
tree ws >now
expect 0 "$ctl" init --from=two newer
tree newer/workspace >after
diff now after || die "not the files of the second run"
# A run of the restored files is a run of the same files.
sed -i 's#^job_dispatch_package = .*#job_dispatch_package = workspace#; s/^name = .*/name = three/' older/conf.ini
expect 0 "$ctl" run --conf=older/conf.ini --outputs=output
ids=$(/usr/bin/python3 -c 'import glob, json
print(len({json.load(open(p))["workspace"] for p in glob.glob("output/JOB*/run.json") if json.load(open(p))["name"] in ("one", "three")}))')
[ "$ids" = 1 ] || die "the run of the restored files has another workspace: $ids"

# --- compare
expect 0 "$ctl" compare --conf=conf.ini one two
grep -qx -- '-first' <<<"$OUT" && grep -qx '+second' <<<"$OUT" && grep -qx ' line' <<<"$OUT" || die "no diff: $OUT"
grep -q '^--- JOB.*/lib/a.txt' <<<"$OUT" || die "$OUT"
grep -q '^only in JOB.*: lib/nothing$' <<<"$OUT" && grep -q '^only in JOB.*: lib/b.txt$' <<<"$OUT" || die "$OUT"
has "lib/deep/tool: mode 0755, then 0700"
has "lib/deep/link: another type or target"
has_not "large.bin"
expect 0 "$ctl" compare --conf=conf.ini one three
has_not "lib/"

# --- what is not at hand is said
head -c 1600000 /dev/urandom >ws/large.bin
expect 0 "$ctl" run --conf=conf.ini --name=four --num_passes=1
expect 0 "$ctl" compare --conf=conf.ini two four
has "large.bin: the contents differ (1500000 and 1600000 bytes), and are not kept here"
# The contents count, not the times: of files that are kept, and of a large one; then a byte changes.
touch ws/large.bin ws/lib/a.txt ws/lib ws/data/*
expect 0 "$ctl" run --conf=conf.ini --name=five --num_passes=1
expect 0 "$ctl" compare --conf=conf.ini four five
has_not "large.bin"
has_not "a.txt"
has_not "files of the workspace"
has_not "data files"
printf x | dd of=ws/large.bin bs=1 seek=700000 conv=notrunc 2>/dev/null
expect 0 "$ctl" run --conf=conf.ini --name=six --num_passes=1
expect 0 "$ctl" compare --conf=conf.ini five six
has "large.bin: the contents differ (1600000 and 1600000 bytes), and are not kept here"
has "files of the workspace"
# A record of an earlier version has no hash of large files.
five=$(grep -ls '"name": "five"' output/JOB*/run.json | xargs dirname)
sed -i 's/"pieces":"[0-9a-f]*"//; s/,,/,/; s/,}/}/' "$five/workspace.jsonl"
expect 0 "$ctl" compare --conf=conf.ini five six
has "large.bin: another time, and its contents are not known"
expect 1 "$ctl" init --from=two lacking
has "1 files are not kept here and were not restored, the first is large.bin"
[ -x lacking/workspace/lib/deep/tool ] && [ ! -e lacking/workspace/large.bin ] || die "the other files were not restored"
one=$(grep -ls '"name": "one"' output/JOB*/run.json | xargs dirname)
mv "$one/workspace.jsonl" kept
expect 2 "$ctl" init --from=one none
has "the record has no list of the workspace's files"
expect 0 "$ctl" compare --conf=conf.ini one two
has "the record has no list of the workspace's files"
# A list that would write elsewhere.
sed 's#"path":"lib/b.txt"#"path":"../../out"#; s#"path":"lib/a.txt"#"path":"../../out"#' kept >"$one/workspace.jsonl"
expect 1 "$ctl" init --from=one evil
has "the list of files is damaged"
[ ! -e out ] || die "a file outside of the folder"

# --- a copy that was cut off, as after a crash: ID.new is not taken, and the next run replaces it
id=$(sed -n 's#.*"path":"lib/a.txt".*"id":"\([0-9a-f]*\)".*#\1#p' kept)
file=output/.files/${id:0:2}/$id
mv "$file" whole && head -c 1 whole >"$file.new" || die "lib/a.txt is not kept"
expect 0 "$ctl" run --conf=conf.ini --name=three --num_passes=1 --job_dispatch_package=again/workspace
cmp "$file" whole || die "the contents of lib/a.txt are others"
[ -z "$(find output/.files -name '*.new')" ] || die "unnamed files are left"
