#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every installed program is position-independent, has read-only relocations that are bound at its
# start, no executable stack, no memory that is writable and executable, and no loader on a node.
# Its objects have stack protectors, stack-clash probes, control-flow protection and the checked
# functions of libc. Programs that are built without one of these properties are told apart.
# release only
. "$(dirname "$0")/../../support/lib.sh"
read -ra cc <<<"${CC:-gcc}"
command -v readelf >/dev/null || skip "no readelf on this machine"

# faults KIND FILE: what the program lacks. KIND: program, static (no loader), bare (no relocations,
# so RELRO has nothing to protect), library
faults() {
    local headers dynamic
    headers=$(readelf -hlW "$2" 2>/dev/null) dynamic=$(readelf -dW "$2" 2>/dev/null)
    grep -q 'Type: *DYN' <<<"$headers" || echo "position-dependent"
    [ "$1" = library ] || grep -q 'Flags:.* PIE' <<<"$dynamic" || echo "no PIE"
    grep -q 'GNU_STACK.* RW ' <<<"$headers" || echo "executable stack"
    ! grep -q 'LOAD.* RWE' <<<"$headers" || echo "memory that is writable and executable"
    ! grep -q TEXTREL <<<"$dynamic" || echo "relocations in the code"
    case $1 in static | bare) ! grep -q INTERP <<<"$headers" || echo "needs a loader" ;; esac
    if [ "$1" = bare ]; then
        readelf -rW "$2" | grep -q 'There are no relocations' || echo "relocations"
    else
        grep -q GNU_RELRO <<<"$headers" || echo "no RELRO"
        grep -q 'BIND_NOW\|Flags:.*NOW' <<<"$dynamic" || echo "binds late"
    fi
}

wanted=(-fPIE -fstack-protector-strong)
for flag in -fstack-clash-protection -fcf-protection; do
    if echo 'int main(void) { return 0; }' | "${cc[@]}" -Werror $flag -x c -c - -o /dev/null 2>/dev/null
    then wanted+=($flag); else echo "skipped: $flag: the compiler does not know it"; fi
done

# object_faults FILE: what an object, or one in an archive, lacks. GCC notes its options in the
# debug information, which strip removes from the programs.
object_faults() {
    local producers flag undefined
    producers=$(readelf --debug-dump=info --dwarf-depth=1 "$1" 2>/dev/null | grep 'DW_AT_producer.*GNU C')
    undefined=$(nm -u "$1" 2>/dev/null)
    for flag in "${wanted[@]}"; do
        [ -n "$producers" ] && ! grep -v -q -e " $flag\b" <<<"$producers" || echo "no $flag"
    done
    grep -q '__stack_chk_fail' <<<"$undefined" || echo "no stack protector"
    grep -q '__.*printf_chk' <<<"$undefined" || echo "no _FORTIFY_SOURCE"
}

told() { # told WANTED FAULTS
    [ "$2" = "$1" ] || die "not told apart: '$2', not '$1'"
}

check() { # check KIND FILE
    [ -e "$2" ] || die "$2 is not there"
    [ -z "$(faults "$@")" ] || die "$2: $(faults "$@" | paste -sd,)"
}

check program "$BIN/paddlectl"
check static "$BIN/paddle_agent"
check static "$BIN/paddle_worker"
check library "$BIN/libpaddle_ps.so.1"
[ ! -e "$BIN/paddle_seed" ] || check bare "$BIN/paddle_seed"
for f in libpaddle.a liblauncher.a libworker.a launcher/main.o worker/agent_main.o worker/worker_main.o; do
    if "${cc[@]}" --version | grep -q clang; then
        echo "skipped: objects: clang does not note its options"
        break
    fi
    found=$(object_faults "$BIN/$f")
    # an object alone may have no array and print nothing
    [[ $f == *.a ]] || found=$(grep -v -e "^no stack" -e FORTIFY <<<"$found")
    [ -z "$found" ] || die "$f: $found"
done

# --- programs without one property
cd "$TMP" || exit
cat >own.c <<'END'
#include <stdio.h>
#ifdef WX
__asm__(".section .wx,\"awx\"; .byte 0; .text");
#endif
int main(int argc, char **argv) {
    char text[64];
    snprintf(text, (size_t)argc * 8, "%s", argv[0]);
    puts(text);
    return 0;
}
END
good=(-O2 -g -D_FORTIFY_SOURCE=2 "${wanted[@]}")
link=(-Wl,-z,relro,-z,now,-z,noexecstack)
make_own() { "${cc[@]}" "${good[@]}" own.c -o own "${link[@]}" "$@" 2>/dev/null || die "cannot build: $*"; }
make_own -pie
told "" "$(faults program own)"
told "needs a loader" "$(faults static own)"
make_own -static-pie
told "" "$(faults static own)"
make_own -no-pie -fno-PIE
told "position-dependent no PIE" "$(faults program own | paste -sd' ')"
make_own -pie -Wl,-z,norelro
told "no RELRO" "$(faults program own)"
make_own -pie -Wl,-z,lazy
told "binds late" "$(faults program own)"
make_own -pie -Wl,-z,execstack
told "executable stack" "$(faults program own)"
make_own -pie -DWX
told "memory that is writable and executable" "$(faults program own)"
own_object() { "${cc[@]}" "${good[@]}" -U_FORTIFY_SOURCE "$@" -c own.c -o own.o || die "cannot build: $*"; object_faults own.o | paste -sd,; }
told "" "$(own_object -D_FORTIFY_SOURCE=2)"
told "no _FORTIFY_SOURCE" "$(own_object)"
told "no -fPIE" "$(own_object -D_FORTIFY_SOURCE=2 -fno-PIE)"
all=("${wanted[@]}")
for flag in "${all[@]:1}"; do # no option undoes another in what GCC notes
    good=(-O2 -g)
    for f in "${all[@]}"; do [ "$f" = "$flag" ] || good+=("$f"); done
    found=$(own_object -D_FORTIFY_SOURCE=2)
    [[ ,$found, == *",no $flag,"* ]] || die "not told apart: an object without $flag: '$found'"
done
exit 0
