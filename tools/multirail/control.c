/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * TCP connects all processes of both sides to the server's first process. Each exchange is among
 * all: each process gives a few numbers and gets the numbers of all. */
#include "multirail.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t MAGIC = 0x736f66746d72616c;

/* The options that must be the same on both sides. */
enum { AGREED = 10 };
static const char *const AGREED_NAMES[AGREED] = {"--test", "--policy", "--ports", "--procs", "-b", "-s (from)", "-s (to)", "-n", "-q", "--stripe-from"};

static void agreed_values(const struct options *o, uint64_t *values)
{
	const uint64_t all[AGREED] = {o->test, o->policy, o->ports, o->procs, o->bidirectional, o->size_from, o->size_to, o->iterations,
				      o->window, o->stripe_from};

	memcpy(values, all, sizeof all);
}

/* Sends numbers with their highest byte first. */
static void give(int fd, const uint64_t *words, size_t count)
{
	size_t bytes = count * sizeof *words, done = 0;
	uint64_t *out = malloc(bytes);

	if (!out)
		fail("no memory");
	for (size_t i = 0; i < count; i++)
		out[i] = htobe64(words[i]);
	while (done < bytes) {
		ssize_t part = send(fd, (char *)out + done, bytes - done, MSG_NOSIGNAL);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			fail("another process of the test has ended");
		done += (size_t)part;
	}
	free(out);
}

static void take(int fd, uint64_t *words, size_t count)
{
	size_t done = 0;

	while (done < count * sizeof *words) {
		ssize_t part = read(fd, (char *)words + done, count * sizeof *words - done);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			fail("another process of the test has ended");
		done += (size_t)part;
	}
	for (size_t i = 0; i < count; i++)
		words[i] = be64toh(words[i]);
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

void control_listen(struct control *c, const struct options *o)
{
	struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->tcp_port), .sin_addr.s_addr = INADDR_ANY};
	int one = 1;

	c->listener = socket(AF_INET, SOCK_STREAM, 0);
	if (c->listener < 0)
		fail_errno("cannot make a socket");
	setsockopt(c->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(c->listener, (struct sockaddr *)&where, sizeof where))
		fail_errno("cannot use TCP port %d (choose another one with -p)", o->tcp_port);
	if (listen(c->listener, 2 * PROCS_MAX))
		fail_errno("cannot listen on TCP port %d", o->tcp_port);
}

static int dial(const char *name, int port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char service[8];
	int fd, error;

	snprintf(service, sizeof service, "%d", port);
	error = getaddrinfo(name, service, &hints, &found);
	if (error)
		fail("no host `%s`: %s", name, gai_strerror(error));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		fail_errno("cannot make a socket");
	if (connect(fd, found->ai_addr, found->ai_addrlen))
		fail_errno("cannot connect to %s:%d (is the server running there?)", name, port);
	freeaddrinfo(found);
	no_delay(fd);
	return fd;
}

/* Admits a process if it has the same options. */
static void welcome(struct control *c, const struct options *o, int fd)
{
	uint64_t theirs[3 + AGREED], ours[AGREED], verdict[2] = {0, 0};
	size_t number;

	take(fd, theirs, 3 + AGREED);
	if (theirs[0] != MAGIC)
		fail("something else than softband-multirail has connected to TCP port %d", o->tcp_port);
	agreed_values(o, ours);
	for (int i = AGREED - 1; i >= 0; i--)
		if (theirs[3 + i] != ours[i]) {
			verdict[0] = (uint64_t)i + 1;
			verdict[1] = ours[i];
		}
	give(fd, verdict, 2);
	if (verdict[0])
		fail("the client has another %s than this server: give both the same options", AGREED_NAMES[verdict[0] - 1]);
	number = (size_t)(theirs[1] * (uint64_t)c->procs + theirs[2]);
	if (theirs[1] > 1 || theirs[2] >= (uint64_t)c->procs || number == 0 || c->peers[number] >= 0)
		fail("a process has come twice: is another client using TCP port %d?", o->tcp_port);
	c->peers[number] = fd;
}

