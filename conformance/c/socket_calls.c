/* Calls on sockets of one host, each with the answer that Linux gives. The program prints the
 * answers: under the machine's kernel and on a modelled network it must print the same. */
#define _GNU_SOURCE
#include "sockets.h"
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>

#define AT_MARK 0x8905 /* SIOCATMARK */

static int events(int fd, short wanted, int millis) {
    struct pollfd one = {.fd = fd, .events = wanted};
    poll(&one, 1, millis);
    return one.revents;
}

static void connecting(void) {
    struct sockaddr_in address, peer;
    int waits = listener(&address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    number("events of a new socket", events(fd, POLLIN | POLLOUT, 0));
    say("connect without waiting", connect(fd, (void *)&address, sizeof address));
    number("writable", events(fd, POLLOUT, 1000) & POLLOUT);
    number("pending error", option_of(fd, SOL_SOCKET, SO_ERROR));
    say("connect again", connect(fd, (void *)&address, sizeof address));
    say("connect a third time", connect(fd, (void *)&address, sizeof address));
    socklen_t len = sizeof peer;
    say("peer's name", getpeername(fd, (void *)&peer, &len));
    number("its port is the listener's", peer.sin_port == address.sin_port);
    say("accept", accept(waits, NULL, NULL));
    fcntl(waits, F_SETFL, O_NONBLOCK);
    say("accept without a connection", accept(waits, NULL, NULL));
    say("listen on a connection", listen(fd, 1));
    close(fd);
    close(waits);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    say("connect to nobody", connect(fd, (void *)&address, sizeof address));
    say("send without a peer", send(fd, "x", 1, MSG_NOSIGNAL));
    say("receive without a peer", recv(fd, &address, 1, 0));
    say("shut down without a peer", shutdown(fd, SHUT_WR));
    say("peer's name without a peer", getpeername(fd, (void *)&peer, &len));
    close(fd);
}

static void urgent(void) {
    int ends[2], mark = -1;
    char bytes[16] = "";
    pair(ends);
    say("urgent byte before any", recv(ends[1], bytes, 1, MSG_OOB));
    send(ends[0], "ab", 2, 0);
    send(ends[0], "c!", 2, MSG_OOB);
    number("urgent event", events(ends[1], POLLPRI, 1000));
    number("bytes before the mark", recv(ends[1], bytes, sizeof bytes, 0));
    ioctl(ends[1], AT_MARK, &mark);
    number("at the mark", mark);
    number("urgent bytes", recv(ends[1], bytes, sizeof bytes, MSG_OOB));
    number("the byte", bytes[0]);
    say("urgent byte a second time", recv(ends[1], bytes, 1, MSG_OOB));
    close(ends[0]);
    number("the end", recv(ends[1], bytes, sizeof bytes, 0));
    close(ends[1]);
}

static void reading(void) {
    int ends[2], unread = -1;
    char bytes[64];
    pair(ends);
    send(ends[0], "0123456789", 10, 0);
    events(ends[1], POLLIN, 1000);
    ioctl(ends[1], FIONREAD, &unread);
    number("unread", unread);
    number("peek", recv(ends[1], bytes, 4, MSG_PEEK));
    number("all", recv(ends[1], bytes, 10, MSG_WAITALL));
    say("receive without waiting", recv(ends[1], bytes, 1, MSG_DONTWAIT));
    struct timeval limit = {.tv_usec = 20000};
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("receive within a time", recv(ends[1], bytes, 1, 0));
    number("events while idle", events(ends[1], POLLIN | POLLOUT | POLLRDHUP, 0));
    say("half close", shutdown(ends[0], SHUT_WR));
    number("events after the peer's half close", events(ends[1], POLLIN | POLLOUT | POLLRDHUP, 1000));
    number("end of the stream", recv(ends[1], bytes, 1, 0));
    number("the other way", send(ends[1], "x", 1, 0));
    number("arrives", recv(ends[0], bytes, 2, 0));
    say("send after the half close", send(ends[0], "x", 1, MSG_NOSIGNAL));
    close(ends[1]);
    number("events after both ended", events(ends[0], POLLIN | POLLOUT | POLLRDHUP, 1000));
    close(ends[0]);
}

static void resets(void) {
    int ends[2];
    char byte;
    pair(ends);
    struct linger now = {.l_onoff = 1};
    setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(ends[0]);
    number("events after a reset", events(ends[1], POLLIN | POLLOUT | POLLRDHUP, 1000));
    say("receive after a reset", recv(ends[1], &byte, 1, 0));
    number("the error is gone", recv(ends[1], &byte, 1, 0));
    say("send after a reset", send(ends[1], "x", 1, MSG_NOSIGNAL));
    close(ends[1]);
    pair(ends);
    send(ends[0], "unread", 6, 0);
    events(ends[1], POLLIN, 1000);
    close(ends[1]);
    events(ends[0], POLLIN, 1000);
    say("receive from a peer that left data unread", recv(ends[0], &byte, 1, 0));
    close(ends[0]);
}

static void edges(void) {
    int ends[2], set = epoll_create1(0);
    char bytes[4];
    pair(ends);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLET}, got;
    epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &wanted);
    number("first look", epoll_wait(set, &got, 1, 100));
    number("second look", epoll_wait(set, &got, 1, 0));
    send(ends[0], "ab", 2, 0);
    number("after data", epoll_wait(set, &got, 1, 1000));
    number("its events", got.events);
    recv(ends[1], bytes, 1, 0);
    number("after a part", epoll_wait(set, &got, 1, 0));
    send(ends[0], "c", 1, 0);
    number("after more data", epoll_wait(set, &got, 1, 1000));
    epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &wanted);
    send(ends[0], "d", 1, 0);
    number("data of this moment", epoll_wait(set, &got, 1, 1000));
    number("no other news", epoll_wait(set, &got, 1, 50));
    shutdown(ends[0], SHUT_WR);
    number("after the end", epoll_wait(set, &got, 1, 1000));
    close(set);
    close(ends[0]);
    close(ends[1]);
}

