/* Threads that are cancelled while they wait. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t semaphore;
static int cleaned;

static void clean(void *by) { cleaned += *(int *)by; }

static void *in_a_semaphore(void *by) {
    pthread_cleanup_push(clean, by);
    sem_wait(&semaphore);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *in_a_sleep(void *by) {
    pthread_cleanup_push(clean, by);
    struct timespec length = {.tv_nsec = 100000000};
    for (;;) nanosleep(&length, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

/* The clean-up function has the mutex. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void clean_and_unlock(void *by) {
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    clean(by);
}

static void *in_a_condition(void *by) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(clean_and_unlock, by);
    for (;;) pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(0);
    return NULL;
}

/* Cancellation waits until the thread allows it. */
static void *later(void *by) {
    int old;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0);
    pthread_cleanup_push(clean, by);
    usleep(200000);
    CHECK(sem_wait(&semaphore) == 0);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
    sleep(1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void ends(void *(*body)(void *), int by, int post) {
    pthread_t thread;
    void *result;
    int before = cleaned;
    CHECK(pthread_create(&thread, NULL, body, &by) == 0);
    usleep(100000);
    CHECK(pthread_cancel(thread) == 0);
    usleep(50000);
    if (post) CHECK(sem_post(&semaphore) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == before + by);
}

int main(void) {
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    ends(in_a_semaphore, 1, 0);
    ends(in_a_sleep, 10, 0);
    ends(later, 100, 1);
    ends(in_a_condition, 1000, 0);
    CHECK(pthread_mutex_trylock(&mutex) == 0 && cleaned == 1111);
    puts("cancelling: ok");
    return 0;
}