static void gather(struct control *c, const struct options *o)
{
	c->peers = malloc(2 * (size_t)c->procs * sizeof *c->peers);
	if (!c->peers)
		fail("no memory");
	for (int i = 0; i < 2 * c->procs; i++)
		c->peers[i] = -1;
	for (int i = 1; i < 2 * c->procs; i++) {
		int fd = accept(c->listener, NULL, NULL);

		if (fd < 0)
			fail_errno("cannot accept a connection");
		no_delay(fd);
		welcome(c, o, fd);
	}
	close(c->listener);
}

void control_join(struct control *c, const struct options *o)
{
	uint64_t hello[3 + AGREED] = {MAGIC, (uint64_t)c->side, (uint64_t)c->rank}, verdict[2];

	if (own_number(c) == 0) {
		gather(c, o);
		return;
	}
	if (!c->side)
		close(c->listener);
	c->up = dial(o->server ? o->server : "localhost", o->tcp_port);
	agreed_values(o, hello + 3);
	give(c->up, hello, 3 + AGREED);
	take(c->up, verdict, 2);
	if (verdict[0] && verdict[0] <= AGREED)
		fail("the server has another %s than this client (%llu, not %llu): give both the same options", AGREED_NAMES[verdict[0] - 1],
		     (unsigned long long)verdict[1], (unsigned long long)hello[2 + verdict[0]]);
}

void exchange(struct control *c, const uint64_t *mine, size_t words, uint64_t *all)
{
	int processes = 2 * c->procs;

	if (own_number(c) != 0) {
		give(c->up, mine, words);
		take(c->up, all, words * (size_t)processes);
		return;
	}
	memcpy(all, mine, words * sizeof *mine);
	for (int i = 1; i < processes; i++)
		take(c->peers[i], all + words * (size_t)i, words);
	for (int i = 1; i < processes; i++)
		give(c->peers[i], all, words * (size_t)processes);
}

void barrier(struct control *c)
{
	uint64_t nothing = 0, all[2 * PROCS_MAX];

	exchange(c, &nothing, 1, all);
}

static int has_word(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};

	return poll(&look, 1, 0) > 0;
}

void barrier_enter(struct control *c)
{
	uint64_t nothing = 0;

	c->arrived = 1;
	if (own_number(c) != 0)
		give(c->up, &nothing, 1);
}

int barrier_passed(struct control *c)
{
	uint64_t nothing, all[2 * PROCS_MAX] = {0};
	int processes = 2 * c->procs;

	if (own_number(c) != 0) {
		if (!has_word(c->up))
			return 0;
		take(c->up, all, (size_t)processes);
		return 1;
	}
	/* Takes the words in order of rank. An early word can wait, because no process leaves before the
	 * last. */
	for (; c->arrived < processes && has_word(c->peers[c->arrived]); c->arrived++)
		take(c->peers[c->arrived], &nothing, 1);
	if (c->arrived < processes)
		return 0;
	for (int i = 1; i < processes; i++)
		give(c->peers[i], all, (size_t)processes);
	return 1;
}

int64_t clock_ahead(struct control *c)
{
	enum { ROUNDS = 8 };
	int asks = c->side == 1 && c->rank == 0;
	uint64_t theirs, shortest = UINT64_MAX;
	int64_t ahead = 0;

	for (int i = 0; i < ROUNDS && own_number(c) == 0; i++) {
		take(c->peers[c->procs], &theirs, 1);
		theirs = now_ns();
		give(c->peers[c->procs], &theirs, 1);
	}
	/* The peer answered at some moment within the round trip. The shortest trip gives the best
	 * estimate. */
	for (int i = 0; i < ROUNDS && asks; i++) {
		uint64_t asked = now_ns(), took;

		give(c->up, &asked, 1);
		take(c->up, &theirs, 1);
		took = now_ns() - asked;
		if (took < shortest) {
			shortest = took;
			ahead = (int64_t)(asked + took / 2 - theirs);
		}
	}
	return ahead;
}
