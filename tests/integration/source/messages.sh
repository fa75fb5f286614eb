#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/troubleshooting.md has an entry for every error text of the programs, and no entry for a text
# that is gone (tests/support/documents/messages.py).
# dev only
. "$(dirname "$0")/../../support/lib.sh"
expect 0 "$TOP/tests/support/documents/messages.py" --check
last_line
echo "$OUT"
holds "n > 1400 && n_patterns > 500" n="${OUT%% *}" n_patterns="$(sed 's/.*, \([0-9]*\) patterns,.*/\1/' <<<"$OUT")"

# A new message, one that is gone, and a pattern that says nothing are found.
mkdir -p "$TMP/tree/docs" "$TMP/tree/src/base" "$TMP/tree/tests/support/documents"
cp "$TOP/tests/support/documents/messages.py" "$TMP/tree/tests/support/documents/"
cat >"$TMP/tree/src/base/a.c" <<'C'
int f(struct pd_err *err) { return pd_fail(err, PD_EIO, "the moon is %s, %" PRIu64 " km off", "full", n); }
int g(struct pd_err *err) { return pd_fail_errno(err, PD_EIO, errno, full ? "no tea here" : "no milk here"); }
int h(struct pd_err *err) { return pd_fail(err, PD_ENOMEM, "never mind the memory"); }
C
try() { # try STATUS TEXT ROW
    printf '| message | cause | remedy |\n|---|---|---|\n%s\n' "$3" >"$TMP/tree/docs/troubleshooting.md"
    expect "$1" "$TMP/tree/tests/support/documents/messages.py" --check
    has "$2"
}
rest='`no tea here`, `no milk *`'
try 0 "3 patterns, 0 messages without an entry" "| \`the moon is *, * km off\`, $rest | a | b |"
try 1 'no entry: src/base/a.c:1: PD_EIO "the moon is *, * km off"' "| $rest | a | b |"
try 1 'no message is `the sun *`' "| \`the sun *\`, \`the moon *\`, $rest | a | b |"
try 1 'too many messages are `*`' "| \`*\` | a | b |"
