/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A child prints lines to a pseudo-terminal, and names each line by a byte through a pipe. Its parent
 * waits for both on an epoll descriptor (`epoll`), or by poll on an epoll descriptor that watches the
 * terminal (`nested`). Prints how many lines came later than their bytes. `inquiry` counts the lines
 * whose length FIONREAD does not know yet. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

static const char line[] = "a line\n";

static void print_lines(int terminal, int pipe_end, int rounds)
{
	CHECK(dup2(terminal, STDOUT_FILENO) == STDOUT_FILENO);
	for (int i = 0; i < rounds; i++) {
		usleep(1000);
		fputs(line, stdout);
		fflush(stdout);
		if (write(pipe_end, "", 1) != 1) _exit(1);
	}
	_exit(0);
}

static int open_terminal(int *slave)
{
	struct termios settings;
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	*slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	CHECK(*slave >= 0 && tcgetattr(*slave, &settings) == 0);
	cfmakeraw(&settings);
	CHECK(tcsetattr(*slave, TCSANOW, &settings) == 0);
	return master;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* Waits for news. Bit 0 stands for the terminal, bit 1 for the pipe. */
static int news(int epoll, int pipe_end, int is_nested)
{
	struct epoll_event events[2];
	int found = 0;

	if (is_nested) {
		struct pollfd set[] = {{.fd = epoll, .events = POLLIN}, {.fd = pipe_end, .events = POLLIN}};
		CHECK(poll(set, 2, -1) > 0);
		return (set[0].revents ? 1 : 0) | (set[1].revents ? 2 : 0);
	}
	int count = epoll_wait(epoll, events, 2, -1);
	CHECK(count > 0);
	for (int i = 0; i < count; i++) found |= events[i].data.fd == pipe_end ? 2 : 1;
	return found;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	int rounds = atoi(argv[2]), late = 0, pipe_ends[2], slave, status;
	int is_nested = strcmp(argv[1], "nested") == 0, asks = strcmp(argv[1], "inquiry") == 0;
	int master = open_terminal(&slave), epoll = epoll_create1(0);
	char room[64];

	CHECK(epoll >= 0 && pipe(pipe_ends) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) print_lines(slave, pipe_ends[1], rounds);
	watch(epoll, master);
	if (!is_nested) watch(epoll, pipe_ends[0]);
	for (int i = 0; i < rounds; i++) {
		int seen = 0;
		if (asks) {
			int waiting = 0;
			CHECK(read(pipe_ends[0], room, 1) == 1);
			CHECK(ioctl(master, FIONREAD, &waiting) == 0);
			late += waiting != sizeof line - 1;
		} else {
			while (!(seen & 2)) seen |= news(epoll, pipe_ends[0], is_nested);
			late += !(seen & 1);
			CHECK(read(pipe_ends[0], room, 1) == 1);
		}
		struct pollfd terminal = {.fd = master, .events = POLLIN};
		CHECK(poll(&terminal, 1, -1) == 1);
		CHECK(read(master, room, sizeof room) == sizeof line - 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	printf("%d of %d lines came late\n", late, rounds);
	return 0;
}
