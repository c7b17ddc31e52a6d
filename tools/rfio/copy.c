/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Copies a file from a server. */
#include "rfio.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copy {
	struct link link;
	int control;
	const struct options *options;
	uint8_t *own; /* with bounce buffers: the data after the copy */
	uint64_t bytes, blocks, taken, returned, sum;
	uint32_t credits; /* on their way */
};

/* Bytes that a receive request has room for. RDMA writes bring their data to the pool
 * themselves. */
static uint32_t room(const struct copy *c)
{
	return c->options->method == SEND ? c->options->buffer_bytes : 0;
}

static void connect_to_server(struct copy *c)
{
	const struct options *o = c->options;
	struct message m = {.type = OPEN};
	struct endpoint mine;

	link_describe(&c->link, o, &mine);
	m.open.end = mine;
	m.open.method = o->method;
	m.open.flags = o->flags;
	m.open.buffers = o->buffers;
	m.open.buffer_bytes = o->buffer_bytes;
	m.open.address = (uintptr_t)c->link.pool;
	m.open.key = c->link.mr->rkey;
	strcpy(m.open.path, o->path);
	for (uint32_t i = 0; i < o->buffers; i++)
		link_receive(&c->link, i, room(c));
	send_message(c->control, &m);
	receive_message(c->control, OPENED, o->timeout_seconds, &m);
	c->bytes = m.opened.bytes;
	c->blocks = blocks_of(c->bytes, o->buffer_bytes);
	link_connect(&c->link, o, &mine, &m.opened.end);
}

/* Returns all blocks that are taken, unless a credit would find no room in the send queue. */
static void return_credits(struct copy *c)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32((uint32_t)c->taken)};

	if (c->returned == c->taken || c->credits == c->link.buffers)
		return;
	link_post(&c->link, &wr);
	c->returned = c->taken;
	c->credits++;
}

static void take_block(struct copy *c, const struct ibv_wc *wc)
{
	uint32_t bytes = length_of(c->bytes, c->link.buffer_bytes, c->taken);
	const uint8_t *data = buffer_at(&c->link, c->taken);

	if (c->taken == c->blocks || wc->byte_len != bytes || be32toh(wc->imm_data) != (uint32_t)c->taken)
		fail("the server has sent another block than number %llu", (unsigned long long)c->taken);
	if (c->own) {
		copy_bytes(c->own, data, bytes);
		data = c->own;
	}
	if (c->options->flags & WITH_CHECKSUM)
		c->sum = checksum(c->sum, data, bytes);
	target_write(data, bytes);
	link_receive(&c->link, (uint32_t)(c->taken % c->link.buffers), room(c));
	c->taken++;
}

/* The server's DONE proves that the last credits have arrived. Their completions may be late. */
static void take_blocks(struct copy *c)
{
	struct ibv_wc wc;

	while (c->returned < c->blocks) {
		if (!link_poll(&c->link, c->control, c->options, &wc))
			continue;
		if (wc.opcode & IBV_WC_RECV)
			take_block(c, &wc);
		else
			c->credits--;
		return_credits(c);
	}
}

static void check(const struct copy *c, const struct message *done)
{
	if (done->done.bytes != c->bytes)
		fail("the server has sent %llu bytes instead of %llu", (unsigned long long)done->done.bytes, (unsigned long long)c->bytes);
	if (c->options->flags & WITH_CHECKSUM && done->done.checksum != c->sum)
		fail("the data differs from the server's: checksum %016llx instead of %016llx", (unsigned long long)c->sum,
		     (unsigned long long)done->done.checksum);
}

static void print_result(const struct copy *c, uint64_t nanos)
{
	double seconds = (double)nanos * 1e-9, rate = nanos ? (double)c->bytes / seconds * 1e-6 : 0;
	const char *format = c->options->csv ? "%llu,%.9f,%.2f" : "%llu bytes in %.6f s, %.2f MB/s";

	printf(format, (unsigned long long)c->bytes, seconds, rate);
	if (c->options->flags & WITH_CHECKSUM)
		printf(c->options->csv ? ",%016llx" : ", checksum %016llx", (unsigned long long)c->sum);
	printf("\n");
	if (fflush(stdout))
		fail_errno("cannot write the result");
}

void run_copy(const struct options *o)
{
	struct copy c = {.options = o, .sum = checksum_start()};
	struct message m = {.type = START};
	uint64_t began;

	c.control = control_dial(o);
	target_open(o->destination);
	link_open(&c.link, o, o->buffers, o->buffer_bytes, o->method == RDMA ? IBV_ACCESS_REMOTE_WRITE : 0);
	if (o->method == SEND)
		c.own = page_aligned(o->buffer_bytes);
	connect_to_server(&c);
	began = now_ns();
	send_message(c.control, &m);
	take_blocks(&c);
	receive_message(c.control, DONE, o->timeout_seconds, &m);
	check(&c, &m);
	target_finish();
	print_result(&c, now_ns() - began);
	m = (struct message){.type = CLOSE};
	send_message(c.control, &m);
}
