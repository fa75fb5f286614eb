#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/integration/source/layers.sh on a made-up tree: it passes as it is, and each of its rules is broken
# in turn and named with the file.
# dev only
. "$(dirname "$0")/../../support/lib.sh"
cd "$TMP" || exit 1
cc=${CC:-gcc}

# The folder launcher is above src/high, which is above src/low.
make_tree() {
    rm -rf tree
    mkdir -p tree/docs tree/launcher tree/src/{low,high} tree/tests/{integration/source,support,unit/low}
    cp "$TOP"/tests/integration/source/layers.sh tree/tests/integration/source/
    cp "$TOP"/tests/support/{lib.sh,layers.py} tree/tests/support/
    cd tree || exit 1
    cat >docs/design.md <<'EOF'
# Design
## Layers
| folder | what | prefixes | may include |
|---|---|---|---|
| `launcher` | the program | `main` | `high` |
| `src/high` | above | `high_` | `low` |
| `src/low` | below | `low_` | |

## Next
| `src/none` | no row of the table | `none_` | |
EOF
    printf '#include "low/low.h"\nint high_one(void);\n' >src/high/high.h
    printf '#include "high/high.h"\nint high_one(void) { return low_one(); }\n' >src/high/high.c
    printf 'int low_one(void);\nint low_two(void);\n' >src/low/low.h
    echo '#include "low/low.h"' >src/low/low.c
    echo 'int low_one(void) { return 1; }' >>src/low/low.c
    echo 'int low_two(void) { return 2; }' >>src/low/low.c
    printf '#include "high/high.h"\nint main(void) { return high_one(); }\n' >launcher/main.c
    printf '#include "low/low.h"\nint main(void) { return low_two(); }\n' >tests/unit/low/test_low.c
}
# check STATUS TEXT...: compiles the tree; layers.sh ends with that status and says the texts
check() {
    local f o status=$1
    shift
    for f in src/*/*.c src/*/*/*.c launcher/*.c tests/unit/*/*.c; do
        [ -e "$f" ] || continue
        o=build/dev/${f%.c}.o
        mkdir -p "${o%/*}"
        $cc -Isrc -I. -c "$f" -o "$o" || die "$f"
    done
    echo "$cc -Isrc -I. -Wall -Werror" >build/dev/flags
    expect "$status" env PADDLE_BUILD="$PWD/build/dev" bash tests/integration/source/layers.sh
    for f in "$@"; do has "$f"; done
    cd "$TMP" || exit 1
}

make_tree
check 0 "3 rows, 5 files, 4 includes, 4 external names, 2 calls" \
    "for tests alone: low_two of src/low/low.c"

# --- includes and calls
make_tree
echo '#include "high/high.h"' >>src/low/low.c
check 1 'src/low/low.c: #include "high/high.h": the row of src/low does not allow src/high'
make_tree
echo '#include "low/low.h"' >>launcher/main.c
check 1 'launcher/main.c: #include "low/low.h": the row of launcher does not allow src/low'
make_tree
printf 'int high_one(void);\nint low_up(void) { return high_one(); }\n' >>src/low/low.c
printf 'int low_up(void);\nint high_up(void) { return low_up(); }\n' >>src/high/high.c
check 1 'src/low/low.c: calls high_one of src/high/high.c: the row of src/low does not allow'
make_tree
echo '#include "lost/lost.h"' >>src/high/high.c && mkdir src/lost && : >src/lost/lost.h
check 1 'src/lost/lost.h: no row' \
    'src/high/high.c: #include "lost/lost.h": there is no src/lost/lost.h with a row'

make_tree
mkdir src/base && printf '#include <stdio.h>\n' >src/base/base.h
sed -i 's/^| `src\/low`.*/&\n| `src\/base` | the ground | `pd_` | |/' docs/design.md
echo '#include <stdio.h>' >>src/low/low.c
check 1 'src/low/low.c: #include <stdio.h>: src/base/base.h has it'

