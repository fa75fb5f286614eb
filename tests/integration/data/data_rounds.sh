#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data files apart, with min_nodes: of eight hosts one fails in each of seven rounds of sharing the data out, so the one that is left is
# sent eight shares, one after the other. The job runs with the last one, and nothing is left of the others.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
# The agent of host n fails at the n-th package of data files that it is sent; that of host 0 never.
SSHD_FIXTURE_ENV='PADDLE_AGENT_FAULT=ds.data:%n' ssh_hosts 8
cat "$fx/conf.ini" - >"$TMP/conf.ini" <<END
[job]
job_dispatch_package = ws
min_nodes = 1
END
cd "$TMP" || exit
mkdir -p ws/data
# Of 43 streams each host has another share in every round; one that it was sent before would not be asked for again.
for i in $(seq 0 42); do awk -v i="$i" 'BEGIN { for (k = 0; k < 10; k++) print (i * 10 + k) * 7919 % 100, i }' >"ws/data/$(printf %02d "$i")"; done
tiny_model >ws/train.ini <<END
n_streams = 43
batch_size = 86
num_passes = 1
END
expect 0 "$ctl" run
for i in 1 2 3 4 5 6 7; do has "127.0.0.$((i + 1)) is left out: sending the data files: injected"; done
[ "$(grep -c 'is left out: .*sending the data files: injected' <<<"$OUT")" = 7 ] || die "not seven rounds: $OUT"
has "1 of 8 hosts are used"
has "430 samples"
job=$(ls -d "$fx/node0/root"/JOB*)
diff -r ws/data "$job/workspace/data" || die "it has other data"
[ "$(grep -c 'package data: ' "$job/log/paddle_agent.INFO")" = 8 ] || die "$(cat "$job/log/paddle_agent.INFO")"
! ls -d "$job"/data-* 2>/dev/null || die "shares of other rounds are left"
exit 0
