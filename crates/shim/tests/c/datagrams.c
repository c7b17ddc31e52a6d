/* Datagram sockets. Without an argument, both ends are on this host; `server PORT` and `client
 * HOST PORT` are one end each. */
#include "check.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LONGEST = 65507, ROUNDS = 100, ROUND_BYTES = 1000 };

static struct sockaddr_in at(unsigned short port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static unsigned short port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* A socket at an unused port of the loopback address. */
static int socket_there(int flags) {
    int fd = socket(AF_INET, SOCK_DGRAM | flags, 0);
    struct sockaddr_in address = at(0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && port_of(fd) != 0);
    return fd;
}

static int connected_to(unsigned short port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = at(port);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void boundaries(void) {
    int there = socket_there(0), here = connected_to(port_of(there)), waiting = 0;
    char room[16], *longest = malloc(LONGEST + 1);
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    CHECK(send(here, "first", 5, 0) == 5 && send(here, "", 0, 0) == 0 && write(here, "third", 5) == 5);
    CHECK(recv(there, room, 2, MSG_PEEK) == 2);
    CHECK(ioctl(there, FIONREAD, &waiting) == 0 && waiting == 5);
    CHECK(recv(there, NULL, 0, MSG_PEEK | MSG_TRUNC) == 5);
    CHECK(recvfrom(there, room, 3, MSG_TRUNC, (struct sockaddr *)&from, &len) == 5 && memcmp(room, "fir", 3) == 0);
    CHECK(len == sizeof from && from.sin_port == htons(port_of(here)) && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(recv(there, room, sizeof room, 0) == 0);

    struct iovec parts[] = {{room, 1}, {room + 8, 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof from};
    CHECK(recvmsg(there, &message, 0) == 3 && message.msg_flags == MSG_TRUNC && message.msg_namelen == sizeof from);
    CHECK(room[0] == 't' && room[9] == 'i');
    CHECK(recv(there, room, sizeof room, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(sendto(there, "back", 4, 0, (struct sockaddr *)&from, sizeof from) == 4 && read(here, room, sizeof room) == 4);

    for (int i = 0; i < LONGEST; i++) longest[i] = (char)(i * 7);
    CHECK(send(here, longest, LONGEST + 1, 0) == -1 && errno == EMSGSIZE);
    CHECK(send(here, longest, LONGEST, 0) == LONGEST);
    char *back = calloc(1, LONGEST);
    struct iovec two[] = {{back, 40000}, {back + 40000, LONGEST - 40000}};
    CHECK(readv(there, two, 2) == LONGEST && memcmp(longest, back, LONGEST) == 0);
    free(longest), free(back);
    CHECK(close(here) == 0 && close(there) == 0);
}

static void many_at_once(void) {
    int there = socket_there(0), here = connected_to(port_of(there));
    char text[4][8] = {"a", "bb", "ccc", "dddd"}, room[8][8];
    struct iovec out[4], in[8];
    struct mmsghdr sent[4] = {0}, got[8] = {0};
    for (int i = 0; i < 4; i++) {
        out[i] = (struct iovec){text[i], (size_t)i + 1};
        sent[i].msg_hdr = (struct msghdr){.msg_iov = out + i, .msg_iovlen = 1};
    }
    for (int i = 0; i < 8; i++) {
        in[i] = (struct iovec){room[i], 8};
        got[i].msg_hdr = (struct msghdr){.msg_iov = in + i, .msg_iovlen = 1};
    }
    CHECK(sendmmsg(here, sent, 4, 0) == 4 && sent[2].msg_len == 3);
    struct pollfd readable = {there, POLLIN, 0};
    CHECK(poll(&readable, 1, 1000) == 1);
    usleep(long_enough(1) * 1000);
    CHECK(recvmmsg(there, got, 3, MSG_WAITFORONE, NULL) == 3 && got[1].msg_len == 2 && memcmp(room[2], "ccc", 3) == 0);
    CHECK(recvmmsg(there, got, 8, MSG_WAITFORONE, NULL) == 1 && got[0].msg_len == 4);
    CHECK(recvmmsg(there, got, 8, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
    CHECK(close(here) == 0 && close(there) == 0);
}

static void refusals(void) {
    int gone = socket_there(0), alone = socket(AF_INET, SOCK_DGRAM, 0), error = -1;
    unsigned short port = port_of(gone);
    int here = connected_to(port), other = socket_there(0);
    socklen_t len = sizeof error;
    char room[4];
    struct sockaddr_in to = at(port), nobody = {.sin_family = AF_UNSPEC};
    CHECK(bind(other, (struct sockaddr *)&to, sizeof to) == -1 && errno == EINVAL);
    CHECK(bind(alone, (struct sockaddr *)&to, sizeof to) == -1 && errno == EADDRINUSE);
    CHECK(send(alone, "x", 1, 0) == -1 && errno == EDESTADDRREQ);
    CHECK(getpeername(alone, (struct sockaddr *)&to, &len) == -1 && errno == ENOTCONN);
    CHECK(shutdown(alone, SHUT_WR) == -1 && errno == ENOTCONN);
    to.sin_addr.s_addr = INADDR_BROADCAST;
    CHECK(sendto(alone, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == -1 && errno == EACCES);
    to = at(port);
    CHECK(sendto(other, "no", 2, 0, (struct sockaddr *)&to, sizeof to) == 2);
    CHECK(recv(gone, room, 4, 0) == 2);

    /* A connected socket takes datagrams from its peer only. Nobody at its peer's port refuses. */
    to = at(port_of(here));
    CHECK(sendto(other, "no", 2, 0, (struct sockaddr *)&to, sizeof to) == 2);
    struct timeval limit = {.tv_usec = 1000 * long_enough(2)};
    CHECK(setsockopt(here, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(recv(here, room, 4, 0) == -1 && errno == EAGAIN);
    CHECK(now_ns(CLOCK_MONOTONIC) - start >= 1000000 * (int64_t)long_enough(2) * 9 / 10);
    CHECK(close(gone) == 0);
    for (int i = 0; i < 3; i++) {
        struct pollfd set = {here, POLLIN, 0};
        CHECK(send(here, "x", 1, 0) == 1 && poll(&set, 1, 1000) == 1 && set.revents & POLLERR);
        if (i == 0) CHECK(recv(here, room, 4, 0) == -1 && errno == ECONNREFUSED);
        if (i == 1) CHECK(send(here, "x", 1, 0) == -1 && errno == ECONNREFUSED);
        if (i == 2) CHECK(getsockopt(here, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNREFUSED);
        CHECK(getsockopt(here, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    }
    CHECK(connect(here, (struct sockaddr *)&nobody, sizeof nobody) == 0);
    CHECK(send(here, "x", 1, 0) == -1 && errno == EDESTADDRREQ);
    CHECK(close(here) == 0 && close(alone) == 0 && close(other) == 0);
}

/* A full socket drops, and drops the last ones. */
static void drops(void) {
    int there = socket_there(SOCK_NONBLOCK), here = connected_to(port_of(there)), size = 4096, got = 0, next = 0;
    socklen_t len = sizeof size;
    CHECK(setsockopt(there, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) == 0);
    CHECK(getsockopt(there, SOL_SOCKET, SO_RCVBUF, &size, &len) == 0 && size == 8192);
    for (int i = 0; i < 100; i++) CHECK(send(here, &i, sizeof i, 0) == sizeof i);
    usleep(long_enough(1) * 1000);
    while (recv(there, &next, sizeof next, 0) == sizeof next) CHECK(next == got++);
    CHECK(errno == EAGAIN && got > 3 && got < 50);
    int last = 100;
    CHECK(send(here, &last, sizeof last, 0) == sizeof last);
    usleep(long_enough(1) * 1000);
    CHECK(recv(there, &next, sizeof next, 0) == sizeof next && next == last);
    CHECK(close(here) == 0 && close(there) == 0);
}

static void waits(void) {
    int there = socket_there(0), here = connected_to(port_of(there)), epoll = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT, .data.fd = there}, found;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, there, &wanted) == 0);
    CHECK(epoll_wait(epoll, &found, 1, 0) == 1 && found.events == EPOLLOUT);
    wanted.events = EPOLLIN;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, there, &wanted) == 0 && epoll_wait(epoll, &found, 1, 0) == 0);
    CHECK(send(here, "x", 1, 0) == 1);
    CHECK(epoll_wait(epoll, &found, 1, 1000) == 1 && found.events == EPOLLIN && found.data.fd == there);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(there, &set);
    struct timeval limit = {.tv_sec = 1};
    CHECK(select(there + 1, &set, NULL, NULL, &limit) == 1 && FD_ISSET(there, &set));
    CHECK(shutdown(here, SHUT_RDWR) == 0);
    struct pollfd down = {here, POLLIN, 0};
    CHECK(poll(&down, 1, 0) == 1 && down.revents == (POLLIN | POLLHUP));
    char room[4];
    CHECK(recv(here, room, 4, 0) == 0 && send(here, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(close(here) == 0 && close(there) == 0 && close(epoll) == 0);
}

/* Sockets of both families, and sockets that share a port. */
static void families(void) {
    int both = socket(AF_INET6, SOCK_DGRAM, 0), on = 1, off = 0;
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, from;
    socklen_t len = sizeof from;
    CHECK(setsockopt(both, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0);
    CHECK(bind(both, (struct sockaddr *)&any, sizeof any) == 0);
    int here = connected_to(port_of(both));
    char room[4];
    CHECK(send(here, "x", 1, 0) == 1 && recvfrom(both, room, 4, 0, (struct sockaddr *)&from, &len) == 1);
    CHECK(len == sizeof from && IN6_IS_ADDR_V4MAPPED(&from.sin6_addr) && from.sin6_port == htons(port_of(here)));
    CHECK(sendto(both, "y", 1, 0, (struct sockaddr *)&from, sizeof from) == 1 && recv(here, room, 4, 0) == 1 && room[0] == 'y');
    CHECK(setsockopt(both, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == -1 && errno == EINVAL);

    /* The kernel prefers a connected socket to one that takes from everybody. */
    struct sockaddr_in address = at(0), peer;
    int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0), stranger = socket_there(0);
    CHECK(setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(one, (struct sockaddr *)&address, sizeof address) == 0);
    address = at(port_of(one));
    peer = at(port_of(stranger));
    CHECK(connect(one, (struct sockaddr *)&peer, sizeof peer) == 0);
    CHECK(bind(other, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(sendto(stranger, "1", 1, 0, (struct sockaddr *)&address, sizeof address) == 1 && recv(one, room, 4, 0) == 1);
    CHECK(sendto(here, "2", 1, 0, (struct sockaddr *)&peer, sizeof peer) == 1 && recv(stranger, room, 4, 0) == 1);
    int third = socket_there(0);
    CHECK(sendto(third, "3", 1, 0, (struct sockaddr *)&address, sizeof address) == 1 && recv(other, room, 4, 0) == 1 && room[0] == '3');
    CHECK(close(both) == 0 && close(here) == 0 && close(one) == 0 && close(other) == 0 && close(stranger) == 0 && close(third) == 0);
}

/* Stream and datagram sockets for IPv6 only have ports of their own. */
static void only_v6(int kind) {
    int six = socket(AF_INET6, kind, 0), four = socket(AF_INET, kind, 0), on = 1, value = 0;
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    struct sockaddr_in same = {.sin_family = AF_INET};
    socklen_t len = sizeof value;
    CHECK(setsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
    CHECK(getsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &value, &len) == 0 && value == 1);
    CHECK(bind(six, (struct sockaddr *)&any, sizeof any) == 0);
    same.sin_port = htons(port_of(six));
    CHECK(bind(four, (struct sockaddr *)&same, sizeof same) == 0);
    if (kind == SOCK_STREAM) {
        CHECK(listen(six, 1) == 0 && listen(four, 1) == 0 && fcntl(six, F_SETFL, O_NONBLOCK) == 0);
        int here = socket(AF_INET, kind, 0);
        same.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        CHECK(connect(here, (struct sockaddr *)&same, sizeof same) == 0);
        int there = accept(four, NULL, NULL);
        CHECK(there >= 0 && accept(six, NULL, NULL) == -1 && errno == EAGAIN);
        CHECK(close(here) == 0 && close(there) == 0);
    }
    CHECK(close(six) == 0 && close(four) == 0);
}

/* The errors of a name without an address or without a length. */
static void names(int kind) {
    int fd = socket(AF_INET, kind, 0);
    struct sockaddr_in address = at(0);
    socklen_t len = 0;
    char room[4] = "abc";
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(fd, NULL, &len) == 0 && len == sizeof address);
    CHECK(getsockname(fd, NULL, &len) == -1 && errno == EFAULT);
    CHECK(getsockname(fd, (struct sockaddr *)&address, NULL) == -1 && errno == EFAULT);
    len = (socklen_t)-1;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == -1 && errno == EINVAL);
    len = 2;
    CHECK(getsockname(fd, (struct sockaddr *)room, &len) == 0 && len == sizeof address && room[2] == 'c');
    CHECK(close(fd) == 0);
}

/* One end of a conversation between two hosts. */
static void serve(const char *port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))}, from;
    CHECK(bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
    char room[ROUND_BYTES];
    for (int i = 0; i < ROUNDS; i++) {
        socklen_t len = sizeof from;
        ssize_t got = recvfrom(fd, room, sizeof room, 0, (struct sockaddr *)&from, &len);
        CHECK(got == ROUND_BYTES && sendto(fd, room, (size_t)got, 0, (struct sockaddr *)&from, len) == got);
    }
    CHECK(from.sin_addr.s_addr != htonl(INADDR_LOOPBACK));
}

static void talk(const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *found;
    CHECK(getaddrinfo(host, port, &hints, &found) == 0);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(connect(fd, found->ai_addr, found->ai_addrlen) == 0);
    freeaddrinfo(found);
    usleep(1000);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    char room[ROUND_BYTES] = "";
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(send(fd, room, sizeof room, 0) == sizeof room && recv(fd, room, sizeof room, 0) == sizeof room);
    }
    printf("a round takes %lld ns\n", (long long)(now_ns(CLOCK_MONOTONIC) - start) / ROUNDS);
}

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "server") == 0) {
        serve(arguments[2]);
    } else if (count == 4 && strcmp(arguments[1], "client") == 0) {
        talk(arguments[2], arguments[3]);
    } else {
        boundaries();
        many_at_once();
        refusals();
        drops();
        waits();
        families();
        only_v6(SOCK_DGRAM);
        only_v6(SOCK_STREAM);
        names(SOCK_DGRAM);
        names(SOCK_STREAM);
    }
    puts("datagrams: ok");
    return 0;
}
