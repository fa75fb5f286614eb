#!/usr/bin/env bash
# The table of docs/design.md, "Layers", holds for the sources:
#   - includes and calls go only where the row of a folder allows, and the rows form no circle
#   - external functions have a prefix of their row, and a user in another file
#   - each header compiles alone
# tests/integration/test_layers.sh shows that each of these checks can fail.
# dev only
. "$(dirname "$0")/../support/lib.sh"
cd "$TOP" || exit 1
waiting=(src/ps src/agent) # may have functions that one file uses, until these folders are sorted

# A header is compiled as the only include of a source file, with the flags of the build.
headers=$(find src launcher worker -name '*.h' ! -path 'src/seed/*')
flags=$(sed 's/^[^ ]* //; s/-O3/-O0/; s/-Wmissing-prototypes//' "$BIN/flags") || die "no $BIN/flags"
echo "$headers" | xargs -P "$(nproc)" -n 1 sh -c 'echo "#include \"$1\"" |
    ${CC:-gcc} $0 -fsyntax-only -x c - >&2 || echo "$1: does not compile alone"' \
    "$flags -Wno-unused-function" >"$TMP/alone" 2>"$TMP/compiler"
[ ! -s "$TMP/alone" ] || die "$(cat "$TMP/alone" "$TMP/compiler")"

/usr/bin/python3 tests/support/layers.py "$BIN" "${waiting[@]}" || die "see docs/design.md, Layers"
