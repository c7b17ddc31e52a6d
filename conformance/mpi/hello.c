/* Each rank prints its number, its host, and the sum of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
    int rank, ranks, sum;
    char host[256];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("%d of %d on %s: %d\n", rank, ranks, host, sum);
    MPI_Finalize();
    return 0;
}
