#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every benchmark that can be short runs, with as little as it takes, to its lines "bench NAME ratio ...":
# a benchmark that a change of the programs breaks is noticed here. What the ratio is does not matter.
# What cannot run here is named on a line "skipped: ...".
# limit 2400
# release only (benchmarks measure the release build)
. "$(dirname "$0")/../../support/lib.sh"
[ "$BIN" = "$TOP/build/release" ] || skip "benchmarks measure build/release, not $BIN"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
cd "$TOP" || exit
make --no-print-directory -s bench-programs >"$TMP/make.log" 2>&1 || die "$(tail -5 "$TMP/make.log")"
unset SSH_AUTH_SOCK
export ROUNDS=1 PYTHONDONTWRITEBYTECODE=1
ran=0
left_out() { echo "skipped: bench $1: $2"; }
blas=$(/usr/bin/python3 -c 'import sysconfig; print("/usr/lib/%s/openblas-pthread/libblas.so.3" % sysconfig.get_config_var("MULTIARCH"))')
# short NAME NEEDS VARIABLE=VALUE...; NEEDS: programs, modules of Python as py:NAME, files, netns, or root (who may log in without PAM)
short() {
    local name=$1 need began=$SECONDS
    for need in $2; do
        case $need in
        netns) [ "$netns" = yes ] || { left_out "$name" "no network namespaces"; return; } ;;
        root) [ "$(id -u)" = 0 ] && ! grep -qs '^root:!' /etc/shadow || { left_out "$name" "not root, or root's password is locked"; return; } ;;
        py:*) /usr/bin/python3 -c "import ${need#py:}" 2>/dev/null || { left_out "$name" "no Python module ${need#py:}"; return; } ;;
        /*) [ -e "$need" ] || { left_out "$name" "no $need"; return; } ;;
        *) command -v "$need" >/dev/null || { left_out "$name" "no $need"; return; } ;;
        esac
    done
    env "${@:3}" bash "bench/$name.sh" >"$TMP/$name.log" 2>&1 || die "bench $name ended with $?: $(tail -30 "$TMP/$name.log")"
    grep -qE "^bench $name[-_A-Za-z0-9]* ratio [0-9]+(\.[0-9]+)? target .* ours .* theirs " "$TMP/$name.log" || die "bench $name says no ratio: $(tail -30 "$TMP/$name.log")"
    grep '^skipped: ' "$TMP/$name.log" # a part that this machine does not allow
    echo "$name: $((SECONDS - began)) s"
    ran=$((ran + 1))
}

# said LINE...: the bench that ran last has printed each of these, or was left out
said() {
    local bench=${1%%-*} name
    [ -f "$TMP/$bench.log" ] || return 0
    for name; do
        grep -q "^bench $name ratio " "$TMP/$bench.log" || die "bench $bench has no line of $name: $(tail -30 "$TMP/$bench.log")"
    done
}

netns=no
[ "$(id -u)" != 0 ] || ! tests/support/netns-fixture start "$TMP/ns" 1 100mbit >"$TMP/ns.log" 2>&1 || netns=yes
[ ! -f "$TMP/ns/name" ] || tests/support/netns-fixture stop "$TMP/ns"
sshd=/usr/sbin/sshd wordnet=/usr/share/wordnet/data.noun

short dispatch_chain "netns pdcp clush rsync" HOSTS=2 BYTES=400000 PARTS=
short dispatch_delta "netns $sshd rsync root" HOSTS=2 FILES=200
short dispatch_sim "" RATE=11500000 LATENCY=0.004 NODES=300 PLOT="$TMP/plot.svg"
short dispatch_ssh "$sshd ssh root" MB=4 CIPHERS=aes128-ctr
short start128 "$sshd pdsh clush root" HOSTS=4
short engines "$sshd clush mpirun root" HOSTS=3 ROUNDS=1
said engines-ssh engines-mpi
short detach "$sshd root" NODES=2
short ctrlc "$sshd pdsh clush root" HOSTS=2 LEFT_S=0.5
short thousand "" NODES=4 SLEEP_S=1
said thousand-seconds thousand-node thousand-stop
short logs "$sshd root" NODES=2 RATE=500 FOR_S=1 CUTS=1
short ps_small "" FOR_S=0.2
short ps_many "iperf3" FOR_S=0.2 IPERF_S=1
said ps_many-shm ps_many-shm-copy
[ "$netns" = no ] || said ps_many-tcp ps_many-tcp-iperf3
short ps_dense "iperf3" FOR_S=0.2 IPERF_S=1
said ps_dense-shm
[ "$netns" = no ] || said ps_dense-tcp
short ps_sparse "iperf3 py:torch $blas" SHAPES=16:20000 FOR_S=0.2 IPERF_S=1
short ps_step "mpicc mpirun py:torch" MB=1 FOR_S=0.2
said ps_step-shm ps_step-shm-copy
[ "$netns" = no ] || said ps_step-tcp
short checkpoint "" MILLIONS=0.05 ROWS=zipf FOR_S=0.5
short runs "" RUNS=100
said runs-100 runs-100-without
short dashboard "" NODES=4 DASHBOARD_S=3
said dashboard-cpu dashboard-page dashboard-hosts-cpu
short reader "" LINES_N=20000 RUNS=50
said reader-runs reader-runs-ls
short topology "$wordnet" SHARE=0.01 TRAINERS=2
short models "py:torch py:numpy $blas" MODELS=ngram STEPS=15 PASSES=1 SETTINGS=1
short models_job "py:torch py:numpy iperf3 $blas" MODELS=mlp STEPS=15 PASSES=1 SETTINGS=1 IPERF_S=1
said models_job-mlp models_job-mlp-limit
short profile "py:numpy" MODELS=mlp STEPS=15 PASSES=1 ROUNDS=1 BEFORE=none
said profile-on-mlp
short records "py:numpy" MODELS=mlp STEPS=15 PASSES=1 ROUNDS=1
said records-mlp
short overlap "netns py:numpy" MODELS=ngram STEPS=15
short skipgram "$wordnet py:numpy" SHARE=0.05 PASSES=1
short ngram "$wordnet py:torch $blas" SHARE=0.01 SECONDS_EACH=0.2 TRIAL_S=0.1
said ngram-local ngram-job
[ $ran -gt 0 ] || skip "none of the benchmarks could run"
