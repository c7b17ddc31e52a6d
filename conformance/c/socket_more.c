/* More calls on sockets of one host, each with the answer that Linux gives: waits of `close`, control
 * messages, interfaces and sources of groups, epoll within epoll, signals of urgent data. The program
 * prints the answers: under the machine's kernel and on a modelled network it must print the same. */
#define _GNU_SOURCE
#include "sockets.h"
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <time.h>

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
    int ttl = 5;
    say("IP_TTL of a stream", setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    number("  reads", option_of(fd, IPPROTO_IP, IP_TTL));
    close(fd);
    close(waits);
}

static void sources(void) {
    struct sockaddr_storage address = {0};
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct ip_mreqn by = {.imr_ifindex = link_with_groups(AF_INET, &address)};
    struct in_addr own = ((struct sockaddr_in *)(void *)&address)->sin_addr;
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
    number("IP_MULTICAST_ALL", option_of(a, IPPROTO_IP, IP_MULTICAST_ALL));
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

static int news(int epoll) {
    struct epoll_event got = {0};
    return epoll_wait(epoll, &got, 1, 50);
}

static void *add_later(void *what) {
    int *set_and_socket = what;
    struct epoll_event wanted = {.events = EPOLLIN};
    usleep(20000);
    epoll_ctl(set_and_socket[0], EPOLL_CTL_ADD, set_and_socket[1], &wanted);
    return NULL;
}

/* An interest in an inner set that reports edges, or once, or other events alone, and a set that
 * another thread changes. */
static void nested_once(void) {
    int ends[2], inner = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    char bytes[4];
    pair(ends);
    epoll_ctl(inner, EPOLL_CTL_ADD, ends[1], &wanted);
    wanted.events = EPOLLIN | EPOLLET;
    epoll_ctl(outer, EPOLL_CTL_ADD, inner, &wanted);
    send(ends[0], "x", 1, 0);
    number("an edge", news(outer));
    number("the same edge", news(outer));
    number("the inner set itself", news(inner));
    send(ends[0], "x", 1, 0);
    number("another edge", news(outer));
    wanted.events = EPOLLIN | EPOLLONESHOT;
    epoll_ctl(outer, EPOLL_CTL_MOD, inner, &wanted);
    number("a single shot", news(outer));
    send(ends[0], "x", 1, 0);
    int pipe_ends[2];
    if (pipe(pipe_ends) < 0 || write(pipe_ends[1], "x", 1) != 1)
        return;
    epoll_ctl(inner, EPOLL_CTL_ADD, pipe_ends[0], &wanted);
    number("no second shot", news(outer));
    epoll_ctl(outer, EPOLL_CTL_MOD, inner, &wanted);
    number("a shot that is set again", news(outer));
    wanted.events = EPOLLOUT;
    epoll_ctl(outer, EPOLL_CTL_MOD, inner, &wanted);
    number("other events", news(outer));
    wanted.events = EPOLLIN;
    epoll_ctl(inner, EPOLL_CTL_DEL, pipe_ends[0], NULL);
    epoll_ctl(inner, EPOLL_CTL_DEL, ends[1], NULL);
    epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &wanted);
    epoll_ctl(outer, EPOLL_CTL_MOD, inner, &wanted);
    number("an idle socket", news(outer));
    pthread_t adder;
    pthread_create(&adder, NULL, add_later, (int[]){inner, ends[1]});
    number("a socket that another thread adds", epoll_wait(outer, &wanted, 1, 5000));
    pthread_join(adder, NULL);
    number("bytes", recv(ends[1], bytes, sizeof bytes, 0));
    close(inner), close(outer), close(ends[0]), close(ends[1]), close(pipe_ends[0]), close(pipe_ends[1]);
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
    void (*all[])(void) = {lingering, device, sources, nested, nested_once, urgent, files};
    for (unsigned part = 0; part < sizeof all / sizeof *all; part++)
        if (count < 2 || (unsigned)atoi(names[1]) == part)
            all[part]();
    return 0;
}
