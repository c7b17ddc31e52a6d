/* Computation between MPI calls, in the manner of EP, FT and CG of the NAS benchmarks. Each pattern
 * prints a sum of its results and the time that its ranks saw. `meet` does in the middle of its
 * computation what the fabric does not see: it writes to a file of all ranks, allocates and reads the
 * clock. The rank in COMPUTATION_DIES crashes there. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HALO = 1024, BLOCK = 2048 };

static int rank, ranks;

static double embarrassingly_parallel(int rounds, long steps) {
    unsigned long state = (unsigned long)rank * 77777 + 1;
    double sum = 0;
    for (int round = 0; round < rounds; round++) {
        double own = 0, all;
        for (long i = 0; i < steps; i++) {
            state = state * 6364136223846793005UL + 1442695040888963407UL;
            own += (double)(state >> 11) / 9007199254740992.0;
        }
        MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    return sum;
}

static double transpose(int rounds, long steps) {
    int length = BLOCK * ranks;
    double *from = malloc(sizeof(double) * (size_t)length), *to = malloc(sizeof(double) * (size_t)length);
    for (int i = 0; i < length; i++) {
        from[i] = rank + i * 1e-6;
    }
    for (int round = 0; round < rounds; round++) {
        for (long done = 0; done < steps; done += length) {
            for (int i = 1; i < length; i++) {
                from[i] = from[i] * 0.999 + from[i - 1] * 0.001;
            }
        }
        MPI_Alltoall(from, BLOCK, MPI_DOUBLE, to, BLOCK, MPI_DOUBLE, MPI_COMM_WORLD);
        double *other = from;
        from = to;
        to = other;
    }
    double sum = 0, all;
    for (int i = 0; i < length; i++) {
        sum += from[i];
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(from);
    free(to);
    return all;
}

static double conjugate_gradient(int rounds, long steps) {
    int length = 16 * HALO, up = (rank + 1) % ranks, down = (rank + ranks - 1) % ranks;
    double *x = calloc((size_t)(length + 2 * HALO), sizeof(double)), all = 0;
    for (int i = 0; i < length + 2 * HALO; i++) {
        x[i] = rank + i * 1e-6;
    }
    for (int round = 0; round < rounds; round++) {
        double own = 0;
        MPI_Sendrecv(x + length, HALO, MPI_DOUBLE, up, 1, x, HALO, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(x + HALO, HALO, MPI_DOUBLE, down, 2, x + length + HALO, HALO, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (long done = 0; done < steps; done += length) {
            for (int i = HALO; i < length + HALO; i++) {
                x[i] = 0.5 * x[i] + 0.25 * (x[i - 1] + x[i + 1]);
                own += x[i] * x[i];
            }
        }
        MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    free(x);
    return all;
}

static void append(const char *path, int round) {
    char text[64];
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    snprintf(text, sizeof text, "rank %d round %d\n", rank, round);
    if (file < 0 || write(file, text, strlen(text)) < 0 || close(file) < 0) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static double meet(int rounds, long steps, const char *path) {
    double sum = 0, all;
    for (int round = 0; round < rounds; round++) {
        volatile double value = rank + 1.0;
        struct timespec now;
        /* The ranks come to the file in an order that differs from that of their numbers. */
        for (long i = 0; i < steps * (1 + (rank * 5 + 2) % ranks); i++) {
            value = value * 1.0000001 + 0.5;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        const char *dies = getenv("COMPUTATION_DIES");
        if (dies && atoi(dies) == rank && round > 0) {
            *(volatile int *)NULL = 1;
        }
        double *data = malloc(1 << 22);
        memset(data, 1, 1 << 22);
        sum += data[rank] + (double)(now.tv_nsec % 1000);
        append(path, round);
        free(data);
        for (long i = 0; i < steps; i++) {
            value = value * 1.0000001 + 0.5;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *pattern = count > 1 ? arguments[1] : "ep";
    int rounds = count > 2 ? atoi(arguments[2]) : 4;
    long steps = count > 3 ? atol(arguments[3]) : 1000000;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime(), result = 0;
    if (!strcmp(pattern, "ep")) {
        result = embarrassingly_parallel(rounds, steps);
    } else if (!strcmp(pattern, "ft")) {
        result = transpose(rounds, steps);
    } else if (!strcmp(pattern, "cg")) {
        result = conjugate_gradient(rounds, steps);
    } else if (!strcmp(pattern, "meet") && count > 4) {
        result = meet(rounds, steps, arguments[4]);
    } else {
        fprintf(stderr, "usage: computation ep|ft|cg ROUNDS STEPS, or computation meet ROUNDS STEPS FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double took = MPI_Wtime() - begun;
    printf("%s %.12g %.9f\n", pattern, result, took);
    MPI_Finalize();
    return 0;
}
