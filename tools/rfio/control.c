/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rfio.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 128 };

int control_listen(const struct options *o)
{
	struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->tcp_port), .sin_addr.s_addr = INADDR_ANY};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail_errno("cannot make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&where, sizeof where))
		fail_errno("cannot use TCP port %d (choose another one with --port)", o->tcp_port);
	if (listen(fd, BACKLOG))
		fail_errno("cannot listen on TCP port %d", o->tcp_port);
	return fd;
}

void control_adopt(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int control_dial(const struct options *o)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char service[8];
	int fd, error;

	snprintf(service, sizeof service, "%d", o->tcp_port);
	error = getaddrinfo(o->host, service, &hints, &found);
	if (error)
		fail("no host `%s`: %s", o->host, gai_strerror(error));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail_errno("cannot make a socket");
	if (connect(fd, found->ai_addr, found->ai_addrlen))
		fail_errno("cannot connect to %s:%d (does `softband-rfio serve` run there?)", o->host, o->tcp_port);
	freeaddrinfo(found);
	control_adopt(fd);
	return fd;
}

static int send_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t part = send(fd, data, bytes, MSG_NOSIGNAL);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			return -1;
		data += part;
		bytes -= (size_t)part;
	}
	return 0;
}

void send_message(int fd, const struct message *m)
{
	uint8_t out[HEAD_BYTES + BODY_BYTES_MAX];

	if (send_all(fd, out, write_message(m, out)))
		fail_errno("the other side has left");
}

void send_error(int fd, const char *text)
{
	struct message m = {.type = ERROR};
	uint8_t out[HEAD_BYTES + BODY_BYTES_MAX];

	snprintf(m.text, sizeof m.text, "%s", text);
	send_all(fd, out, write_message(&m, out));
}

int has_message(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};

	return poll(&look, 1, 0) > 0;
}

/* Receives bytes until the deadline. A peer that sends a byte now and then does not extend it. */
static void receive_all(int fd, uint8_t *data, size_t bytes, uint64_t deadline)
{
	while (bytes > 0) {
		struct pollfd look = {.fd = fd, .events = POLLIN};
		uint64_t now = now_ns();
		ssize_t part;

		if (now >= deadline)
			fail("the other side is silent");
		if (poll(&look, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
			continue;
		part = recv(fd, data, bytes, MSG_DONTWAIT);
		if (part < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (part <= 0)
			fail("the other side has left in the middle of the transfer");
		data += part;
		bytes -= (size_t)part;
	}
}

void receive_message(int fd, enum message_type type, int timeout_seconds, struct message *m)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_seconds * 1000000000u;
	uint8_t head[HEAD_BYTES], body[BODY_BYTES_MAX];
	const char *reason;
	int len;

	receive_all(fd, head, sizeof head, deadline);
	len = parse_head(head, &m->type, &reason);
	if (len < 0)
		fail("cannot understand the other side: %s", reason);
	receive_all(fd, body, (size_t)len, deadline);
	if (parse_body(m, body, (size_t)len, &reason))
		fail("cannot understand the other side: %s", reason);
	if (m->type == ERROR)
		fail("the other side says: %s", m->text);
	if (m->type != type)
		fail("cannot understand the other side: a message of type %d, where %d belongs", m->type, type);
}
