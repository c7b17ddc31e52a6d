/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * softband-rfio copies files over InfiniBand. TCP carries the control messages, reliable
 * connections carry the data. It uses plain verbs, so it runs on a fabric of Softband and on
 * hardware. */
#ifndef RFIO_H
#define RFIO_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "message.h"

struct options {
	int serves;
	const char *root;
	uint64_t memory; /* bytes of the buffers of all readers */
	int readers, transfers; /* 0 transfers: no limit */
	char host[256];
	const char *path, *destination;
	enum method method;
	uint32_t flags, buffers, buffer_bytes;
	int csv, tcp_port, timeout_seconds;
	const char *device; /* NULL: the first one */
	int ib_port;        /* 0: the first active one */
	int gid_index;      /* -1: no global route, but on Ethernet */
};

/* options.c */
void parse_options(int argc, char **argv, struct options *o);

/* Ends the program with a message. `fail_errno` adds what errno says. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fail_errno(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Sets the functions that run before `fail` ends the program: with the message, and without. */
void before_fail(void (*inform)(const char *text), void (*clean)(void));

uint64_t now_ns(void);

/* control.c */
int control_listen(const struct options *o);
int control_dial(const struct options *o);
void control_adopt(int fd);
void send_message(int fd, const struct message *m);

/* Sends an error, and does not care whether the other side takes it. */
void send_error(int fd, const char *text);

/* Receives the message of this type within the time limit. Fails on an ERROR and on all others. */
void receive_message(int fd, enum message_type type, int timeout_seconds, struct message *m);

/* Returns whether the connection has a message, or has ended. */
int has_message(int fd);

/* link.c: a queue pair, and a pool of registered buffers. */
struct link {
	struct ibv_context *context;
	struct ibv_port_attr attr;
	uint8_t port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint8_t *pool;
	uint32_t buffers, buffer_bytes;
	unsigned silent; /* empty polls in a row */
	uint64_t active_ns; /* the last completion */
};

/* `remote` is IBV_ACCESS_REMOTE_WRITE if the other side writes into the pool, or 0. */
void link_open(struct link *l, const struct options *o, uint32_t buffers, uint32_t buffer_bytes, int remote);
void link_describe(const struct link *l, const struct options *o, struct endpoint *end);
void link_connect(struct link *l, const struct options *o, const struct endpoint *mine, const struct endpoint *theirs);

/* Posts a receive request: for a buffer, or for a message without data if `bytes` is 0. */
void link_receive(struct link *l, uint32_t buffer, uint32_t bytes);
void link_post(struct link *l, struct ibv_send_wr *wr);

/* Takes a completion. Returns 0 if there is none. Now and then it looks at the control connection:
 * a message there is one too early. */
int link_poll(struct link *l, int control, const struct options *o, struct ibv_wc *wc);

uint8_t *page_aligned(size_t bytes);

/* Copies memory, and counts the copy in simulated time. */
void copy_bytes(void *to, const void *from, size_t bytes);

static inline uint8_t *buffer_at(const struct link *l, uint64_t block)
{
	return l->pool + (block % l->buffers) * l->buffer_bytes;
}

static inline uint64_t blocks_of(uint64_t bytes, uint32_t buffer_bytes)
{
	return bytes / buffer_bytes + (bytes % buffer_bytes != 0);
}

static inline uint32_t length_of(uint64_t bytes, uint32_t buffer_bytes, uint64_t block)
{
	uint64_t rest = bytes - block * buffer_bytes;

	return (uint32_t)(rest < buffer_bytes ? rest : buffer_bytes);
}

/* checksum.c: FNV-1a over words of 8 bytes, the last one filled up with zeros. Blocks except the
 * last have whole words. */
uint64_t checksum_start(void);
uint64_t checksum(uint64_t sum, const uint8_t *data, size_t bytes);

/* source.c: the data of a server. */
struct source {
	int fd; /* -1: memory */
	uint64_t bytes;
};

int root_open(const char *path);
void source_open(struct source *s, int root, const char *path, int from_disk);
void source_read(const struct source *s, uint8_t *to, uint64_t offset, uint32_t bytes);

/* target.c: the destination of a client. */
void target_open(const char *path);
void target_write(const uint8_t *data, size_t bytes);
void target_finish(void);

/* serve.c, send.c, copy.c */
struct transfer {
	uint64_t began_ns, ended_ns, bytes;
};

int run_server(const struct options *o);
void serve_reader(int fd, int root, const struct options *o, struct transfer *t);
void run_copy(const struct options *o);

#endif
