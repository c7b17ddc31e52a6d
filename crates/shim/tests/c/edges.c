/* Edge-triggered epoll on stream sockets, timers and copies of descriptors: prints each report, in
 * the same order under the kernel and in simulated time. */
#include "check.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

enum { SETTLE_MS = 30, BULK = 64 << 20 };

static const char *name_of(uint32_t events) {
    static char text[80];
    static const struct { uint32_t bit; const char *name; } names[] = {
        {EPOLLIN, " in"}, {EPOLLOUT, " out"}, {EPOLLRDNORM, " rdnorm"}, {EPOLLRDHUP, " rdhup"}, {EPOLLHUP, " hup"}, {EPOLLERR, " err"},
    };
    text[0] = 0;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (events & names[at].bit) strcat(text, names[at].name);
    return text;
}

/* Waits until all that is under way has arrived. */
static void settle(void) {
    struct timespec delay = {.tv_nsec = SETTLE_MS * 1000000};
    CHECK(nanosleep(&delay, NULL) == 0);
}

/* Prints the next report of an epoll descriptor, or that there is none. */
static void report(const char *after, int epoll) {
    struct epoll_event found[8];
    settle();
    int count = epoll_wait(epoll, found, 8, 0);
    CHECK(count >= 0);
    printf("%s:", after);
    for (int at = 0; at < count; at++) printf(" [%u%s]", found[at].data.u32, name_of(found[at].events));
    printf("%s\n", count ? "" : " nothing");
}

static void control(int epoll, int operation, int fd, uint32_t events, uint32_t number) {
    struct epoll_event event = {.events = events, .data.u32 = number};
    CHECK(epoll_ctl(epoll, operation, fd, &event) == 0);
}

static int new_epoll(void) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static int listener_at(struct sockaddr_in *at) {
    socklen_t len = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, len) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)at, &len) == 0);
    return fd;
}

static int connected_to(const struct sockaddr_in *at) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) == 0);
    return fd;
}

static void connect_pair(int ends[2]) {
    struct sockaddr_in at;
    int listener = listener_at(&at);
    ends[0] = connected_to(&at);
    struct pollfd waiting = {listener, POLLIN, 0};
    CHECK(poll(&waiting, 1, 10000) == 1);
    ends[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(ends[1] >= 0 && close(listener) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
}

static void arrivals(void) {
    int ends[2], epoll = new_epoll();
    char back[64];
    connect_pair(ends);
    control(epoll, EPOLL_CTL_ADD, ends[1], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
    report("a new watch", epoll);
    report("again", epoll);
    CHECK(write(ends[0], "abc", 3) == 3);
    report("three bytes", epoll);
    report("left unread", epoll);
    CHECK(write(ends[0], "d", 1) == 1);
    report("one more byte beside unread ones", epoll);
    CHECK(read(ends[1], back, 2) == 2);
    report("after a read of two", epoll);
    CHECK(write(ends[0], "e", 1) == 1);
    settle();
    CHECK(read(ends[1], back, sizeof back) == 3);
    report("a byte that was read before the look", epoll);
    CHECK(write(ends[0], "f", 1) == 1);
    settle();
    CHECK(write(ends[0], "g", 1) == 1);
    report("two arrivals", epoll);
    control(epoll, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLET, 2);
    report("a modified watch with unread bytes", epoll);
    report("again", epoll);
    CHECK(shutdown(ends[0], SHUT_WR) == 0);
    report("the peer's end, without interest in it", epoll);
    control(epoll, EPOLL_CTL_MOD, ends[1], EPOLLRDHUP | EPOLLET, 3);
    report("interest in the end alone", epoll);
    report("again", epoll);
    CHECK(shutdown(ends[1], SHUT_RDWR) == 0);
    report("a shutdown of both ways", epoll);
    report("again", epoll);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(epoll) == 0);
}

static void room(void) {
    static char block[1 << 16];
    int ends[2], epoll = new_epoll();
    connect_pair(ends);
    control(epoll, EPOLL_CTL_ADD, ends[0], EPOLLOUT | EPOLLET, 1);
    report("room", epoll);
    CHECK(write(ends[0], "a", 1) == 1);
    CHECK(write(ends[1], "a", 1) == 1);
    report("a byte sent and a byte come", epoll);
    for (;;) {
        while (write(ends[0], block, sizeof block) > 0) {}
        CHECK(errno == EAGAIN);
        struct pollfd more = {ends[0], POLLOUT, 0};
        if (poll(&more, 1, SETTLE_MS) == 0) break;
    }
    CHECK(epoll_wait(epoll, (struct epoll_event[1]){{0}}, 1, 0) >= 0);
    report("a full socket", epoll);
    for (int empty = 0; empty < 5; empty++) {
        while (read(ends[1], block, sizeof block) > 0) empty = 0;
        settle();
    }
    report("the peer has read all", epoll);
    report("again", epoll);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(epoll) == 0);
}

static void single_shots(void) {
    int ends[2], epoll = new_epoll();
    connect_pair(ends);
    control(epoll, EPOLL_CTL_ADD, ends[1], EPOLLIN | EPOLLET | EPOLLONESHOT, 1);
    report("a single shot", epoll);
    CHECK(write(ends[0], "a", 1) == 1);
    report("a byte", epoll);
    CHECK(write(ends[0], "b", 1) == 1);
    report("a byte after the shot", epoll);
    control(epoll, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLET | EPOLLONESHOT, 2);
    report("armed again with unread bytes", epoll);
    CHECK(shutdown(ends[0], SHUT_WR) == 0);
    report("the end after the shot", epoll);
    control(epoll, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLONESHOT, 3);
    report("armed again, triggered by level", epoll);
    report("again", epoll);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(epoll) == 0);
}

