/* POSIX asynchronous I/O. The C library's threads for it block all signals and read the clock
 * inside the C library. */
#include "check.h"
#include <aio.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>

enum { REQUESTS = 8, BYTES = 4096 };

static void wait_for(struct aiocb *request, const struct timespec *limit) {
    const struct aiocb *list[] = {NULL, request};
    while (aio_error(request) == EINPROGRESS) CHECK(aio_suspend(list, 2, limit) == 0);
    CHECK(aio_error(request) == 0 && aio_return(request) == BYTES);
}

static void files(void) {
    char name[] = "/tmp/asynchronous-XXXXXX";
    static char out[REQUESTS][BYTES], in[REQUESTS][BYTES];
    struct aiocb requests[REQUESTS] = {0};
    struct timespec limit = {.tv_sec = 100};
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < REQUESTS; i++) {
            memset(out[i], 'a' + i, BYTES);
            requests[i] = (struct aiocb){.aio_fildes = fd, .aio_buf = round ? in[i] : out[i], .aio_nbytes = BYTES, .aio_offset = i * BYTES};
            CHECK((round ? aio_read : aio_write)(requests + i) == 0);
        }
        for (int i = 0; i < REQUESTS; i++) wait_for(requests + i, i % 2 ? &limit : NULL);
    }
    CHECK(memcmp(out, in, sizeof in) == 0);
    CHECK(close(fd) == 0);
}

static sem_t done;

static void note_end(union sigval value) {
    *(int *)value.sival_ptr += 1;
    sem_post(&done);
}

/* A function of the program runs in a thread at the end of a request, as for the copies of
 * xrdcp. */
static void notifications(int fd, int takes_fsync) {
    char bytes[BYTES] = "";
    int ends = 0;
    CHECK(fd >= 0 && sem_init(&done, 0, 0) == 0);
    struct aiocb request = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = BYTES};
    request.aio_sigevent = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = note_end, .sigev_value.sival_ptr = &ends};
    CHECK(aio_write(&request) == 0 && sem_wait(&done) == 0 && ends == 1);
    CHECK(aio_error(&request) == 0 && aio_return(&request) == BYTES);
    if (takes_fsync) {
        CHECK(aio_fsync(O_SYNC, &request) == 0 && sem_wait(&done) == 0 && ends == 2);
        CHECK(aio_error(&request) == 0 && aio_return(&request) == 0);
    }
    CHECK(close(fd) == 0);
}

/* A pipe that stays empty. */
static void limits(void) {
    char byte;
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct aiocb request = {.aio_fildes = ends[0], .aio_buf = &byte, .aio_nbytes = 1};
    const struct aiocb *list[] = {&request};
    struct timespec limit = {.tv_nsec = 20000000};
    CHECK(aio_read(&request) == 0);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(aio_suspend(list, 1, &limit) == -1 && errno == EAGAIN);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, limit.tv_nsec));
    CHECK(write(ends[1], "x", 1) == 1 && aio_suspend(list, 1, NULL) == 0 && aio_return(&request) == 1);
}

int main(void) {
    char name[] = "/tmp/asynchronous-XXXXXX";
    int file = mkstemp(name);
    CHECK(unlink(name) == 0);
    files();
    notifications(file, 1);
    notifications(open("/dev/null", O_WRONLY), 0);
    limits();
    puts("asynchronous: ok");
    return 0;
}
