/* Sockets of IPv6 and control messages on one host, each with the answer that Linux gives. The
 * program prints the answers: under the machine's kernel and on a modelled network it must print the
 * same. */
#define _GNU_SOURCE
#include "sockets.h"
#include <poll.h>
#include <signal.h>

static void shown(const char *what, const struct in6_addr *address) {
    char text[INET6_ADDRSTRLEN];
    printf("%s: %s\n", what, inet_ntop(AF_INET6, address, text, sizeof text));
}

static int bound6(int kind, const char *ip, struct sockaddr_in6 *address) {
    int fd = socket(AF_INET6, kind, 0);
    socklen_t len = sizeof *address;
    *address = at6(ip, 0);
    if (bind(fd, (void *)address, len) < 0)
        say("bind", -1);
    getsockname(fd, (void *)address, &len);
    return fd;
}

static void streams(void) {
    struct sockaddr_in6 address, name;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    char bytes[8] = "";
    socklen_t len = sizeof name;
    int waits = bound6(SOCK_STREAM, "::", &address);
    listen(waits, 4);
    const char *ways[] = {"::1", "::ffff:127.0.0.1", "::"};
    for (int way = 0; way < 3; way++) {
        int fd = socket(AF_INET6, SOCK_STREAM, 0);
        struct sockaddr_in6 to = at6(ways[way], ntohs(address.sin6_port));
        say(ways[way], connect(fd, (void *)&to, sizeof to));
        len = sizeof name;
        int other = accept(waits, (void *)&name, &len);
        number("length of the name", len);
        shown("peer", &name.sin6_addr);
        getsockname(fd, (void *)&name, &len);
        shown("own name", &name.sin6_addr);
        send(fd, "data", 4, 0);
        number("arrives", recv(other, bytes, 8, 0));
        close(fd);
        close(other);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    v4.sin_port = address.sin6_port;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    say("IPv4 to a socket of both", connect(fd, (void *)&v4, sizeof v4));
    say("an address of IPv6 for IPv4", bind(fd, (void *)&address, sizeof address));
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    say("IPv4 to an address of IPv6", connect(fd, (void *)&address, sizeof address));
    close(fd);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    say("IPv6 to an address of IPv4", connect(fd, (void *)&v4, sizeof v4));
    struct sockaddr_in6 foreign = at6("2001:db8::77", 0), link = at6("fe80::77", 0);
    say("bind to a foreign address", bind(fd, (void *)&foreign, sizeof foreign));
    say("bind to a link without its number", bind(fd, (void *)&link, sizeof link));
    say("a short address", bind(fd, (void *)&foreign, 20));
    int on = 1;
    number("IPV6_V6ONLY", option_of(fd, IPPROTO_IPV6, IPV6_V6ONLY));
    say("only IPv6", setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    struct sockaddr_in6 mapped = at6("::ffff:127.0.0.1", 0);
    say("a mapped address", bind(fd, (void *)&mapped, sizeof mapped));
    say("a taken port", bind(fd, (void *)&address, sizeof address));
    close(waits);
    close(fd);
    waits = bound6(SOCK_STREAM, "::1", &address);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    say("nobody listens", connect(fd, (void *)&address, sizeof address));
    close(fd);
    close(waits);
}

/* Receives a datagram, and prints its control messages. */
static void facts(int fd) {
    char byte, room[256];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    number("received", recvmsg(fd, &message, 0));
    number("flags", message.msg_flags);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        printf("level %d type %d length %zu\n", one->cmsg_level, one->cmsg_type, (size_t)one->cmsg_len);
        if (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo *info = (void *)CMSG_DATA(one);
            shown("to", &info->ipi6_addr);
            number("by", info->ipi6_ifindex);
        } else if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo *info = (void *)CMSG_DATA(one);
            printf("to %s", inet_ntoa(info->ipi_addr));
            printf(" as %s by %d\n", inet_ntoa(info->ipi_spec_dst), info->ipi_ifindex);
        } else if (one->cmsg_len >= CMSG_LEN(sizeof(int))) {
            number("value", *(int *)(void *)CMSG_DATA(one));
        }
    }
}

