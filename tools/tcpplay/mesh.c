/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Connections with the ranks that exchange messages with this one, and with its neighbours in the
 * tree. The higher rank of two connects. */
#include "tcpplay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The first word of a connection, with the version of the protocol. */
static const uint32_t MAGIC = 0x53425401;

enum { RETRY_MS = 50, STRANGERS_MAX = 64, NAMED_MAX = 8 };

struct hello {
	uint32_t magic, from, to, ranks, digest_high, digest_low;
};

/* An accepted connection without its complete hello. */
struct guest {
	int fd;
	size_t got;
	struct hello hello;
};

static struct hello hello_to(const struct trace *t, uint32_t to)
{
	return (struct hello){.magic = htonl(MAGIC), .from = htonl(t->rank), .to = htonl(to), .ranks = htonl(t->ranks),
			      .digest_high = htonl((uint32_t)(t->digest >> 32)), .digest_low = htonl((uint32_t)t->digest)};
}

static int is_needed(const struct trace *t, uint32_t rank, const char *partners)
{
	return rank != t->rank && (partners[rank] || is_child(rank, t->rank) || is_child(t->rank, rank));
}

static void choose_peers(struct mesh *m, const struct trace *t)
{
	char *partners = zeroed(t->ranks, 1);
	uint32_t rank;
	size_t i;

	for (i = 0; i < t->channels.count; i++)
		partners[t->channels.list[i].peer] = 1;
	m->by_rank = zeroed(t->ranks, sizeof *m->by_rank);
	for (rank = 0; rank < t->ranks; rank++)
		m->count += (size_t)is_needed(t, rank, partners);
	m->peers = zeroed(m->count, sizeof *m->peers);
	for (rank = 0, i = 0; rank < t->ranks; rank++) {
		if (!is_needed(t, rank, partners))
			continue;
		m->by_rank[rank] = &m->peers[i];
		m->peers[i++] = (struct peer){.rank = rank, .fd = -1, .head = NONE, .tail = NONE};
	}
	free(partners);
}

static int listen_on(const char *port)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr.s_addr = htonl(INADDR_ANY)};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
		fail_errno("cannot open a socket");
	if (bind(fd, (struct sockaddr *)&own, sizeof own) || listen(fd, SOMAXCONN))
		fail_errno("cannot listen on port %s (--port)", port);
	return fd;
}

static void without_delay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
		fail_errno("cannot set TCP_NODELAY");
}

static struct addrinfo *resolve(const struct address *a, uint32_t rank)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int error = getaddrinfo(a->host, a->port, &hints, &found);

	if (error)
		fail("rank %u: there is no host `%s`: %s", rank, a->host, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
	return found;
}

/* Returns a connection, or -1 and errno. */
static int try_to_connect(const struct addrinfo *list)
{
	int fd = -1, error;

	for (; list; list = list->ai_next) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			fail_errno("cannot open a socket");
		if (connect(fd, list->ai_addr, list->ai_addrlen) == 0)
			return fd;
		error = errno;
		close(fd);
		errno = error;
	}
	return -1;
}

static int dial(const struct address *a, uint32_t rank, uint64_t deadline)
{
	const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
	struct addrinfo *found = resolve(a, rank);
	int fd;

	/* A rank may start later than this one. */
	while ((fd = try_to_connect(found)) < 0) {
		if ((errno != ECONNREFUSED && errno != EINTR && errno != ETIMEDOUT) || now_ns() > deadline)
			fail_errno("cannot connect to rank %u at %s:%s: does it run?", rank, a->host, a->port);
		nanosleep(&pause, NULL);
	}
	freeaddrinfo(found);
	without_delay(fd);
	return fd;
}

