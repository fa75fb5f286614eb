#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manual and the completions, which are made from the program's tables: whole, without warnings, and they work in real shells.
# release only
. "$(dirname "$0")/../../support/lib.sh"
ctl=$BIN/paddlectl
commands=$("$ctl" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 8 ] || die "commands: $commands"

# --- help: every command, by both ways the same; its own options come before conf.ini's; lines fit a terminal
for c in $commands; do
    expect 0 "$ctl" "$c" --help
    has "usage: paddlectl $c"
    has "Options:"
    has "--help "
    own=$OUT
    expect 0 "$ctl" help "$c"
    [ "$OUT" = "$own" ] || die "help $c differs from $c --help"
    [ -z "$(awk '/^Options:/ { exit } !/^usage:/ && !/^  / && length > 80' <<<"$own")" ] || die "$c --help: what it does is wider than 80 columns"
    [ -z "$(awk 'length > 120' <<<"$own")" ] || die "long lines: $(awk 'length > 120' <<<"$own")"
    [ "$(wc -l <<<"$own")" -lt 400 ] || die "$c --help has $(wc -l <<<"$own") lines"
done
expect 0 "$ctl" run -h
expect 2 "$ctl" help stpo
has "there is no command 'stpo', did you mean 'stop'?"
expect 2 "$ctl" stpo
has "there is no command 'stpo', did you mean 'stop'?"
expect 2 "$ctl" frobnicate
has "'paddlectl help' lists them"
expect 2 "$ctl" stop --fnaout=3
has "unknown option --fnaout, did you mean --fanout?; see 'paddlectl stop --help'"
expect 2 "$ctl" help --man=paddlectl-nope.1
expect 2 "$ctl" help --man=x

# --- the reference of train.ini: docs/train-ini.md is what the program prints; a part by its name
expect 0 "$ctl" help train.ini
[ "$OUT" = "$(cat "$TOP/docs/train-ini.md")" ] ||
    die "docs/train-ini.md is not what paddlectl help train.ini prints: $(diff <(echo "$OUT") "$TOP/docs/train-ini.md" | head)"
expect 0 "$ctl" help train.ini conv
has "### conv"
has "OH = (H + 2 padding - K) / stride + 1"
[[ $OUT != *"### pool"* ]] || die "help train.ini conv prints more: $OUT"
expect 0 "$ctl" help train.ini adam
has "beta1"
expect 2 "$ctl" help train.ini convolve
has "no layer, activation, cost, evaluator, optimizer or key 'convolve'"
expect 2 "$ctl" help run stop
has "unexpected word 'stop'"

# --- the reference of libpaddle_ps: docs/c-api.md and docs/python-api.md are made from its sources
for page in c python; do
    expect 0 "$TOP/docs/api.py" $page
    [ "$OUT" = "$(cat "$TOP/docs/$page-api.md")" ] ||
        die "docs/$page-api.md is not what docs/api.py prints: $(diff <(echo "$OUT") "$TOP/docs/$page-api.md" | head)"
done
calls=$(grep -oE '\bpaddle_ps_[a-z_]+\(' "$TOP/src/capi/paddle_ps.h" | tr -d '(' | sort -u)
diff <(echo "$calls") <(sed -n 's/^### //p' "$TOP/docs/c-api.md" | sort) || die "docs/c-api.md has other calls"
for c in $calls; do # each is a method, but for those that only C needs
    grep -qE "^#+ (Client[.])?${c#paddle_ps_}\$" "$TOP/docs/python-api.md" ||
        [[ $c == paddle_ps_@(version|free|error) ]] || die "docs/python-api.md has no ${c#paddle_ps_}"
done
# what the generator must find, in a copy
mkdir -p "$TMP/copy/docs" "$TMP/copy/src" && cp "$TOP/docs/api.py" "$TMP/copy/docs" && cp -r "$TOP/src/capi" "$TMP/copy/src"
client=$TMP/copy/src/capi/python/paddle_ps/__init__.py
sed -i 's/n_samples: int, sums/n_samples, sums/' "$client"
expect 1 "$TMP/copy/docs/api.py" python
has "step_end has no type hints"
sed 's/"""Waits for all trainers."""/pass/' "$TOP/src/capi/python/paddle_ps/__init__.py" >"$client"
expect 1 "$TMP/copy/docs/api.py" python
has "Client.barrier has no docstring"
sed -i 's|/\* BLOCKS until all servers .*||' "$TMP/copy/src/capi/paddle_ps.h"
expect 1 "$TMP/copy/docs/api.py" c
has "paddle_ps_start has no comment"

