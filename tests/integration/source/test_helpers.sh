#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The helpers of the tests themselves: each check of tests/support is shown to pass and to fail, also
# in a pipeline and in $( ).
# release only
. "$(dirname "$0")/../../support/lib.sh"
unset PADDLE_TEST_DATA RETRY JOBS FLAVOURS
cd "$TMP" || exit 1

# verdict STATUS TEXT SCRIPT: a test of these lines ends with that status and says the text
verdict() {
    printf '. "%s/tests/support/lib.sh"\n%s\necho "came to the end"\n' "$TOP" "$3" >made_up.sh
    OUT=$(bash made_up.sh 2>&1)
    local got=$?
    [ $got = "$1" ] || die "'$3' ended with $got, not $1: $OUT"
    has "$2"
}
passes() { verdict 0 "came to the end" "$1"; }
fails() { verdict 1 "$1" "$2"; }

passes 'true'
fails "FAILED: why" 'die why'
verdict 77 "skipped: why" 'skip why'
fails "FAILED: inside" 'x=$(die inside); echo "$x"'
fails "FAILED: inside" 'echo a | while read -r l; do die inside; done'
fails "kept: " 'exit 1'

passes 'expect 0 true; expect 1 false; expect 3 sh -c "exit 3"'
fails "exit status 1, not 0: false" 'expect 0 false'
fails "exit status 0, not 1: true" 'expect 1 true'
passes 'expect 0 echo abc; has b; has_not d'
fails "no 'd' in" 'expect 0 echo abc; has d'
fails "'b' in" 'expect 0 echo abc; has_not b'
passes 'wait_for 5 "a file" test -e .'
fails "waited too long: a file" 'wait_for 1 "a file" test -e no/such/file'
passes 'start one sleep 100; kill -0 "$PID"; kill "$PID"'

passes 'holds "x < 1 && y > 0" x=0.5 y=1e-3'
passes 'holds "-x > 0.1" x=-.2'
fails "not: x < 1, with x=1" 'holds "x < 1" x=1'
fails "x is '', not a number" 'holds "x < 1" x='
fails "x is 'nan', not a number" 'holds "x < 1" x=nan'
fails "x is '1 || 1', not a number" 'holds "x < 1" "x=1 || 1"'
fails "'y' has no value in: x < y" 'holds "x < y" x=-1'
fails "not: x <" 'holds "x <" x=1'
passes 'seq 3 7 | numbered 3 5 lines'
fails "lines: not 5 numbers from 3 on: 3 4 5 6" 'seq 3 6 | numbered 3 5 lines'
fails "lines: not 2 numbers from 1 on: 1 3" 'printf "1\n3\n" | numbered 1 2 lines'
fails "lines: not 3 numbers from 1 on: 1 2 2" 'printf "1\n2\n2\n" | numbered 1 3 lines'
fails "lines: not 1 numbers from 1 on" 'numbered 1 1 lines </dev/null'
fails "lines: not 0 numbers from 1 on" 'numbered 1 0 lines </dev/null'

passes 'same_figures 2 "cost 1.0, auc 0.5" "cost 1.00001, auc 0.5" || die differ'
fails differ 'same_figures 1 "cost 1.0" "cost 1.1" || die differ'
fails differ 'same_figures 1 "cost 1.0" "cost nan" || die differ'
fails differ 'same_figures 1 "cost 1.0" "loss 1.0" || die differ'
fails differ 'same_figures 2 "cost 1.0" "cost 1.0" || die differ'
export PADDLE_BLAS_CORETYPE=Haswell
echo "OpenBLAS for Haswell with 1 thread" >haswell.log
echo "OpenBLAS for SkylakeX with 1 thread" >skylake.log
passes "blas_used $TMP/haswell.log"
fails "not with OpenBLAS for Haswell" "blas_used $TMP/skylake.log"
fails "not with OpenBLAS for Haswell" "blas_used /dev/null"
unset PADDLE_BLAS_CORETYPE

# What is left after a failure: the folder is kept and named; processes that were started are ended.
verdict 1 "kept: " 'start one sleep 1000; echo "pid $PID"; die why'
kill -0 "$(sed -n 's/^pid //p' <<<"$OUT")" 2>/dev/null && die "a process outlived its test"
rm -rf "$(sed -n 's/^kept: //p' <<<"$OUT")"

# --- the programs beside it ---
same() { expect "$1" /usr/bin/python3 "$TOP/tests/support/same_tree.py" a b; }
tree() { rm -rf a b && mkdir -p a/sub && echo text >a/file && ln -s file a/link && cp -a a b; }
tree && same 0
tree && echo other >b/file && same 1
tree && touch b/more && same 1
tree && rm b/link && same 1
tree && ln -sfn sub b/link && same 1
tree && chmod 600 b/file && same 1
tree && touch -d '2001-01-01' b/file && same 1
tree && rmdir b/sub && same 1

