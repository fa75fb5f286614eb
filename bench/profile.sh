#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does a trace of the job (profile = 1) cost, and what do its places cost when it is off?
#
# One process, MODELS="mlp ngram" of bench/models.sh, one thread. on: with profile = 1 over without. off:
# without, over the commit before the one that added src/base/spans.c, built in a clone (BEFORE=COMMIT;
# BEFORE=none leaves it out). Runs alternate; the best pass of each side counts.
set -eu
cd "$(dirname "$0")/.."
TOP=$PWD BIN=$PWD/build/release TMP=$(mktemp -d build/bench-XXXXXX)
ROUNDS=${ROUNDS:-12} PASSES=${PASSES:-2}
TMP=$PWD/$TMP
trap 'rm -rf "$TMP"' EXIT
. bench/lib/models.sh
added=$(git log --diff-filter=A --format=%H -- src/base/spans.c 2>/dev/null | tail -1)
BEFORE=${BEFORE:-${added:+$added^}} OLD=
if [ -n "$BEFORE" ] && [ "$BEFORE" != none ]; then
    commit=$(git rev-parse --verify -q "$BEFORE^{commit}") || { echo "bench profile: no commit '$BEFORE'" >&2; exit 1; }
    dir=$TOP/build/compare/$commit
    [ -d "$dir/.git" ] || { git clone -q --shared --no-checkout "$TOP" "$dir" && git -C "$dir" checkout -q "$commit"; }
    make -C "$dir" --no-print-directory -s build/release/paddle_worker >"$TMP/make.log" 2>&1 ||
        { tail -20 "$TMP/make.log" >&2; exit 1; }
    OLD=$dir/build/release
else
    echo "skipped: bench profile-off: no commit before"
fi
rate() { # FOLDER OPTION...
    "$1/paddle_worker" trainer --local=1 --trainer_count=1 --num_passes="$PASSES" --saving_period=0 \
        --log_period=100000 "${@:2}" >ours.log 2>&1 || { tail -n 3 ours.log >&2; exit 1; }
    our_rate ours.log
}
for name in ${MODELS:-mlp ngram}; do
    prepare "$name"
    on=0 off=0 old=0
    for ((i = 0; i < ROUNDS; i++)); do
        off=$(max "$(rate "$BIN")" "$off")
        on=$(max "$(rate "$BIN" --profile=1)" "$on")
        [ -z "$OLD" ] || old=$(max "$(rate "$OLD")" "$old")
    done
    line_samples "profile-on-$name" 0.97 "the same without a trace" "$on" "$off" "profile = 1"
    [ -z "$OLD" ] || line_samples "profile-off-$name" 0.99 "the commit before" "$off" "$old" "profile = 0"
    cd "$TOP"
done