static void option(int fd, const char *what, int level, int name, int value) {
    say(what, setsockopt(fd, level, name, &value, sizeof value));
    number("  reads", option_of(fd, level, name));
}

static void options(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    option(fd, "SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 20000);
    option(fd, "SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 30000);
    option(fd, "SO_RCVBUF below the least", SOL_SOCKET, SO_RCVBUF, 1);
    option(fd, "SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1);
    option(fd, "SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1);
    option(fd, "SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1);
    option(fd, "TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1);
    option(fd, "TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 7);
    option(fd, "TCP_KEEPIDLE of 0", IPPROTO_TCP, TCP_KEEPIDLE, 0);
    option(fd, "TCP_KEEPIDLE of -1", IPPROTO_TCP, TCP_KEEPIDLE, -1);
    option(fd, "TCP_KEEPINTVL of -1", IPPROTO_TCP, TCP_KEEPINTVL, -1);
    option(fd, "TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 3);
    option(fd, "TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 128);
    option(fd, "TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 1500);
    option(fd, "TCP_MAXSEG", IPPROTO_TCP, TCP_MAXSEG, 40);
    say("TCP_CONGESTION", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nobody", 6));
    say("a short value", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &fd, 1));
    option(fd, "SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN, 1);
    struct linger got = {0}, linger = {.l_onoff = 1, .l_linger = 5};
    socklen_t len = sizeof got;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len);
    number("SO_LINGER", got.l_onoff * 100 + got.l_linger);
    close(fd);
    int ends[2];
    pair(ends);
    struct tcp_info info;
    len = sizeof info;
    getsockopt(ends[0], IPPROTO_TCP, TCP_INFO, &info, &len);
    number("state of a connection", info.tcpi_state);
    close(ends[0]);
    close(ends[1]);
}

static void addresses(void) {
    struct sockaddr_in address, other = at("203.0.113.5", 0);
    int waits = listener(&address), fd = socket(AF_INET, SOCK_STREAM, 0);
    say("bind to a taken port", bind(fd, (void *)&address, sizeof address));
    say("bind to a foreign address", bind(fd, (void *)&other, sizeof other));
    say("bind twice", (other = at("127.0.0.1", 0), bind(fd, (void *)&other, sizeof other)));
    say("bind twice", bind(fd, (void *)&other, sizeof other));
    close(fd);
    close(waits);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    int both = socket(AF_INET6, SOCK_STREAM, 0), on = 1;
    socklen_t len = sizeof any;
    if (both < 0 || bind(both, (void *)&any, len) < 0)
        return;
    getsockname(both, (void *)&any, &len);
    listen(both, 1);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    other = at("127.0.0.1", ntohs(any.sin6_port));
    say("IPv4 reaches a socket of both families", connect(fd, (void *)&other, sizeof other));
    close(fd);
    close(both);
    both = socket(AF_INET6, SOCK_STREAM, 0);
    say("IPV6_V6ONLY", setsockopt(both, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    other.sin_addr.s_addr = 0;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    other.sin_port = 0;
    bind(fd, (void *)&other, sizeof other);
    len = sizeof other;
    getsockname(fd, (void *)&other, &len);
    any = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = other.sin_port};
    say("IPv6 alone beside IPv4", bind(both, (void *)&any, sizeof any));
    close(fd);
    close(both);
}

/* Addresses that the kernel refuses by their length or family. */
static void refused_addresses(void) {
    enum { SDP = 27 };
    struct sockaddr_in address, other;
    struct sockaddr_storage room = {0};
    int waits = listener(&address), stream = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t negative = -1;
    say("bind with a negative length", bind(stream, (void *)&address, negative));
    say("connect with a negative length", connect(stream, (void *)&address, negative));
    say("send with a negative length", sendto(datagram, "x", 1, 0, (void *)&address, negative));
    say("bind with a length of no address", bind(stream, (void *)&room, sizeof room + 1));
    say("bind to null", bind(stream, NULL, sizeof address));
    say("connect to null", connect(stream, NULL, sizeof address));
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_name = &address, .msg_namelen = negative, .msg_iov = &part, .msg_iovlen = 1};
    say("a message with a negative length", sendmsg(datagram, &message, 0));
    memcpy(&room, &address, sizeof address);
    message.msg_name = &room, message.msg_namelen = sizeof room + 1;
    say("a message with a length of no address", sendmsg(datagram, &message, 0));
    say("the option's room", getsockopt(stream, SOL_SOCKET, SO_ERROR, &room, &negative));
    other = address, other.sin_family = SDP, other.sin_port = 0;
    say("bind a stream to an address of SDP", bind(stream, (void *)&other, sizeof other));
    say("bind a datagram socket", bind(datagram, (void *)&other, sizeof other));
    other.sin_port = address.sin_port;
    say("connect a stream", connect(stream, (void *)&other, sizeof other));
    say("connect a datagram socket", connect(datagram, (void *)&other, sizeof other));
    say("send a datagram", sendto(datagram, "x", 1, 0, (void *)&other, sizeof other));
    say("the stream is intact", connect(stream, (void *)&address, sizeof address));
    close(stream), close(datagram), close(waits);
    stream = socket(AF_INET6, SOCK_STREAM, 0), datagram = socket(AF_INET6, SOCK_DGRAM, 0);
    say("IPv6: bind", bind(stream, (void *)&other, sizeof other));
    say("IPv6: connect", connect(stream, (void *)&other, sizeof other));
    say("IPv6: send", sendto(datagram, "x", 1, 0, (void *)&other, sizeof other));
    close(stream), close(datagram);
}

static void datagrams(void) {
    struct sockaddr_in one = at("127.0.0.1", 0), two = one, none = {.sin_family = AF_UNSPEC};
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof one;
    static char long_one[70000];
    char bytes[8];
    bind(a, (void *)&one, len);
    getsockname(a, (void *)&one, &len);
    number("sent", sendto(b, "datagram", 8, 0, (void *)&one, len));
    number("cut", recv(a, bytes, 3, MSG_PEEK | MSG_TRUNC));
    struct iovec part = {bytes, 3};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    number("received", recvmsg(a, &message, 0));
    number("it was cut", (message.msg_flags & MSG_TRUNC) != 0);
    say("receive without waiting", recv(a, bytes, 1, MSG_DONTWAIT));
    say("send to nobody", send(b, "x", 1, 0));
    say("connect", connect(b, (void *)&one, len));
    number("an empty datagram", send(b, "", 0, 0));
    number("arrives", recv(a, bytes, 8, 0));
    close(a);
    number("sent to nobody", send(b, "x", 1, 0));
    events(b, POLLIN, 200);
    say("the answer", send(b, "x", 1, 0));
    say("disconnect", connect(b, (void *)&none, sizeof none));
    say("peer's name", getpeername(b, (void *)&two, &len));
    say("too long", sendto(b, long_one, sizeof long_one, 0, (void *)&one, sizeof one));
    say("no address", send(b, "x", 1, 0));
    close(b);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    connecting();
    urgent();
    reading();
    resets();
    edges();
    options();
    addresses();
    refused_addresses();
    datagrams();
    return 0;
}
