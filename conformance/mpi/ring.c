/* Passes a block around a ring of ranks and checks it, then sums the ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 32768, ROUNDS = 4, TAG = 1 };

int main(int argc, char **argv) {
    int rank, size, length, sum = 0;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    unsigned char *block = malloc(BYTES);
    memset(block, rank, BYTES);
    double start = MPI_Wtime();
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Sendrecv_replace(block, BYTES, MPI_BYTE, (rank + 1) % size, TAG, (rank + size - 1) % size, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < BYTES; at++) {
            if (block[at] != (rank + ROUNDS * size - round) % size) {
                printf("wrong byte %d\n", at);
                MPI_Abort(MPI_COMM_WORLD, 9);
            }
        }
    }
    double time = MPI_Wtime() - start;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: sum %d\n", rank, size, name, sum);
    printf("time %.9f\n", time);
    free(block);
    MPI_Finalize();
    return 0;
}