# --- man pages: one for each command, without a warning, with every option
expect 0 "$ctl" help --pages
pages=$OUT
for c in $commands; do has "paddlectl-$c.1"; done
mkdir "$TMP/man"
for p in $pages; do
    "$ctl" help --man="$p" >"$TMP/man/$p" || die "no page $p"
    if command -v groff >/dev/null; then
        OUT=$(groff -ww -man -Tutf8 "$TMP/man/$p" 2>&1 >"$TMP/text")
        [ -z "$OUT" ] || die "$p: $OUT"
        [ "$(wc -l <"$TMP/text")" -gt 15 ] || die "$p is short"
    else
        echo "skipped: no groff here, pages are not checked for warnings"
    fi
    if command -v man >/dev/null; then
        OUT=$(man --warnings -l "$TMP/man/$p" 2>&1 >/dev/null)
        [ -z "$OUT" ] || die "$p: $OUT"
    fi
done
# The page of train.ini has all words of docs/train-ini.md, in its order.
if command -v groff >/dev/null; then
    sed -E '1d; /^\|---/d; s/^#+ //; s/\[[^][]*\]\(([^)]*)\)/docs\/\1/g; s/`//g
        /^\|/{s/\\\|/BAR/g; s/\|/ /g; s/BAR/|/g}' "$TOP/docs/train-ini.md" |
        tr 'A-Z \n' 'a-z\n\n' | grep . >"$TMP/words"
    groff -man -Tascii -rLL=2000n -P-cbou "$TMP/man/paddlectl-train.ini.5" |
        sed '1,/^DESCRIPTION/d; /^SEE ALSO/,$d' | tr 'A-Z \n' 'a-z\n\n' | grep . >"$TMP/page-words"
    [ "$(wc -l <"$TMP/words")" -gt 3000 ] || die "docs/train-ini.md has few words"
    diff "$TMP/words" "$TMP/page-words" >"$TMP/differ" ||
        die "paddlectl-train.ini.5 is not docs/train-ini.md: $(head "$TMP/differ")"
fi
"$ctl" run --help | sed -n 's/^  --\([a-z_.]*\).*/\1/p' | while read -r o; do
    grep -qF "\\-\\-$o\\fR" "$TMP/man/paddlectl-run.1" || die "--$o is not in paddlectl-run.1"
done || exit 1
"$ctl" conf --conf=/dev/null --hosts=a | sed -n 's/^\([a-z_]*\) = .*/\1/p' | while read -r o; do
    grep -qF "\\fB$o\\fR" "$TMP/man/paddlectl.ini.5" || die "$o is not in paddlectl.ini.5"
done || exit 1

