#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl dispatch to four ssh hosts: any tree compares equal on each, after any edit too; what is there already is not sent; what is sent
# leaves this machine once; an archive; --dry-run; two dispatches at once; a relay that dies; without relays.
# both
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
ssh_hosts 4
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
END
cd "$TMP" || exit

# a random tree, or with a seed of its own some edits of it
cat >tree.py <<'END'
import os, random, shutil, sys
top, seed, edits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
r = random.Random(seed)
names = ["a", "b.txt", "with blank", "new\nline", "quo'te\"", "\udcff\udcfe", ".hidden", "x" * 200, "-dash", "*"]
def folders():
    return [d for d, _, _ in os.walk(top)]
def files():
    return [os.path.join(d, f) for d, _, fs in os.walk(top) for f in fs if not os.path.islink(os.path.join(d, f))]
def add():
    p = os.path.join(r.choice(folders()), r.choice(names) + str(r.randrange(50)))
    if os.path.lexists(p) or len(p) > 3000:
        return
    k = r.random()
    if k < 0.2:
        os.mkdir(p, r.choice([0o755, 0o700, 0o1777]))
    elif k < 0.3:
        os.symlink(r.choice(["a", "nowhere", "./x/y"]), p)
    else:
        with open(p, "wb") as f:
            f.write(r.randbytes(r.choice([0, 1, 100, 5000, 16384, 40000, 300000])))
            if r.random() < 0.1:
                f.seek(1 << 20, 1)
                f.write(b"end")
        os.chmod(p, r.choice([0o644, 0o755, 0o600]))
def edit():
    v = files()
    k = r.random()
    if k < 0.4 or not v:
        add()
    elif k < 0.6:
        os.unlink(r.choice(v))
    elif k < 0.7:
        os.rename(r.choice(v), os.path.join(top, "moved%d" % r.randrange(1000)))
    elif k < 0.75:
        os.utime(r.choice(v), (1, r.randrange(10**9)))
    else:
        with open(r.choice(v), "r+b") as f:
            f.seek(r.randrange(1 + os.path.getsize(f.name)))
            f.write(r.randbytes(r.choice([1, 1000, 70000])))
if not os.path.isdir(top):
    os.mkdir(top)
    for i in range(120):
        add()
for i in range(edits):
    edit()
END
dispatch() { # dispatch OPTIONS...: the path in $WHERE, --json's last line in $OUT
    expect 0 "$ctl" dispatch --json "$@"
    WHERE=$(sed -n 's/.*"event": *"result".*"path": *"\([^"]*\)".*/\1/p' <<<"$OUT" | tail -1)
    [ -n "$WHERE" ] || die "no path: $OUT"
}
number() { sed -n "s/.*\"event\": *\"result\".*\"$1\": *\([0-9]*\).*/\1/p" <<<"$OUT" | tail -1; }
deployed() { for i in 0 1 2 3; do echo "${WHERE//%n/$i}"; done; }
compare() { # the trees of all hosts
    local v
    mapfile -t v < <(deployed)
    /usr/bin/python3 "$TOP/tests/support/same_tree.py" ws "${v[@]/#\~/$HOME}" || die "the trees differ: $OUT"
}

# --- any tree, any edits
for seed in 1 2 3; do
    rm -rf ws
    /usr/bin/python3 tree.py ws $seed 0
    dispatch
    compare
    for k in 1 2; do
        before=$WHERE
        /usr/bin/python3 tree.py ws $((seed * 100 + k)) 5
        dispatch
        [ "$WHERE" != "$before" ] || die "another tree, the same path"
        compare
    done
done

# --- unchanged: nothing is sent
dispatch
[ "$(number sent_bytes)" = 0 ] || die "sent again: $OUT"
has '"sent":[]'

# --- it leaves this machine once, and a change of it too
head -c 3000000 /dev/urandom >ws/incompressible
dispatch
sent=$(number sent_bytes)
[ "$sent" -lt 3600000 ] || die "$sent bytes for 3000000, to four hosts"
printf edited | dd of=ws/incompressible bs=1 seek=1500000 conv=notrunc status=none
dispatch
[ "$(number sent_bytes)" -lt 400000 ] || die "$(number sent_bytes) bytes for an edit"
compare

# --- from here to each
head -c 1000000 /dev/urandom >ws/more
dispatch --relay=off
[ "$(number sent_bytes)" -gt 4000000 ] || die "relay = off, but: $OUT"
compare

# --- an archive, and what is ignored
mkdir -p in/top && cp -a ws/. in/top/ && tar --format=pax -C in/top -cf pkg.tar.tmp . && gzip -c pkg.tar.tmp >pkg.tar.gz
dispatch --job_dispatch_package=pkg.tar.gz
compare
echo '*.skip' >ws/.paddleignore
mkdir ws/.git ws/output && echo x >ws/output/model && echo x >ws/.git/config && echo x >ws/no.skip
expect 0 "$ctl" dispatch --dry-run
has "ignored             2  .git"
has "ignored             2  no.skip"
has "new                 7  .paddleignore"
has "ignored             2  output"
dispatch
[ ! -e "$(deployed | head -1)/no.skip" ] && [ ! -e "$(deployed | head -1)/.git" ] && [ ! -e "$(deployed | head -1)/output" ] || die "ignored files travelled"
expect 0 "$ctl" dispatch
[ "$OUT" = "$WHERE" ] || die "stdout is not the path: $OUT"

# --- two at once, of the same and of different trees
rm -rf ws/.git ws/no.skip ws/output
head -c 4000000 /dev/urandom >ws/new
cp -a ws ws2 && head -c 100000 /dev/urandom >ws2/other
"$ctl" dispatch >one.out 2>&1 & one=$!
"$ctl" dispatch --job_dispatch_package=ws2 >two.out 2>&1 & two=$!
"$ctl" dispatch >three.out 2>&1 & three=$!
for p in $one $two $three; do wait "$p" || die "two at once: $(cat one.out two.out three.out)"; done
dispatch
compare

# --- what can't travel is told once, for all hosts; nothing was sent
ln -s /etc/passwd ws/out
expect 1 "$ctl" dispatch
has "leads out of the tree"
[ "$(grep -c "leads out" <<<"$OUT")" = 1 ] || die "told more than once: $OUT"
exit 0
