#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make docs: a page for each document, and every link inside leads to a page, a file or a heading.
# README.md fits two screens.
# dev only
. "$(dirname "$0")/../../support/lib.sh"
command -v cmark-gfm >/dev/null || skip "cmark-gfm is not installed"
cd "$TOP" || exit 1
expect 0 docs/site.py "$TMP/site"
n=$(ls docs/*.md docs/*/*.md ./*.md | wc -l)
[ "$(find "$TMP/site" -name '*.html' | wc -l)" = "$n" ] || die "$n documents, but: $OUT"
for p in index docs/troubleshooting docs/folders/ps; do
    OUT=$(cat "$TMP/site/$p.html")
    has '<meta name="viewport"'
    has '<title>'
    has 'style.css">'
    has_not 'raw HTML omitted'
done
grep -q 'prefers-color-scheme: dark' "$TMP/site/style.css" || die "no dark colours"
[ -s "$TMP/site/docs/demo.svg" ] || die "no recording"

# README.md fits two screens: 120 lines of text at 100 columns, headings and tables with them
lines() { cmark-gfm -e table --to plaintext --width 100 "$1" | grep -c .; }
for f in README.md README_cn.md; do
    n=$(lines $f)
    [ "$n" -le 120 ] || die "$f has $n lines, more than two screens"
done
{ cat README.md && printf '\nMore.\n%.0s' $(seq 120); } >"$TMP/long.md"
holds "n > 120" n="$(lines "$TMP/long.md")"

# What it must find, in a copy
mkdir -p "$TMP/copy/docs" && cp docs/site.py "$TMP/copy/docs/"
try() { # try README STATUS TEXT
    printf '# A\n\n%s\n\n## B c\n\n| a | b |\n|---|---|\n| 1 | 2 |\n' "$1" >"$TMP/copy/README.md"
    expect "$2" "$TMP/copy/docs/site.py" "$TMP/copied"
    has "$3"
}
try '[b](#b-c), [self](README.md#a), [out](https://example.org/x)' 0 "1 pages, 0 files"
grep -q '<table>' "$TMP/copied/index.html" || die "no table"
try '[b](#b)' 1 "README.md: no heading #b in README.md"
try '[b](docs/none.md)' 1 "README.md: no file docs/none.md"
echo '# New' >"$TMP/copy/docs/new.md"
try 'text' 1 "docs/new.md is not in PAGES of docs/site.py"
