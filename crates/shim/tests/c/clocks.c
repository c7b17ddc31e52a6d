/* Clocks only go forward, and all of them by the same amount. */
#include "check.h"
#include <sys/time.h>
#include <sys/times.h>

int main(void) {
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_MONOTONIC_COARSE};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        int64_t last = now_ns(clocks[i]);
        for (int n = 0; n < 10000; n++) {
            int64_t now = now_ns(clocks[i]);
            CHECK(now >= last);
            last = now;
        }
    }
    struct timespec resolution;
    CHECK(clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_sec == 0 && resolution.tv_nsec >= 1);
    CHECK(clock_gettime(12345, &resolution) == -1 && errno == EINVAL);

    struct timeval day;
    CHECK(gettimeofday(&day, NULL) == 0);
    int64_t real = now_ns(CLOCK_REALTIME);
    CHECK(real / 1000 >= (int64_t)day.tv_sec * 1000000 + day.tv_usec);
    CHECK(llabs((long long)time(NULL) - real / 1000000000) <= 1);

    int64_t start = now_ns(CLOCK_MONOTONIC), real_start = now_ns(CLOCK_REALTIME);
    struct tms ticks;
    CHECK(times(&ticks) != (clock_t)-1 && clock() != (clock_t)-1);
    CHECK(usleep(20000) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 20000000));
    CHECK(about(now_ns(CLOCK_REALTIME) - real_start, 20000000));
    if (is_simulated()) {
        /* A loop that only reads the clock also ends. */
        int64_t until = now_ns(CLOCK_MONOTONIC) + 5000000;
        while (now_ns(CLOCK_MONOTONIC) < until) {}
    }
    puts("clocks: ok");
    return 0;
}
