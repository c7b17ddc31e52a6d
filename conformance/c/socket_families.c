/* Asks for a socket of each family, type and protocol, and prints the outcomes. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MPTCP 262

static const char *error(void) {
    switch (errno) {
    case EPERM: return "EPERM";
    case EAFNOSUPPORT: return "EAFNOSUPPORT";
    case EPROTONOSUPPORT: return "EPROTONOSUPPORT";
    case ESOCKTNOSUPPORT: return "ESOCKTNOSUPPORT";
    default: return strerror(errno);
    }
}

static void ask(const char *name, int family, int type, int protocol) {
    int fd = socket(family, type, protocol);
    printf("%s: %s\n", name, fd >= 0 ? "open" : error());
    if (fd >= 0) close(fd);
}

int main(void) {
    ask("TCP", AF_INET, SOCK_STREAM, 0);
    ask("MPTCP", AF_INET, SOCK_STREAM, MPTCP);
    ask("MPTCP of IPv6", AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, MPTCP);
    ask("UDP", AF_INET, SOCK_DGRAM, 0);
    ask("UDP-Lite", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
    ask("SCTP stream", AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    ask("SCTP", AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    ask("DCCP", AF_INET, SOCK_DCCP, IPPROTO_DCCP);
    ask("raw", AF_INET, SOCK_RAW, IPPROTO_ICMP);
    ask("raw of IPv6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
    ask("packet", AF_PACKET, SOCK_RAW, htons(3));
    ask("RDS", 21, SOCK_SEQPACKET, 0);
    ask("KCM", 41, SOCK_DGRAM, 0);
    ask("SMC", 43, SOCK_STREAM, 0);
    ask("TIPC", 30, SOCK_SEQPACKET, 0);
    ask("VSOCK", 40, SOCK_STREAM, 0);
    ask("XDP", 44, SOCK_RAW, 0);
    ask("route", AF_NETLINK, SOCK_RAW, 0);
    ask("xfrm", AF_NETLINK, SOCK_RAW, 6);
    ask("netfilter", AF_NETLINK, SOCK_RAW, 12);
    ask("events of devices", AF_NETLINK, SOCK_RAW, 15);
    ask("generic", AF_NETLINK, SOCK_RAW, 16);
    ask("Unix", AF_UNIX, SOCK_STREAM, 0);

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int bound = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "none0", 6);
    printf("no interface: %s\n", bound < 0 && errno == ENODEV ? "ENODEV" : "taken");
    bound = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3);
    printf("lo: %s\n", bound == 0 ? "taken" : error());
    listen(fd, 1);
    printf("flags: %s\n", accept4(fd, NULL, NULL, 1) < 0 && errno == EINVAL ? "EINVAL" : "taken");
    return 0;
}
