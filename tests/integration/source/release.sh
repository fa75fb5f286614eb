#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make release: paddlectl as one static file. In a root that has nothing else but a /bin/sh it
# copies a template, and trains on two local nodes. A file that is cut short or damaged says so.
# release only
# alone (it runs make install, as manual.sh does)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
for l in nettle lzma bz2; do
    [ -n "$(find /usr/lib -name "lib$l.a")" ] || skip "lib$l.a is not installed"
done
file=$TOP/$(make -s -C "$TOP" release 2>"$TMP/make.log" | tail -1)
[ -x "$file" ] || die "make release: $(tail -5 "$TMP/make.log")"
OUT=$(ldd "$file" 2>&1)
[[ $OUT == *"statically linked"* || $OUT == *"not a dynamic executable"* ]] || die "ldd: $OUT"
! readelf -lW "$file" | grep -q INTERP || die "it needs a loader"
version=$("$BIN/paddlectl" --version)
[ "$(HOME=/nowhere "$file" --version)" = "$version" ] || die "another version"
expect 2 env -u HOME -u XDG_CACHE_HOME "$file" init
has "set HOME or XDG_CACHE_HOME"

# A file that did not arrive whole: bytes of the packed part changed.
cp "$file" "$TMP/damaged"
printf 'damaged!damaged!' | dd of="$TMP/damaged" bs=1 seek=$(($(stat -c %s "$file") - 4000000)) conv=notrunc status=none
expect 1 env HOME="$TMP/home" "$TMP/damaged" init
has "this program is damaged"
[ -z "$(ls "$TMP/home/.cache/paddlectl")" ] || die "a damaged copy is left: $(ls "$TMP/home/.cache/paddlectl")"

# Two at once unpack it once, for this user only; a template has the files of the sources.
for i in 1 2; do start init$i env HOME="$TMP/home" "$file" init word2vec "$TMP/w$i"; done
for p in "${PIDS[@]}"; do wait "$p" || die "two at once: $(cat "$TMP"/init*.log)"; done
[ "$(ls "$TMP/home/.cache/paddlectl" | wc -l)" = 1 ] || die "not one copy: $(ls "$TMP/home/.cache/paddlectl")"
[ "$(stat -c %a "$TMP/home/.cache/paddlectl")" = 700 ] || die "others may read or write the programs"
cmp "$TMP"/w2/workspace/prepare "$TOP/workspace_template/word2vec/prepare" || die "the template"
[ -x "$TMP/w2/workspace/prepare" ] || die "prepare cannot be run"
cmp "$TMP"/home/.cache/paddlectl/*/libexec/paddlectl/paddle_worker "$BIN/paddle_worker" || die "the worker"

# --- an empty root
root=$TMP/root
mkdir -p "$root"/{bin,proc,dev,tmp,home/job/ws}
cp "$file" "$root/paddlectl"
sh=$(readlink -f /bin/sh)
cp "$sh" "$root/bin/sh"
ldd "$sh" | grep -oE '/[^ ]+' | while read -r lib; do
    mkdir -p "$root/$(dirname "$lib")" && cp -L "$lib" "$root/$lib"
done
tiny_data "$root/home/job/ws/data"
tiny_model vocabulary=300 <<<'num_passes = 2' >"$root/home/job/ws/train.ini"
printf '[cluster]\nhosts = local*2\nroot_dir = /home/node%%n\n[job]\njob_dispatch_package = ./ws\n' \
    >"$root/home/job/conf.ini"
touch "$root"/dev/null "$root"/dev/urandom
inside='mount --bind /dev/null "$1/dev/null" && mount --bind /dev/urandom "$1/dev/urandom" &&
    mount -t proc proc "$1/proc" &&
    exec chroot "$1" /bin/sh -c "cd /home/job && exec /paddlectl run"'
unshare -rm true 2>/dev/null || { echo "skipped: no user namespaces here, so no empty root" && exit 0; }
OUT=$(env -i PATH="$PATH" HOME=/home unshare -rmpf --kill-child sh -c "$inside" sh "$root" 2>&1 \
    </dev/null) || die "a job in the empty root: $OUT"
has "Pass 2/2 done"
has "done in"
[ -n "$(ls "$root"/home/job/output/latest/pass-00001)" ] || die "no model came back"
exit 0
