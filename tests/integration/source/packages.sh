#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages: lintian finds no error and no warning; dpkg installs them into an empty root,
# paddlectl trains from there, a program is built with -dev; an upgrade, a removal and a purge leave
# nothing behind. HERE=1 (tests/soak/debian) does the same with apt-get in the system itself.
# release only
# alone (it runs make install, as manual.sh does)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/tiny_model.sh"
command -v dh >/dev/null || skip "there is no debhelper"
make -s -C "$TOP" deb >"$TMP/make.log" 2>&1 || die "make deb: $(tail -20 "$TMP/make.log")"
mkdir "$TMP/debs" "$TMP/later" && cp "$TOP"/build/deb/*.deb "$TMP/debs"
cd "$TMP" || exit 1
version=$("$BIN/paddlectl" --version) version=${version#* }
[ "$(ls debs | sed 's/_.*//' | paste -sd' ')" = "libpaddle-ps-dev libpaddle-ps1 paddle-worker paddlectl python3-paddle-ps" ] ||
    die "other packages: $(ls debs)"
if command -v lintian >/dev/null; then
    OUT=$(lintian --tag-display-limit 0 --fail-on error,warning ${UID:+$([ "$UID" != 0 ] || echo --allow-root)} debs/*.deb 2>&1) ||
        die "lintian: $OUT"
    [ -z "$OUT" ] || die "lintian: $OUT"
else
    echo "skipped: no lintian here"
fi
for p in debs/*.deb; do
    [ "$(dpkg-deb -f "$p" Version)" = "$version" ] || die "$p: not version $version"
done
# The next version, for the upgrade.
for p in debs/*.deb; do
    dpkg-deb -R "$p" next && sed -i "s/^Version: .*/Version: 99.0/; s/(= $version)/(= 99.0)/" next/DEBIAN/control &&
        dpkg-deb -Zgzip -z1 --root-owner-group -b next later >/dev/null && rm -rf next || die "no next version of $p"
done
# What the library says of itself: its soname, and the symbols of its header.
dpkg-deb -x debs/libpaddle-ps1_*.deb lib
readelf -d lib/usr/lib/*/libpaddle_ps.so.1 | grep -q 'SONAME.*\[libpaddle_ps.so.1\]' || die "no soname"
dpkg-deb -e debs/libpaddle-ps1_*.deb control
diff <(sed -n 's/^ \([a-z_]*\)@Base.*/\1/p' control/symbols) \
    <(grep -oE '\bpaddle_ps_[a-z_]+\(' "$TOP/src/capi/paddle_ps.h" | tr -d '(' | sort -u) ||
    die "the symbols of libpaddle-ps1 are not the calls of paddle_ps.h"
grep -qx 'libpaddle_ps.so.1 libpaddle-ps1 #MINVER#' control/symbols || die "$(head -1 control/symbols)"
[[ $(dpkg-deb -f debs/paddlectl_*.deb Depends) == *"paddle-worker (= $version), "*libssh* ]] ||
    die "paddlectl depends on: $(dpkg-deb -f debs/paddlectl_*.deb Depends)"

# --- installed, used, upgraded, removed
names="libpaddle-ps-dev libpaddle-ps1 paddle-worker paddlectl python3-paddle-ps"
if [ -n "${HERE:-}" ]; then
    root=''
    install_debs() { DEBIAN_FRONTEND=noninteractive apt-get -y -q install "$@" >apt.log 2>&1 || die "$(cat apt.log)"; }
    # apt no longer knows a removed package without conffiles
    remove() { { [ "$1" = purge ] && dpkg --purge $names || apt-get -y -q "$1" $names; } >apt.log 2>&1 || die "$(cat apt.log)"; }
    # Everything but what programs of the system change by themselves.
    files() { find / -xdev -path "$TOP" -prune -o -print | grep -vE '^/(var/(log|cache|lib/(dpkg|apt|systemd))|tmp|run|proc|sys|dev|root)(/|$)' | sort; }
elif [ "$UID" = 0 ]; then
    root=$TMP/root
    mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root/etc"
    touch "$root"/var/lib/dpkg/status
    dpkg_root() { dpkg --root="$root" --force-depends --force-script-chrootless --log="$TMP/dpkg.log" "$@" >apt.log 2>&1 || die "$(cat apt.log)"; }
    install_debs() { dpkg_root -i "$@"; }
    remove() { dpkg_root "--$1" $names; }
    files() { find "$root" -path "$root/var" -prune -o -print | sort; }
else
    echo "skipped: dpkg --root needs root: the packages are unpacked only"
    root=$TMP/root
    for p in debs/*.deb; do dpkg-deb -x "$p" "$root"; done
fi
installed() { # installed VERSION : by all packages
    OUT=$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Status} ${Version}\n' $names | sort -u)
    [ "$OUT" = "installed $1" ] || die "not $1: $OUT"
}
use() {
    [ "$("$root/usr/bin/paddlectl" --version)" = "paddlectl $version" ] || die "not version $version"
    rm -rf job && mkdir -p job/ws && (
        cd job || exit 1
        tiny_data ws/data
        tiny_model vocabulary=300 <<<'num_passes = 2' >ws/train.ini
        printf '[cluster]\nhosts = local*2\nroot_dir = %s/job/node%%n\n[job]\njob_dispatch_package = ./ws\n' "$TMP" >conf.ini
        "$root/usr/bin/paddlectl" run >run.log 2>&1 </dev/null
    ) || die "a job with the installed programs: $(tail -20 job/run.log)"
    grep -q 'Pass 2/2 done' job/run.log || die "it did not train: $(tail -20 job/run.log)"
    printf '#include <paddle_ps.h>\nint main(void) { return paddle_ps_version() < 2; }\n' >own.c
    local pc flags dir
    pc=$(ls -d "$root"/usr/lib/*/pkgconfig) dir=${pc%/pkgconfig}
    flags=$(PKG_CONFIG_PATH=$pc PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
        PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs paddle_ps) || die "pkg-config"
    ${CC:-gcc} own.c -o own $flags && LD_LIBRARY_PATH=$dir ./own || die "a program with libpaddle-ps-dev: $flags"
    if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
        OUT=$(env -u PADDLE_PS_LIBRARY PYTHONPATH="${root:+$root/usr/lib/python3/dist-packages}" LD_LIBRARY_PATH="${root:+$dir}" \
            PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c 'import paddle_ps; print(paddle_ps.__file__)') || die "import paddle_ps"
        [ "$OUT" = "$root/usr/lib/python3/dist-packages/paddle_ps/__init__.py" ] || die "another paddle_ps: $OUT"
    else
        echo "skipped: import paddle_ps: no numpy here"
    fi
    [ "$(readlink "$root/usr/bin/paddle_worker")" = ../libexec/paddlectl/paddle_worker ] || die "paddle_worker"
    cmp <(zstd -dcq "$root/usr/libexec/paddlectl/paddle_worker.zst") "$root/usr/libexec/paddlectl/paddle_worker" ||
        die "the packed worker is another program"
    cmp <(gzip -dc "$root/usr/libexec/paddlectl/paddle_agent.gz") "$root/usr/libexec/paddlectl/paddle_agent" ||
        die "the packed agent is another program"
}
if ! declare -F install_debs >/dev/null; then
    use
    exit 0
fi
files >before
install_debs ./debs/*.deb
installed "$version"
use
install_debs ./later/*.deb
installed 99.0
use
remove remove
remove purge
files >after
diff before after || die "files are left, or gone, after the purge"
exit 0