static void datagrams(void) {
    struct sockaddr_in6 one, two;
    int a = bound6(SOCK_DGRAM, "::", &one), b = bound6(SOCK_DGRAM, "::", &two), on = 1, hops = 9;
    setsockopt(a, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    setsockopt(a, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
    struct sockaddr_in6 to = at6("::1", ntohs(one.sin6_port));
    say("hop limit", setsockopt(b, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops));
    hops = 300;
    say("hop limit of 300", setsockopt(b, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops));
    number("sent", sendto(b, "x", 1, 0, (void *)&to, sizeof to));
    facts(a);
    char room[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {"y", 1};
    struct msghdr message = {&to, sizeof to, &part, 1, room, sizeof room, 0};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = IPPROTO_IPV6, first->cmsg_type = IPV6_PKTINFO, first->cmsg_len = CMSG_LEN(sizeof(struct in6_pktinfo));
    struct in6_pktinfo *info = (void *)CMSG_DATA(first);
    info->ipi6_ifindex = 1;
    inet_pton(AF_INET6, "::1", &info->ipi6_addr);
    struct cmsghdr *second = CMSG_NXTHDR(&message, first);
    second->cmsg_level = IPPROTO_IPV6, second->cmsg_type = IPV6_HOPLIMIT, second->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)(void *)CMSG_DATA(second) = 5;
    number("sent its own way", sendmsg(b, &message, 0));
    facts(a);
    inet_pton(AF_INET6, "2001:db8::77", &info->ipi6_addr);
    say("from a foreign address", sendmsg(b, &message, 0));
    first->cmsg_len = 3;
    say("a malformed message", sendmsg(b, &message, 0));
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = one.sin6_port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    number("IPv4 by a socket of both", sendto(b, "z", 1, 0, (void *)&v4, sizeof v4));
    facts(a);
    int c = socket(AF_INET, SOCK_DGRAM, 0), d = socket(AF_INET, SOCK_DGRAM, 0), ttl = 7;
    say("IPv6 by a socket of IPv4", sendto(c, "z", 1, 0, (void *)&to, sizeof to));
    v4.sin_port = 0;
    socklen_t len = sizeof v4;
    bind(d, (void *)&v4, len);
    getsockname(d, (void *)&v4, &len);
    setsockopt(d, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(d, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    say("IP_TTL", setsockopt(c, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    ttl = 0;
    say("IP_TTL of 0", setsockopt(c, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    number("sent", sendto(c, "x", 1, 0, (void *)&v4, len));
    facts(d);
    close(a), close(b), close(c), close(d);
}

static void groups(void) {
    struct sockaddr_in6 any;
    int a = bound6(SOCK_DGRAM, "::", &any), b = socket(AF_INET6, SOCK_DGRAM, 0), off = 0;
    struct sockaddr_storage own;
    int link = link_with_groups(AF_INET6, &own);
    struct ipv6_mreq wish = {.ipv6mr_interface = link};
    inet_pton(AF_INET6, "ff15::77", &wish.ipv6mr_multiaddr);
    say("join", setsockopt(a, IPPROTO_IPV6, IPV6_JOIN_GROUP, &wish, sizeof wish));
    say("join again", setsockopt(a, IPPROTO_IPV6, IPV6_JOIN_GROUP, &wish, sizeof wish));
    say("interface", setsockopt(b, IPPROTO_IPV6, IPV6_MULTICAST_IF, &link, sizeof link));
    struct sockaddr_in6 to = at6("ff15::77", ntohs(any.sin6_port));
    char byte;
    number("sent", sendto(b, "x", 1, 0, (void *)&to, sizeof to));
    number("received", recv(a, &byte, 1, MSG_DONTWAIT));
    say("leave", setsockopt(a, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &wish, sizeof wish));
    say("leave again", setsockopt(a, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &wish, sizeof wish));
    inet_pton(AF_INET6, "fd00::77", &wish.ipv6mr_multiaddr);
    say("join no group", setsockopt(a, IPPROTO_IPV6, IPV6_JOIN_GROUP, &wish, sizeof wish));
    say("loop", setsockopt(b, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &off, sizeof off));
    number("IPV6_MULTICAST_LOOP", option_of(b, IPPROTO_IPV6, IPV6_MULTICAST_LOOP));
    number("IPV6_MULTICAST_HOPS", option_of(b, IPPROTO_IPV6, IPV6_MULTICAST_HOPS));
    number("IPV6_MULTICAST_IF", option_of(b, IPPROTO_IPV6, IPV6_MULTICAST_IF) == link);
    number("IPV6_UNICAST_HOPS", option_of(b, IPPROTO_IPV6, IPV6_UNICAST_HOPS));
    close(a);
    close(b);
}

static void interfaces(void) {
    struct ifaddrs *all = NULL;
    int loopback = 0, links = 0, scopes = 0;
    getifaddrs(&all);
    for (struct ifaddrs *one = all; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET6) {
            struct sockaddr_in6 *address = (void *)one->ifa_addr;
            loopback += IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
            links += IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) != 0;
            scopes += address->sin6_scope_id != 0 && address->sin6_scope_id == if_nametoindex(one->ifa_name);
        }
    freeifaddrs(all);
    number("loopback", loopback);
    number("each link has an address", links > 0 && links == scopes);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    streams();
    datagrams();
    groups();
    interfaces();
    return 0;
}
