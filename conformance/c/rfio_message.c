/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Feeds changed and random bytes to the parser of softband-rfio. The compiler's checks of addresses
 * and undefined behaviour end the program at a fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

enum { ROUNDS = 50000, WHOLE_MAX = HEAD_BYTES + BODY_BYTES_MAX };

static uint64_t state = 1;

static uint32_t random_number(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

static struct message example(enum message_type type)
{
	struct endpoint end = {.qpn = 7, .psn = 9, .lid = 3, .mtu = 4};
	struct message m = {.type = type};

	if (type == OPEN) {
		m.open.end = end;
		m.open.buffers = 8;
		m.open.buffer_bytes = 8192;
		strcpy(m.open.path, "data/file");
	} else if (type == OPENED) {
		m.opened.end = end;
		m.opened.bytes = 12345;
	} else if (type == DONE) {
		m.done.bytes = 12345;
	} else if (type == ERROR) {
		strcpy(m.text, "no such file");
	}
	return m;
}

/* Parses bytes from a block of exactly their size. Returns whether they are a message. */
static int parse(const uint8_t *bytes, size_t len)
{
	static struct message m;
	const char *reason = NULL;
	uint8_t *copy = malloc(len ? len : 1);
	int body, good;

	memcpy(copy, bytes, len);
	body = len < HEAD_BYTES ? -1 : parse_head(copy, &m.type, &reason);
	if (body < -1 || body > BODY_BYTES_MAX)
		abort();
	good = body >= 0 && (size_t)body == len - HEAD_BYTES && parse_body(&m, copy + HEAD_BYTES, (size_t)body, &reason) == 0;
	if (good && m.type == OPEN && (m.open.buffers < 1 || m.open.buffers > BUFFERS_MAX || strlen(m.open.path) > PATH_BYTES_MAX))
		abort();
	free(copy);
	return good;
}

static void refuse_all_shorter(const uint8_t *bytes, size_t len)
{
	for (size_t shorter = 0; shorter < len; shorter++)
		if (parse(bytes, shorter))
			abort();
}

static void change_and_parse(const uint8_t *bytes, size_t len)
{
	uint8_t changed[WHOLE_MAX];

	memcpy(changed, bytes, len);
	for (uint32_t i = random_number() % 4 + 1; i > 0; i--)
		changed[random_number() % len] = (uint8_t)random_number();
	parse(changed, len);
}

static void parse_random(const uint8_t *head)
{
	uint8_t bytes[WHOLE_MAX];
	size_t len = HEAD_BYTES + random_number() % BODY_BYTES_MAX;

	memcpy(bytes, head, HEAD_BYTES);
	for (size_t i = HEAD_BYTES; i < len; i++)
		bytes[i] = (uint8_t)random_number();
	bytes[8] = bytes[9] = 0;
	bytes[10] = (uint8_t)((len - HEAD_BYTES) >> 8);
	bytes[11] = (uint8_t)(len - HEAD_BYTES);
	parse(bytes, len);
}

int main(void)
{
	for (int type = OPEN; type <= ERROR; type++) {
		struct message m = example((enum message_type)type);
		uint8_t bytes[WHOLE_MAX];
		size_t len = write_message(&m, bytes);

		if (!parse(bytes, len))
			abort();
		refuse_all_shorter(bytes, len);
		for (int round = 0; round < ROUNDS; round++) {
			change_and_parse(bytes, len);
			if (round % 16 == 0)
				parse_random(bytes);
		}
	}
	puts("the parser survives");
	return 0;
}
