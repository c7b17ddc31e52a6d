/* Rates of one core for three kinds of work, in operations or bytes of a second of processor time.
 * `softband record` compiles it for the machine that records (docs/mpi-recording.md). */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Enough independent chains for the latency of a multiply-add, in the registers of the processor. */
#if defined(__AVX512F__)
enum { CHAINS = 96 };
#else
enum { CHAINS = 48 };
#endif
enum { TRIES = 5, FLOATING_ROUNDS = 2000000, TRIAD_DOUBLES = 1 << 23, INTEGER_ROUNDS = 50000000 };

static volatile double floating_sink;
static volatile uint64_t integer_sink;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Multiplications and additions of doubles in registers. */
static double floating_point(void) {
    double chains[CHAINS], sum = 0;
    double factor = 1.0 - 1e-9 * (double)(floating_sink == 1), more = 1e-9;
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = i;
    }
    for (int round = 0; round < FLOATING_ROUNDS; round++) {
        for (int i = 0; i < CHAINS; i++) {
            chains[i] = chains[i] * factor + more;
        }
    }
    for (int i = 0; i < CHAINS; i++) {
        sum += chains[i];
    }
    floating_sink = sum;
    return 2.0 * CHAINS * FLOATING_ROUNDS;
}

/* The triad of STREAM (McCalpin 1995), with its count of bytes. */
static double triad(double *to, const double *one, const double *two, double factor) {
    for (long i = 0; i < TRIAD_DOUBLES; i++) {
        to[i] = one[i] + factor * two[i];
    }
    floating_sink = to[TRIAD_DOUBLES / 2];
    return 3.0 * sizeof(double) * TRIAD_DOUBLES;
}

/* Operations that each need the result of the last one. The empty instructions keep the compiler from
 * joining them. */
static double integer(void) {
    uint64_t value = integer_sink, other = value | 12345;
    for (int round = 0; round < INTEGER_ROUNDS; round++) {
        value += other;
        __asm__ volatile("" : "+r"(value));
        value ^= other;
        __asm__ volatile("" : "+r"(value));
    }
    integer_sink = value;
    return 2.0 * INTEGER_ROUNDS;
}

int main(void) {
    double best[3] = {0, 0, 0};
    double *arrays = malloc(3 * sizeof(double) * TRIAD_DOUBLES);
    if (!arrays) {
        fprintf(stderr, "no memory for the triad\n");
        return 1;
    }
    for (long i = 0; i < 3L * TRIAD_DOUBLES; i++) {
        arrays[i] = 1.0;
    }
    for (int try = 0; try < TRIES; try++) {
        for (int kind = 0; kind < 3; kind++) {
            double start = seconds(), work;
            if (kind == 0) {
                work = floating_point();
            } else if (kind == 1) {
                work = triad(arrays, arrays + TRIAD_DOUBLES, arrays + 2 * TRIAD_DOUBLES, 3.0);
            } else {
                work = integer();
            }
            double rate = work / (seconds() - start);
            best[kind] = rate > best[kind] ? rate : best[kind];
        }
    }
    printf("floating-point %.0f\nmemory %.0f\ninteger %.0f\n", best[0], best[1], best[2]);
    return 0;
}
