#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl conf --model: the network as a table with shapes, parameters and FLOPs; a mistake in train.ini with file and line, status 2.
. "$(dirname "$0")/../../support/lib.sh"
python3 "$TOP/tests/goldens/models.py" "$TMP/models" || die "models.py"
cd "$TMP" || exit 1
printf '[cluster]\nhosts = local\n[job]\njob_dispatch_package = models/lenet\n' >conf.ini
"$BIN/paddlectl" conf --model >out || die "status $?"
cat out
for line in 'c1 +conv\+relu +x +4x10x10 +7200 +c1.w 9x4, c1.b 1x4' 'p1 +pool +c1 +4x5x5 +0' 'c2 +conv\+relu +p1 +6x5x5 +10800 +c2.w 36x6, c2.b 1x6' \
    'h +fc\+relu +p2 +20 +960 +h.w 24x20, h.b 1x20' 'c +cross_entropy +p y +cost' '846 values in 8 parameters, 19120 FLOPs a sample forward'; do
    grep -qE "^$line *$" out || die "no line '$line'"
done
cp out with_conf
"$BIN/paddlectl" conf --model models/lenet/train.ini >out && cmp out with_conf || die "conf --model FILE"
mkdir alone && cp models/lenet/train.ini alone/ # without a conf.ini
(cd alone && "$BIN/paddlectl" conf --model >../out) && cmp out with_conf || die "a train.ini alone: $(cat out)"
expect 2 "$BIN/paddlectl" conf models/lenet/train.ini
has "unexpected word 'models/lenet/train.ini': only --model takes a train.ini"
expect 2 "$BIN/paddlectl" conf --model models
has "models"
sed -i 's/^filter = 2/filter = 20/' models/lenet/train.ini
"$BIN/paddlectl" conf --model >out 2>&1 && die "a window that does not fit was taken"
status=$?; [ "$status" -eq 2 ] && grep -q "train.ini:[0-9]*: layer 'p1': a window of 20 x 20 with padding 0 does not fit an image of 10 x 10" out || die "$(cat out)"
