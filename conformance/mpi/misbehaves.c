/* Rank 1 leaves the job in a way that the first argument names. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *way, const char *name) {
    return strcmp(way, name) == 0;
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    int number = atoi(getenv("SOFTBAND_RANK"));
    if (number == 1 && is(way, "early"))
        return 0;
    if (number == 1 && is(way, "early-failure"))
        return 3;
    MPI_Init(&argc, &argv);
    if (number == 1 && is(way, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (number == 1 && is(way, "signal"))
        kill(getpid(), SIGKILL);
    if (number == 1 && is(way, "exit"))
        _exit(5);
    if (number == 1 && is(way, "leave"))
        _exit(0);
    if (number == 1 && is(way, "hang"))
        MPI_Recv(&number, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return is(way, "late") ? number * 2 : 0;
}
