#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `clean` with everything that it may remove, and the store_limit of other dispatches, while packages are on their way, slowly: these arrive
# whole, and nothing of theirs goes: neither the tree in the making, however old, nor what the store knows of finished packages. A
# deployed workspace that a dispatch found there counts as new. When all is over the limit holds.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
export XDG_CACHE_HOME=$TMP/cache LC_ALL=C
ctl=$BIN/paddlectl
cd "$TMP" || exit
on_cleanup() { "$ctl" stop --force >/dev/null 2>&1; }
{ local_nodes 2 root; cat; } >conf.ini <<END
[job]
job_dispatch_package = ws
END
mkdir -p ws/data ws/many other
for i in $(seq 50); do head -c 40000 /dev/urandom >ws/many/$i; done
# Trainer 0's files are all the same, and so one object; those of trainer 1 are 150.
for i in $(seq -w 0 299); do awk -v i="$i" 'BEGIN { i *= i % 2; for (k = 0; k < 5; k++) print i, (i * 5 + k) % 100 }' >"ws/data/$i"; done
tiny_model vocabulary=300 >ws/train.ini <<END
batch_size = 100
num_passes = 1
n_streams = 2
END
clean() { expect 0 "$ctl" clean --keep=0 --workspaces --store_limit=1; }
slowly() { PADDLE_AGENT_FAULT=slow.assemble.put:$1 start "${@:2}"; }
runs() { kill -0 "$1" 2>/dev/null; }

# --- a deploy: what is being made is three days old. (The time of a finished tree is left alone: train.ini is the last file, and comes
# with the last object.)
slowly 60 deploy "$ctl" dispatch
deploy=$PID parts=() n=0
making() { parts=(root[01]/workspaces/*.part-*) && [ -e "${parts[1]:-}" ] && [ -e "${parts[1]}/data" ]; }
wait_for 60 "trees in the making" making
while runs "$deploy"; do
    for part in root[01]/workspaces/*.part-*; do
        [ -e "$part/train.ini" ] || touch -c -d '3 days ago' "$part"
    done
    clean
    n=$((n + 1))
    echo $n >other/version
    expect 0 "$ctl" dispatch --job_dispatch_package=other --store_limit=1
done
wait "$deploy" || die "cleaned $n times: $(cat deploy.log)"
[ $n -gt 0 ] || die "the deploy was too fast to be cleaned"
where=$(grep '/workspaces/' deploy.log)
for i in 0 1; do diff -r ws "${where//%n/$i}" || die "cleaned $n times, node $i has something else"; done
echo "a deploy: cleaned $n times"

# --- it is there already, and old: somebody is about to use it
touch -d '3 days ago' "${where//%n/0}" "${where//%n/1}"
expect 0 "$ctl" dispatch --json
has '"sent_bytes":0,'
clean
for i in 0 1; do diff -r ws "${where//%n/$i}" || die "node $i lost what it was just asked for"; done

# --- a job's packages: the workspace and trainer 0's data files are there, those of trainer 1 are on their way. (The worker is there from a
# job before: a sanitized one would take long, slowly.)
rm -rf ws/many
mkdir -p first/data && cp ws/train.ini first && seq 1 200 | paste - - >first/data/a && seq 1 200 | paste - - >first/data/b
expect 0 "$ctl" run --pservers=1 --job_dispatch_package=first
ended() { ! ls root?/JOB*/.agent/pid 2>/dev/null; }
wait_for 60 "the agents end" ended
clean
slowly 40 run "$ctl" run --pservers=1
run=$PID n=0
on_its_way() { ls -d root1/JOB*/data-*.part-* >ways 2>/dev/null; }
known() { ls root[01]/.paddlectl/chunks/*.cat 2>/dev/null; }
three() { on_its_way && [ "$(known | wc -l)" = 3 ]; }
wait_for 60 "data files on their way" three
known >before
while on_its_way; do
    clean
    known >after
    on_its_way || break
    comm -23 before after | grep . && die "removed while a package is on its way; it was $(cat before)"
    n=$((n + 1))
    expect 0 "$ctl" dispatch --job_dispatch_package=other --store_limit=1
done
wait "$run" || die "cleaned $n times: $(cat run.log)"
grep -q ' 1500 samples' run.log || die "$(cat run.log)"
[ $n -gt 0 ] || die "it was too fast to be cleaned"
echo "a job: cleaned $n times"
wait_for 60 "the agents end" ended
clean
[ -z "$(known)" ] || die "a store_limit of one byte, and there are $(known)"
exit 0
