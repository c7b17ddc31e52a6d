/* sendfile, splice, tee and vmsplice, from and to stream sockets. Without an argument, both ends are
 * on this host; `server PORT` receives what `client HOST PORT HOW` sends by sendfile, splice or write. */
#include "check.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BULK = 3 << 20, SMALL = 5000 };

static volatile sig_atomic_t pipe_signals;
static void on_pipe(int number) { pipe_signals += number == SIGPIPE; }

static unsigned char pattern(size_t at) { return (unsigned char)(at * 7 + at / 251); }

static int file_of(size_t len) {
    int fd = memfd_create("bulk", 0);
    CHECK(fd >= 0);
    unsigned char block[4096];
    for (size_t done = 0; done < len; done += sizeof block) {
        for (size_t at = 0; at < sizeof block; at++) block[at] = pattern(done + at);
        size_t part = len - done < sizeof block ? len - done : sizeof block;
        CHECK(write(fd, block, part) == (ssize_t)part);
    }
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void connect_pair(int ends[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(ends[0] >= 0 && connect(ends[0], (struct sockaddr *)&at, len) == 0);
    ends[1] = accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0 && close(listener) == 0);
}

static void close_pair(const int ends[2]) { CHECK(close(ends[0]) == 0 && close(ends[1]) == 0); }

/* Reads the pattern from its byte `from` on, until `len` bytes came or the stream ended. */
static size_t check_pattern(int fd, size_t from, size_t len) {
    static __thread unsigned char room[65536];
    size_t got = 0;
    while (got < len) {
        ssize_t count = read(fd, room, len - got < sizeof room ? len - got : sizeof room);
        CHECK(count >= 0);
        if (count == 0) break;
        for (ssize_t at = 0; at < count; at++) CHECK(room[at] == pattern(from + got + (size_t)at));
        got += (size_t)count;
    }
    return got;
}

static void *take_bulk(void *fd) { return (void *)(check_pattern(*(int *)fd, 0, BULK) == BULK ? NULL : fd); }

/* Runs `copy` while a thread takes the bytes from the other end. */
static void with_reader(int end, void (*copy)(int), int to) {
    pthread_t reader;
    void *failed;
    CHECK(pthread_create(&reader, NULL, take_bulk, &end) == 0);
    copy(to);
    CHECK(pthread_join(reader, &failed) == 0 && failed == NULL);
}

static void send_whole(int to) {
    int file = file_of(BULK);
    off_t at = 0;
    while (at < BULK) {
        ssize_t sent = sendfile(to, file, &at, BULK);
        CHECK(sent > 0);
    }
    CHECK(at == BULK && lseek(file, 0, SEEK_CUR) == 0);
    CHECK(sendfile(to, file, &at, 10) == 0 && at == BULK);
    CHECK(close(file) == 0);
}

static void send_without_waiting(int to) {
    int file = file_of(BULK), again = 0;
    CHECK(fcntl(to, F_SETFL, O_NONBLOCK) == 0);
    for (off_t before = 0; before < BULK;) {
        ssize_t sent = sendfile(to, file, NULL, 0x7fffffff);
        if (sent < 0) {
            CHECK(errno == EAGAIN && lseek(file, 0, SEEK_CUR) == before);
            struct pollfd room = {to, POLLOUT, 0};
            CHECK(poll(&room, 1, 10000) == 1 && ++again);
            continue;
        }
        before += sent;
        CHECK(sent > 0 && lseek(file, 0, SEEK_CUR) == before);
    }
    CHECK(sendfile(to, file, NULL, 1) == 0);
    CHECK(fcntl(to, F_SETFL, 0) == 0 && close(file) == 0);
}

static void send_by_pipe(int to, int is_nonblocking) {
    int file = file_of(BULK), ends[2];
    CHECK(pipe2(ends, 0) == 0 && fcntl(to, F_SETFL, is_nonblocking ? O_NONBLOCK : 0) == 0);
    off_t at = 0;
    size_t in_pipe = 0;
    while (at < BULK || in_pipe > 0) {
        if (at < BULK) {
            ssize_t taken = splice(file, &at, ends[1], NULL, BULK, SPLICE_F_NONBLOCK);
            CHECK(taken > 0 || errno == EAGAIN);
            in_pipe += taken > 0 ? (size_t)taken : 0;
        }
        ssize_t sent = splice(ends[0], NULL, to, NULL, in_pipe, SPLICE_F_MOVE | SPLICE_F_MORE);
        if (sent < 0) {
            CHECK(is_nonblocking && errno == EAGAIN);
            struct pollfd room = {to, POLLOUT, 0};
            CHECK(poll(&room, 1, 10000) == 1);
            continue;
        }
        CHECK(sent > 0 && (size_t)sent <= in_pipe);
        in_pipe -= (size_t)sent;
    }
    int left = -1;
    CHECK(ioctl(ends[0], FIONREAD, &left) == 0 && left == 0);
    CHECK(fcntl(to, F_SETFL, 0) == 0 && close(file) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void splice_out(int to) { send_by_pipe(to, 0); }
static void splice_out_without_waiting(int to) { send_by_pipe(to, 1); }

static void *feed(void *argument) {
    int to = *(int *)argument, file = file_of(BULK);
    off_t at = 0;
    while (at < BULK) CHECK(sendfile(to, file, &at, BULK) > 0);
    CHECK(close(file) == 0 && shutdown(to, SHUT_WR) == 0);
    return NULL;
}

static void splice_in(const int ends[2]) {
    pthread_t feeder;
    int through[2], to = ends[0];
    CHECK(pipe(through) == 0 && pthread_create(&feeder, NULL, feed, &to) == 0);
    size_t got = 0;
    for (;;) {
        ssize_t taken = splice(ends[1], NULL, through[1], NULL, 1 << 20, SPLICE_F_MOVE);
        CHECK(taken >= 0);
        if (taken == 0) break;
        CHECK(check_pattern(through[0], got, (size_t)taken) == (size_t)taken);
        got += (size_t)taken;
    }
    CHECK(got == BULK && pthread_join(feeder, NULL) == 0);
    CHECK(close(through[0]) == 0 && close(through[1]) == 0);
}

/* A pipe without room takes nothing from the socket, and an empty socket gives nothing. */
static void splice_in_without_waiting(const int ends[2]) {
    int through[2];
    CHECK(pipe2(through, 0) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    CHECK(splice(ends[1], NULL, through[1], NULL, 100, 0) == -1 && errno == EAGAIN);
    CHECK(splice(through[0], NULL, ends[1], NULL, 100, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
    static char block[65536];
    CHECK(fcntl(through[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(through[1], block, sizeof block) > 0) {}
    CHECK(write(ends[0], "hello", 5) == 5);
    struct pollfd news = {ends[1], POLLIN, 0};
    CHECK(poll(&news, 1, 10000) == 1);
    CHECK(splice(ends[1], NULL, through[1], NULL, 100, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
    int waiting = 0;
    CHECK(ioctl(ends[1], FIONREAD, &waiting) == 0 && waiting == 5);
    CHECK(read(through[0], block, sizeof block) == sizeof block);
    CHECK(splice(ends[1], NULL, through[1], NULL, 3, 0) == 3);
    CHECK(ioctl(ends[1], FIONREAD, &waiting) == 0 && waiting == 2);
    CHECK(splice(ends[1], NULL, through[1], NULL, 100, 0) == 2);
    CHECK(close(through[0]) == 0 && write(ends[0], "x", 1) == 1 && poll(&news, 1, 10000) == 1);
    int before = pipe_signals;
    CHECK(splice(ends[1], NULL, through[1], NULL, 100, 0) == -1 && errno == EPIPE && pipe_signals == before + 1);
    CHECK(close(through[1]) == 0 && fcntl(ends[1], F_SETFL, 0) == 0);
}

static void refusals(const int ends[2]) {
    int file = file_of(SMALL), through[2], fresh = socket(AF_INET, SOCK_STREAM, 0);
    int writable = open("/dev/null", O_WRONLY);
    off_t at = 0;
    loff_t from = 0;
    CHECK(pipe(through) == 0 && fresh >= 0 && writable >= 0);
    CHECK(sendfile(ends[0], -1, NULL, 1) == -1 && errno == EBADF);
    CHECK(sendfile(-1, file, NULL, 1) == -1 && errno == EBADF);
    CHECK(sendfile(ends[0], writable, NULL, 1) == -1 && errno == EBADF);
    CHECK(sendfile(ends[0], ends[1], NULL, 1) == -1 && errno == EINVAL);
    CHECK(sendfile(ends[0], through[0], NULL, 1) == -1 && errno == EINVAL);
    CHECK(sendfile(ends[0], ends[1], &at, 1) == -1 && errno == ESPIPE);
    CHECK(sendfile(ends[0], file, NULL, (size_t)-1) == -1 && errno == EINVAL);
    at = -1;
    CHECK(sendfile(ends[0], file, &at, 1) == -1 && errno == EINVAL && at == -1);
    CHECK(sendfile(ends[0], file, NULL, 0) == 0);
    at = 10 * SMALL;
    CHECK(sendfile(ends[0], file, &at, 5) == 0 && at == 10 * SMALL);
    CHECK(splice(ends[0], NULL, file, NULL, 1, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, ends[1], NULL, 1, 0) == -1 && errno == EINVAL);
    CHECK(splice(through[0], &from, ends[0], NULL, 1, 0) == -1 && errno == ESPIPE);
    CHECK(splice(ends[0], NULL, through[1], &from, 1, 0) == -1 && errno == ESPIPE);
    CHECK(splice(through[0], NULL, ends[0], &from, 1, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], &from, through[1], NULL, 1, 0) == -1 && errno == EINVAL);
    CHECK(splice(through[1], NULL, ends[0], NULL, 1, 0) == -1 && errno == EBADF);
    CHECK(splice(ends[0], NULL, through[0], NULL, 1, 0) == -1 && errno == EBADF);
    CHECK(splice(through[0], NULL, ends[0], NULL, 0, 0) == 0);
    CHECK(splice(through[0], NULL, ends[0], NULL, 1, 0x100) == -1 && errno == EINVAL);
    CHECK(tee(ends[0], through[1], 1, 0) == -1 && errno == EINVAL);
    /* Bytes for a socket without a peer stay in the pipe. */
    CHECK(write(through[1], "kept", 4) == 4);
    int before = pipe_signals;
    CHECK(splice(through[0], NULL, fresh, NULL, 4, 0) == -1 && (errno == EPIPE || errno == ENOTCONN));
    CHECK(pipe_signals - before == (errno == EPIPE));
    CHECK(close(fresh) == 0 && close(writable) == 0 && close(file) == 0);
    CHECK(close(through[0]) == 0 && close(through[1]) == 0);
}

static void after_the_end(void) {
    int ends[2], file = file_of(SMALL), through[2];
    connect_pair(ends);
    CHECK(shutdown(ends[0], SHUT_WR) == 0 && pipe(through) == 0);
    int before = pipe_signals;
    off_t at = 0;
    CHECK(sendfile(ends[0], file, &at, SMALL) == -1 && errno == EPIPE && at == 0 && pipe_signals == before + 1);
    CHECK(write(through[1], "kept", 4) == 4);
    CHECK(splice(through[0], NULL, ends[0], NULL, 4, 0) == -1 && errno == EPIPE && pipe_signals == before + 2);
    CHECK(close(through[1]) == 0);
    while (read(through[0], (char[4]){0}, 4) > 0) {}
    CHECK(splice(through[0], NULL, ends[1], NULL, 4, 0) == 0);
    close_pair(ends);
    CHECK(close(file) == 0 && close(through[0]) == 0);
}

static void *delayed_write(void *fd) {
    struct timespec delay = {.tv_nsec = 20000000};
    nanosleep(&delay, NULL);
    CHECK(write(*(int *)fd, "late!", 5) == 5);
    return NULL;
}

/* Waits of pipes, in both directions, and copies between pipes and files. */
static void waits(const int ends[2]) {
    int through[2], second[2], file = file_of(SMALL);
    pthread_t writer;
    char back[16];
    CHECK(pipe(through) == 0 && pipe(second) == 0);
    CHECK(pthread_create(&writer, NULL, delayed_write, &through[1]) == 0);
    CHECK(splice(through[0], NULL, ends[0], NULL, 100, 0) == 5 && pthread_join(writer, NULL) == 0);
    CHECK(read(ends[1], back, sizeof back) == 5 && memcmp(back, "late!", 5) == 0);
    CHECK(pthread_create(&writer, NULL, delayed_write, (void *)&ends[0]) == 0);
    CHECK(splice(ends[1], NULL, through[1], NULL, 100, 0) == 5 && pthread_join(writer, NULL) == 0);
    CHECK(tee(through[0], second[1], 100, 0) == 5 && splice(through[0], NULL, second[1], NULL, 2, 0) == 2);
    CHECK(read(second[0], back, sizeof back) == 7 && memcmp(back, "late!la", 7) == 0);
    CHECK(pthread_create(&writer, NULL, delayed_write, &second[1]) == 0);
    CHECK(tee(second[0], through[1], 100, 0) == 5 && pthread_join(writer, NULL) == 0);
    CHECK(read(through[0], back, 16) == 8 && read(second[0], back, 16) == 5);
    CHECK(sendfile(through[1], file, NULL, 100) == 100 && check_pattern(through[0], 0, 100) == 100);
    CHECK(sendfile64(ends[0], file, NULL, 100) == 100 && check_pattern(ends[1], 100, 100) == 100);
    CHECK(lseek(file, 0, SEEK_CUR) == 200);
    struct iovec part = {"memory", 6};
    CHECK(vmsplice(through[1], &part, 1, 0) == 6 && splice(through[0], NULL, ends[0], NULL, 6, 0) == 6);
    CHECK(read(ends[1], back, sizeof back) == 6 && memcmp(back, "memory", 6) == 0);
    CHECK(close(file) == 0);
    close_pair(through);
    close_pair(second);
}

static int connected_to(const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo(host, port, &hints, &found) == 0);
    int fd = socket(found->ai_family, found->ai_socktype, 0);
    CHECK(fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0);
    freeaddrinfo(found);
    return fd;
}

static int server(const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && check_pattern(fd, 0, BULK) == BULK && write(fd, "!", 1) == 1);
    return 0;
}

static int client(const char *host, const char *port, const char *how) {
    int fd = connected_to(host, port), file = file_of(BULK), through[2];
    char *bytes = mmap(NULL, BULK, PROT_READ, MAP_PRIVATE, file, 0), end;
    CHECK(bytes != MAP_FAILED && pipe(through) == 0);
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    if (strcmp(how, "sendfile") == 0) CHECK(sendfile(fd, file, NULL, BULK) == BULK);
    if (strcmp(how, "write") == 0) CHECK(write(fd, bytes, BULK) == BULK);
    for (loff_t at = 0; strcmp(how, "splice") == 0 && at < BULK;) {
        ssize_t taken = splice(file, &at, through[1], NULL, BULK, 0);
        CHECK(taken > 0 && splice(through[0], NULL, fd, NULL, (size_t)taken, 0) == taken);
    }
    CHECK(read(fd, &end, 1) == 1);
    printf("%s took %lld ns\n", how, (long long)(now_ns(CLOCK_MONOTONIC) - begun));
    return 0;
}

int main(int count, char **words) {
    if (count == 3) return server(words[2]);
    if (count == 5) return client(words[2], words[3], words[4]);
    int ends[2];
    struct sigaction action = {.sa_handler = on_pipe};
    CHECK(sigaction(SIGPIPE, &action, NULL) == 0);
    connect_pair(ends);
    refusals(ends);
    with_reader(ends[1], send_whole, ends[0]);
    with_reader(ends[1], send_without_waiting, ends[0]);
    with_reader(ends[1], splice_out, ends[0]);
    with_reader(ends[1], splice_out_without_waiting, ends[0]);
    waits(ends);
    splice_in_without_waiting(ends);
    close_pair(ends);
    connect_pair(ends);
    splice_in(ends);
    close_pair(ends);
    after_the_end();
    printf("copying: ok\n");
    return 0;
}
