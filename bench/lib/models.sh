# SPDX-License-Identifier: Apache-2.0
# models.sh - what the benches models and models_job share; for sourcing. $TMP is a folder of
# theirs, $BIN that of the programs.
unset ${!OPENBLAS_@} ${!OMP_@} # the caller's core type or number of threads

# The folder $TMP/NAME, which is then the current one: train.ini, data, and our first values as
# init.npz.
prepare() { # NAME
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/drivers/models.py "$1" "$TMP/$1" ${STEPS:+"$STEPS"}
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/drivers/models.py "$1" "$TMP/$1-init" 2
    (cd "$TMP/$1-init" && "$BIN/paddle_worker" trainer --local=1 --save_initial=1 --save_dir=model --save_state=0 >log 2>&1 || { tail -n 3 log >&2; exit 1; })
    "$BIN/paddlectl" export --model="$TMP/$1-init/model/pass-init" --out="$TMP/$1/init.npz" >/dev/null
    rm -rf "$TMP/$1-init"
    TORCH=$PWD/bench/peers/models_torch.py
    cd "$TMP/$1"
}

batch() { sed -n 's/^batch_size = //p' train.ini; }
target() { case $1 in ngram) echo 1.40 ;; *) echo 1.60 ;; esac }
torch() { PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$TORCH" "$@"; }
max() { [ "${1%.*}" -gt "${2%.*}" ] && echo "$1" || echo "$2"; }
largest() { sort -n | tail -1; }
joined() { paste -sd' '; }

our_rate() { sed -n 's/.*Pass [0-9\/]* done: .*(\([0-9]*\) .*\/s).*/\1/p' "$1" | largest; }
our_costs() { sed -n 's/.*Pass [0-9\/]* done: .* cost \([-0-9.e]*\).*/\1/p' "$1" | joined; }
torch_rate() { sed -n 's/^pass .* rate \([0-9]*\).*/\1/p' "$1" | largest; }
torch_costs() { sed -n 's/^pass .* cost \(.*\)/\1/p' "$1" | joined; }

line_samples() { # NAME TARGET PEER OURS THEIRS NOTE
    awk -v n="$1" -v t="$2" -v p="$3" -v o="$4" -v h="$5" -v x="$6" 'BEGIN {
        printf "bench %s ratio %.2f target >=%s peer \"%s\" ours %d samples/s (%s) theirs %d samples/s\n", n, o / h, t, p, o, x, h }'
}