static void copies(void) {
    int ends[2], first = new_epoll(), second = new_epoll();
    connect_pair(ends);
    int copy = dup(ends[1]);
    CHECK(copy >= 0);
    control(first, EPOLL_CTL_ADD, ends[1], EPOLLIN | EPOLLET, 1);
    control(second, EPOLL_CTL_ADD, ends[1], EPOLLIN | EPOLLET, 2);
    control(second, EPOLL_CTL_ADD, copy, EPOLLIN, 3);
    CHECK(epoll_ctl(second, EPOLL_CTL_ADD, copy, &(struct epoll_event){.events = EPOLLIN}) == -1 && errno == EEXIST);
    CHECK(write(ends[0], "a", 1) == 1);
    report("one epoll", first);
    struct pollfd look = {second, POLLIN, 0};
    CHECK(poll(&look, 1, 0) == 1 && look.revents == POLLIN);
    CHECK(epoll_wait(second, (struct epoll_event[2]){{0}}, 2, 0) == 2);
    report("another, after its first report", second);
    report("the first again", first);
    CHECK(close(ends[1]) == 0);
    CHECK(write(ends[0], "b", 1) == 1);
    report("a closed descriptor with a copy", first);
    CHECK(close(copy) == 0);
    report("without any", second);
    CHECK(close(ends[0]) == 0 && close(first) == 0 && close(second) == 0);
}

static void connections(void) {
    struct sockaddr_in at;
    int epoll = new_epoll(), listener = listener_at(&at);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN | EPOLLONESHOT | EPOLLEXCLUSIVE}) == -1 && errno == EINVAL);
    control(epoll, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE, 1);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, listener, &(struct epoll_event){.events = EPOLLIN}) == -1 && errno == EINVAL);
    report("a listener", epoll);
    int first = connected_to(&at);
    report("a connection", epoll);
    int second = connected_to(&at);
    report("another beside the first", epoll);
    report("again", epoll);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) <= 0);
    control(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 2);
    report("a third, and its own end", epoll);
    report("again", epoll);
    CHECK(close(fd) == 0 && close(first) == 0 && close(second) == 0 && close(listener) == 0 && close(epoll) == 0);
}

static void timers(void) {
    int epoll = new_epoll(), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec every = {{0, 5000000}, {0, 5000000}};
    uint64_t count;
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &every, NULL) == 0);
    control(epoll, EPOLL_CTL_ADD, timer, EPOLLIN | EPOLLET, 1);
    report("a timer", epoll);
    report("unread", epoll);
    CHECK(read(timer, &count, sizeof count) == sizeof count);
    report("read", epoll);
    CHECK(close(timer) == 0 && close(epoll) == 0);
}

/* Two threads at one epoll: each arrival goes to one of them. */
static int shared_epoll, taken;
static void *take(void *unused) {
    struct epoll_event found;
    int count;
    while ((count = epoll_wait(shared_epoll, &found, 1, 300)) > 0) __atomic_add_fetch(&taken, count, __ATOMIC_SEQ_CST);
    return unused;
}

