#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Four hosts that have nothing: the agent leaves this machine once and goes from host to host by their seeds; without relays, or where the
# seed does not run, each gets it from here. Nothing but the agent stays.
# both
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x "$BIN/paddle_seed" ] || skip "no seed for this architecture"
command -v gzip >/dev/null || skip "no gzip on this machine"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
ssh_hosts 4
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
END
cd "$TMP" || exit
mkdir ws && echo some >ws/file
packed=$(stat -c %s "$BIN/paddle_agent.gz")
all_ended() { wait_for 60 "the processes on the hosts have ended" "$fixture" left "$fx"; }
fresh() { # fresh OPTIONS...: dispatch to hosts without anything; what went from here in $SENT
    all_ended
    rm -rf "$fx"/node*/root
    expect 0 "$ctl" dispatch --json "$@"
    SENT=$(sed -n 's/.*"event": *"result".*"agent_bytes": *\([0-9]*\).*/\1/p' <<<"$OUT" | tail -1)
    for i in 0 1 2 3; do
        [ "$(ls "$fx/node$i/root/.paddlectl/bin" | grep -v "^hashed-")" = "$(cd "$fx/node$i/root/.paddlectl/bin" && echo agent-????????????????????????????????????????????????????????????????)" ] ||
            die "not the agent alone: $(ls "$fx/node$i/root/.paddlectl/bin")"
        cmp "$fx/node$i/root/.paddlectl/bin/"agent-* "$BIN/paddle_agent" || die "another agent on node $i"
    done
}

fresh
[ "$SENT" -ge "$packed" ] || die "$SENT bytes of an agent of $packed: $OUT"
# all four from here would be more than this; one that a slow machine let wait may have got it from here
[ "$SENT" -lt $((4 * packed)) ] || die "four times the agent from here: $OUT"
echo "agent: $packed bytes packed, $SENT sent for four hosts"

# --- they have it
expect 0 "$ctl" dispatch --json
has '"agent_bytes":0,'

# --- a damaged one comes again, to that host
agent=$(echo "$fx"/node2/root/.paddlectl/bin/agent-*)
cp -p "$agent" damaged && printf damage | dd of=damaged bs=1 seek=1000 conv=notrunc status=none && mv damaged "$agent" || die "cannot damage $agent"
expect 0 "$ctl" dispatch --json
has_not '"agent_bytes":0,'
cmp "$fx"/node2/root/.paddlectl/bin/agent-* "$BIN/paddle_agent" || die "still damaged"

# --- from here to each
fresh --relay=off
[ "$SENT" = $((4 * packed)) ] || die "relay = off, but $SENT bytes, not 4 x $packed"

# --- where the seed does not run
mkdir libexec
for f in paddle_agent paddle_agent.gz; do ln -s "$BIN/$f" libexec/; done
head -c 5000 /dev/urandom >libexec/paddle_seed
PADDLECTL_LIBEXEC=$TMP/libexec fresh
[ "$SENT" -ge $((4 * packed)) ] || die "seeds that can't run, but $SENT bytes, not 4 x $packed"

all_ended
exit 0
