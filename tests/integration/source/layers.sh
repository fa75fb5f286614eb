#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The table of docs/design.md, "Layers", holds for the sources:
#   - includes and calls go only where the row of a folder allows, and the rows form no circle
#   - external functions and tables have a prefix of their row, and a user in another file
#   - no file includes what src/base/base.h has
#   - each header compiles alone; inner headers are called NAME_internal.h
#   - a type is defined in one file; a folder has at most 30 files
# tests/integration/source/test_layers.sh shows that each of these checks can fail.
# dev only
. "$(dirname "$0")/../../support/lib.sh"
cd "$TOP" || exit 1

# A header is compiled as the only include of a source file, with the flags of the build, which put
# src/base/base.h first; those of src/seed without a libc, paddle_ps.h as a user's program does.
alone() { # alone FLAGS HEADER...
    printf '%s\n' "${@:2}" | xargs -r -P "$(nproc)" -n 1 sh -c 'echo "#include \"$1\"" |
        ${CC:-gcc} $0 -Wno-unused-function -fsyntax-only -x c - >&2 ||
        echo "$1: does not compile alone"' "$1"
}
flags=$(sed 's/^ccache //; s/^[^ ]* //; s/-O3/-O0/; s/-Wmissing-prototypes//; s/$/ -Werror/' "$BIN/flags") ||
    die "no $BIN/flags"
{
    alone "$flags" $(find src launcher worker -name '*.h' ! -path 'src/seed/*')
    [ ! -e src/capi/paddle_ps.h ] || alone "-std=c99 -Wall -Werror -I." src/capi/paddle_ps.h
    [ ! -d src/seed ] || alone "-std=gnu11 -Wall -Werror -Isrc -ffreestanding" src/seed/*.h
} >"$TMP/alone" 2>"$TMP/compiler"
[ ! -s "$TMP/alone" ] || die "$(cat "$TMP/alone" "$TMP/compiler")"

/usr/bin/python3 tests/support/layers.py "$BIN" || die "see docs/design.md, Layers"

# No circle of calls crosses a folder. src/nn is left out: its tables are declared below and filled above.
# The made-up tree of test_layers.sh has no src/agent.
[ ! -d src/agent ] ||
    tests/support/call-circles --objects="$BIN" src/agent src/ps launcher >"$TMP/circles" ||
    die "$(grep CROSSES "$TMP/circles")"
