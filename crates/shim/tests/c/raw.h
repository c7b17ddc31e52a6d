/* System calls by instructions of the program. */
#ifndef RAW_H
#define RAW_H

#include "check.h"
#include <sys/syscall.h>

__attribute__((noinline, unused)) static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}
#define RAW(number, a, b, c, d) raw(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static inline void sleep_raw(int ms) {
    struct timespec span = {0, ms * 1000000L};
    CHECK(RAW(SYS_nanosleep, &span, NULL, 0, 0) == 0);
}

#endif
