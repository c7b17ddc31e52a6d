/* Stream sockets. Without an argument, both ends are on this host; `server PORT` and `client
 * HOST PORT` are one end each. */
#include "check.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BULK = 1 << 20 };

static int listener_at(const char *port, int family) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_family = family, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo(NULL, port, &hints, &found) == 0);
    int fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol), one = 1;
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 5) == 0);
    freeaddrinfo(found);
    return fd;
}

static unsigned short port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    CHECK(address.ss_family == AF_INET || address.ss_family == AF_INET6);
    return ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port : ((struct sockaddr_in6 *)&address)->sin6_port);
}

static int connected_to(const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo(host, port, &hints, &found) == 0);
    for (struct addrinfo *at = found; at; at = at->ai_next) {
        int fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
            freeaddrinfo(found);
            return fd;
        }
        close(fd);
    }
    CHECK(!"somebody listens");
    return -1;
}

static void serve(int fd) {
    char greeting[6] = "";
    CHECK(recv(fd, greeting, 5, MSG_PEEK | MSG_WAITALL) >= 1);
    CHECK(recv(fd, greeting, 5, MSG_WAITALL) == 5 && strcmp(greeting, "hello") == 0);
    char head[2], tail[4];
    struct iovec parts[] = {{head, 2}, {tail, 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    CHECK(write(fd, "w", 1) == 1 && send(fd, "orld", 4, 0) == 4);
    CHECK(recvmsg(fd, &message, MSG_WAITALL) == 5 && head[0] == 'v' && tail[2] == 'r');
    char *bulk = malloc(BULK);
    size_t got = 0;
    while (got < BULK) {
        ssize_t count = read(fd, bulk + got, BULK - got);
        CHECK(count > 0);
        got += (size_t)count;
    }
    for (size_t i = 0; i < BULK; i++) CHECK(bulk[i] == (char)(i * 7));
    CHECK(send(fd, "done", 4, MSG_NOSIGNAL) == 4);
    CHECK(read(fd, bulk, 1) == 0); /* the other end has shut down its side */
    free(bulk);
    CHECK(close(fd) == 0);
}

static void talk(int fd) {
    int one = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    char answer[6] = "";
    CHECK(write(fd, "hello", 5) == 5);
    CHECK(recv(fd, answer, 5, MSG_WAITALL) == 5 && strcmp(answer, "world") == 0);
    CHECK(recv(fd, answer, 1, MSG_DONTWAIT) == -1 && (errno == EAGAIN || errno == EWOULDBLOCK));
    struct iovec parts[] = {{"vec", 3}, {"t", 1}, {"r", 1}};
    CHECK(writev(fd, parts, 3) == 5);
    char *bulk = malloc(BULK);
    for (size_t i = 0; i < BULK; i++) bulk[i] = (char)(i * 7);
    CHECK(send(fd, bulk, BULK, 0) == BULK);
    free(bulk);
    struct pollfd set = {fd, POLLIN, 0};
    CHECK(poll(&set, 1, 60000) == 1 && set.revents & POLLIN);
    int waiting = 0;
    CHECK(ioctl(fd, FIONREAD, &waiting) == 0 && waiting >= 1 && waiting <= 4);
    CHECK(recv(fd, answer, 4, MSG_WAITALL) == 4 && memcmp(answer, "done", 4) == 0);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(read(fd, answer, 1) == 0);
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(close(fd) == 0);
    CHECK(close(fd) == -1 && errno == EBADF);
}

static void *serve_one(void *listener) {
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept(*(int *)listener, (struct sockaddr *)&peer, &len);
    CHECK(fd >= 0 && len >= sizeof(struct sockaddr_in));
    serve(fd);
    return NULL;
}

static void both_ends(int family) {
    char port[8];
    int listener = listener_at("0", family);
    snprintf(port, sizeof port, "%d", port_of(listener));
    pthread_t server;
    CHECK(pthread_create(&server, NULL, serve_one, &listener) == 0);
    talk(connected_to("localhost", port));
    CHECK(pthread_join(server, NULL) == 0);

    /* Nonblocking connect and accept, duplicates, errors. */
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
    int again = dup(listener), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    CHECK(again >= 0 && close(listener) == 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    struct pollfd set[] = {{fd, POLLOUT, 0}, {again, POLLIN, 0}};
    while (!(set[0].revents & POLLOUT)) CHECK(poll(set, 1, 1000) == 1);
    socklen_t len = sizeof error;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    CHECK(poll(set + 1, 1, 1000) == 1);
    int peer = accept4(again, NULL, NULL, SOCK_CLOEXEC);
    CHECK(peer >= 0 && fcntl(peer, F_GETFD) == FD_CLOEXEC && port_of(peer) == atoi(port));
    CHECK(close(peer) == 0);
    set[0].events = POLLIN;
    CHECK(poll(set, 1, 1000) == 1 && read(fd, &error, 1) == 0);
    CHECK(close(fd) == 0 && close(again) == 0);
}

/* Streams of the C library on both ends of a connection. */
static void streams(void) {
    char port[8], line[16];
    int listener = listener_at("0", AF_INET);
    snprintf(port, sizeof port, "%d", port_of(listener));
    FILE *here = fdopen(connected_to("localhost", port), "r+"), *there = fdopen(accept(listener, NULL, NULL), "w+");
    CHECK(here && there && fileno(here) > 2 && port_of(fileno(there)) == atoi(port));
    CHECK(fprintf(here, "number %d\n", 42) == 10 && fflush(here) == 0);
    CHECK(fgets(line, sizeof line, there) && strcmp(line, "number 42\n") == 0);
    CHECK(fputs("back\n", there) >= 0 && fclose(there) == 0);
    CHECK(fgets(line, sizeof line, here) && strcmp(line, "back\n") == 0);
    CHECK(fgets(line, sizeof line, here) == NULL && feof(here) && fclose(here) == 0);
    CHECK(close(listener) == 0);
}

/* The standard streams on a connection that took their descriptors, until they get files again. */
static void standard_streams(void) {
    char port[8], line[16];
    int listener = listener_at("0", AF_INET);
    snprintf(port, sizeof port, "%d", port_of(listener));
    int one = connected_to("localhost", port), other = accept(listener, NULL, NULL), number = 0;
    int input = dup(0), output = dup(1);
    CHECK(other >= 0 && input >= 0 && output >= 0 && fflush(stdout) == 0);
    CHECK(dup2(one, 0) == 0 && dup2(one, 1) == 1 && close(one) == 0);
    CHECK(printf("number %d\n", 42) == 10 && fflush(stdout) == 0);
    CHECK(read(other, line, sizeof line) == 10 && memcmp(line, "number 42\n", 10) == 0);
    CHECK(write(other, "first\n7 ", 8) == 8);
    CHECK(fgets(line, sizeof line, stdin) && strcmp(line, "first\n") == 0);
    CHECK(scanf("%d", &number) == 1 && number == 7);
    CHECK(fseek(stdin, 0, SEEK_SET) == -1 && errno == ESPIPE);
    CHECK(freopen("/dev/null", "r", stdin) == stdin && fileno(stdin) == 0 && getchar() == EOF);
    CHECK(printf("last") == 4 && freopen("/dev/null", "w", stdout) == stdout);
    CHECK(read(other, line, sizeof line) == 4 && memcmp(line, "last", 4) == 0);
    CHECK(read(other, line, sizeof line) == 0 && close(other) == 0);
    CHECK(dup2(input, 0) == 0 && dup2(output, 1) == 1 && close(input) == 0 && close(output) == 0 && close(listener) == 0);
}

int main(int count, char **arguments) {
    signal(SIGPIPE, SIG_IGN);
    if (count == 3 && strcmp(arguments[1], "server") == 0) {
        int listener = listener_at(arguments[2], AF_UNSPEC);
        serve_one(&listener);
        puts("server: ok");
    } else if (count == 4 && strcmp(arguments[1], "client") == 0) {
        talk(connected_to(arguments[2], arguments[3]));
        puts("client: ok");
    } else {
        both_ends(AF_INET);
        streams();
        standard_streams();
        puts("sockets: ok");
    }
    return 0;
}
