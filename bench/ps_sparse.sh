#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rows of a table, 13,000 random keys a request: how near to this machine's limit?
#
# p99 is wanted below 1.5 ms at 16 floats a row. In the same run the same bytes go there and back with nothing behind them (104 KB
# of keys up, 832 KB of rows down): a virtual machine whose host takes its cores away shows that there, too.
# The limit of a request is the same work in one process plus its bytes at iperf3's speed: 1 / (1/here + bytes_per_key/iperf3).
# SHAPES="16:1000000 ..." (floats a row : rows), FOR_S=4 seconds a measurement.
# PSLITE=folder, a checkout of github.com/dmlc/ps-lite: the same requests to a server of ps-lite's (bench/peers/pslite.cc).
ROUNDS=${ROUNDS:-2} FOR_S=${FOR_S:-4}
. "$(dirname "$0")/lib/ps.sh"
PEER=build/bench-pslite
[ -z "${PSLITE:-}" ] || {
    mkdir -p $PEER
    protoc --cpp_out=$PEER --proto_path="$PSLITE/src" "$PSLITE/src/meta.proto"
    g++ -std=c++14 -O3 -w -I"$PSLITE/include" -I"$PSLITE/src" -I$PEER -o $PEER/pslite bench/peers/pslite.cc \
        "$PSLITE"/src/{customer,postoffice,van}.cc $PEER/meta.pb.cc -lzmq -lprotobuf -lpthread
}
pslite() { # pslite DIM ROWS KEYS SECONDS: Mkeys/s of pull, of push, their p99 in ms
    export DMLC_NUM_WORKER=1 DMLC_NUM_SERVER=1 DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=$((20000 + RANDOM % 10000)) \
        DMLC_INTERFACE=lo DMLC_NODE_HOST=127.0.0.1
    DMLC_ROLE=scheduler timeout 120 $PEER/pslite "$@" >/dev/null &
    DMLC_ROLE=server timeout 120 $PEER/pslite "$@" >/dev/null &
    DMLC_ROLE=worker timeout 120 $PEER/pslite "$@" | awk '{ print $7, $9, $13, $15 }'
    wait
}
read -ra shapes <<<"${SHAPES:-16:1000000 16:10000000 64:1000000}"
for shape in "${shapes[@]}"; do
    dim=${shape%:*} rows=${shape#*:}
    worst=9 p99=999 bare=999 both=0
    for ((i = 0; i < ROUNDS; i++)); do
        gbs=$(iperf_gbs)
        read -r pull push p99pull p99push hpull hpush <<<"$("$PS" sparse "$dim" "$rows" 13000 "$FOR_S" | awk '{print $7, $9, $13, $15, $19, $21}')"
        # 8 bytes of key up and dim floats down; a push names the keys of its pull and sends dim floats up
        read -r lpull lpush r <<<"$(awk -v d="$dim" -v g="$gbs" -v a="$hpull" -v b="$hpush" -v x="$pull" -v y="$push" 'BEGIN {
            lp = 1 / (1 / a + (8 + 4 * d) / (g * 1e3)); lq = 1 / (1 / b + 4 * d / (g * 1e3));
            printf "%.1f %.1f %.2f", lp, lq, (x / lp < y / lq ? x / lp : y / lq) }')"
        echo "dim $dim, $rows rows: pull $pull of at most $lpull Mkeys/s, push $push of $lpush; p99 $p99pull and $p99push ms; iperf3 $gbs GB/s"
        worst=$(awk -v a="$worst" -v b="$r" 'BEGIN { print (a == 9 || b > a) ? b : a }')
        both=$(max "$both" "$(awk -v a="$pull" -v b="$push" 'BEGIN { printf "%.2f", 1 / (1 / a + 1 / b) }')")
        p99=$(min "$p99" "$(max "$p99pull" "$p99push")")
        bare=$(min "$bare" "$("$PS" rtt $((13000 * 8)) $((13000 * 4 * dim)) "$FOR_S" | awk '{ printf "%.2f", $7 / 1e3 }')")
    done
    line "ps_sparse_${dim}_$((rows / 1000000))M" "$worst" '>=0.80' "in-process work + iperf3" "pull $pull, push $push Mkeys/s, p99 $p99 ms" "pull $lpull, push $lpush Mkeys/s"
    if [ -n "${PSLITE:-}" ]; then
        read -r ppull ppush p99pull p99push <<<"$(pslite "$dim" "$rows" 13000 "$FOR_S")"
        theirs=$(awk -v a="$ppull" -v b="$ppush" 'BEGIN { printf "%.2f", 1 / (1 / a + 1 / b) }')
        line "ps_sparse_${dim}_$((rows / 1000000))M_pslite" "$(ratio "$both" "$theirs")" '>=1' "ps-lite" "$both Mkeys/s, p99 $p99 ms" \
            "pull $ppull, push $ppush Mkeys/s, p99 $(max "$p99pull" "$p99push") ms"
    fi
    [ "$dim" != 16 ] || line "ps_sparse_${dim}_$((rows / 1000000))M_p99" "$(ratio "$p99" 1.5)" '<=1' "1.5 ms; a bare exchange of the same bytes $bare ms" "$p99 ms" "1.5 ms"
    if [ "$shape" = "${shapes[0]}" ]; then
        torch=$(PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/peers/ps_torch.py "$dim" "$rows" 13000 "$FOR_S")
        line ps_sparse_torch "$(ratio "$both" "$torch")" '>=3' "PyTorch EmbeddingBag(sparse) + Adagrad, its best of 1 and 2 threads, 1 and 2 of OpenBLAS" "$both Mkeys/s" "$torch Mkeys/s"
    fi
done
