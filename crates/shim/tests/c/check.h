/* Shared code of the programs here. Each program prints the output expected in any world, and
 * exits 0 if every check held. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

/* In simulated time, durations are exact; the kernel may be late if the host is busy. */
static inline int is_simulated(void) { return getenv("SOFTBAND_ENGINE") != NULL; }

static inline int64_t now_ns(clockid_t clock) {
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Duration in milliseconds of an event that must not end before this program checks it. The
 * kernel may suspend the program for a while. */
static inline unsigned long_enough(unsigned simulated_ms) { return is_simulated() ? simulated_ms : 500; }

/* Checks that at least `wanted` passed since an earlier `start`. In simulated time, at most 1 %
 * and 50 us more may pass. */
static inline int about(int64_t took_ns, int64_t wanted_ns) {
    if (took_ns < wanted_ns) return 0;
    return !is_simulated() || took_ns <= wanted_ns + wanted_ns / 100 + 50000;
}

#endif
