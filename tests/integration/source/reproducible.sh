#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds in two folders are equal byte for byte: all installed files, the Debian packages, the static
# file of make release and the tarball of the sources.
# The second build has another path, mask of modes, time zone, language and number of jobs. It
# compiles every tenth object anew and makes everything else of the objects. WHOLE=1 (make soak)
# compiles all objects.
# limit 1800
# release only
# alone (it runs make install, as manual.sh does)
. "$(dirname "$0")/../../support/lib.sh"
other="$TMP/another-folder/paddlectl-0"
mkdir -p "$other/build/release"
(cd "$TOP" && find Makefile LICENSE src launcher worker conf packaging workspace_template -type f -print0 | xargs -0 cp -p --parents -t "$other") ||
    die "no copy of the tree"
if [ -z "${WHOLE:-}" ]; then
    (cd "$BIN" && find . -name '*.[od]' ! -path './bench/*' ! -path './tests/*' -print0 |
        xargs -0 cp -p --parents -t "$other/build/release" && cp -p flags "$other/build/release") ||
        die "no copy of the objects"
    find "$other/build" -name '*.o' | sort | awk 'NR % 10 == 0' | tr '\n' '\0' | xargs -0 rm
fi
packs=
if command -v dh >/dev/null; then packs=deb; else echo "skipped: no debhelper here: no Debian packages"; fi
if [ -n "$(find /usr/lib -name libnettle.a)" ]; then packs+=" release"; else echo "skipped: no libnettle.a here: no static file"; fi
export SOURCE_DATE_EPOCH=1700000000
# With a compiler's cache the copies of one object would be compared.
(umask 077 && cd "$other" && find src conf workspace_template -type d -exec chmod 700 {} + &&
    find conf workspace_template -type f -exec chmod go= {} + &&
    env CCACHE_DISABLE=1 TZ=Pacific/Auckland LC_ALL=C make -j3 install DESTDIR="$TMP/b" PREFIX=/usr &&
    env TZ=Pacific/Auckland make $packs) \
    >"$TMP/b.log" 2>&1 || die "the second build: $(tail -5 "$TMP/b.log" | cut -c1-300)"
[ "$(grep -c '^CC ' "$TMP/b.log")" -gt 30 ] || die "few objects were compiled"
make -s -C "$TOP" install DESTDIR="$TMP/a" PREFIX=/usr >"$TMP/a.log" 2>&1 &&
    make -s -C "$TOP" $packs >>"$TMP/a.log" 2>&1 ||
    die "make install: $(tail -5 "$TMP/a.log")"
listing() { (cd "$1" && find . -printf '%p %m %l\n' | sort); }
[ "$(listing "$TMP/a" | wc -l)" -gt 60 ] || die "few installed files"
diff <(listing "$TMP/a") <(listing "$TMP/b") || die "other names, modes or links"
diff -rq "$TMP/a" "$TMP/b" || die "the files above differ"
[[ $packs != *deb* ]] || diff -rq "$TOP/build/deb" "$other/build/deb" -x log || die "the packages above differ"
[[ $packs != *release* ]] || cmp "$TOP"/build/paddlectl-*-"$(uname -m)" "$other"/build/paddlectl-*-"$(uname -m)" ||
    die "the static files differ"
! grep -rlF "$TOP" "$TMP/a" || die "the files above name the folder of the build"

if git -C "$TOP" rev-parse -q --verify HEAD >/dev/null 2>&1; then
    (umask 077 && git clone -q "$TOP" "$TMP/clone") || die "git clone"
    dist() { (cd "$1" && sha256sum <"$(make -s dist)"); }
    [ "$(dist "$TOP")" = "$(umask 077 && dist "$TMP/clone")" ] ||
        die "make dist: other bytes in a clone"
fi
exit 0
