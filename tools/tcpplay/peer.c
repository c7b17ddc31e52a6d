/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Messages on a connection: a header and its payload. All payload comes from one buffer. */
#include "tcpplay.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BUFFER_BYTES = 64 << 10, PARTS_MAX = 16, READ_BYTES = 256 << 10 };

static char payload[BUFFER_BYTES], received_bytes[READ_BYTES];

static struct header header_of(enum message message, uint32_t tag, uint64_t value)
{
	return (struct header){.message = htonl(message), .tag = htonl(tag), .value = htobe64(value)};
}

/* Returns -1 if the peer has left, and 0 if the kernel takes no more. */
static ssize_t outcome(ssize_t done, const struct peer *p)
{
	if (done >= 0)
		return done;
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
		return 0;
	if (errno != EPIPE && errno != ECONNRESET)
		fail_errno("the connection to rank %u has failed", p->rank);
	return -1;
}

/* Sends a part of a message: header and payload from `done` on. */
static ssize_t send_part(struct peer *p, struct header *h, uint64_t bytes, uint64_t done)
{
	struct iovec parts[PARTS_MAX + 1];
	struct msghdr message = {.msg_iov = parts};
	uint64_t rest = bytes;

	if (done < sizeof *h)
		parts[message.msg_iovlen++] = (struct iovec){.iov_base = (char *)h + done, .iov_len = sizeof *h - done};
	else
		rest -= done - sizeof *h;
	while (rest && message.msg_iovlen <= PARTS_MAX) {
		size_t part = rest < BUFFER_BYTES ? rest : BUFFER_BYTES;

		parts[message.msg_iovlen++] = (struct iovec){.iov_base = payload, .iov_len = part};
		rest -= part;
	}
	return outcome(sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT), p);
}

int peer_send(struct peer *p, struct trace *t, void (*sent)(uint32_t step))
{
	p->is_full = 0;
	while (p->head != NONE) {
		struct step *s = &t->steps[p->head];
		struct header h = header_of(DATA, s->tag, s->amount);
		uint32_t step = p->head;
		ssize_t done = send_part(p, &h, s->amount, p->sent);

		if (done < 0)
			return -1;
		p->sent += (uint64_t)done;
		if (done == 0) {
			p->is_full = 1;
			return 0;
		}
		if (p->sent < sizeof h + s->amount)
			continue;
		p->head = s->next;
		p->sent = 0;
		sent(step);
	}
	return 0;
}

int peer_tell(struct peer *p, enum message message, uint64_t value)
{
	struct header h = header_of(message, 0, value);
	struct pollfd wait = {.fd = p->fd, .events = POLLOUT};
	uint64_t sent = 0;

	while (sent < sizeof h) {
		ssize_t done = send_part(p, &h, 0, sent);

		if (done < 0)
			return -1;
		if (done == 0)
			poll(&wait, 1, -1);
		sent += (uint64_t)done;
	}
	return 0;
}

static void check_header(const struct peer *p)
{
	if (p->in.message > END || (p->in.message == DATA && p->in.value > BYTES_MAX))
		fail("rank %u has sent something else than a message of this program", p->rank);
}

/* Takes a part of the header. Returns its bytes. */
static size_t take_header(struct peer *p, const char *bytes, size_t count)
{
	size_t part = sizeof p->in - p->in_bytes < count ? sizeof p->in - p->in_bytes : count;

	memcpy((char *)&p->in + p->in_bytes, bytes, part);
	p->in_bytes += part;
	if (p->in_bytes < sizeof p->in)
		return part;
	p->in = (struct header){.message = ntohl(p->in.message), .tag = ntohl(p->in.tag), .value = be64toh(p->in.value)};
	check_header(p);
	p->rest = p->in.message == DATA ? p->in.value : 0;
	return part;
}

static void take(struct peer *p, const char *bytes, size_t count, void (*received)(struct peer *p, const struct header *h))
{
	while (count) {
		size_t part;

		if (p->in_bytes < sizeof p->in)
			part = take_header(p, bytes, count);
		else
			p->rest -= part = p->rest < count ? (size_t)p->rest : count;
		bytes += part;
		count -= part;
		if (p->in_bytes == sizeof p->in && !p->rest) {
			struct header h = p->in;

			p->in_bytes = 0;
			received(p, &h);
		}
	}
}

int peer_receive(struct peer *p, void (*received)(struct peer *p, const struct header *h))
{
	ssize_t got = recv(p->fd, received_bytes, sizeof received_bytes, MSG_DONTWAIT);

	if (got == 0)
		return -1;
	got = outcome(got, p);
	if (got < 0)
		return -1;
	take(p, received_bytes, (size_t)got, received);
	return 0;
}