static void threads(uint32_t kind) {
    int ends[2];
    pthread_t both[2];
    connect_pair(ends);
    shared_epoll = new_epoll();
    taken = 0;
    control(shared_epoll, EPOLL_CTL_ADD, ends[1], EPOLLIN | kind, 1);
    for (int at = 0; at < 2; at++) CHECK(pthread_create(&both[at], NULL, take, NULL) == 0);
    for (int at = 0; at < 3; at++) {
        settle();
        CHECK(write(ends[0], "a", 1) == 1);
    }
    for (int at = 0; at < 2; at++) CHECK(pthread_join(both[at], NULL) == 0);
    printf("two threads: %d reports\n", taken);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(shared_epoll) == 0);
}

/* A watched pipe beside a watched socket: the interest lasts while a copy of its descriptor is open. */
static void copies_of_pipes(void) {
    struct sockaddr_in at;
    int ends[2], epoll = new_epoll(), listener = listener_at(&at);
    CHECK(pipe(ends) == 0);
    control(epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN, 1);
    control(epoll, EPOLL_CTL_ADD, listener, EPOLLIN, 2);
    int copy = dup(ends[0]);
    CHECK(copy >= 0 && close(ends[0]) == 0 && write(ends[1], "a", 1) == 1);
    struct epoll_event found;
    CHECK(epoll_wait(epoll, &found, 1, -1) == 1);
    printf("a closed descriptor of a pipe with a copy: [%u%s]\n", found.data.u32, name_of(found.events));
    CHECK(close(copy) == 0);
    report("without any", epoll);
    CHECK(close(ends[1]) == 0 && close(listener) == 0 && close(epoll) == 0);
}

static void no_epolls(void) {
    struct sockaddr_in at;
    int epoll = new_epoll(), listener = listener_at(&at);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(0, EPOLL_CTL_ADD, listener, &event) == -1 && errno == EINVAL);
    CHECK(close(epoll) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == -1 && errno == EBADF);
    CHECK(close(listener) == 0);
}

/* Threads that take turns at single shots: each report is of something to read. */
enum { TAKERS = 3, SOCKETS = 4, BYTES = 200 };
static int bytes_taken, stale;
static void *take_in_turns(void *kind) {
    struct epoll_event found[SOCKETS];
    char byte[16];
    for (int count; (count = epoll_wait(shared_epoll, found, SOCKETS, 300)) > 0;)
        for (int at = 0; at < count; at++) {
            ssize_t got = recv(found[at].data.fd, byte, sizeof byte, MSG_DONTWAIT);
            if (got > 0) __atomic_add_fetch(&bytes_taken, got, __ATOMIC_SEQ_CST);
            else __atomic_add_fetch(&stale, 1, __ATOMIC_SEQ_CST);
            struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT | *(uint32_t *)kind, .data.fd = found[at].data.fd};
            CHECK(epoll_ctl(shared_epoll, EPOLL_CTL_MOD, again.data.fd, &again) == 0);
        }
    return NULL;
}

static void turns(uint32_t kind) {
    int ends[SOCKETS][2];
    pthread_t takers[TAKERS];
    shared_epoll = new_epoll();
    bytes_taken = stale = 0;
    for (int at = 0; at < SOCKETS; at++) {
        connect_pair(ends[at]);
        control(shared_epoll, EPOLL_CTL_ADD, ends[at][1], EPOLLIN | EPOLLONESHOT | kind, (uint32_t)ends[at][1]);
    }
    for (int at = 0; at < TAKERS; at++) CHECK(pthread_create(&takers[at], NULL, take_in_turns, &kind) == 0);
    for (int at = 0; at < BYTES; at++) {
        CHECK(write(ends[at % SOCKETS][0], "a", 1) == 1);
        if (at % 7 == 0) CHECK(usleep(1000) == 0);
    }
    for (int at = 0; at < TAKERS; at++) CHECK(pthread_join(takers[at], NULL) == 0);
    printf("single shots of %d threads: %d bytes, %d stale reports\n", TAKERS, bytes_taken, stale);
    for (int at = 0; at < SOCKETS; at++) CHECK(close(ends[at][0]) == 0 && close(ends[at][1]) == 0);
    CHECK(close(shared_epoll) == 0);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    arrivals();
    room();
    single_shots();
    copies();
    connections();
    timers();
    threads(EPOLLET);
    threads(EPOLLET | EPOLLONESHOT);
    copies_of_pipes();
    no_epolls();
    turns(0);
    turns(EPOLLET);
    printf("edges: ok\n");
    return 0;
}
