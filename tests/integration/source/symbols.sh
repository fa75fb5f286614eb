#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The libraries that programs and tests are linked from define no function twice: the linker would take the first in silence, and a
# test would run somebody else's link_send.
# both
. "$(dirname "$0")/../../support/lib.sh"
command -v nm >/dev/null || skip "there is no nm"
for lib in libpaddle liblauncher libworker; do [ -s "$BIN/$lib.a" ] || die "$BIN/$lib.a is missing"; done
twice=$(nm --defined-only "$BIN"/libpaddle.a "$BIN"/liblauncher.a "$BIN"/libworker.a 2>/dev/null |
    awk 'NF == 3 && $2 ~ /^[TDBR]$/ && $3 !~ /^__(odr|asan|local)/ { print $3 }' | sort | uniq -d)
[ -z "$twice" ] || die "defined twice: $twice"
[ "$(nm --defined-only "$BIN/libpaddle.a" 2>/dev/null | grep -c ' T ')" -gt 500 ] || die "nm shows no functions"
