/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The messages of the control connection. All numbers have their highest byte first. A message is
 * a head of 12 bytes (magic, version, type, length of the body) and its body. */
#ifndef RFIO_MESSAGE_H
#define RFIO_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum { PATH_BYTES_MAX = 4095, TEXT_BYTES_MAX = 511, GID_BYTES = 16 };
enum { HEAD_BYTES = 12, BODY_BYTES_MAX = 4608, VERSION = 1 };

/* Buffers of a reader. Sizes are multiples of the unit, so that a disk can fill them directly. */
enum { BUFFER_UNIT = 4096, BUFFER_BYTES_MAX = 16 << 20, BUFFERS_MAX = 256 };

enum message_type { OPEN = 1, OPENED, START, DONE, CLOSE, ERROR };

enum method { RDMA, SEND };

/* Bits of `flags` of an OPEN. */
enum { FROM_DISK = 1, WITH_CHECKSUM = 2 };

/* One end of a reliable connection. */
struct endpoint {
	uint32_t qpn, psn;
	uint16_t lid;
	uint8_t mtu; /* code of verbs */
	uint8_t is_global;
	uint8_t gid[GID_BYTES];
};

struct message {
	enum message_type type;
	union {
		struct {
			struct endpoint end;
			enum method method;
			uint32_t flags, buffers, buffer_bytes, key;
			uint64_t address;
			char path[PATH_BYTES_MAX + 1];
		} open;
		struct {
			struct endpoint end;
			uint64_t bytes;
		} opened;
		struct {
			uint64_t bytes, checksum;
		} done;
		char text[TEXT_BYTES_MAX + 1]; /* of an ERROR */
	};
};

/* Reads a head. Returns the length of the body, or -1 and the reason. */
int parse_head(const uint8_t *head, enum message_type *type, const char **reason);

/* Reads the body of a message of type `m->type`. Returns 0, or -1 and the reason. */
int parse_body(struct message *m, const uint8_t *body, size_t len, const char **reason);

/* Writes a message to room for HEAD_BYTES + BODY_BYTES_MAX bytes. Returns its length. */
size_t write_message(const struct message *m, uint8_t *out);

/* Reads a size, with K, M or G for 2^10, 2^20 or 2^30. Returns 0, or -1 if it is none of 1 to
 * `most`. */
int parse_size(const char *text, uint64_t most, uint64_t *size);

#endif