# --- bash: what a user gets after a TAB
"$ctl" help --bash >"$TMP/bash"
bash -n "$TMP/bash" || die "the script for bash"
mkdir -p "$TMP/dir/output/JOB20260101000000-0001" "$TMP/dir/sub"
touch "$TMP/dir/conf.ini" "$TMP/dir/other.ini"
tab() { # tab WORDS...: the last is being typed; what is offered into $OUT, sorted
    OUT=$(cd "$TMP/dir" && PATH=$BIN:$PATH bash --norc -c '
        compopt() { :; } # only legal while readline completes
        . "$0"
        COMP_WORDS=(paddlectl "$@") COMP_CWORD=$#
        _paddlectl
        printf "%s\n" "${COMPREPLY[@]}" | sort | paste -sd "|"' "$TMP/bash" "$@" 2>&1)
}
is() { [ "$OUT" = "$1" ] || die "offered '$OUT', not '$1'"; }
tab st
[[ $OUT == *stop* ]] || die "st: $OUT"
tab sto && is stop
for c in $commands; do tab "$c" --hel; is "--help "; done
tab run --num_pa && is "--num_passes="
tab run --num-pa && is "--num_passes="
tab run --host_key_policy = && is "accept-new|strict"
tab run --host_key_policy = st && is strict
tab run --host-key-policy st && is strict
tab run --conf = o && is "other.ini|output"
tab run --conf o && is "other.ini|output"
tab run --num_passes = "" && is ""
tab prepare --out = s && is sub
tab prepare --format = l && is "libsvm|lines"
tab stop J && is JOB20260101000000-0001
tab stop --conf = conf.ini J && is JOB20260101000000-0001
tab init wo && is word2vec
tab init word2vec s && is sub
tab help dis && is dispatch
tab split --shards=2 --out = s && is sub
tab split x y o && is "other.ini|output"
# with a terminal, as readline does it: TAB, TAB, TAB, then ^A to put an echo in front
if command -v script >/dev/null; then
    cat >"$TMP/bashrc" <<END
PS1='> '
PATH=$BIN:\$PATH
bind 'set enable-bracketed-paste off'
. '$TMP/bash'
END
    OUT=$(cd "$TMP/dir" && { sleep 1; printf 'paddlectl spl\t--sha\t3 --o\tsub nof\001echo got \nexit\n'; sleep 2; } |
        TERM=dumb timeout 30 script -qec "bash --rcfile '$TMP/bashrc' -i" /dev/null 2>&1 | tr -d '\r')
    has "
got paddlectl split --shards=3 --out=sub nof"
fi

# --- zsh
"$ctl" help --zsh >"$TMP/_paddlectl"
if command -v zsh >/dev/null; then
    zsh -n "$TMP/_paddlectl" || die "the script for zsh"
    for c in $commands; do
        OUT=$(cd "$TMP/dir" && zsh -f -c '
            _arguments() { for s in "$@"; do print -r -- "$s"; done; }
            _describe() { :; }
            words=(paddlectl '"$c"' x) CURRENT=3
            . "$0"' "$TMP/_paddlectl" 2>&1)
        has "--help[show this]"
    done
else
    echo "skipped: no zsh here"
fi

# --- installed in the places where they are looked for
make -s -C "$TOP" install DESTDIR="$TMP/inst" PREFIX=/usr >"$TMP/install.log" 2>&1 || die "make install: $(cat "$TMP/install.log")"
for f in bin/paddlectl libexec/paddlectl/paddle_agent share/man/man1/paddlectl.1 share/man/man1/paddlectl-run.1 \
    share/man/man5/paddlectl.ini.5 \
    share/man/man5/paddlectl-train.ini.5 share/doc/paddlectl/LICENSE share/bash-completion/completions/paddlectl share/zsh/site-functions/_paddlectl; do
    [ -s "$TMP/inst/usr/$f" ] || die "not installed: $f"
done
# each archive that the programs on the nodes are linked from, and each library of headers only
for p in libsodium-dev libuv1-dev libjansson-dev libzstd-dev zlib1g-dev libinih-dev libopenblas libssl-dev librandom123-dev libxxhash-dev libjs-dygraphs libc6-dev libgcc; do
    grep -A4 "^==== $p" "$TMP/inst/usr/share/doc/paddlectl/NOTICES" | grep -q . || die "NOTICES has no $p"
done
expect 0 "$TMP/inst/usr/bin/paddlectl" init
has word2vec

# --- make dist: the sources of the commit, the same bytes each time
if git -C "$TOP" rev-parse -q --verify HEAD >/dev/null 2>&1; then
    git clone -q "$TOP" "$TMP/clone" || die "git clone"
    tar=$TMP/clone/$(make -s -C "$TMP/clone" dist) || die "make dist"
    sum=$(sha256sum <"$tar")
    sleep 1.1
    make -s -C "$TMP/clone" dist >/dev/null
    [ "$sum" = "$(sha256sum <"$tar")" ] || die "make dist: other bytes the second time"
    top=$(basename "$tar" .tar.gz)
    [ "$top" = "$("$ctl" --version | tr ' ' -)" ] || die "make dist: the version of $top"
    diff <(tar tzf "$tar" | sed -n "s|^$top/||p" | grep -v '/$' | sort | sed '/^$/d') <(git -C "$TMP/clone" ls-files | sort) ||
        die "make dist: other files than the commit's"
else
    echo "skipped: no git repository here"
fi
exit 0
