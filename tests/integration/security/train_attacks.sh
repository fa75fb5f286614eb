#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Somebody on the path between trainer and pserver, without the job's key, changes, lengthens,
# repeats and forges records (tests/support/record_proxy.py). Each deed breaks a connection, which the
# log says; the connection is made again, and the model has the same bits as without the attack.
# A listener reads nothing: the bytes cannot be compressed and have no names. With encrypt = off the
# same listener reads the optimizer's name.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
WORKER=$BIN/paddle_worker
cd "$TMP" || exit 1
(umask 077 && head -c 32 /dev/urandom >key)
tiny_data data
tiny_model vocabulary=300 optimizer=adagrad <<'END' >train.ini
num_passes = 2
batch_size = 48
END

# attack NAME DEED DIRECTION RECORD [ENCRYPT]: a training of one pserver and one trainer
attack() {
    local name=$1 encrypt=${5:-all} ports server trainer proxy
    mkdir "$name"
    start "$name/server" "$WORKER" pserver --save_dir="$TMP" --nics=127.0.0.1 --port=0 --key_file=key \
        --num_gradient_servers=1 --reconnect_timeout=60 --encrypt="$encrypt"
    server=$PID
    wait_for 60 "a pserver listens" grep -q '^pserver listens' "$name/server.log"
    ports=$(sed -n 's/^pserver listens.*): \([0-9]*\); \([0-9]*\).*/\1,\2/p' "$name/server.log")
    start "$name/proxy" python3 "$TOP/tests/support/record_proxy.py" 127.0.0.9 127.0.0.1 "$ports" \
        "$2" "$3" "$4" "$name/report"
    proxy=$PID
    wait_for 60 "the proxy listens" grep -q ready "$name/proxy.log"
    start "$name/trainer" "$WORKER" trainer --pservers="127.0.0.9:${ports%,*}" --trainer_id=0 \
        --key_file=key --num_gradient_servers=1 --reconnect_timeout=60 --save_dir="$name/out" \
        --encrypt="$encrypt"
    trainer=$PID
    wait "$trainer" || die "$name: the trainer failed: $(tail -n 5 "$name/trainer.log")"
    wait "$server" || die "$name: the pserver failed: $(tail -n 5 "$name/server.log")"
    kill "$proxy"
    wait "$proxy" || die "$name: $(cat "$name/proxy.log")"
    PIDS=()
}
report() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[0][sys.argv[2]])' "$1/report" "$2"; }
digest() { python3 "$TOP/tests/support/model-digest" "$1/out/pass-00001" | cut -d" " -f1; }

attack plain nothing up 0 off
# PS_DECLARE has the optimizer's name. It is long enough not to appear by chance in sealed bytes.
grep -q adagrad plain/report.seen || die "a plain connection shows no name"
grep -h -q 'encrypt = off' plain/server.log || die "no warning about encrypt = off"
attack quiet nothing up 0
want=$(digest quiet)
[ -n "$want" ] || die "no digest"
[ "$(digest plain)" = "$want" ] || die "the seal changes the model"
! grep -q adagrad quiet/report.seen || die "names can be read"
awk -v a="$(report quiet packs_to)" 'BEGIN { exit !(a > 0.99) }' ||
    die "the bytes on the wire can be compressed to $(report quiet packs_to)"

# A record that is dropped, or kept back for a swap, is noticed at the next one. Here no next one
# comes: to the ends this is a slow network. tests/unit/net/test_net_seal.c drops and swaps.
for deed in flip length repeat forge handshake; do
    for direction in up down; do
        name=$deed-$direction
        attack "$name" "$deed" "$direction" 4
        [ "$(report "$name" done)" = True ] || die "$name: it did not happen"
        [ $deed = handshake ] || # which is tried again without a word
            grep -q "is not the peer's next one" "$name/server.log" "$name/trainer.log" ||
            die "$name: nobody noticed: $(tail -n 3 "$name"/*.log)"
        [ "$(digest "$name")" = "$want" ] || die "$name: the model has other bits"
        [ -z "$(find . -name owned)" ] || die "$name: a forged message wrote a file"
    done
done
