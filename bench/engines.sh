#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `exec true` on 64 nodes by each engine: how long against srun, mpirun and clush alone?
#
# slurm: a Slurm of this machine with 64 slurmds, in one allocation. mpi, ssh: one sshd with 64
# addresses (127.1.x.y). Kubernetes is left out: an API server of the tests would be measured. Rounds
# alternate after a run of each that is not counted, which brings our agent to the nodes. The ratio is
# that of the medians. ROUNDS=5, HOSTS=64, ENGINES="ssh mpi slurm".
set -eu
cd "$(dirname "$0")/.."
. tests/support/engines/mpi.sh
TMP=$PWD/$(mktemp -d build/bench-XXXXXX)
unset SSH_AUTH_SOCK
fixture=$PWD/tests/support/engines/slurm-fixture
finish() {
    "$fixture" stop "$TMP/slurm" || :
    rm -rf "$TMP"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
missing() { # missing ENGINE: prints why it cannot run here
    case $1 in
    ssh) [ -x /usr/sbin/sshd ] && command -v clush >/dev/null || echo "no sshd or no clush" ;;
    mpi) mpi_missing | head -n 1 ;;
    slurm) "$fixture" start "$TMP/slurm" "${HOSTS:-64}" | sed 's/^skip: //' ;;
    esac
}
for engine in ${ENGINES:-ssh mpi slurm}; do
    why=$(missing "$engine")
    [ -z "$why" ] || { echo "skipped: bench engines-$engine: $why"; continue; }
    inside=()
    if [ "$engine" = slurm ]; then
        export SLURM_CONF=$TMP/slurm/slurm.conf
        inside=(salloc -Q --nodes="${HOSTS:-64}")
    fi
    "${inside[@]}" /usr/bin/python3 bench/drivers/engines.py "$engine" "$TMP/on-$engine" \
        "$PWD/build/release/paddlectl" "${HOSTS:-64}" "${ROUNDS:-5}"
done
