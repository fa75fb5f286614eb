#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A synchronous step of 64 MB, 2 + 2: how fast against all-reduce by Open MPI and gloo?
#
# All-reduce of two moves the model twice in all (each process sends it once), parameter servers
# move it four times (each trainer pushes and pulls it), and they apply an optimizer. Limit: 1.3 x
# the better peer's time x (our bytes / their bytes = 2); the ratio is that peer's time x 2 over
# ours, so at least 1 / 1.3. ps_step-shm: all on this machine, against Open MPI with its default
# transports (shared memory). ps_step-shm-copy: the same against a memcpy of our bytes (a process
# for each core, at once). ps_step-tcp: the pservers in one network namespace and the trainers in
# another, against Open MPI (btl tcp) and gloo with a process in each of the two. Rounds alternate,
# the median of each counts. MB=64, FOR_S=3 seconds a measurement, ROUNDS=3.
. "$(dirname "$0")/lib/ps.sh"
MB=${MB:-64} FOR_S=${FOR_S:-3}
GROUP=build/release/bench/ps_group
PROG=$PWD/build/release/bench/allreduce_mpi
mpicc -O2 -o "$PROG" bench/peers/allreduce_mpi.c
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONDONTWRITEBYTECODE=1
group() { "$GROUP" 2 "$MB" "$FOR_S" | awk '{print $6}'; } # ms a step
need_ms() { # WHAT MS: it said a number
    [[ $2 =~ ^[0-9.]+$ ]] || { echo "bench ps_step: $1 failed: $(tail -5 "$LOG")" >&2; exit 1; }
}
# With two processes or fewer Open MPI binds each to a core by default: with and without.
mpi_shm() { # ARGUMENT OF mpirun...
    mpirun "$@" --oversubscribe -np 2 "$PROG" "$MB" "$FOR_S" 2>>"$LOG"
}
# mpirun in $NS-a starts its daemon in $NS-b by what it takes for ssh. Each daemon takes the machine for
# its own and would bind its process to the same core.
# Open MPI 5 starts processes by PRRTE, which has parameters of its own.
mpi_tcp() {
    on_a env OMPI_MCA_plm_rsh_agent="$AGENT" OMPI_MCA_oob_tcp_if_include=eth0 \
        PRTE_MCA_plm_ssh_agent="$AGENT" PRTE_MCA_prte_if_include=eth0 \
        mpirun --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include eth0 --bind-to none --oversubscribe \
        --host 10.88.0.1:1,10.88.0.2:1 --map-by node -np 2 "$PROG" "$MB" "$FOR_S" 2>>"$LOG"
}
gloo_tcp() {
    local py=(/usr/bin/python3 bench/peers/allreduce_gloo.py)
    on_b "${py[@]}" 1 10.88.0.1 29400 eth0 "$MB" "$FOR_S" 2>>"$LOG" &
    on_a "${py[@]}" 0 10.88.0.1 29400 eth0 "$MB" "$FOR_S" 2>>"$LOG"
    wait $!
}
DIR=$(mktemp -d)
LOG=$DIR/log AGENT=$DIR/agent link=yes
link_up || link=
trap 'link_down; rm -rf "$DIR"' EXIT
printf '#!/bin/sh\nshift\nexec ip netns exec %s unshare --uts sh -c "hostname %s; $*"\n' "$NS-b" "$NS-b" >"$AGENT"
chmod +x "$AGENT"
shm=() vader=() tcp=() mpi=() gloo=() copy=()
for ((i = 0; i < ROUNDS; i++)); do
    a=$(group) b=$(mpi_shm || :) c=$(mpi_shm --bind-to none || :)
    need_ms "Open MPI" "$b"
    need_ms "Open MPI, not bound" "$c"
    b=$(min "$b" "$c") c=$(copy_gbs "$(nproc)" "$MB" "$FOR_S")
    echo "shared memory $a ms   Open MPI $b ms   memcpy $c GB/s"
    shm+=("$a") vader+=("$b") copy+=("$c")
    [ -n "$link" ] || continue
    a=$(BENCH_LINK=$LINK group) b=$(mpi_tcp || :) c=$(gloo_tcp || :)
    need_ms "Open MPI between namespaces" "$b"
    need_ms "gloo between namespaces" "$c"
    echo "TCP $a ms   Open MPI $b ms   gloo $c ms"
    tcp+=("$a") mpi+=("$b") gloo+=("$c")
done
shm=$(median "${shm[@]}") vader=$(median "${vader[@]}") copy=$(median "${copy[@]}")
twice() { awk -v a="$1" 'BEGIN { print 2 * a }'; }
line ps_step-shm "$(ratio "$(twice "$vader")" "$shm")" '>=0.77' "2 x the all-reduce of Open MPI, default transports" "$shm ms" "$(twice "$vader") ms"
gbs=$(awk -v mb="$MB" -v ms="$shm" 'BEGIN { printf "%.3f", 4 * mb / ms }')
line ps_step-shm-copy "$(ratio "$gbs" "$copy")" '>=0.80' "memcpy, $(nproc) processes at once" "$gbs GB/s" "$copy GB/s"
[ -n "$link" ] || { no_tcp ps_step-tcp; exit 0; }
tcp=$(median "${tcp[@]}") mpi=$(median "${mpi[@]}") gloo=$(median "${gloo[@]}")
best=$(min "$mpi" "$gloo")
line ps_step-tcp "$(ratio "$(twice "$best")" "$tcp")" '>=0.77' "2 x the better all-reduce (Open MPI $mpi ms, gloo $gloo ms), same namespaces" \
    "$tcp ms" "$(twice "$best") ms"
