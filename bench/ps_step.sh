#!/usr/bin/env bash
# A synchronous step of 2 trainers and 2 pservers with 64 MB, against all-reduce by Open MPI and by gloo over TCP
#
# All-reduce in a ring of two moves the model twice in all (each process sends it once), parameter servers move it four times (each
# trainer pushes and pulls it), and they apply an optimizer. Limit: 1.3 x the better peer's time x (our bytes / their bytes = 2);
# the ratio is that peer's time x 2 over ours, so at least 1 / 1.3.
# MB=64, FOR_S=3 seconds a measurement.
. "$(dirname "$0")/ps.sh"
MB=${MB:-64} FOR_S=${FOR_S:-3}
GROUP=build/release/bench/ps_group
mpicc -O2 -o build/release/bench/allreduce_mpi bench/peers/allreduce_mpi.c
mpi() {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo \
        --oversubscribe -np 2 build/release/bench/allreduce_mpi "$MB" "$FOR_S" 2>/dev/null
}
gloo() {
    local port
    port=$(free_port)
    /usr/bin/python3 bench/peers/allreduce_gloo.py 1 "$port" "$MB" "$FOR_S" 2>/dev/null &
    /usr/bin/python3 bench/peers/allreduce_gloo.py 0 "$port" "$MB" "$FOR_S" 2>/dev/null
    wait $!
}
best_ours=1e9 best_mpi=1e9 best_gloo=1e9
for ((i = 0; i < ROUNDS; i++)); do
    ours=$("$GROUP" 2 "$MB" "$FOR_S" | awk '{print $6}') mpi=$(mpi) gloo=$(gloo)
    echo "ours $ours ms   Open MPI $mpi ms   gloo $gloo ms"
    best_ours=$(min "$best_ours" "$ours") best_mpi=$(min "$best_mpi" "$mpi") best_gloo=$(min "$best_gloo" "$gloo")
done
theirs=$(min "$best_mpi" "$best_gloo")
line ps_step "$(awk -v a="$theirs" -v b="$best_ours" 'BEGIN { printf "%.2f", 2 * a / b }')" '>=0.77' \
    "2 x the better all-reduce (Open MPI $best_mpi ms, gloo $best_gloo ms)" "$best_ours ms" "$(awk -v a="$theirs" 'BEGIN { print 2 * a }') ms"
