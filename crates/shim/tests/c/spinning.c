/* Loops that poll memory for another thread or process, without calls. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

static volatile int flag;
static int counter;

static void *set_later(void *argument) {
    usleep(3000);
    *(volatile int *)argument = 1;
    return NULL;
}

int main(void) {
    pthread_t other;
    /* Polls only the flag. */
    CHECK(pthread_create(&other, NULL, set_later, (void *)&flag) == 0);
    while (!flag) {}
    CHECK(pthread_join(other, NULL) == 0);
    /* With a pause, and with a yield. */
    flag = 0;
    CHECK(pthread_create(&other, NULL, set_later, (void *)&flag) == 0);
    while (!flag) __builtin_ia32_pause();
    CHECK(pthread_join(other, NULL) == 0);
    flag = 0;
    CHECK(pthread_create(&other, NULL, set_later, (void *)&flag) == 0);
    while (!flag) sched_yield();
    CHECK(pthread_join(other, NULL) == 0);
    /* With clock reads. */
    flag = 0;
    CHECK(pthread_create(&other, NULL, set_later, (void *)&flag) == 0);
    while (!flag) now_ns(CLOCK_MONOTONIC);
    CHECK(pthread_join(other, NULL) == 0);
    /* Across processes. */
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        set_later((void *)shared);
        _exit(0);
    }
    while (!*shared) {}
    CHECK(waitpid(child, NULL, 0) == child);
    /* A long computation is no spin: it must end with the right result. */
    for (volatile int i = 0; i < 50000000; i++) counter += i & 1;
    CHECK(counter == 25000000);
    puts("spinning: ok");
    return 0;
}
