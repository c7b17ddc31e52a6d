/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Listens, and forks a process for each reader. All that a reader holds ends with its process. */
#define _GNU_SOURCE
#include "rfio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHORTAGE_PAUSE_US = 100000 };

/* Pauses before a refusal. */
enum { PLACE_TRIES = 10, PLACE_PAUSE_US = 2000 };

struct server {
	int listener, root;
	int results[2]; /* a pipe: a struct transfer from each process that has succeeded */
	int running, ended, failed;
	int has_transfer; /* `all` has at least one */
	struct transfer all; /* from the first start to the last end */
};

static void add(struct server *s, const struct transfer *one)
{
	struct transfer *all = &s->all;

	if (!s->has_transfer || one->began_ns < all->began_ns)
		all->began_ns = one->began_ns;
	s->has_transfer = 1;
	if (one->ended_ns > all->ended_ns)
		all->ended_ns = one->ended_ns;
	all->bytes += one->bytes;
}

/* Takes the ends of readers. Waits for an end if `wait` is set. */
static void reap(struct server *s, int wait)
{
	struct transfer one;
	int status;

	while (s->running > 0 && waitpid(-1, &status, wait ? 0 : WNOHANG) > 0) {
		s->running--;
		s->ended++;
		wait = 0;
		if (status != 0)
			s->failed++;
		else if (read(s->results[0], &one, sizeof one) == sizeof one)
			add(s, &one);
	}
}

static void start_reader(struct server *s, int fd, const struct options *o)
{
	struct transfer one = {0};
	pid_t child = fork();

	if (child < 0)
		send_error(fd, "the server cannot start a process for this reader");
	if (child > 0)
		s->running++;
	if (child != 0)
		return;
	close(s->listener);
	serve_reader(fd, s->root, o, &one);
	/* A short record: the kernel writes it whole. */
	if (write(s->results[1], &one, sizeof one) != sizeof one)
		fail_errno("cannot report the transfer");
	exit(0);
}

/* Returns whether accept has failed for one connection only (accept(2), "Error handling"). */
static int is_passing(int error)
{
	static const int passing[] = {EINTR,       ECONNABORTED, EPROTO,       ENETDOWN,   ENOPROTOOPT,
				      EHOSTDOWN,   ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};

	for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
		if (error == passing[i])
			return 1;
	return 0;
}

static int is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Waits a moment for readers that are about to end: a copy that ends tells its user before its
 * process on this side has ended. */
static int has_place(struct server *s, const struct options *o)
{
	for (int tries = 0; tries < PLACE_TRIES; tries++) {
		reap(s, 0);
		if (s->running < o->readers)
			return 1;
		usleep(PLACE_PAUSE_US);
	}
	return 0;
}

static void accept_reader(struct server *s, const struct options *o)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 && is_passing(errno))
		return;
	if (fd < 0 && is_shortage(errno)) {
		reap(s, 0);
		usleep(SHORTAGE_PAUSE_US);
		return;
	}
	if (fd < 0)
		fail_errno("cannot accept a connection");
	if (!has_place(s, o))
		send_error(fd, "the server has all the readers that it takes (--readers)");
	else
		start_reader(s, fd, o);
	close(fd);
}

static void print_all(const struct server *s)
{
	double seconds = (double)(s->all.ended_ns - s->all.began_ns) * 1e-9;

	printf("%d readers, %d failed, %llu bytes in %.6f s, %.2f MB/s\n", s->ended, s->failed, (unsigned long long)s->all.bytes, seconds,
	       seconds > 0 ? (double)s->all.bytes / seconds * 1e-6 : 0.0);
	fflush(stdout);
}

int run_server(const struct options *o)
{
	struct server s = {.root = root_open(o->root), .listener = control_listen(o)};

	if (pipe2(s.results, O_CLOEXEC))
		fail_errno("cannot make a pipe");
	signal(SIGPIPE, SIG_IGN);
	while (!o->transfers || s.running + s.ended < o->transfers)
		accept_reader(&s, o);
	close(s.listener);
	while (s.running > 0)
		reap(&s, 1);
	print_all(&s);
	return s.failed > 0;
}