static void connect_to(struct peer *p, const struct address *a, const struct trace *t, uint64_t deadline)
{
	struct hello hello = hello_to(t, p->rank);

	p->fd = dial(a, p->rank, deadline);
	/* A new connection takes these bytes at once. */
	if (send(p->fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
		fail_errno("rank %u at %s:%s has closed the connection", p->rank, a->host, a->port);
}

/* Gives a guest's connection to its peer. Returns 0 for a stranger. */
static int admit(struct mesh *m, const struct guest *g, const struct trace *t)
{
	struct hello mine = hello_to(t, t->rank), expected = g->hello;
	uint32_t from = ntohl(g->hello.from);
	struct peer *p;

	if (ntohl(g->hello.magic) != MAGIC)
		return 0;
	expected.from = mine.from;
	if (expected.ranks != mine.ranks || expected.digest_high != mine.digest_high || expected.digest_low != mine.digest_low)
		fail("rank %u plays another trace: all ranks need the same file", from);
	if (expected.to != mine.to)
		fail("rank %u takes this process for rank %u: all ranks need the same list of hosts", from, ntohl(expected.to));
	p = from < t->ranks && from > t->rank ? m->by_rank[from] : NULL;
	if (!p || p->fd >= 0)
		fail("two processes play rank %u, or one that exchanges nothing with this rank has connected", from);
	p->fd = g->fd;
	without_delay(p->fd);
	return 1;
}

/* Reads a guest's hello. Returns whether it stays a guest. */
static int hear(struct mesh *m, struct guest *g, const struct trace *t)
{
	ssize_t got = recv(g->fd, (char *)&g->hello + g->got, sizeof g->hello - g->got, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (got > 0)
		g->got += (size_t)got;
	if (got > 0 && g->got < sizeof g->hello)
		return 1;
	if (got <= 0 || !admit(m, g, t))
		close(g->fd);
	return 0;
}

static uint32_t missing_of(const struct mesh *m, uint32_t rank)
{
	uint32_t count = 0;
	size_t i;

	for (i = 0; i < m->count; i++)
		count += m->peers[i].fd < 0 && m->peers[i].rank > rank;
	return count;
}

static void name_missing(const struct mesh *m, const struct options *o) __attribute__((noreturn));
static void name_missing(const struct mesh *m, const struct options *o)
{
	char names[160] = "";
	uint32_t named = 0;
	size_t i;

	for (i = 0; i < m->count; i++)
		if (m->peers[i].fd < 0 && named++ < NAMED_MAX)
			snprintf(names + strlen(names), sizeof names - strlen(names), " %u", m->peers[i].rank);
	fail("%u ranks have not connected in %d s (--start-timeout):%s%s", named, o->start_seconds, names, named > NAMED_MAX ? " ..." : "");
}

/* Accepts connections until all higher ranks are there. Connections without the magic word do no harm. */
static void accept_all(struct mesh *m, int listener, const struct options *o, const struct trace *t, uint64_t deadline)
{
	size_t room = t->ranks + STRANGERS_MAX, count = 0, i, kept;
	struct guest *guests = zeroed(room, sizeof *guests);
	struct pollfd *fds = zeroed(room + 1, sizeof *fds);

	while (missing_of(m, t->rank)) {
		uint64_t now = now_ns();
		int fd;

		fds[0] = (struct pollfd){.fd = count < room ? listener : -1, .events = POLLIN};
		for (i = 0; i < count; i++)
			fds[i + 1] = (struct pollfd){.fd = guests[i].fd, .events = POLLIN};
		if (now >= deadline)
			name_missing(m, o);
		poll(fds, count + 1, (int)((deadline - now) / 1000000 + 1));
		for (i = kept = 0; i < count; i++)
			if (!fds[i + 1].revents || hear(m, &guests[i], t))
				guests[kept++] = guests[i];
		count = kept;
		while (count < room && (fd = accept(listener, NULL, NULL)) >= 0)
			guests[count++] = (struct guest){.fd = fd};
	}
	for (i = 0; i < count; i++)
		close(guests[i].fd);
	free(guests);
	free(fds);
}

void mesh_connect(struct mesh *m, const struct options *o, const struct trace *t)
{
	uint64_t deadline = now_ns() + (uint64_t)o->start_seconds * 1000000000u;
	struct address *addresses = addresses_of(o, t->ranks);
	int listener = listen_on(addresses[t->rank].port);
	size_t i;

	choose_peers(m, t);
	for (i = 0; i < m->count && m->peers[i].rank < t->rank; i++)
		connect_to(&m->peers[i], &addresses[m->peers[i].rank], t, deadline);
	accept_all(m, listener, o, t, deadline);
	close(listener);
	free(addresses);
}
