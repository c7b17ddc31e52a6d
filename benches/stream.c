/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Moves BYTES over each of COUNT TCP connections: `stream PORT COUNT BYTES` receives, and
 * `stream PORT COUNT BYTES HOST` sends. The receiver prints the seconds from the first byte to the
 * last, and all bytes. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, MOST = 1024 };

static char buffer[4 * CHUNK];
static struct pollfd fds[MOST];
static long left[MOST];

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static int connected(const char *host, const char *port) {
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	if (getaddrinfo(host, port, &hints, &found)) fail(host);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, found->ai_addr, found->ai_addrlen)) fail("connect");
	freeaddrinfo(found);
	return fd;
}

static int listening(const char *port, int count) {
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
	if (getaddrinfo(NULL, port, &hints, &found)) fail(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, count)) fail("listen");
	freeaddrinfo(found);
	return fd;
}

int main(int words, char **word) {
	if (words < 4) return 2;
	int count = atoi(word[2]), sends = words > 4, open = count;
	if (count < 1 || count > MOST) return 2;
	int listener = sends ? -1 : listening(word[1], count);
	for (int i = 0; i < count; i++) {
		fds[i].fd = sends ? connected(word[4], word[1]) : accept(listener, NULL, NULL);
		if (fds[i].fd < 0) fail("accept");
		fds[i].events = sends ? POLLOUT : POLLIN;
		fcntl(fds[i].fd, F_SETFL, O_NONBLOCK);
		left[i] = atol(word[3]);
	}
	double begin = 0;
	long long total = 0;
	while (open > 0) {
		if (poll(fds, count, -1) < 0) fail("poll");
		for (int i = 0; i < count; i++) {
			if (fds[i].fd < 0 || !fds[i].revents) continue;
			if (begin == 0) begin = now();
			ssize_t part = sends ? write(fds[i].fd, buffer, left[i] < CHUNK ? left[i] : CHUNK) : read(fds[i].fd, buffer, sizeof buffer);
			if (part < 0 && errno != EAGAIN) fail(sends ? "write" : "read");
			if (part < 0) continue;
			total += part;
			left[i] -= part;
			if (sends ? left[i] > 0 : part > 0) continue;
			close(fds[i].fd);
			fds[i].fd = -1;
			open--;
		}
	}
	if (!sends) printf("%.9f %lld\n", now() - begin, total);
	return 0;
}
