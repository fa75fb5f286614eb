#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With each of OpenBLAS's core types that this CPU can execute, the numerical unit tests pass, and the
# first costs of all models are PyTorch's. With one core type of each vector width (SSE, AVX, AVX2,
# AVX-512; WHOLE=1: with all) two whole trainings reach the results of docs/results.md. A core type
# that does not run is named, with the reason.
# release only
# limit 1800
. "$(dirname "$0")/../../support/lib.sh"
# The unit tests that call BLAS.
TESTS="test_nn_kernel test_nn_exec test_nn_gradients test_nn_image test_nn_interactions test_nn_layers
    test_nn_sampler"
unset OPENBLAS_CORETYPE PADDLE_BLAS_CORETYPE
[ "$(uname -m)" = x86_64 ] || skip "the table of core types is one of x86_64"

# The flags of /proc/cpuinfo that the kernels of a core type need.
flags_of() {
    case $1 in
    PRESCOTT) echo pni ;;
    CORE2 | ATOM | NANO) echo ssse3 ;;
    PENRYN | DUNNINGTON) echo sse4_1 ;;
    NEHALEM) echo sse4_2 ;;
    OPTERON | OPTERON_SSE3) echo 3dnow 3dnowext ;;
    BARCELONA | BOBCAT) echo sse4a ;;
    SANDYBRIDGE) echo avx ;;
    BULLDOZER | PILEDRIVER | STEAMROLLER) echo avx fma4 xop ;;
    EXCAVATOR) echo avx2 fma4 xop ;;
    HASWELL | ZEN) echo avx2 fma ;;
    SKYLAKEX) echo avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl ;;
    COOPERLAKE) echo avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl avx512_vnni avx512_bf16 ;;
    SAPPHIRERAPIDS) echo avx2 fma avx512f avx512_bf16 avx512_fp16 amx_tile amx_bf16 ;;
    *) return 1 ;;
    esac
}
has_flags() { # has_flags FLAG...: those that $flags lacks are in $missing
    missing=
    for f in "$@"; do [[ $flags == *" $f "* ]] || missing="$missing $f"; done
    [ -z "$missing" ]
}

programs=$(cd "$TOP" && for t in $TESTS; do echo tests/unit/*/"$t.c"; done | sed 's/\.c$//; s#^#build/release/#')
# shellcheck disable=SC2086
make -C "$TOP" --no-print-directory -s -j"$(nproc)" $programs \
    >"$TMP/make.log" 2>&1 || die "$(tail "$TMP/make.log")"
flags=" $(sed -n 's/^flags[^:]*: *//p' /proc/cpuinfo | head -1) "
# Core types that are compiled in; the symbols of the others lie in .bss.
cores=$(nm "$BIN/paddle_worker" | sed -n 's/.* [DdRr] gotoblas_\([A-Z0-9_]*\)$/\1/p')
[ -n "$cores" ] || die "no core types in $BIN/paddle_worker"

with_core() { # with_core CORE COMMAND...: its log is $TMP/log; parts that it skips are told
    env OPENBLAS_CORETYPE="$1" PADDLE_BLAS_CORETYPE="$1" OPENBLAS_VERBOSE=2 "${@:2}" \
        >"$TMP/log" 2>&1 </dev/null || [ $? = 77 ] || die "$1: ${*:2}: $(tail -30 "$TMP/log")"
    grep '^skipped: ' "$TMP/log"
}
# The core type that OpenBLAS itself reports.
used() { sed -n 's/^Core: //p' "$TMP/log" | head -1 | tr a-z A-Z; }

ran=
for core in $cores; do
    needed=$(flags_of "$core") || die "core type $core is new: which CPU flags do its kernels need?"
    # shellcheck disable=SC2086
    has_flags $needed || { echo "$core not run: this CPU has no$missing"; continue; }
    since=$SECONDS
    for t in $TESTS; do
        with_core "$core" "$TOP"/build/release/tests/unit/*/"$t"
        [ "$(used)" = "$core" ] && continue
        grep -q "^Core not found: $core" "$TMP/log" ||
            die "$t ran with core type $(used), not $core: $(head -3 "$TMP/log")"
        echo "$core not run: OpenBLAS does not accept the name, and detects $(used)"
        continue 2
    done
    with_core "$core" bash "$TOP/tests/integration/train/train_goldens.sh"
    worst=$(sed -n 's/.*largest relative difference \([^ ]*\) .*/\1/p' "$TMP/log" | sort -g |
        tail -1)
    : >"$TMP/log"
    case ${WHOLE:-0}$core in
    1* | *PRESCOTT | *SANDYBRIDGE | *HASWELL | *SKYLAKEX)
        QUALITY="digits glosses" with_core "$core" bash "$TOP/tests/integration/train/quality.sh"
        ;;
    esac
    reached=$(sed -n 's/^\(digits\|glosses\)\(.*\) (wanted.*/\1\2;/p' "$TMP/log" | tr '\n' ' ')
    echo "$core: unit tests; goldens, largest difference $worst; $reached$((SECONDS - since)) s"
    ran="$ran $core"
done
[ -n "$ran" ] || die "no core type ran"
echo "ran with:$ran"
