#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README_cn.md and docs/cn have the headings, commands, tables and links of the English documents.
# dev only
. "$(dirname "$0")/../../support/lib.sh"
cd "$TOP" || exit 1
same=tests/support/documents/same.py
pairs=(README.md README_cn.md)
for f in docs/cn/*.md; do pairs+=("docs/${f##*/}" "$f"); done
expect 0 $same "${pairs[@]}"
has "7 documents compared, 0 differ"
for f in README_cn.md docs/cn/*.md; do
    n=$(LC_ALL=C.UTF-8 grep -oP '\p{Han}' "$f" | wc -l)
    [ "$n" -gt 300 ] || die "$f has $n Chinese characters"
done

# What it must find
changed() { # changed SED_SCRIPT TEXT
    mkdir -p "$TMP/docs/cn" && cp docs/tutorial.md "$TMP/docs/" &&
        sed "$1" docs/cn/tutorial.md >"$TMP/docs/cn/tutorial.md"
    (cd "$TMP" && "$TOP/$same" docs/tutorial.md docs/cn/tutorial.md) >"$TMP/out" 2>&1 && die "not found: $1"
    OUT=$(cat "$TMP/out")
    has "$2"
}
changed '0,/^## /{/^## /d}' "a heading ##"
changed 's/^\$ paddlectl attach/$ paddlectl attache/' 'paddlectl attache'
changed '/^- Slurm/d' "parts, docs/cn/tutorial.md"
changed 's/(\.\.\/tuning.md)/(..\/data.md)/' "the links of docs/tutorial.md are others"
changed '/not run\|file:/d' '<!-- file: conf.ini -->'
grep -v '^| `HOSTS`' docs/cn/migration.md >"$TMP/docs/cn/migration.md" && cp docs/migration.md "$TMP/docs/"
expect 1 $same docs/migration.md "$TMP/docs/cn/migration.md"
has "a row of 3: "
