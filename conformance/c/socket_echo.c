/* ICMP echo by datagram sockets (icmp(7)) on one host. The program prints the answers: under the
 * machine's kernel and on a modelled network it must print the same. The machine's ping_group_range
 * must include the program. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static long say(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
    return result;
}

static void number(const char *what, long value) { printf("%s: %ld\n", what, value); }

static socklen_t loopback(union address *at, int family, int identifier) {
    memset(at, 0, sizeof *at);
    at->any.sa_family = family;
    at->v4.sin_port = htons(identifier);
    if (family == AF_INET)
        at->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        at->v6.sin6_addr = in6addr_loopback;
    return family == AF_INET ? sizeof at->v4 : sizeof at->v6;
}

static int identifier(int fd) {
    union address name;
    socklen_t len = sizeof name;
    getsockname(fd, &name.any, &len);
    return ntohs(name.v4.sin_port);
}

/* Receives an answer and prints its header, its sender and its control messages. */
static void answer(int fd, const char *sent, long len, int flags) {
    static char bytes[70000];
    char room[128];
    union address from;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {&from, sizeof from, &part, 1, room, sizeof room, 0};
    struct pollfd waits = {fd, POLLIN, 0};
    number("readable", poll(&waits, 1, 1000));
    long count = recvmsg(fd, &message, flags);
    struct icmphdr *header = (void *)bytes;
    printf("%ld bytes, type %d code %d sequence %d\n", count, header->type, header->code, ntohs(header->un.echo.sequence));
    number("own identifier", ntohs(header->un.echo.id) == identifier(fd));
    number("same data", count == len && memcmp(bytes + 8, sent + 8, len - 8) == 0);
    printf("from port %d, name of %d bytes\n", ntohs(from.v4.sin_port), message.msg_namelen);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one))
        printf("level %d type %d value %d\n", one->cmsg_level, one->cmsg_type, *(int *)(void *)CMSG_DATA(one));
}

static void echoes(int family) {
    int protocol = family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6, on = 1, type = -1;
    int a = socket(family, SOCK_DGRAM, protocol), b = socket(family, SOCK_DGRAM, protocol);
    union address own, to;
    socklen_t len = loopback(&own, family, 4660), size = sizeof type;
    if (say("socket", a) < 0)
        return;
    getsockopt(a, SOL_SOCKET, SO_TYPE, &type, &size);
    number("a datagram socket", type == SOCK_DGRAM);
    number("identifier", identifier(a));
    say("bind", bind(a, &own.any, len));
    number("identifier", identifier(a));
    say("bind another to it", bind(b, &own.any, len));
    close(b);
    b = socket(family, SOCK_DGRAM, protocol);
    if (family == AF_INET)
        setsockopt(a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    else
        setsockopt(a, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
    loopback(&to, family, 0);
    char message[65536] = {family == AF_INET ? ICMP_ECHO : 128, 0, 0, 0, 0, 0, 0, 9};
    for (unsigned at = 8; at < sizeof message; at++)
        message[at] = at * 7;
    say("without a destination", send(a, message, 16, 0));
    say("a short message", sendto(a, message, 7, 0, &to.any, len));
    say("a long message", sendto(a, message, 65536, 0, &to.any, len));
    message[1] = 1;
    say("a code", sendto(a, message, 16, 0, &to.any, len));
    message[1] = 0, message[0] = 3;
    say("an error message", sendto(a, message, 16, 0, &to.any, len));
    message[0] = family == AF_INET ? 128 : ICMP_ECHO;
    say("a request of the other family", sendto(a, message, 16, 0, &to.any, len));
    message[0] = family == AF_INET ? ICMP_ECHO : 128;
    const int lengths[] = {8, 64, 1001, 5000, 60000};
    for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        number("sent", sendto(a, message, lengths[at], 0, &to.any, len));
        answer(a, message, lengths[at], MSG_PEEK);
        answer(a, message, lengths[at], 0);
    }
    number("nothing is left", recv(a, message, 8, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    say("connect", connect(b, &to.any, len));
    number("it has an identifier", identifier(b) != 0 && identifier(b) != 4660);
    message[7] = 10;
    number("sent", send(b, message, 24, 0));
    number("the other hears nothing", recv(a, message, 8, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    answer(b, message, 24, 0);
    say("listen", listen(a, 1));
    close(a);
    close(b);
}

int main(void) {
    echoes(AF_INET);
    echoes(AF_INET6);
    return 0;
}
