/* Every sleep call takes the requested time. */
#include "check.h"
#include <poll.h>
#include <sched.h>
#include <sys/select.h>
#include <threads.h>

#define TAKES(wanted_ns, call)                                    \
    do {                                                          \
        int64_t start = now_ns(CLOCK_MONOTONIC);                  \
        CHECK(call);                                              \
        CHECK(about(now_ns(CLOCK_MONOTONIC) - start, wanted_ns)); \
    } while (0)

int main(void) {
    struct timespec ten = {0, 10000000}, left = {7, 7};
    TAKES(10000000, nanosleep(&ten, &left) == 0);
    TAKES(10000000, clock_nanosleep(CLOCK_MONOTONIC, 0, &ten, NULL) == 0);
    TAKES(10000000, usleep(10000) == 0);
    TAKES(10000000, thrd_sleep(&ten, NULL) == 0);
    TAKES(1000000000, sleep(1) == 0);
    TAKES(30000000, poll(NULL, 0, 30) == 0);
    struct timeval twenty = {0, 20000};
    TAKES(20000000, select(0, NULL, NULL, NULL, &twenty) == 0);
    struct timespec until;
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_nsec += 50000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 50000000));
    struct timespec past = {1, 0}, bad = {0, 1000000000};
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL) == 0);
    CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
    CHECK(sched_yield() == 0);
    puts("sleeps: ok");
    return 0;
}
