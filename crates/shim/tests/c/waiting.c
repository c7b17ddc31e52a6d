/* poll, select and epoll over sockets, pipes and timers at once. */
#include "check.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static void pair(int ends[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(ends[0], (struct sockaddr *)&at, len) == 0);
    ends[1] = accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0 && close(listener) == 0);
}

int main(void) {
    int ends[2], pipes[2];
    char byte;
    pair(ends);
    CHECK(pipe(pipes) == 0);

    struct pollfd set[] = {{ends[0], POLLIN, 0}, {pipes[0], POLLIN, 0}, {-1, POLLIN, 0}};
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(poll(set, 3, 20) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 20000000));
    CHECK(poll(set, 3, 0) == 0);
    CHECK(write(pipes[1], "p", 1) == 1 && poll(set, 3, -1) == 1 && set[1].revents == POLLIN && set[0].revents == 0);
    CHECK(write(ends[1], "s", 1) == 1);
    while (poll(set, 3, 1000) < 2) {}
    CHECK(set[0].revents == POLLIN && set[1].revents == POLLIN);

    fd_set reads, writes;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_SET(ends[0], &reads);
    FD_SET(pipes[0], &reads);
    FD_SET(ends[0], &writes);
    struct timeval second = {1, 0};
    CHECK(select(FD_SETSIZE, &reads, &writes, NULL, &second) == 3 && FD_ISSET(ends[0], &reads) && FD_ISSET(pipes[0], &reads));
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 's' && read(pipes[0], &byte, 1) == 1 && byte == 'p');

    int epoll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1}, got[4];
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == -1 && errno == EEXIST);
    event.data.u32 = 2;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
    event.data.u32 = 3;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) == 0);
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(epoll_wait(epoll, got, 4, 15) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 15000000));
    struct itimerspec once = {{0, 0}, {0, 5000000}};
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(timerfd_settime(timer, 0, &once, NULL) == 0);
    CHECK(epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 3);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 5000000));
    uint64_t expirations;
    CHECK(read(timer, &expirations, 8) == 8 && expirations == 1);
    CHECK(read(timer, &expirations, 8) == -1 && errno == EAGAIN);
    CHECK(write(ends[1], "x", 1) == 1 && epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 1 && got[0].events == EPOLLIN);
    /* A poll of the epoll descriptor itself. */
    struct pollfd nested = {epoll, POLLIN, 0};
    CHECK(poll(&nested, 1, 0) == 1 && nested.revents == POLLIN);
    CHECK(read(ends[0], &byte, 1) == 1);
    CHECK(write(pipes[1], "y", 1) == 1 && epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 2);
    CHECK(read(pipes[0], &byte, 1) == 1);
    event.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, event.data.u32 = 9;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, ends[0], &event) == 0);
    CHECK(epoll_wait(epoll, got, 4, 0) == 1 && got[0].events == EPOLLOUT && got[0].data.u32 == 9);
    CHECK(epoll_wait(epoll, got, 4, 0) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL) == 0 && epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL) == -1 && errno == ENOENT);
    CHECK(close(ends[0]) == 0);
    CHECK(close(epoll) == 0 && close(timer) == 0);
    /* The other end sees the end of the stream. */
    CHECK(read(ends[1], &byte, 1) == 0);
    puts("waiting: ok");
    return 0;
}
