/* Times of arrival of datagrams (SO_TIMESTAMP, SO_TIMESTAMPNS) on one host. The program prints the
 * answers: under the machine's kernel and on a modelled network it must print the same. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void number(const char *what, long value) { printf("%s: %ld\n", what, value); }

static long nanos(struct timespec at) { return at.tv_sec * 1000000000L + at.tv_nsec; }

static long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return nanos(at);
}

static int option(int fd, int name, int value) {
    int result = setsockopt(fd, SOL_SOCKET, name, &value, sizeof value);
    if (result < 0)
        printf("option: %s\n", strerrorname_np(errno));
    return result;
}

static void options(int fd) {
    int micro = -1, nano = -1;
    socklen_t len = sizeof micro;
    getsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &micro, &len);
    getsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &nano, &len);
    printf("SO_TIMESTAMP %d, SO_TIMESTAMPNS %d\n", micro != 0, nano != 0);
}

/* Receives a datagram that left at `sent` or later. Prints its control messages. */
static void facts(int fd, long sent) {
    char byte, room[256];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    number("received", recvmsg(fd, &message, 0));
    long received = now();
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        printf("level %d type %d length %zu\n", one->cmsg_level, one->cmsg_type, (size_t)one->cmsg_len);
        if (one->cmsg_level != SOL_SOCKET)
            continue;
        struct timespec at;
        memcpy(&at, CMSG_DATA(one), sizeof at);
        int is_micro = one->cmsg_type == SCM_TIMESTAMP;
        at.tv_nsec *= is_micro ? 1000 : 1;
        long start = is_micro ? sent / 1000 * 1000 : sent;
        number("it came between the calls", start <= nanos(at) && nanos(at) <= received);
    }
}

static void datagrams(int family) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.any.sa_family = family};
    socklen_t len = sizeof at;
    int a = socket(family, SOCK_DGRAM, 0), b = socket(family, SOCK_DGRAM, 0), on = 1;
    if (family == AF_INET)
        at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        at.v6.sin6_addr = in6addr_loopback;
    bind(a, &at.any, family == AF_INET ? sizeof at.v4 : sizeof at.v6);
    getsockname(a, &at.any, &len);
    if (family == AF_INET)
        setsockopt(a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    else
        setsockopt(a, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
    const int steps[][2] = {{SO_TIMESTAMP, 1}, {SO_TIMESTAMPNS, 1}, {SO_TIMESTAMP, 1}, {SO_TIMESTAMP, 0}, {SO_TIMESTAMPNS, 1}, {SO_TIMESTAMPNS, 0}};
    for (unsigned step = 0; step < sizeof steps / sizeof *steps; step++) {
        option(a, steps[step][0], steps[step][1]);
        options(a);
        long sent = now();
        number("sent", sendto(b, "x", 1, 0, &at.any, len));
        /* The time is that of the arrival, not that of the call. */
        usleep(2000);
        long later = now();
        facts(a, sent);
        number("the call came later", later - sent >= 2000000);
    }
    close(a);
    close(b);
}

int main(void) {
    datagrams(AF_INET);
    datagrams(AF_INET6);
    return 0;
}
