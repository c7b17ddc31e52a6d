/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures how fast a process connects to another by TCP over loopback. `connects COUNT` opens COUNT
 * connections, keeps them, and prints the seconds until the other process has accepted all. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int count, char **words) {
	int connections = count > 1 ? atoi(words[1]) : 1000;
	struct rlimit files = {connections + 64, connections + 64};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (setrlimit(RLIMIT_NOFILE, &files)) return 1;
	if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024) || getsockname(listener, (struct sockaddr *)&at, &len)) return 1;
	pid_t server = fork();
	if (server == 0) {
		for (int i = 0; i < connections; i++)
			if (accept(listener, NULL, NULL) < 0) _exit(1);
		_exit(0);
	}
	double began = now();
	for (int i = 0; i < connections; i++) {
		int connection = socket(AF_INET, SOCK_STREAM, 0);
		if (connection < 0 || connect(connection, (struct sockaddr *)&at, sizeof at)) return 1;
	}
	int status;
	if (waitpid(server, &status, 0) != server || status) return 1;
	printf("%.9f\n", now() - began);
	return 0;
}
