/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Parses and writes control messages. The other side is not trusted: each read checks the rest of
 * the body first. */
#include "message.h"

#include <string.h>

static const uint32_t MAGIC = 0x53425246; /* SBRF */

/* Codes of verbs: 256 to 4096 bytes. */
enum { MTU_CODE_MIN = 1, MTU_CODE_MAX = 5 };
enum { NUMBER_24_BITS = 0xffffff };

struct reader {
	const uint8_t *at;
	size_t left;
	int failed;
};

static uint64_t take(struct reader *r, size_t bytes)
{
	uint64_t value = 0;

	if (r->left < bytes) {
		r->failed = 1;
		r->left = 0;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		value = value << 8 | r->at[i];
	r->at += bytes;
	r->left -= bytes;
	return value;
}

static void take_bytes(struct reader *r, void *to, size_t bytes)
{
	if (r->left < bytes) {
		r->failed = 1;
		r->left = 0;
		return;
	}
	memcpy(to, r->at, bytes);
	r->at += bytes;
	r->left -= bytes;
}

/* Takes a text behind its length. A text with a zero byte would end early. */
static void take_text(struct reader *r, char *to, size_t most)
{
	size_t len = take(r, 2);

	if (len > most || len > r->left || memchr(r->at, 0, len)) {
		r->failed = 1;
		len = 0;
	}
	take_bytes(r, to, len);
	to[len] = 0;
}

static void take_endpoint(struct reader *r, struct endpoint *end)
{
	end->qpn = (uint32_t)take(r, 4);
	end->psn = (uint32_t)take(r, 4);
	end->lid = (uint16_t)take(r, 2);
	end->mtu = (uint8_t)take(r, 1);
	end->is_global = (uint8_t)take(r, 1);
	take_bytes(r, end->gid, GID_BYTES);
}

static const char *fault_of_endpoint(const struct endpoint *end)
{
	if (end->qpn > NUMBER_24_BITS || end->psn > NUMBER_24_BITS)
		return "a queue pair or packet number has more than 24 bits";
	if (end->mtu < MTU_CODE_MIN || end->mtu > MTU_CODE_MAX || end->is_global > 1)
		return "an unknown MTU or route";
	return NULL;
}

static const char *take_open(struct reader *r, struct message *m)
{
	uint64_t method;

	take_endpoint(r, &m->open.end);
	method = take(r, 1);
	m->open.method = method ? SEND : RDMA;
	m->open.flags = (uint32_t)take(r, 1);
	m->open.buffers = (uint32_t)take(r, 4);
	m->open.buffer_bytes = (uint32_t)take(r, 4);
	m->open.key = (uint32_t)take(r, 4);
	m->open.address = take(r, 8);
	take_text(r, m->open.path, PATH_BYTES_MAX);
	if (r->failed)
		return NULL;
	if (method > SEND || m->open.flags & ~(uint32_t)(FROM_DISK | WITH_CHECKSUM))
		return "an unknown method or flag";
	if (m->open.buffers < 1 || m->open.buffers > BUFFERS_MAX)
		return "the number of buffers is not 1 to 256";
	if (m->open.buffer_bytes < BUFFER_UNIT || m->open.buffer_bytes > BUFFER_BYTES_MAX || m->open.buffer_bytes % BUFFER_UNIT)
		return "the buffer size is no multiple of 4096 up to 16 MiB";
	if (m->open.path[0] == 0)
		return "the path is empty";
	return fault_of_endpoint(&m->open.end);
}

static const char *take_opened(struct reader *r, struct message *m)
{
	take_endpoint(r, &m->opened.end);
	m->opened.bytes = take(r, 8);
	if (r->failed)
		return NULL;
	if (m->opened.bytes > (uint64_t)INT64_MAX)
		return "the file is longer than 2^63 bytes";
	return fault_of_endpoint(&m->opened.end);
}

int parse_head(const uint8_t *head, enum message_type *type, const char **reason)
{
	struct reader r = {.at = head, .left = HEAD_BYTES};
	uint64_t magic = take(&r, 4), version = take(&r, 2), number = take(&r, 2), len = take(&r, 4);

	*reason = NULL;
	if (magic != MAGIC)
		*reason = "these are no messages of softband-rfio";
	else if (version != VERSION)
		*reason = "the versions of softband-rfio differ: use the same on both sides";
	else if (number < OPEN || number > ERROR)
		*reason = "an unknown type of message";
	else if (len > BODY_BYTES_MAX)
		*reason = "a message is too long";
	*type = *reason ? ERROR : (enum message_type)number;
	return *reason ? -1 : (int)len;
}

int parse_body(struct message *m, const uint8_t *body, size_t len, const char **reason)
{
	struct reader r = {.at = body, .left = len};
	const char *fault = NULL;

	switch (m->type) {
	case OPEN:
		fault = take_open(&r, m);
		break;
	case OPENED:
		fault = take_opened(&r, m);
		break;
	case DONE:
		m->done.bytes = take(&r, 8);
		m->done.checksum = take(&r, 8);
		break;
	case ERROR:
		take_text(&r, m->text, TEXT_BYTES_MAX);
		break;
	case START:
	case CLOSE:
		break;
	}
	if (r.failed)
		fault = "a message is too short";
	else if (!fault && r.left)
		fault = "a message has bytes behind its end";
	*reason = fault;
	return fault ? -1 : 0;
}

static uint8_t *put(uint8_t *out, uint64_t value, size_t bytes)
{
	for (size_t i = bytes; i > 0; i--) {
		out[i - 1] = (uint8_t)value;
		value >>= 8;
	}
	return out + bytes;
}

static uint8_t *put_bytes(uint8_t *out, const void *from, size_t bytes)
{
	memcpy(out, from, bytes);
	return out + bytes;
}

static uint8_t *put_text(uint8_t *out, const char *text)
{
	size_t len = strlen(text);

	return put_bytes(put(out, len, 2), text, len);
}

static uint8_t *put_endpoint(uint8_t *out, const struct endpoint *end)
{
	out = put(out, end->qpn, 4);
	out = put(out, end->psn, 4);
	out = put(out, end->lid, 2);
	out = put(out, end->mtu, 1);
	out = put(out, end->is_global, 1);
	return put_bytes(out, end->gid, GID_BYTES);
}

static uint8_t *put_open(uint8_t *out, const struct message *m)
{
	out = put_endpoint(out, &m->open.end);
	out = put(out, m->open.method, 1);
	out = put(out, m->open.flags, 1);
	out = put(out, m->open.buffers, 4);
	out = put(out, m->open.buffer_bytes, 4);
	out = put(out, m->open.key, 4);
	out = put(out, m->open.address, 8);
	return put_text(out, m->open.path);
}

size_t write_message(const struct message *m, uint8_t *out)
{
	uint8_t *body = out + HEAD_BYTES, *end = body;

	switch (m->type) {
	case OPEN:
		end = put_open(body, m);
		break;
	case OPENED:
		end = put(put_endpoint(body, &m->opened.end), m->opened.bytes, 8);
		break;
	case DONE:
		end = put(put(body, m->done.bytes, 8), m->done.checksum, 8);
		break;
	case ERROR:
		end = put_text(body, m->text);
		break;
	case START:
	case CLOSE:
		break;
	}
	put(put(put(put(out, MAGIC, 4), VERSION, 2), (uint64_t)m->type, 2), (uint64_t)(end - body), 4);
	return (size_t)(end - out);
}

static int shift_of(char unit)
{
	switch (unit) {
	case 0:
		return 0;
	case 'K':
		return 10;
	case 'M':
		return 20;
	case 'G':
		return 30;
	default:
		return -1;
	}
}

int parse_size(const char *text, uint64_t most, uint64_t *size)
{
	uint64_t value = 0;
	int shift;

	if (*text < '0' || *text > '9')
		return -1;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (value > most)
			return -1;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	shift = shift_of(*text);
	if (shift < 0 || (*text && text[1]) || value == 0 || value > most >> shift)
		return -1;
	*size = value << shift;
	return 0;
}
