#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/compare and bench/run with benchmarks that print what they are told: a loss beyond the noise is
# found, one within it is not, times and rates have opposite signs, a benchmark that fails is an error,
# and a missed target is exit status 1.
# release only (no program of ours is run)
. "$(dirname "$0")/../../support/lib.sh"
[ "$BIN" = "$TOP/build/release" ] || skip "no program of $BIN is run here"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
command -v git >/dev/null || skip "no git"
repo=$TMP/repo
mkdir -p "$repo/bench" "$repo/tests/support" || die mkdir
(cd "$TOP" && cp --parents bench/compare bench/run bench/drivers/lines.py bench/lib/quiet.sh "$repo") ||
    die "no bench/compare"
printf '#!/bin/sh\n' >"$repo/tests/support/install-packages"
chmod +x "$repo/tests/support/install-packages"
cd "$repo" || exit
printf 'all bench-programs:\n.PHONY: all bench-programs\n' >Makefile
# Each bench prints a line with the figure of its round: FIGURES is one word for each.
fake() { # NAME FIGURES AFTER: bench/NAME.sh
    cat >"bench/$1.sh" <<END
#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# what $1 asks
figures=($2)
n=\$(cat count-$1 2>/dev/null || echo 0)
echo \$((n + 1)) >count-$1
echo "bench $1 ratio 1.00 target >=1.00 peer \"nobody, 5 ours\" ours \${figures[n % \${#figures[@]}]}$3 theirs 1 s"
END
}
commit() { git add -A && git -c user.name=test -c user.email=test@localhost commit -qm "$1" && git rev-parse HEAD; }
compare() { rm -f build/compare/*/count-*; expect "$@"; }
git init -q . && echo /build/ >.gitignore
# three rounds: 98 100 102, a spread of 4 %
fake rate "98 100 102" " keys/s"
fake wall "98 100 102" " ms a step"
fake two "98 100 102" " keys/s (2 threads), p99 5 ms"
first=$(commit first)
fake rate "95 97 99" " keys/s"
fake wall "100 103 105" " ms a step"
within=$(commit "3 % slower, within the noise")
fake rate "91 93 95" " keys/s"
slower=$(commit "7 % slower, beyond it")
fake rate "98 100 102" " keys/s"
fake wall "106 108 110" " ms a step"
longer=$(commit "8 % longer, beyond it")
fake wall "92 94 96" " ms a step"
shorter=$(commit "6 % shorter")
fake two "98 100 102" " keys/s (2 threads), p99 6 ms"
worse=$(commit "the second figure of a line is 20 % worse")
echo 'exit 3' >bench/wall.sh
broken=$(commit "a bench that fails")
printf 'echo "skipped: bench wall: no reason"\nexit 77\n' >bench/wall.sh
skipped=$(commit "a bench that is skipped")
export QUIET_S=0

compare 0 bench/compare "$first" "$within"
has "nothing lost more than its noise"
compare 1 bench/compare "$first" "$slower" rate
has "rate                                                  100           93   0.93   0.04  LOST"
compare 1 bench/compare "$first" "$longer" wall
has "wall                                                  100          108   0.93   0.04  LOST"
compare 0 bench/compare "$slower" "$first" rate # a gain
has " 1.08 "
compare 0 bench/compare "$first" "$shorter" wall
has " 1.06 "
compare 1 bench/compare "$shorter" "$worse"
has "two p99                                                 5            6   0.83   0.02  LOST"
has "1 lost more than their noise"
has "rate                                                  100          100   1.00   0.04"
compare 2 bench/compare "$first" "$broken" wall
has "bench wall of the new commit failed"
compare 0 bench/compare "$first" "$skipped" wall rate
has "skipped: bench wall: no reason"
has "wall                                         only in the old commit's"
compare 2 bench/compare "$first" "$first" nothing
has "not both commits have a benchmark 'nothing'"
compare 2 bench/compare "$first" no-such-commit
compare 2 bench/compare no-such-commit "$first"
fake more "5" " keys/s"
git rm -q --cached bench/wall.sh && rm bench/wall.sh
newer=$(commit "a bench more, a bench less")
compare 0 bench/compare "$worse" "$newer" # those that both have
has "not compared: only $newer has more"
has_not "round 0: more"
ROUNDS_COMPARED=1 compare 2 bench/compare "$first" "$within"
has "must be 2 or more"

# bench/run: the list of questions; the exit status, and the missed targets last
expect 0 bench/run
grep -qx 'rate  *what rate asks' <<<"$OUT" || die "$OUT"
expect 0 bench/run rate
[ "$(tail -1 <<<"$OUT")" = "no measured target is missed" ] || die "$OUT"
sed 's/ratio 1.00/ratio 0.99/' bench/rate.sh >bench/short.sh
expect 1 bench/run short rate
[[ $(tail -2 <<<"$OUT") == "missed targets (1):"*"bench rate ratio 0.99"* ]] || die "$OUT"
echo 'echo "skipped: bench away: no reason"; exit 77' >bench/away.sh
expect 1 bench/run away
has "no benchmark was measured"
echo 'exit 3' >bench/wrong.sh
expect 1 bench/run rate wrong
has "bench wrong failed"
expect 2 bench/run nothing

# missed targets, in both directions, and the table
cat >log <<'END'
machine: 2 cores
bench rate ratio 1.20 target >=1.20 peer "x" ours 12345 keys/s theirs 1 keys/s
bench wall-up ratio 1.19 target >=1.20 peer "x" ours 1 s theirs 1 s
bench wall-down ratio 1.21 target <=1.20 peer "x" ours 1 s theirs 1 s
bench wall-same ratio 2.00 target <2 peer "x" ours 1 s theirs 1 s
bench wall-less ratio 1.99 target <2 peer "x" ours 1 s theirs 1 s
END
expect 1 /usr/bin/python3 bench/drivers/lines.py misses log
[ "$(wc -l <<<"$OUT")" = 3 ] || die "not three misses: $OUT"
has "wall-up"
has "wall-down"
has "wall-same"
sed -i '3,5d' log
expect 0 /usr/bin/python3 bench/drivers/lines.py misses log
[ -z "$OUT" ] || die "a miss that is none: $OUT"
echo 'bench two ratio 0.50 target >=0.80 peer "x" ours 1 s theirs 1 s' >>log
expect 0 /usr/bin/python3 bench/drivers/lines.py table log
has '- machine: 2 cores'
has '| rate | what rate asks | 1.2 | >= 1.2 | 12,345 keys/s | x: 1 keys/s | yes |'
has '| two | what two asks | 0.5 | >= 0.8 | 1 s | x: 1 s | **MISSED** |'
