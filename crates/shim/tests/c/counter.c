/* The time stamp counter goes forward with both instructions, also in threads and children. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <x86intrin.h>

static void look(void) {
    unsigned processor;
    uint64_t last = __rdtsc();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = i % 2 ? __rdtsc() : __rdtscp(&processor);
        CHECK(now >= last);
        last = now;
    }
}
static void *thread(void *argument) {
    look();
    return argument;
}

int main(int count, char **self) {
    CHECK(count == 1);
    look();
    uint64_t before = __rdtsc();
    usleep(10000);
    uint64_t ticks = __rdtsc() - before;
    CHECK(is_simulated() ? ticks >= 10000000 && ticks < 10100000 : ticks > 1000000);
    pthread_t other;
    void *result;
    CHECK(pthread_create(&other, NULL, thread, self) == 0 && pthread_join(other, &result) == 0 && result == self);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        look();
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    puts("counter: ok");
    return 0;
}
