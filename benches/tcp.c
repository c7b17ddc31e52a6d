/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures plain TCP over loopback between two processes. `tcp SIZE` prints half a round trip in
 * microseconds, and GB/s one way. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static size_t size;
static char *buffer;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void move(int fd, int out, size_t bytes) {
	for (size_t done = 0; done < bytes;) {
		ssize_t part = out ? write(fd, buffer + done % size, bytes - done < size ? bytes - done : size - done % size)
				   : read(fd, buffer, bytes - done < size ? bytes - done : size);
		if (part <= 0) exit(1);
		done += part;
	}
}

int main(int count, char **words) {
	size = count > 1 ? strtoul(words[1], NULL, 0) : 2;
	buffer = calloc(1, size);
	long rounds = size > 65536 ? 500 : 5000, stream = 1 + (256L << 20) / (long)size;
	if (stream > 200000) stream = 200000;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &len)) return 1;
	pid_t child = fork();
	int fd = child ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
	if (!child && connect(fd, (struct sockaddr *)&at, sizeof at)) return 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	double start = now();
	for (long i = 0; i < rounds; i++) {
		move(fd, child != 0, size);
		move(fd, child == 0, size);
	}
	double latency = (now() - start) / rounds / 2;
	start = now();
	move(fd, child != 0, (size_t)stream * size);
	move(fd, child == 0, 1);
	double seconds = now() - start;
	if (!child) return 0;
	printf("%.3f %.4f\n", latency * 1e6, stream * (double)size / seconds / 1e9);
	return waitpid(child, NULL, 0) == child ? 0 : 1;
}
