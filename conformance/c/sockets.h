/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Parts of the programs that print the answers to calls on sockets of one host. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Prints the result of a call, or the name of its error. */
static inline long say(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
    return result;
}

static inline void number(const char *what, long value) { printf("%s: %ld\n", what, value); }

static inline struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}

static inline struct sockaddr_in6 at6(const char *ip, int port) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    inet_pton(AF_INET6, ip, &address.sin6_addr);
    return address;
}

/* Opens a socket at a free port of 127.0.0.1. */
static inline int bound(int kind, struct sockaddr_in *address) {
    int fd = socket(AF_INET, kind, 0);
    socklen_t len = sizeof *address;
    *address = at("127.0.0.1", 0);
    bind(fd, (void *)address, len);
    getsockname(fd, (void *)address, &len);
    return fd;
}

static inline int listener(struct sockaddr_in *address) {
    int fd = bound(SOCK_STREAM, address);
    listen(fd, 8);
    return fd;
}

/* Opens both ends of a connection. */
static inline void pair(int ends[2]) {
    struct sockaddr_in address;
    int waits = listener(&address);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    connect(ends[0], (void *)&address, sizeof address);
    ends[1] = accept(waits, NULL, NULL);
    close(waits);
}

/* Returns the value of an option, or -1. */
static inline int option_of(int fd, int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    getsockopt(fd, level, name, &value, &len);
    return value;
}

/* Returns the number of the first interface with groups and an address of a family, and the address. */
static inline int link_with_groups(int family, struct sockaddr_storage *own) {
    struct ifaddrs *all = NULL;
    int found = 0;
    getifaddrs(&all);
    for (struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        if (one->ifa_flags & IFF_MULTICAST && one->ifa_addr && one->ifa_addr->sa_family == family) {
            found = if_nametoindex(one->ifa_name);
            memcpy(own, one->ifa_addr, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        }
    freeifaddrs(all);
    return found;
}

#endif
