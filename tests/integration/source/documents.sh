#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What README.md, docs and conf.ini name exists in the code's tables, and the other way round:
# options with their defaults, subcommands, messages with their numbers, files. Each folder has a page
# in docs/folders. Lines and paragraphs of documents are short. docs/migration.md has each name of the
# original system, the glossary is sorted and its words are used.
# release only
. "$(dirname "$0")/../../support/lib.sh"
cd "$TOP" || exit 1
ctl=$BIN/paddlectl
pages=(docs/folders/*.md)
english=(README.md docs/*.md "${pages[@]}")
documents=("${english[@]}" README_cn.md docs/cn/*.md)
wrong=0
say() { echo "$*" >&2 && wrong=$((wrong + 1)); }
# Names in backticks: `NAME`, `NAME = value`, `NAME=value`.
quoted() { grep -ohE '`[^`]+`' "$@" | tr -d '`'; }

# rows FILE: each row of its table, {"...}, on one line.
rows() { awk '/^    \{"/ { if (row) print row; row = $0; next }
    row && /^     / { sub(/^ +/, " "); row = row $0; next }
    { if (row) print row; row = "" }' "$1"; }

# --- options: src/conf/options.c has rows {"section", "name", type, field, who, "default", ...
row='^    \{"([a-z]+)", "([a-z_]+)", PD_[A-Z0-9]+, F\([a-z_]+\),'
# A row may be broken into several lines.
tr -s '\n ' '  ' <src/conf/options.c | sed 's/, {"/,\n    {"/g; s/{ {"/{\n    {"/' >"$TMP/rows"
sed -nE "s/$row ([A-Z_ |]+), \"([^\"]*)\",.*/\2 \1 \3=\4/p" "$TMP/rows" >"$TMP/options"
n_options=$(grep -cE '^    \{"[a-z]+", "[a-z_]+", PD_' "$TMP/rows")
[ "$n_options" -gt 50 ] && [ "$(wc -l <"$TMP/options")" = "$n_options" ] ||
    die "$(wc -l <"$TMP/options") of $n_options rows of src/conf/options.c were read"
"$ctl" help --man=paddlectl.ini.5 >"$TMP/page" || die "no paddlectl.ini.5"
while read -r name section who; do
    case $who in
    *ALL* | *LAUNCHER*)
        grep -qF "\\fB$name\\fR" "$TMP/page" ||
            say "paddlectl.ini.5 has no option $name of [$section]"
        [ "$section" = train ] || grep -q "^$name =" conf/conf.ini ||
            say "conf/conf.ini has no $name in [$section]"
        ;;
    *) grep -qw "$name" "${documents[@]}" || say "no document names $name of [$section]" ;;
    esac
done <"$TMP/options"

