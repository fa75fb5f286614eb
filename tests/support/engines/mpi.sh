# SPDX-License-Identifier: Apache-2.0
# mpi.sh - sourced: Open MPI's mpirun on hosts that are sshds of this machine (sshd-fixture).
#
#   mpi_missing       prints the reason if there is no usable mpirun
#   mpi_hosts FX DIR  after this mpirun reaches the sshds of the fixture in FX as host-0, host-1 ...
#                     All files are in DIR
#
# Each host has a folder for temporary files of its own: the daemons of two hosts with one name would
# make the same one at the same time. The variables are those of Open MPI 4 and 5.
mpi_missing() {
    command -v mpirun >/dev/null || echo "no mpirun (Debian: openmpi-bin)"
    mpirun --version 2>/dev/null | grep -q 'Open MPI' || echo "mpirun is not that of Open MPI"
}

mpi_rsh() { # mpi_rsh FILE: mpirun's ssh is this program
    chmod +x "$1"
    export OMPI_MCA_plm_rsh_agent=$1 PRTE_MCA_plm_ssh_agent=$1 OMPI_MCA_oob_tcp_if_include=lo
}

mpi_hosts() {
    local i=0 to
    mkdir -p "$2/tmp"
    export TMPDIR=$2/tmp
    {
        printf '%s\n' '#!/bin/bash' 'while [ "${1#-}" != "$1" ]; do shift; done' 'case $1 in'
        for to in $(tr -d ' ' <"$1/hosts" | tr ',' '\n' | sed 's/.*@//'); do
            echo "host-$i) at=${to%:*} port=${to##*:} ;;"
            i=$((i + 1))
        done
        cat <<END
*) echo "ssh: Could not resolve hostname \$1" >&2; exit 255 ;;
esac
shift
mkdir -p "$2/tmp/\$at"
exec ssh -F none -o BatchMode=yes -o UserKnownHostsFile=$1/known_hosts -i $1/client_key \\
    -p "\$port" "$(id -un)@\$at" "export TMPDIR=$2/tmp/\$at;" "\$@"
END
    } >"$2/rsh"
    mpi_rsh "$2/rsh"
}
