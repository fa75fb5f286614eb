#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The five examples of CONTRIBUTING.md, word for word, in a copy of the tree: it builds, and what they add
# works. A layer, an optimizer, an option, a message and a subcommand.
# limit 1800
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
copy=$TMP/copy
mkdir "$copy"
# With the objects of the build, whose times stay: only what the examples change is compiled.
(cd "$TOP" && find Makefile README.md CONTRIBUTING.md src launcher worker conf workspace_template docs \
    tests/support -type f -print0 | xargs -0 cp -p --parents -t "$copy") || die "no copy of the tree"
# The objects of the benches come and go while bench_short builds.
mkdir -p "$copy/build/release" && tar -C "$BIN" --exclude=./bench -cf - . | tar -C "$copy/build/release" -xpf - ||
    die "no copy of $BIN"
/usr/bin/python3 "$TOP/tests/support/apply_examples.py" "$TOP/CONTRIBUTING.md" "$copy" >"$TMP/applied" ||
    die "the examples do not fit the tree any more"
[ "$(wc -l <"$TMP/applied")" -ge 13 ] || die "only $(wc -l <"$TMP/applied") examples"
# Quick objects beside those of the build: the flags of the build stay recorded.
make -C "$copy" -j"$(nproc)" -o build/release/flags CFLAGS="-O1 -g0" all >"$TMP/make.log" 2>&1 ||
    die "$(grep -m 5 error: "$TMP/make.log")"
! grep -q "warning:.*\[-W" "$TMP/make.log" || die "$(grep -m 5 "\[-W" "$TMP/make.log")"
# make prints a short line for each file, with V=1 the commands, with -s nothing.
grep -qx 'CC launcher/main.c' "$TMP/make.log" && grep -qx 'LD paddlectl' "$TMP/make.log" ||
    die "make: no short lines: $(head -5 "$TMP/make.log")"
# The linker's own warnings about static programs may be longer.
long=$(grep -E '^[A-Z]+ ' "$TMP/make.log" | awk 'length > 100')
[ -z "$long" ] || die "make: long lines: $(head -3 <<<"$long")"
again() { rm "$copy/build/release/launcher/main.o" && make -C "$copy" --no-print-directory "$@" build/release/launcher/main.o; }
[ "$(again)" = 'CC launcher/main.c' ] || die "make: other lines than CC launcher/main.c"
[ -z "$(again -s)" ] || die "make -s prints lines"
again V=1 | grep -q -- '-c launcher/main.c -o ' || die "make V=1 does not print the command"
ctl=$copy/build/release/paddlectl worker=$copy/build/release/paddle_worker

cd "$TMP" || die cd
printf '[cluster]\nhosts = local*2\nroot_dir = %s/node%%n\nmotto = slowly\n' "$TMP" >conf.ini
"$ctl" conf --conf=conf.ini >conf.out || die "conf: $(cat conf.out)"
grep -q '^ *motto *= *slowly' conf.out || die "the option: $(grep motto conf.out)"
"$ctl" conf --conf=conf.ini --motto=fast | grep -q '^ *motto *= *fast' || die "the option as an argument"
"$ctl" help --man=paddlectl.ini.5 | grep -q motto || die "the option is not in the manual"

"$ctl" uptime --conf=conf.ini >uptime.out 2>&1 || die "the subcommand: $(cat uptime.out)"
[ "$(grep -cE ': [0-9]+ ms$' uptime.out)" = 2 ] || die "the message: $(cat uptime.out)"
"$ctl" help | grep -q uptime || die "help does not list the subcommand"

tiny_data data
tiny_model vocabulary=300 optimizer=sign rate=0.001 <<'END' |
num_passes = 2
END
    sed 's/^inputs = e$/inputs = t/; s/^\[layer p\]/[layer t]\ntype = twice\ninputs = e\n[layer p]/' >train.ini
sed -i '/^\[layer t\]/,/^\[layer p\]/s/^inputs = t/inputs = e/' train.ini
"$worker" trainer --local=1 --config=train.ini --job=checkgrad >grad.log 2>&1 || die "the layer: $(tail -3 grad.log)"
"$worker" trainer --local=1 --config=train.ini >train.log 2>&1 || die "the optimizer: $(tail -3 train.log)"
cost() { grep -oE "Pass $1/2 done: .*cost [0-9.]+" train.log | grep -oE '[0-9.]+$'; }
[ -n "$(cost 2)" ] || die "no cost: $(tail -3 train.log)"
holds 'later < first' later="$(cost 2)" first="$(cost 1)"
