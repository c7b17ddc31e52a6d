/* Threads that wait again right after they are woken. A call that wakes all wakes the threads
 * that waited then, once. */
#include "check.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { THREADS = 6, ROUNDS = 200 };

static pthread_t threads[THREADS];
static void begin(void *(*body)(void *)) {
    for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
}
static void end(void) {
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* No thread passes a barrier before all have reached it. */
static pthread_barrier_t barrier;
static _Atomic int round_of[THREADS], serials;
static void *passes(void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        round_of[(intptr_t)argument] = round;
        serials += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        for (int i = 0; i < THREADS; i++) CHECK(round_of[i] == round || round_of[i] == round + 1);
    }
    return NULL;
}

/* Readers and writers that all want the lock at the same time. */
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int readers, writers, had;
static void *reads_or_writes(void *argument) {
    int writes = (intptr_t)argument % 2;
    for (int i = 0; i < 10; i++) {
        CHECK((writes ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock)) == 0);
        if (writes) writers++; else readers++;
        CHECK(writers == 0 || (writers == 1 && readers == 0));
        usleep(30);
        if (writes) writers--; else readers--;
        had += writes;
        CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    }
    return NULL;
}

/* A condition that is not yet true when it is signaled. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int is_over, wakes;
static void *waits(void *argument) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (!is_over) {
        CHECK(pthread_cond_wait(&cond, &mutex) == 0);
        wakes++;
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return argument;
}
static void tells_too_soon(void) {
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        CHECK(pthread_cond_broadcast(&cond) == 0); /* without the mutex */
    }
    usleep(10000);
    pthread_mutex_lock(&mutex);
    is_over = 1;
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_cond_broadcast(&cond) == 0);
}

/* The same by the kernel's own call. */
static int word;
static volatile int is_done;
static void *waits_in_the_kernel(void *argument) {
    while (!is_done) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return argument;
}

int main(void) {
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    begin(passes);
    end();
    CHECK(serials == ROUNDS);
    begin(reads_or_writes);
    end();
    CHECK(had == THREADS / 2 * 10);
    begin(waits);
    tells_too_soon();
    end();
    CHECK(!is_simulated() || wakes == 6 * THREADS);
    begin(waits_in_the_kernel);
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        long woken = syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        CHECK(!is_simulated() || woken == THREADS);
    }
    is_done = word = 1;
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    end();
    puts("waiting_again: ok");
    return 0;
}