# --- the table: rows form no circle, name what is there, and the longest that fits counts
make_tree
sed -i 's/`low_` | |/`low_` | `high` |/' docs/design.md
check 1 'docs/design.md: row src/low: high stands above it'
make_tree
sed -i 's/`low_` | |/`low_` | `lower` |/' docs/design.md
check 1 'docs/design.md: row src/low: lower is no row'
make_tree
sed -i 's/^| `src\/low`.*/&\n| `src\/gone` | x | `gone_` | |/' docs/design.md
check 1 'docs/design.md: row src/gone: there is no such file'
make_tree
sed -i 's/`main` | `high`/`main` | `high`, `low`/' docs/design.md
check 1 'docs/design.md: row launcher: nothing in it needs low'
make_tree
sed -i 's/^| `src\/low`.*/&\n| `src\/low\/base` | x | `base_` | |/' docs/design.md
mkdir src/low/base && echo 'int base_one(void);' >src/low/base/base.h
echo '#include "low/base/base.h"' >>src/low/low.c
cp -r . ../nested
check 1 'src/low/low.c: #include "low/base/base.h": the row of src/low does not allow src/low/base'
cd nested && sed -i 's/`low_` | |/`low_` | `low\/\*` |/' docs/design.md
check 0 "4 rows, 6 files"

# --- external names
make_tree
sed -i 's/low_one/new_one/' src/*/*.[ch]
check 1 'src/low/low.c: new_one begins with no prefix of the row of src/low'
make_tree
echo 'int high_own(void);' >>src/high/high.h
sed -i 's/low_one()/high_own() + low_one()/' src/high/high.c
echo 'int high_own(void) { return 3; }' >>src/high/high.c
check 1 'src/high/high.c: high_own is used in this file only: make it static'
make_tree
echo 'int low_none(void) { return 3; } /* low_none */' >>src/low/low.c
check 1 'src/low/low.c: nobody uses low_none'
make_tree
echo 'const int low_table[] = {1};' >>src/low/low.c
check 1 'src/low/low.c: nobody uses low_table'
make_tree
rm tests/unit/low/test_low.c
check 1 'src/low/low.c: nobody uses low_two'
make_tree
echo 'static inline int low_inline(void) { return 3; }' >>src/low/low.h
check 1 'src/low/low.h: nobody uses low_inline'

# --- headers, and objects that are not there
make_tree
echo 'size_t low_size(void);' >src/low/size.h
check 1 'src/low/size.h: does not compile alone' "unknown type name"
make_tree
: >src/low/low_int.h
check 1 'src/low/low_int.h: inner headers are called NAME_internal.h'

# --- a type is defined once, and folders stay small
make_tree
printf 'struct pair { int a, b; }; /* struct twin { */\n' >>src/low/low.c
printf 'struct twin { struct pair { int a; } p; };\n' >>src/high/high.c
check 1 'src/low/low.c: src/high/high.c defines another type pair'
[ "$(grep -c "another type" <<<"$OUT")" = 1 ] || die "$OUT"
make_tree
touch tests/support/{1..28} tests/integration/source/{1..29}
check 0
touch tree/tests/support/29
cd tree && check 1 'tests/support: 31 files, more than 30'
make_tree
expect 1 /usr/bin/python3 tests/support/layers.py build/dev
has "build/dev has no object of launcher/main.c"
cd "$TMP" || exit 1

# --- a call that src/base/base.h bans does not compile
banned() { # banned CALL REPLACEMENT
    echo "void f(char *a, const char *b) { (void)a, (void)b; $1; }" >call.c
    expect 1 $cc -D_GNU_SOURCE -I"$TOP/src" -include "$TOP/src/base/base.h" -fsyntax-only call.c
    has "${1%%(*}_is_banned_call_$2"
}
banned 'strcpy(a, b)' pd_fmt
banned 'atoi(b)' pd_parse_i64
banned 'strtok(a, b)' strtok_r
banned 'system(b)' posix_spawn
expect 0 $cc -D_GNU_SOURCE -I"$TOP/src" -include "$TOP/src/base/base.h" -DPD_TEST -fsyntax-only call.c
