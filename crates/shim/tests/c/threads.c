/* Threads and all objects by which they wait for each other. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

enum { THREADS = 4, ROUNDS = 50 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t semaphore;
static int turn, total, onces, destroyed, serials;

static void run_once(void) {
    usleep(100);
    onces++;
}
static void destroy(void *value) {
    usleep(100); /* destructors also run in the thread's time */
    pthread_mutex_lock(&mutex);
    destroyed += *(int *)value;
    pthread_mutex_unlock(&mutex);
}

static void *worker(void *argument) {
    static int one = 1;
    int own = (int)(intptr_t)argument;
    pthread_setspecific(key, &one);
    pthread_once(&once, run_once);
    CHECK(onces == 1);
    for (int i = 0; i < ROUNDS; i++) {
        /* A mutex held over a sleep: the others must wait, and all must get it. */
        CHECK(pthread_mutex_lock(&mutex) == 0);
        int before = total;
        if (i % 10 == 0) usleep(100);
        total = before + 1;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    int serial = pthread_barrier_wait(&barrier);
    CHECK(serial == 0 || serial == PTHREAD_BARRIER_SERIAL_THREAD);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    serials += serial != 0;
    while (turn != own) CHECK(pthread_cond_wait(&cond, &mutex) == 0);
    printf("thread %d\n", own);
    turn++;
    CHECK(pthread_cond_broadcast(&cond) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
    usleep(50);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    CHECK(sem_wait(&semaphore) == 0);
    if (own % 2) pthread_exit(argument);
    return argument;
}

static void *poster(void *argument) {
    (void)argument;
    usleep(20000);
    pthread_mutex_lock(&mutex);
    turn = -1;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS], other;
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0 && sem_init(&semaphore, 0, 0) == 0 && pthread_key_create(&key, destroy) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i) == 0);
    usleep(50000);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    usleep(10000);
    for (int i = 0; i < THREADS; i++) CHECK(sem_post(&semaphore) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)(intptr_t)i);
    }
    CHECK(total == THREADS * ROUNDS && turn == THREADS && onces == 1 && destroyed == THREADS && serials == 1);

    /* Deadlines. */
    struct timespec until;
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += 1;
    CHECK(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) - start > 990000000);
    until.tv_sec += 10;
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(pthread_create(&other, NULL, poster, NULL) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    int status = 0;
    while (turn != -1 && status == 0) status = pthread_cond_timedwait(&cond, &mutex, &until);
    CHECK(status == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 20000000));
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT && pthread_mutex_unlock(&mutex) == 0);
    puts("threads: ok");
    return 0;
}
