/* More calls on sockets of one host, each with the answer that Linux gives: waits of `close`, control
 * messages, interfaces and sources of groups, epoll within epoll, signals of urgent data. The program
 * prints the answers: under the machine's kernel and on a modelled network it must print the same. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long say(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
    return result;
}

static void number(const char *what, long value) { printf("%s: %ld\n", what, value); }

static int bound(int kind, struct sockaddr_in *address) {
    int fd = socket(AF_INET, kind, 0);
    socklen_t len = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(fd, (void *)address, len);
    getsockname(fd, (void *)address, &len);
    return fd;
}

static void pair(int ends[2]) {
    struct sockaddr_in address;
    int waits = bound(SOCK_STREAM, &address);
    listen(waits, 1);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    connect(ends[0], (void *)&address, sizeof address);
    ends[1] = accept(waits, NULL, NULL);
    close(waits);
}

static long millis(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fill(int fd) {
    static char bytes[1 << 16];
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static void *drain(void *end) {
    static char bytes[1 << 16];
    usleep(20000);
    while (recv(*(int *)end, bytes, sizeof bytes, 0) > 0)
        ;
    return NULL;
}

static void lingering(void) {
    int ends[2], copy;
    struct linger second = {.l_onoff = 1, .l_linger = 1};
    pair(ends);
    setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &second, sizeof second);
    fill(ends[0]);
    copy = dup(ends[0]);
    long begin = millis();
    close(copy);
    number("a copy closes at once", millis() - begin < 500);
    close(ends[0]);
    number("seconds of close", (millis() - begin + 100) / 1000);
    close(ends[1]);
    pair(ends);
    second.l_linger = 100;
    setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &second, sizeof second);
    fill(ends[0]);
    pthread_t reader;
    pthread_create(&reader, NULL, drain, &ends[1]);
    begin = millis();
    close(ends[0]);
    number("close waited for the reader", millis() - begin >= 15 && millis() - begin < 5000);
    pthread_join(reader, NULL);
    close(ends[1]);
}

static void device(void) {
    struct sockaddr_in address;
    int waits = bound(SOCK_STREAM, &address), fd = socket(AF_INET, SOCK_STREAM, 0);
    char name[IFNAMSIZ] = "x";
    socklen_t len = sizeof name;
    listen(waits, 1);
    say("no such interface", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "none", 5));
    say("bind to lo", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len);
    printf("interface: %s, %u\n", name, len);
    say("connect by lo", connect(fd, (void *)&address, sizeof address));
    int ttl = 5, value = -1;
    say("IP_TTL of a stream", setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    len = sizeof value;
    getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &len);
    number("  reads", value);
    close(fd);
    close(waits);
}

/* Returns the number of the first interface with groups. */
static int link_with_groups(struct in_addr *own) {
    struct ifaddrs *all = NULL;
    int found = 0;
    getifaddrs(&all);
    for (struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        if (one->ifa_flags & IFF_MULTICAST && one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
            found = if_nametoindex(one->ifa_name);
            *own = ((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr;
        }
    freeifaddrs(all);
    return found;
}

static void sources(void) {
    struct in_addr own = {0};
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0), all = -1;
    struct ip_mreqn by = {.imr_ifindex = link_with_groups(&own)};
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t len = sizeof to;
    char byte;
    bind(a, (void *)&to, len);
    getsockname(a, (void *)&to, &len);
    inet_pton(AF_INET, "239.255.7.7", &to.sin_addr);
    by.imr_multiaddr = to.sin_addr;
    say("interface", setsockopt(b, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by));
    struct ip_mreq_source one = {.imr_multiaddr = to.sin_addr, .imr_interface = own, .imr_sourceaddr.s_addr = htonl(0x0a636363)};
    say("block without a membership", setsockopt(a, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one));
    say("another source", setsockopt(a, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one));
    number("sent", sendto(b, "x", 1, 0, (void *)&to, sizeof to));
    say("not heard", recv(a, &byte, 1, MSG_DONTWAIT));
    one.imr_sourceaddr = own;
    say("this source", setsockopt(a, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one));
    say("this source again", setsockopt(a, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one));
    number("sent", sendto(b, "x", 1, 0, (void *)&to, sizeof to));
    number("heard", recv(a, &byte, 1, MSG_DONTWAIT));
    say("block it", setsockopt(a, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one));
    say("drop it", setsockopt(a, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &one, sizeof one));
    say("drop it again", setsockopt(a, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &one, sizeof one));
    len = sizeof all;
    getsockopt(a, IPPROTO_IP, IP_MULTICAST_ALL, &all, &len);
    number("IP_MULTICAST_ALL", all);
    close(a);
    close(b);
}

static void nested(void) {
    int ends[2], inner = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = 1}, got = {0};
    char byte;
    pair(ends);
    epoll_ctl(inner, EPOLL_CTL_ADD, ends[1], &wanted);
    wanted.data.u32 = 2;
    epoll_ctl(outer, EPOLL_CTL_ADD, inner, &wanted);
    number("nothing", epoll_wait(outer, &got, 1, 0));
    send(ends[0], "x", 1, 0);
    number("news", epoll_wait(outer, &got, 1, 1000));
    number("of the inner set", got.data.u32);
    struct pollfd set = {.fd = inner, .events = POLLIN};
    number("poll of a set", poll(&set, 1, 0));
    number("its own news", epoll_wait(inner, &got, 1, 0));
    recv(ends[1], &byte, 1, 0);
    number("nothing again", epoll_wait(outer, &got, 1, 0));
    close(inner), close(outer), close(ends[0]), close(ends[1]);
}

static volatile sig_atomic_t urgent_signals;
static void on_urgent(int signal) { urgent_signals += signal == SIGURG; }

static void urgent(void) {
    int ends[2];
    pair(ends);
    signal(SIGURG, on_urgent);
    say("owner", fcntl(ends[1], F_SETOWN, getpid()));
    number("it is this process", fcntl(ends[1], F_GETOWN) == getpid());
    send(ends[0], "!", 1, MSG_OOB);
    struct pollfd set = {.fd = ends[1], .events = POLLPRI};
    while (poll(&set, 1, 1000) < 0)
        ;
    usleep(1000);
    number("signals", urgent_signals);
    close(ends[0]);
    close(ends[1]);
}

static void files(void) {
    struct sockaddr_in address;
    int to = bound(SOCK_DGRAM, &address), from = socket(AF_INET, SOCK_DGRAM, 0);
    char bytes[64], name[] = "/tmp/softband-socket-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    if (write(file, "0123456789", 10) != 10)
        return;
    connect(from, (void *)&address, sizeof address);
    off_t at = 2;
    number("sendfile", sendfile(from, file, &at, 5));
    number("position", at);
    number("arrives", recv(to, bytes, sizeof bytes, MSG_DONTWAIT));
    int pipe_ends[2];
    if (pipe(pipe_ends) < 0 || write(pipe_ends[1], "abc", 3) != 3)
        return;
    number("splice", splice(pipe_ends[0], NULL, from, NULL, 3, 0));
    number("arrives", recv(to, bytes, sizeof bytes, MSG_DONTWAIT));
    close(to), close(from), close(file), close(pipe_ends[0]), close(pipe_ends[1]);
}

int main(int count, char **names) {
    signal(SIGPIPE, SIG_IGN);
    void (*all[])(void) = {lingering, device, sources, nested, urgent, files};
    for (unsigned part = 0; part < sizeof all / sizeof *all; part++)
        if (count < 2 || (unsigned)atoi(names[1]) == part)
            all[part]();
    return 0;
}
