#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of a user's own train through libpaddle_ps: the C template, built with pkg-config from an installed tree, and the PyTorch
# one, whose costs are those of one ordinary PyTorch process. Launched by `paddlectl run`, two trainers and two servers.
# release only (a sanitizer's runtime can't come with a library into somebody's Python)
# alone (it runs make install, as manual.sh does)
. "$(dirname "$0")/../../support/lib.sh"
command -v pkg-config >/dev/null || skip "there is no pkg-config"
make -s -C "$TOP" install PREFIX="$TMP/inst" >"$TMP/install.log" 2>&1 || die "make install: $(tail -5 "$TMP/install.log")"
export PKG_CONFIG_PATH=$TMP/inst/lib/pkgconfig HOME=$TMP/home
ctl=$TMP/inst/bin/paddlectl
mkdir -p "$HOME"
cd "$TMP" || exit 1

expect 0 "$ctl" init own_trainer_c
expect 0 own_trainer_c/workspace/prepare
has libpaddle_ps.so.1
[ ! -e own_trainer_c/workspace/conf.ini ] || die "the template's conf.ini is in the workspace"
cd own_trainer_c || exit 1
expect 0 "$ctl" run
has "step 250: cost"
# Logistic regression that learns comes near the best possible cost; one that doesn't stays at 0.69.
at_step() { sed -n "s/.*step $1: cost \([0-9.]*\), the best possible \([0-9.]*\),.*/\\$2/p" \
    <<<"$OUT"; }
holds "first > 0.69 && last < best + 0.03 && best < 0.6" \
    first="$(at_step 0 1)" last="$(at_step 250 1)" best="$(at_step 250 2)"
[ -s output/latest/model/manifest.json ] || die "no model came back"
# A trainer that fails is a failed job with its own words.
expect 1 "$ctl" run --trainer_command='PADDLE_PS_SETTINGS=sede=1 ./train'
has "unknown setting 'sede'"
cd ..

if ! /usr/bin/python3 -c 'import numpy, torch' 2>/dev/null; then
    echo "skipped: the PyTorch template: no torch here"
    exit 0
fi
expect 0 "$ctl" init own_trainer_pytorch
expect 0 own_trainer_pytorch/workspace/prepare
cd own_trainer_pytorch || exit 1
expect 0 "$ctl" run --trainer_command='/usr/bin/python3 train.py'
sed -n 's/.*\(step [0-9]* cost [0-9.]*\).*/\1/p' <<<"$OUT" >served
(cd workspace && /usr/bin/python3 train.py --plain) >plain || die "the plain program"
paste -d' ' served plain | awk '{ d = $4 / $8 - 1; if ($2 != $6 || d > 1e-4 || d < -1e-4) { print "differs: " $0; bad = 1 } n++ }
    END { if (n != 60) { print n " steps, not 60"; bad = 1 } exit bad }' || die "costs through the servers are not PyTorch's"
echo "60 costs agree with one PyTorch process; the last: $(tail -1 served), $(tail -1 plain)"
