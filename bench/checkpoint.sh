#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How much do steps slow down beside a save, and how fast is it written?
#
# 2M rows of 16 floats with AdaGrad's state (MILLIONS=2), drawn like words and evenly (ROWS="zipf even"), which is the worst for copy-on-write: every
# page changes while the file is written. Beside them what the machine gives: dd copying the same file beside the same training.
. "$(dirname "$0")/lib/ps.sh"
TMP=$(mktemp -d build/bench-XXXXXX)
trap 'rm -rf "$TMP"' EXIT
for how in ${ROWS:-zipf even}; do
    mkdir "$TMP/$how"
    echo "rows drawn: $how"
    build/release/bench/checkpoint "${MILLIONS:-2}" "$TMP/$how" "$how" "${FOR_S:-3}" | tee "$TMP/said"
    mb=$(sed -n 's/^save of \([0-9]*\) MB.*/\1/p' "$TMP/said") ours=$(sed -n 's/^save of .* s, \([0-9]*\) MB.s/\1/p' "$TMP/said")
    dd=$(sed -n 's/^dd of .* s, \([0-9]*\) MB.s/\1/p' "$TMP/said")
    longest() { sed -n "s/^$1: .*longest \([0-9.]*\) ms.*/\1/p" "$TMP/said"; }
    rate() { sed -n "s/^$1: .* \([0-9]*\) steps.s/\1/p" "$TMP/said"; }
    theirs=0
    for _ in 1 2; do
        t=$(dd if=/dev/zero of="$TMP/dd" bs=1M count="$mb" conv=fsync 2>&1 | sed -n 's/.* copied, \([0-9.e-]*\) s,.*/\1/p')
        theirs=$(max "$theirs" "$(awk -v mb="$mb" -v t="$t" 'BEGIN { printf "%.0f", mb * 1.048576 / t }')")
        rm "$TMP/dd"
    done
    line "checkpoint-pause-$how" "$(ratio "$(longest 'beside a save')" "$(longest 'without a save')")" '<=3' "longest step without a save" \
        "$(longest 'beside a save') ms" "$(longest 'without a save') ms"
    line "checkpoint-steps-$how" "$(ratio "$(rate 'beside a save')" "$(rate 'without a save')")" '>=0.5' "steps without a save" \
        "$(rate 'beside a save') steps/s" "$(rate 'without a save') steps/s"
    line "checkpoint-disk-$how" "$(ratio "$ours" "$theirs")" '>=0.80' "dd bs=1M conv=fsync" "$ours MB/s" "$theirs MB/s"
    line "checkpoint-steps-dd-$how" "$(ratio "$(rate 'beside a save')" "$(rate 'beside dd')")" '>=0.8' "steps beside dd" \
        "$(rate 'beside a save') steps/s" "$(rate 'beside dd') steps/s"
    line "checkpoint-steps-busy-$how" "$(ratio "$(rate 'beside a save')" "$(rate 'beside a busy process')")" '>=0.8' "beside a busy process" \
        "$(rate 'beside a save') steps/s" "$(rate 'beside a busy process') steps/s"
    line "checkpoint-disk-dd-$how" "$(ratio "$ours" "$dd")" '>=0.80' "dd beside the training" "$ours MB/s" "$dd MB/s"
    line "checkpoint-memory-$how" "$(sed -n 's/^memory: .*ratio \([0-9.]*\) in.*/\1/p' "$TMP/said")" '<2' "the server before" \
        "$(sed -n 's/^memory: .*at most \([0-9]* MB\).*/\1/p' "$TMP/said")" "$(sed -n 's/^memory: server \([0-9]* MB\).*/\1/p' "$TMP/said")"
    rm -rf "${TMP:?}/$how"
done
