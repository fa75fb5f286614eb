/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_mpi.c - ms of an MPI_Allreduce of MB megabytes of floats, for SECONDS. Its only user is
 * bench/ps_step.sh. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, n = argc == 3 ? (int)(strtod(argv[1], NULL) * 1e6 / sizeof(float)) : 0;
    double limit = argc == 3 ? strtod(argv[2], NULL) : 0;
    if (n < 1)
        return MPI_Finalize(), 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    memset(a, 0, (size_t)n * sizeof *a);
    enum { WARM_UP = 3 };
    double t0 = MPI_Wtime();
    for (int k = 0; k < WARM_UP; k++)
        MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    int steps = (int)(limit / ((MPI_Wtime() - t0) / WARM_UP));
    steps = steps < 5 ? 5 : steps;
    MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
    t0 = MPI_Wtime();
    for (int k = 0; k < steps; k++)
        MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.2f\n", (MPI_Wtime() - t0) / steps * 1e3);
    MPI_Finalize();
    return 0;
}