# --- run-all: what it counts as what ---
mkdir -p tree/tests/unit tree/tests/integration/x tree/build || die mkdir
cp "$TOP/tests/run-all" tree/tests/ || die "no run-all"
printf 'all unit objects replays:\n' >tree/Makefile
try() { # try NAME LINE...: an integration test of these lines
    printf '%s\n' '#!/bin/sh' "${@:2}" >"tree/tests/integration/x/$1.sh"
}
try good true
try part 'echo "skipped: no left hand here"'
try none 'echo "skipped: no hands here"; exit 77'
try bad 'echo "the reason"; exit 3'
try flaky '[ -e tried ] || { touch tried; exit 1; }'
try silent 'echo "[  SKIPPED ] test_it"'
try aside 'echo "[  SKIPPED ] test_it"; echo "elsewhere: runs with more memory"'
expect 1 env FLAVOURS=release JOBS=2 tree/tests/run-all
has "PARTLY SKIPPED: integration/release/part: no left hand here"
log=build/test-logs/integration_release
has "FLAKY: integration/release/flaky (failed: ${log}_flaky.first.log, passed: ${log}_flaky.log)"
has "FAILED: integration/release/bad (logs: ${log}_bad.first.log ${log}_bad.log)"
has "skips a test without a line 'skipped: REASON'"
has "flaky: 1   partly skipped: 1"
[ "$(tail -1 <<<"$OUT")" = "3 passed, 2 failed, 1 skipped" ] || die "the summary: $OUT"
rm tree/tried
expect 1 env FLAVOURS=release RETRY=0 tree/tests/run-all flaky
[ "$(tail -1 <<<"$OUT")" = "0 passed, 1 failed, 0 skipped" ] || die "RETRY=0: $OUT"
# a script runs with the release programs, and with sanitizers too if it or WHOLE says so
try double '# both' true
runs() { # runs N NAME [VARIABLE=VALUE]
    expect 0 env FLAVOURS="release san" "${@:3}" tree/tests/run-all "$2"
    [ "$(tail -1 <<<"$OUT")" = "$1 passed, 0 failed, 0 skipped" ] || die "$2 ${*:3}: $OUT"
    has "integration/release/$2"
    if [ "$1" = 1 ]; then has_not "integration/san/$2"; else has "integration/san/$2"; fi
}
runs 1 good
runs 2 good WHOLE=1
runs 2 double
expect 2 env FLAVOURS="release asan" tree/tests/run-all
has "there is no flavour 'asan'"

# END runs after an exit in a rule, and an exit in END replaces its status: such a check can't fail.
OUT=$(cd "$TOP" && grep -rnE "exit [^}]*\}.*END *\{[^}]*exit" tests --include=*.sh |
    grep -v test_helpers.sh)
[ -z "$OUT" ] || die "awk's exit in a rule and in END: $OUT"

# --- documents.sh on a copy in which each kind of name is wrong once ---
mkdir -p copy/build &&
    cp -R "$TOP"/{README.md,README_cn.md,CONTRIBUTING.md,docs,conf,src,launcher,worker,tests,bench} copy &&
    cp -R "$TOP"/workspace_template copy
cd copy || exit 1
documents() { expect "$1" env PADDLE_BUILD="$BIN" bash tests/integration/source/documents.sh; }
documents 0
sed -i 's/0x418 PS_BEAT/0x419 PS_BEAT/' docs/protocol.md
sed -i 's/^| `online_keep` | 0 |/| `online_keep` | 3 |/' docs/online.md
sed -i 's/^| `save_state`/| `save_stat`/' docs/checkpoints.md
sed -i '/^keep_jobs/d' conf/conf.ini
sed -i 's/^| `paddlectl clean`/| `paddlectl cleanse`/' docs/commands.md
sed -i 's/^## Start here/## Begin here/' docs/folders/base.md
printf '\n%0101d\n' 0 >>docs/folders/nn.md
yes word | head -7 >>docs/online.md
sed -i '/^Folder:/s/`launcher.check`/none/' docs/folders/check.md
echo 'src/ps/gone.c, `--frobnicate`, PS_NOTHING' >>docs/data.md
sed -i '/^| `--job_workspace/d; s/`--seed`/`--json`/' docs/migration.md
sed -i '/^| agent/d; s/^| workspace.*/&\n| zeitgeist | none |\n| agent | none |/' docs/glossary.md
sed -i 's|(docs/cn/glossary.md)|(docs/glossary.md)|' README_cn.md
documents 1
has "docs/migration.md has no row for the original's job_workspace"
has "docs/migration.md has no row for the original's seed"
has "docs/migration.md: there is no option json, so it is not the same name"
has "docs/glossary.md is not sorted"
has "docs/glossary.md explains 'zeitgeist', which 0 other documents use"
has "README_cn.md does not link the glossary"
has "conf/conf.ini has no keep_jobs in [job]"
has "docs/checkpoints.md: there is no option save_stat"
has "docs/online.md: the default of online_keep is not 3"
has "documents name an option --frobnicate, which nothing takes"
has "docs/commands.md: no row of its table names the subcommand clean"
has "documents name a subcommand cleanse"
has "> 0x418 PS_BEAT"
has "documents name a message PS_NOTHING"
has "there is no file src/ps/gone.c"
has "docs/folders/base.md has no section Start here"
has "docs/folders: 0 pages name the folder launcher/check, not one"
has ": 101 columns"
has ": a paragraph of more than six lines"
has "FAILED: 19 names differ"