# Tables of options in documents: the names in the first column, and the column "default".
awk -F'|' '
    !/^\|/ { at = 0; in_table = 0; next }
    $2 ~ /^ *option/ {
        in_table = 1
        for (i = 3; i < NF; i++) if ($i ~ /^ *default *$/) at = i
        next
    }
    in_table && $2 ~ /`/ {
        n = split($2, name, "`")
        value = at && n == 3 ? $at : "-"
        gsub(/[` ]/, "", value)
        for (i = 2; i < n; i += 2) { sub(/ .*/, "", name[i]); print FILENAME, name[i], value }
    }' "${documents[@]}" >"$TMP/named"
[ "$(wc -l <"$TMP/named")" -gt 15 ] || die "documents have no tables of options any more"
while read -r file name default; do
    if ! grep -q "^$name " "$TMP/options"; then
        say "$file: there is no option $name"
    elif [ "$default" != - ] && ! grep -qE "^$name .*=$default\$" "$TMP/options"; then
        say "$file: the default of $name is not $default"
    fi
done <"$TMP/named"

# --name in backticks: of a subcommand's help, or of the programs on the nodes.
commands=$(tr -s '\n ' '  ' <launcher/main.c | grep -oE '\{"[a-z]+", (cmd_[a-z]+|NULL), "' | cut -d'"' -f2)
[ "$(wc -w <<<"$commands")" -gt 15 ] || die "the subcommands of launcher/main.c: $commands"
for c in $commands; do "$ctl" "$c" --help; done >"$TMP/help"
for o in $(quoted "${documents[@]}" | grep -oE '(^| )--[a-z][a-z_-]+' | sort -u); do
    name=$(tr - _ <<<"${o#--}")
    grep -qE -- "--${name//_/[-_]}\b" "$TMP/help" || grep -q "^$name " "$TMP/options" ||
        grep -rqE "\"(--)?${name//_/[-_]}=?\"|$o\b" src worker launcher bench tests/faults ||
        say "documents name an option $o, which nothing takes"
done

# --- the conf.ini of each engine in README.md: it loads, and its engine is the one
for e in slurm mpi kubernetes; do
    awk -v e="engine = $e" '/^```/ { if (block ~ "\n" e "\n") printf "%s", block; block = ""; next } { block = block $0 "\n" }' \
        README.md >"$TMP/$e.ini"
    [ "$(grep -c . "$TMP/$e.ini")" = 5 ] || say "README.md has no five lines for engine = $e"
    "$ctl" conf --conf="$TMP/$e.ini" 2>"$TMP/conf.err" | grep -qE "^engine = $e +; $TMP/$e.ini:2" ||
        say "README.md: the conf.ini of engine = $e: $(cat "$TMP/conf.err")"
done

# --- subcommands
for c in $commands; do
    grep -qE "^\| .*\`(paddlectl )?$c\b" docs/commands.md ||
        say "docs/commands.md: no row of its table names the subcommand $c"
    "$ctl" help --man="paddlectl-$c.1" >"$TMP/page" && grep -q "^.SH NAME" "$TMP/page" ||
        say "there is no page paddlectl-$c.1"
done
for c in $(quoted "${documents[@]}" | sed -nE 's/^paddlectl ([a-z]+).*/\1/p' | sort -u); do
    grep -qx "$c" <<<"$commands" || say "documents name a subcommand $c"
done

# --- variables of the environment that the programs read: in paddlectl.1 or in the documents. Those that
# end in FAULT are for the tests, the agent reads what sshd and Slurm set, and PADDLE_INIT_OPTION is any option.
"$ctl" help --man=paddlectl.1 | sed 's/\\-/-/g; s/\\f[A-Z]/ /g' >"$TMP/page" || die "no paddlectl.1"
grep -rhoE 'getenv\("[A-Z_]+"\)' src launcher worker --include=*.c | cut -d'"' -f2 | sort -u >"$TMP/variables"
[ "$(wc -l <"$TMP/variables")" -gt 30 ] || die "the programs read no environment"
while read -r v; do
    [[ $v == *_FAULT || $v == SSH_CONNECTION || $v == SLURMD_NODENAME || $v == PADDLE_INIT_* ]] || grep -qw "$v" "$TMP/page" "${documents[@]}" ||
        say "no document names the variable $v"
done <"$TMP/variables"

# --- metrics for Prometheus: rows of launcher/dashboard/dashboard_metrics.c; docs/records.md lists them
metrics() { grep -ohE "$1paddle_(job|trainer|pserver)_[a-z_]+$1" "$2" | tr -d "$1" | sort -u; }
diff <(metrics '`' docs/records.md) <(metrics '"' launcher/dashboard/dashboard_metrics.c) >"$TMP/diff" ||
    say "docs/records.md (<) and dashboard_metrics.c (>) have other metrics: $(cat "$TMP/diff")"

# --- conf.py: each name that `import` knows has a row in docs/migration.md
names=$(sed -nE '/^} settings\[\] = \{/,/^};/s/^ *\{"([A-Z_]+)", .*/\1/p' src/conf/conf_py.c)
[ "$(wc -w <<<"$names")" -ge 8 ] || die "the names of src/conf/conf_py.c: $names"
for v in $names; do grep -q "^| \`$v\` |" docs/migration.md || say "docs/migration.md has no row for $v"; done

# --- the original system: its names have rows in docs/migration.md, and the options that are called the
# same there exist. The names are those of conf.py, of paddle.py with what it gives to the programs, of
# the transpiler, fleet and ps-lite; those that are refused here are in src/conf/options.c.
original="HOSTS ROOT_DIR PADDLE_NIC PADDLE_PORT PADDLE_PORTS_NUM PADDLE_PORTS_NUM_FOR_SPARSE
    LD_LIBRARY_PATH PADDLE_USE_GPU job_dispatch_package job_workspace config num_passes trainer_count
    saving_period saving_period_by_batches save_dir save_only_one log_period test_period init_model_path
    load_missing_parameter_strategy start_pass seed use_gpu job pservers trainer_id nics port ports_num
    ports_num_for_sparse num_gradient_servers async_lagged_grad_discard_ratio server.log train.log
    trainers sync_mode current_endpoint geo_sgd_need_push_nums CPU_NUM is_sparse is_distributed
    init_server run_server init_worker stop_worker save_persistables server_num worker_num hostfile
    DMLC_ROLE DMLC_NUM_SERVER DMLC_NUM_WORKER DMLC_PS_ROOT_URI DMLC_PS_ROOT_PORT"
refused=$(sed -nE '/pd_refused_options\[\] = \{/,/^};/s/^ *\{"([A-Za-z_]+)", .*/\1/p' src/conf/options.c)
[ "$(wc -w <<<"$refused")" -ge 10 ] || die "the refused names of src/conf/options.c: $refused"
sed -nE 's/^(\|[^|]*)\|.*/\1/p' docs/migration.md >"$TMP/rows"
for v in $original $refused; do
    grep -qwF -- "$v" "$TMP/rows" || say "docs/migration.md has no row for the original's $v"
done
same=$(grep '| the same names' docs/migration.md | quoted - | grep -oE '^--[a-z_]+' | tr -d -)
[ "$(wc -w <<<"$same")" -ge 15 ] || die "docs/migration.md: the same names: $same"
for v in $same; do
    grep -q "^$v " "$TMP/options" || say "docs/migration.md: there is no option $v, so it is not the same name"
done

# --- README.md names the update rules and the systems that it compares with, and shows the recording
for v in sync async ssp geo torchrun DeepSpeed Ray Kubeflow ps-lite demo.svg migration.md; do
    for f in README.md README_cn.md; do
        grep -qwF -- "$v" $f || say "$f does not name $v"
    done
done

# --- glossary: sorted, and each of its words is in use; README.md leads to it
sed -nE '4,$s/^\| ([^|]*[^| ]) \|.*/\1/p' docs/glossary.md >"$TMP/terms"
[ "$(wc -l <"$TMP/terms")" -gt 25 ] || die "docs/glossary.md has no table any more"
LC_ALL=C sort -f "$TMP/terms" | diff "$TMP/terms" - >"$TMP/diff" || say "docs/glossary.md is not sorted: $(cat "$TMP/diff")"
sed 's/, /\n/g' "$TMP/terms" >"$TMP/words"
while read -r v; do
    n=$(grep -liw -- "$v" README.md docs/*.md | grep -vc glossary.md)
    [ "$n" -ge 2 ] || say "docs/glossary.md explains '$v', which $n other documents use"
done <"$TMP/words"
grep -q '(docs/glossary.md)' README.md || say "README.md does not link the glossary"
grep -q '(docs/cn/glossary.md)' README_cn.md || say "README_cn.md does not link the glossary"

# --- messages: rows X(NAME, number, text) of src/wire/msg.h; docs/protocol.md lists them
sed -nE 's/^ *X\(([A-Z_]+), (0x[0-9a-f]+), .*/\2 \1/p' src/wire/msg.h | sort >"$TMP/messages"
[ "$(wc -l <"$TMP/messages")" -gt 60 ] || die "src/wire/msg.h has no table of messages"
grep -ohE '\b0x[0-9a-f]{3} (HS|AG|DS|DF|HD|CB|PS)_[A-Z_]+\b' docs/protocol.md | sort >"$TMP/listed"
diff "$TMP/listed" "$TMP/messages" >"$TMP/diff" ||
    say "docs/protocol.md, Numbers (<), and src/wire/msg.h (>) differ: $(cat "$TMP/diff")"
for m in $(grep -ohE '\b(HS|AG|DS|DF|HD|CB|PS)_[A-Z][A-Z_]*[A-Z]\b' "${documents[@]}" | sort -u); do
    grep -q " $m\$" "$TMP/messages" || say "documents name a message $m"
done

# --- fuzzers: each has a row in the table of docs/fuzzing.md, and seeds
sed -nE 's/^\|.*\| `(fuzz_[a-z_]+)` \|$/\1/p' docs/fuzzing.md | sort >"$TMP/listed"
for f in tests/fuzz/fuzz_*.c; do basename "$f" .c; done | sort >"$TMP/fuzzers"
[ "$(wc -l <"$TMP/fuzzers")" -gt 20 ] || die "there are no fuzzers in tests/fuzz"
diff "$TMP/listed" "$TMP/fuzzers" >"$TMP/diff" ||
    say "docs/fuzzing.md (<) and tests/fuzz (>) differ: $(cat "$TMP/diff")"
for f in tests/fuzz/corpus/*; do
    grep -qx "$(basename "$f")" "$TMP/fuzzers" || say "$f belongs to no fuzzer"
done
while read -r f; do compgen -G "tests/fuzz/corpus/$f/*" >/dev/null || say "$f has no seeds"; done <"$TMP/fuzzers"

# --- files and folders
folders='src|launcher|worker|tests|bench|docs|conf|workspace_template'
grep -ohE "\b($folders)/[A-Za-z0-9_./*-]+" "${documents[@]}" | sed 's/[.]*$//' >"$TMP/files"
for f in $(sort -u "$TMP/files"); do
    compgen -G "$f" >/dev/null || [ -e "$f.c" ] ||
        say "$(grep -lF "$f" "${documents[@]}" | tr '\n' ' '): there is no file $f"
done

# --- pages of folders: each folder of the table "Layers" is in the line "Folder:" or "Folders:" of one
# page. docs/design.md links each page. A page has the files to read first, and at most 70 lines of
# prose: all but blank lines, headings, diagrams and tables.
table=$(sed -n '/^## Layers/,/^## Exit/s/^| `\([^`]*\)`.*/\1/p' docs/design.md)
[ "$(wc -w <<<"$table")" -gt 40 ] || die "docs/design.md has no table of folders any more"
for f in $table; do
    n=$(grep -hE '^Folders?: ' "${pages[@]}" | grep -cF "\`$f\`")
    [ "$n" = 1 ] || say "docs/folders: $n pages name the folder $f, not one"
done
find ./src ./launcher ./worker ./tests -name '*.[ch]' >"$TMP/sources"
for page in "${pages[@]}"; do
    grep -qF "(${page#docs/})" docs/design.md || say "docs/design.md does not link $page"
    grep -qx '## Start here' "$page" || say "$page has no section Start here"
    n=$(grep -cvE '^ {4}|^$|^#|^\|' "$page")
    [ "$n" -le 70 ] || say "$page has $n lines of prose, more than 70"
    for f in $(quoted "$page" | grep -xE '[a-z0-9_/]+\.[ch]'); do
        grep -qE "/${f/./[.]}\$" "$TMP/sources" || say "$page: there is no file $f"
    done
done

# --- form: lines of at most 100 columns but for tables and output, paragraphs and items of at most six lines
/usr/bin/python3 - "${english[@]}" CONTRIBUTING.md >"$TMP/form" <<'PY' || die "python3 failed"
import re, sys
for file in sys.argv[1:]:
    code, output, lines = False, False, 0
    for number, line in enumerate(open(file, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        code ^= line.startswith("```")
        output = code and (output or line == "```console")
        if len(line) > 100 and not line.startswith("|") and not output:
            print(f"{file}:{number}: {len(line)} columns")
        if code or re.match(r" {4}(?! *- )|$|[#|<!]|```", line) and not (line[:4] == "    " and lines):
            lines = 0
            continue
        lines = 1 if re.match(r" *(-|\d+[.]) ", line) else lines + 1
        if lines == 7:
            print(f"{file}:{number}: a paragraph of more than six lines")
PY
while read -r line; do say "$line"; done <"$TMP/form"

# --- functions that the walks of docs/design.md name: `name()`
walked=$(sed -n '/^## Map/,/^## Layers/p' docs/design.md | grep -oE '`[a-z_0-9]+\(\)`' | tr -d '`()' | sort -u)
[ "$(wc -w <<<"$walked")" -gt 30 ] || die "docs/design.md has no walks any more"
for f in $walked; do
    grep -rqE "^[a-z].*\b$f\(" src launcher --include=*.[ch] || say "docs/design.md: there is no function $f()"
done
[ $wrong = 0 ] || die "$wrong names differ"
