#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first 50 costs of every whole model of the templates, and of one with batch_norm, are those of the same models in PyTorch, within
# 1e-3, and so is then the cost of that data as test data: one process, one process with two threads, and three trainers with two
# servers. tests/goldens holds PyTorch's (`make goldens` remakes them).
# both
. "$(dirname "$0")/../../support/lib.sh"
WORKER=$BIN/paddle_worker
unset OPENBLAS_CORETYPE
python3 "$TOP/tests/goldens/models.py" "$TMP/models" || die "models.py"
OPTIONS="--n_streams=3 --batch_size=30 --num_passes=1 --seed=5 --log_period=1 --save_dir=model"

costs() { sed -n 's/.*Batch [0-9]*, Cost \([-0-9.e+na]*\).*/\1/p; s/.*Test after pass 1\/1: cost \([-0-9.e+na]*\).*/\1/p' "$1"; }

compare() { # compare NAME GOLDEN LOG
    blas_used "$3"
    costs "$3" >"$TMP/got"
    [ "$(wc -l <"$TMP/got")" -eq 51 ] || die "$1: $(wc -l <"$TMP/got") costs, not 51: $(tail -3 "$3")"
    paste "$TMP/got" "$2" | awk -v name="$1" '
        { d = $1 - $2; d = (d < 0 ? -d : d) / $2; if (!(d <= worst)) { worst = d; at = NR; got = $1; want = $2 } if (NR == 1) first = $2; last = $2 }
        END { printf "%-22s largest relative difference %.1e in batch %d (%s, PyTorch %s); cost %s -> %s\n", name, worst, at, got, want, first, last
              exit !(NR == 51 && worst <= 1e-3 && last < first) }' || die "$1 differs from PyTorch"
}

three_trainers() { # in the current folder
    local list='' i trainers=()
    for i in 0 1; do start "s$i" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --num_gradient_servers=3; done
    for i in 0 1; do
        wait_for 60 "pserver $i listens" grep -q '^pserver listens' "$TMP/s$i.log"
        list=$list,$(sed -n 's/^pserver listens.*): \([0-9]*\)[ ,;].*/127.0.0.1:\1/p' "$TMP/s$i.log")
    done
    for i in 0 1 2; do
        # shellcheck disable=SC2086
        start "t$i" "$WORKER" trainer --pservers="${list#,}" --trainer_id=$i --num_gradient_servers=3 $OPTIONS
        trainers+=("$PID")
    done
    for i in "${trainers[@]}"; do wait "$i" || die "a trainer failed: $(tail -qn 3 "$TMP"/t?.log)"; done
    for i in "${PIDS[@]}"; do wait "$i" || die "a pserver failed: $(tail -qn 3 "$TMP"/s?.log)"; done
    PIDS=()
}

for golden in "$TOP"/tests/goldens/*.txt; do
    name=$(basename "$golden" .txt)
    cd "$TMP/models/$name" || die "no model $name"
    for count in 1 2; do
        # shellcheck disable=SC2086
        "$WORKER" trainer --local=1 --trainer_count=$count $OPTIONS >"$TMP/local.log" 2>&1 || die "$name: $(tail -3 "$TMP/local.log")"
        compare "$name, $count thread(s)" "$golden" "$TMP/local.log"
    done
    three_trainers
    compare "$name, 3 trainers" "$golden" "$TMP/t0.log"
done
[ "$(find "$TOP/tests/goldens" -name '*.txt' | wc -l)" -eq 10 ] || die "there are not 10 goldens"

# Cross layers and pairs give the same bits for any number of threads under reproducible = topology.
for name in dcn pairs; do
    cd "$TMP/models/$name" || die "no model $name"
    for count in 1 2 3; do
        # shellcheck disable=SC2086
        "$WORKER" trainer --local=1 --trainer_count=$count --reproducible=topology $OPTIONS >"$TMP/local.log" 2>&1 ||
            die "$name: $(tail -3 "$TMP/local.log")"
        digest=$("$TOP/tests/support/model-digest" model/pass-00000 | cut -d' ' -f1)
        [ "$count" = 1 ] && first=$digest
        [ "$digest" = "$first" ] || die "$name: $count threads train another model than one"
    done
done
