#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sources have the format of .clang-format, as `make format` writes it, and no line of more than 100
# columns. Other versions of clang-format than 14 break lines elsewhere; with these only columns are checked.
# Every program text names its licence, and no log is among the files; templates belong to those who copy them.
# release only
. "$(dirname "$0")/../../support/lib.sh"
cd "$TOP" || exit 1
mapfile -t files < <(find src launcher worker tests bench -name '*.[ch]' | sort)
[ ${#files[@]} -gt 500 ] || die "only ${#files[@]} sources"
long=$(/usr/bin/python3 - "${files[@]}" <<'PY'
import sys, unicodedata
for file in sys.argv[1:]:
    with open(file, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            columns = sum(0 if unicodedata.combining(c) else 1 for c in line)
            if columns > 100:
                print(f"{file}:{number}: {columns} columns")
PY
) || die "python3 failed"
[ -z "$long" ] || die "lines of more than 100 columns: $long"
mapfile -t texts < <(git ls-files '*.c' '*.h' '*.sh' '*.py' Makefile | grep -v -e ^workspace_template/ -e /corpus/)
[ ${#texts[@]} -gt 900 ] || skip "no git repository: the licences of ${#texts[@]} texts cannot be checked"
made=$(git ls-files '*.log' '*.o' '*.out')
[ -z "$made" ] || die "files that a program has written are in the repository: $made"
lacking=$(grep -L 'SPDX-License-Identifier: Apache-2.0' "${texts[@]}")
[ -z "$lacking" ] || die "no licence (SPDX) is named in the first lines of $lacking"
case $(clang-format --version 2>/dev/null) in
*"version 14."*) ;;
*) echo "skipped: clang-format 14 is needed to compare the format" && exit 0 ;;
esac
clang-format --dry-run -Werror "${files[@]}" >"$TMP/format" 2>&1 ||
    die "$(grep -m 10 error: "$TMP/format"): make format mends it"
