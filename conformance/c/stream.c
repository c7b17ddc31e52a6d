// A million bytes to a server and back, by plain sockets with select or poll.
// Usage: stream [select|poll] [SERVER]. The client prints whether all bytes came back.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZE = 1000000, PORT = 7000 };

static unsigned char sent[SIZE], got[SIZE];
static int by_select;

static void check(int status, const char *what) {
    if (status < 0) {
        perror(what);
        exit(1);
    }
}

// Waits until the socket is ready for the operation.
static void await(int fd, int writes) {
    if (by_select) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        check(select(fd + 1, writes ? NULL : &set, writes ? &set : NULL, NULL, NULL), "select");
    } else {
        struct pollfd entry = {.fd = fd, .events = writes ? POLLOUT : POLLIN};
        check(poll(&entry, 1, -1), "poll");
    }
}

static void move(int fd, unsigned char *bytes, int writes) {
    for (size_t done = 0; done < SIZE;) {
        ssize_t count = writes ? send(fd, bytes + done, SIZE - done, 0) : recv(fd, bytes + done, SIZE - done, 0);
        if (count == 0) {
            fprintf(stderr, "the peer has closed the connection\n");
            exit(1);
        }
        if (count < 0 && errno != EAGAIN)
            check(-1, writes ? "send" : "recv");
        if (count < 0)
            await(fd, writes);
        else
            done += count;
    }
}

static int served(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "setsockopt");
    check(bind(listener, (struct sockaddr *)&any, sizeof any), "bind");
    check(listen(listener, 1), "listen");
    await(listener, 0);
    int peer = accept(listener, NULL, NULL);
    check(peer, "accept");
    return peer;
}

static int connected(const char *server) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(server, "7000", &hints, &found)) {
        fprintf(stderr, "no address of %s\n", server);
        exit(1);
    }
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(peer, found->ai_addr, found->ai_addrlen), "connect");
    return peer;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    by_select = strcmp(argv[1], "select") == 0;
    int peer = argc > 2 ? connected(argv[2]) : served();
    check(fcntl(peer, F_SETFL, O_NONBLOCK), "fcntl");
    if (argc > 2) {
        for (int index = 0; index < SIZE; index++)
            sent[index] = index * 7 % 251;
        move(peer, sent, 1);
        move(peer, got, 0);
        printf("%s\n", memcmp(sent, got, SIZE) ? "other bytes" : "all bytes");
    } else {
        move(peer, got, 0);
        move(peer, got, 1);
    }
    shutdown(peer, SHUT_RDWR);
    close(peer);
    return 0;
}
