# SPDX-License-Identifier: Apache-2.0
# quiet.sh - what bench/run and bench/compare share; for sourcing in the top folder.
#
# QUIET_S (300): the longest wait for a quiet machine, in seconds; 0: no waiting.
QUIET_S=${QUIET_S:-300} QUIET_LOAD=0.5
unset ${!OPENBLAS_@} ${!OMP_@} # the caller's core type or number of threads is for neither side

# The benchmarks of the checkout that is the current folder.
names() {
    local f
    for f in bench/*.sh; do
        basename "$f" .sh
    done
}
load() { cut -d' ' -f1 /proc/loadavg; }
busy() { [ "$(awk -v m=$QUIET_LOAD "{ print (\$1 >= m) }" /proc/loadavg)" = 1 ]; }
wait_until_quiet() {
    local began=$SECONDS
    busy || return 0
    if [ "$QUIET_S" = 0 ]; then
        echo "load $(load): not quiet, and QUIET_S=0 forbids waiting"
        return 0
    fi
    echo "load $(load): waiting until it is below $QUIET_LOAD, at most $QUIET_S s"
    while busy && [ $((SECONDS - began)) -lt "$QUIET_S" ]; do sleep 2; done
    ! busy || echo "NOT QUIET: the load is $(load) after $QUIET_S s; the figures are not to be trusted"
}
