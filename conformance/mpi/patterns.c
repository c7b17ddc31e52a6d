/* Patterns of communication for tests of recordings: ring, alltoall, cg, persistent, polls. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static volatile double sink;

/* Computes for a while. The time depends on the machine. */
static void compute(long steps) {
    double value = rank + 1.0;
    for (long i = 0; i < steps; i++) {
        value = value * 1.0000001 + 0.5;
    }
    sink = value;
}

static void ring(int rounds, int bytes, char *out, char *in) {
    int next = (rank + 1) % ranks, former = (rank + ranks - 1) % ranks;
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[2];
        MPI_Irecv(in, bytes, MPI_BYTE, former, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, bytes, MPI_BYTE, next, 7, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        compute(10000);
    }
}

static void alltoall(int rounds, int bytes, char *out, char *in) {
    for (int i = 0; i < rounds; i++) {
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        compute(20000);
    }
}

/* The messages of a conjugate gradient on a grid of processors: exchanges of vectors along rows,
 * and sums of one number. */
static void cg(int rounds, int bytes, char *out, char *in) {
    MPI_Comm row;
    int rows = ranks >= 4 ? 2 : 1, self, length;
    MPI_Comm_split(MPI_COMM_WORLD, rank % rows, rank, &row);
    MPI_Comm_rank(row, &self);
    MPI_Comm_size(row, &length);
    for (int i = 0; i < rounds; i++) {
        double own = 1.0, sum = 0.0;
        compute(30000);
        for (int distance = 1; distance < length; distance *= 2) {
            MPI_Request request;
            int peer = self ^ distance;
            if (peer < length) {
                MPI_Irecv(in, bytes, MPI_BYTE, peer, i, row, &request);
                MPI_Send(out, bytes, MPI_BYTE, peer, i, row);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        }
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (sum != ranks) {
            printf("wrong sum\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Comm_free(&row);
}

/* Every rank but 0 sends by persistent requests; rank 0 takes what comes, and looks for it. */
static void persistent(int rounds, int bytes, char *out, char *in) {
    MPI_Request request;
    MPI_Status status;
    if (rank == 0) {
        for (int i = 0; i < rounds * (ranks - 1); i++) {
            int done = 0;
            MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
            while (!done) {
                MPI_Test(&request, &done, &status);
            }
        }
    } else {
        MPI_Send_init(out, bytes, MPI_BYTE, 0, rank, MPI_COMM_WORLD, &request);
        for (int i = 0; i < rounds; i++) {
            MPI_Start(&request);
            MPI_Wait(&request, &status);
        }
        MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void collectives(int rounds, int bytes, char *out, char *in) {
    int counts[64], places[64];
    for (int i = 0; i < ranks; i++) {
        counts[i] = bytes / 4 + i;
        places[i] = i ? places[i - 1] + counts[i - 1] : 0;
    }
    for (int i = 0; i < rounds; i++) {
        MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Reduce(out, in, bytes, MPI_BYTE, MPI_BOR, ranks - 1, MPI_COMM_WORLD);
        MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 1, MPI_COMM_WORLD);
        MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 1, MPI_COMM_WORLD);
        MPI_Allgatherv(out, counts[rank], MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD);
        MPI_Reduce_scatter_block(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        MPI_Scan(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }
}

static void play(const char *pattern, int rounds, int bytes, char *out, char *in) {
    if (!strcmp(pattern, "ring")) {
        ring(rounds, bytes, out, in);
    } else if (!strcmp(pattern, "alltoall")) {
        alltoall(rounds, bytes, out, in);
    } else if (!strcmp(pattern, "cg")) {
        cg(rounds, bytes, out, in);
    } else if (!strcmp(pattern, "persistent")) {
        persistent(rounds, bytes, out, in);
    } else if (!strcmp(pattern, "collectives")) {
        collectives(rounds, bytes, out, in);
    } else {
        MPI_Request request;
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *pattern = argc > 1 ? argv[1] : "ring";
    int rounds = argc > 2 ? atoi(argv[2]) : 10, bytes = argc > 3 ? atoi(argv[3]) : 1024;
    /* Rounds before the clock starts, which set up connections. */
    int warm_up = argc > 4 ? atoi(argv[4]) : 0;
    size_t room = (size_t)bytes * (size_t)ranks * 2 + 4096;
    char *out = calloc(1, room), *in = calloc(1, room);
    if (warm_up > 0) {
        play(pattern, warm_up, bytes, out, in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    play(pattern, rounds, bytes, out, in);
    double took = MPI_Wtime() - start, longest = 0;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s of %d ranks: %.3f us\n", pattern, ranks, longest * 1e6);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
