#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands that README.md and docs show are run, in the home of a user with three ssh hosts, and
# their output is compared with the shown one (tests/support/documents/run.py).
# release only
# With arguments: only these documents.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/documents/home.sh"
[ -x /usr/sbin/sshd ] || skip "no sshd on this machine"
[ -r /usr/share/wordnet/data.noun ] || skip "wordnet-base is not installed"
on_cleanup() { home_stop; }
home_start "$TMP/home" || die "no home"
make -s -C "$TOP" install PREFIX="$HOME/inst" >"$TMP/install.log" 2>&1 || die "make install: $(cat "$TMP/install.log")"
export PATH="$HOME/inst/bin:$PATH"
ln -s /usr/bin/python3 "$HOME/bin/python3"
mkdir "$HOME/given"
sed -n 's/^[0-9].*| //p' /usr/share/wordnet/data.noun | awk 'NR % 12 == 0' | head -6000 >"$HOME/given/my-text.txt"
cp "$HOME/given/my-text.txt" "$HOME/given/corpus.txt"
# 3,000 clicks in Criteo's format: a label, 13 counts, 26 categories, of which the first two decide.
awk 'BEGIN { srand(1); for (i = 0; i < 3000; i++) { a = int(rand() * 20); b = int(rand() * 20)
    line = rand() < (a % 3 == 0 ? 0.7 : 0.1) + (b % 4 == 0 ? 0.2 : 0) ? 1 : 0
    for (k = 0; k < 13; k++) line = line "\t" int(rand() * 100)
    for (k = 0; k < 26; k++) line = line sprintf("\t%08x", k == 0 ? a : k == 1 ? b + 99 : rand() * 50 + 200 * k)
    print line } }' >"$HOME/given/my-clicks.txt"
# 3,000 rows of a shop: every third user, and phones in every fourth city, decide.
awk 'BEGIN { srand(2); print "click,user,city,device,hour,price"
    for (i = 0; i < 3000; i++) { u = int(rand() * 200); d = int(rand() * 3); c = int(rand() * 30)
        p = (u % 3 == 0 ? 0.5 : 0.08) + (d == 0 && c % 4 == 0 ? 0.35 : 0)
        printf "%d,u%d,c%d,%s,%d,%.2f\n", rand() < p, u, c, d == 0 ? "phone" : d == 1 ? "tablet" : "desk", int(rand() * 24), exp(rand() * 4) } }' >"$HOME/given/my-log.csv"
gzip -c "$HOME/given/my-clicks.txt" >"$HOME/given/day_0.gz"
awk 'BEGIN { for (i = 0; i < 200; i++) printf "%d, Private, 1, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 40, Cuba, %s\n",
    20 + i % 50, i % 3 ? "<=50K" : ">50K" }' | zstd -q -o "$HOME/given/data.csv.zst"

cd "$TOP" || exit 1
[ $# -gt 0 ] || set -- README.md CONTRIBUTING.md docs/*.md docs/folders/*.md
expect 0 tests/support/documents/run.py "$HOME" "$@"
echo "$OUT" | tail -40
# A block that is not run needs a reason, and there are few of them.
n=$(grep -c '^not run: ' <<<"$OUT")
[ "$n" -le 17 ] || die "$n blocks are not run"
[ $# -lt 9 ] || holds "n > 40" n="$(sed -n 's/^\([0-9]*\) commands.*/\1/p' <<<"$OUT")"

# The comparison itself: what it must not accept
wrong() { # wrong NAME TEXT OUTPUT
    mkdir -p "$TMP/wrong" && printf '%b' "$2" >"$TMP/wrong/$1.md"
    expect 1 tests/support/documents/run.py "$HOME" "$TMP/wrong/$1.md"
    has "$3"
}
wrong text '```console\n$ echo cost 1.5 done\ncost 2.5 failed\n```\n' "cost 1.5 done"
wrong line '```console\n$ printf "a\\nb\\nc\\n"\n...\nb\nd\n```\n' "not there: d"
wrong more '```console\n$ printf "a\\nb\\n"\na\n```\n' "-- output:"
wrong status '```sh\nfalse\n```\n' "exit status 1, wanted 0"
wrong wanted '<!-- status: 2 -->\n```sh\ntrue\n```\n' "exit status 0, wanted 2"
wrong place '```\npaddlectl run\n```\n' "a command in a block that is not sh or console"
wrong indent 'Text:\n\n    paddlectl run\n' "a command in an indented block"
printf '```console\n$ printf "a 1\\nb\\nc 22 s\\n"\na 7\n...\nc 3 min\n```\n' >"$TMP/wrong/good.md"
expect 0 tests/support/documents/run.py "$HOME" "$TMP/wrong/good.md"
