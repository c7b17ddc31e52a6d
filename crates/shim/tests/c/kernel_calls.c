/* Direct kernel requests of runtimes: futexes, sleeps and clocks by `syscall`; and locks with a
 * limit. */
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int word;

static void after_ms(int ms, struct timespec *until, clockid_t clock) {
    CHECK(clock_gettime(clock, until) == 0);
    until->tv_nsec += (long)ms * 1000000;
    until->tv_sec += until->tv_nsec / 1000000000;
    until->tv_nsec %= 1000000000;
}

static void *wake_later(void *nothing) {
    usleep(5000);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) <= 1);
    return nothing;
}

static void futexes(int operation) {
    pthread_t other;
    word = 0;
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(pthread_create(&other, NULL, wake_later, NULL) == 0);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) syscall(SYS_futex, &word, operation, 0, NULL, NULL, -1);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 5000000));
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(syscall(SYS_futex, &word, operation, 0, NULL, NULL, -1) == -1 && errno == EAGAIN);
}

static void limits(void) {
    struct timespec span = {0, 3000000}, until;
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &span, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 3000000));
    after_ms(3, &until, CLOCK_MONOTONIC);
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 1, &until, NULL, -1) == -1 && errno == ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) - start >= 2900000);
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(syscall(SYS_nanosleep, &span, NULL) == 0);
    CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &span, NULL) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 6000000));
    struct timespec by_call;
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &by_call) == 0);
    CHECK(now_ns(CLOCK_MONOTONIC) - ((int64_t)by_call.tv_sec * 1000000000 + by_call.tv_nsec) < 5000000000);
    CHECK(syscall(SYS_getpid) == getpid());
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *hold(void *nothing) {
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_rwlock_wrlock(&lock) == 0);
    usleep(1000 * long_enough(20));
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_mutex_unlock(&mutex) == 0);
    return nothing;
}

static void locks(void) {
    pthread_t other;
    struct timespec until;
    CHECK(pthread_create(&other, NULL, hold, NULL) == 0);
    usleep(2000 + 20 * long_enough(20));
    after_ms(5, &until, CLOCK_MONOTONIC);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) - start >= 4900000);
    after_ms(5, &until, CLOCK_REALTIME);
    CHECK(pthread_rwlock_timedrdlock(&lock, &until) == ETIMEDOUT);
    after_ms(5000, &until, CLOCK_MONOTONIC);
    CHECK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &until) == 0 && pthread_rwlock_unlock(&lock) == 0);
    CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_join(other, NULL) == 0);
}

/* A whole buffer goes through a pipe with less room, also by stdio. */
static void pipes(void) {
    static char bytes[300000];
    int ends[2], sum[2];
    CHECK(pipe(ends) == 0 && pipe(sum) == 0);
    pid_t reader = fork();
    if (reader == 0) {
        long total = 0, got;
        close(ends[1]);
        while ((got = read(ends[0], bytes, 4096)) > 0) total += got;
        CHECK(write(sum[1], &total, sizeof total) == sizeof total);
        _exit(0);
    }
    close(ends[0]);
    CHECK(write(ends[1], bytes, sizeof bytes) == sizeof bytes);
    FILE *stream = fdopen(ends[1], "w");
    for (int line = 0; line < 5000; line++) fprintf(stream, "%099d\n", line);
    CHECK(fclose(stream) == 0);
    long total = 0;
    CHECK(read(sum[0], &total, sizeof total) == sizeof total && total == (long)sizeof bytes + 500000);
    CHECK(waitpid(reader, NULL, 0) == reader);
}

/* Both ends of a named pipe wait for each other, a file lock waits for its holder, and a child
 * may signal its parent. */
static void files(void) {
    char folder[] = "/tmp/kernel_callsXXXXXX", name[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(name, sizeof name, "%s/fifo", folder);
    CHECK(mkfifo(name, 0600) == 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(3000);
        FILE *out = fopen(name, "w");
        _exit(out && fputs("hi", out) >= 0 && fclose(out) == 0 && kill(getppid(), 0) == 0 ? 0 : 1);
    }
    char word_read[3] = "";
    FILE *in = fopen(name, "r");
    CHECK(in && fgets(word_read, sizeof word_read, in) && strcmp(word_read, "hi") == 0 && fclose(in) == 0);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(unlink(name) == 0);
    child = fork();
    if (child == 0) {
        int fd = open(name, O_CREAT | O_RDWR, 0600);
        _exit(fd >= 0 && flock(fd, LOCK_EX) == 0 && usleep(1000 * long_enough(20)) == 0 ? 0 : 1);
    }
    usleep(5000 + 50 * long_enough(20));
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(close(fd) == 0 && unlink(name) == 0 && rmdir(folder) == 0);
}

/* The first thread has the process's number in every call and path. */
static void numbers(void) {
    char name[64], said[64];
    int own = getpid();
    CHECK(syscall(SYS_gettid) == own && gettid() == own);
    unsigned long processors[16];
    CHECK(syscall(SYS_sched_getaffinity, own, sizeof processors, processors) > 0);
    CHECK(tgkill(own, own, 0) == 0 && syscall(SYS_tgkill, own, own, 0) == 0 && syscall(SYS_tkill, own, 0) == 0);
    for (int i = 0; i < 2; i++) {
        if (i) snprintf(name, sizeof name, "/proc/%d/task/%d/comm", own, own);
        else snprintf(name, sizeof name, "/proc/self/task/%d/comm", own);
        FILE *in = fopen(name, "r");
        CHECK(in && fgets(said, sizeof said, in) && strcmp(said, "kernel_calls\n") == 0 && fclose(in) == 0);
    }
}

static void *set_later(void *nothing) {
    usleep(20000);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    return nothing;
}

/* Sleeps by instructions of the program, as runtimes without a C library make them. */
static void own_instructions(void) {
    struct timespec span = {0, 5000000};
    pthread_t other;
    word = 0;
    CHECK(pthread_create(&other, NULL, set_later, NULL) == 0);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_nanosleep), "D"(&span), "S"(NULL) : "rcx", "r11", "memory");
        CHECK(result == 0 || result == -EINTR);
    }
    CHECK(pthread_join(other, NULL) == 0);
}

int main(void) {
    numbers();
    own_instructions();
    futexes(FUTEX_WAIT_PRIVATE);
    futexes(FUTEX_WAIT_BITSET_PRIVATE);
    limits();
    locks();
    pipes();
    files();
    puts("kernel_calls: ok");
    return 0;
}
