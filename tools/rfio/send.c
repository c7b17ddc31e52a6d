/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Serves a reader. Each block of a file uses the buffer of its number on both sides. The reader
 * returns credits: the number of blocks that it has taken. */
#include "rfio.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

struct sender {
	struct link link;
	struct source source;
	int control;
	const struct options *options;
	const struct message *open;
	uint8_t *copy; /* with bounce buffers: the file's data before the copy */
	uint64_t blocks, sent, completed, credited, sum;
};

/* Limit of the first message: connections that say nothing must not keep readers out for long. */
enum { FIRST_MESSAGE_SECONDS = 5 };

static int reader = -1;

static void inform_reader(const char *text)
{
	if (reader >= 0)
		send_error(reader, text);
}

static void fill(struct sender *s, uint8_t *buffer, uint32_t bytes)
{
	uint8_t *to = s->copy ? s->copy : buffer;

	source_read(&s->source, to, s->sent * s->link.buffer_bytes, bytes);
	if (s->open->open.flags & WITH_CHECKSUM)
		s->sum = checksum(s->sum, to, bytes);
	if (s->copy)
		copy_bytes(buffer, to, bytes);
}

static void send_block(struct sender *s)
{
	uint32_t bytes = length_of(s->source.bytes, s->link.buffer_bytes, s->sent);
	uint8_t *buffer = buffer_at(&s->link, s->sent);
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = bytes, .lkey = s->link.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32((uint32_t)s->sent)};

	fill(s, buffer, bytes);
	if (s->open->open.method == RDMA) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.wr.rdma.remote_addr = s->open->open.address + (uint64_t)(buffer - s->link.pool);
		wr.wr.rdma.rkey = s->open->open.key;
	}
	link_post(&s->link, &wr);
	s->sent++;
}

static void take_credit(struct sender *s, uint32_t taken)
{
	uint32_t more = taken - (uint32_t)s->credited;

	if (more > s->sent - s->credited)
		fail("the reader returns blocks that it does not have");
	s->credited += more;
	link_receive(&s->link, 0, 0);
}

static void send_blocks(struct sender *s)
{
	struct ibv_wc wc;

	while (s->credited < s->blocks) {
		if (s->sent < s->blocks && s->sent - s->credited < s->link.buffers && s->sent - s->completed < s->link.buffers)
			send_block(s);
		if (!link_poll(&s->link, s->control, s->options, &wc))
			continue;
		if (wc.opcode & IBV_WC_RECV)
			take_credit(s, be32toh(wc.imm_data));
		else
			s->completed++;
	}
}

/* The content of memory is arbitrary, but differs from block to block. */
static void fill_memory(uint8_t *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		memory[i] = (uint8_t)(i * 7 + i / BUFFER_UNIT);
}

static void prepare(struct sender *s, const struct message *open, int root)
{
	const struct options *o = s->options;
	uint64_t bytes = (uint64_t)open->open.buffers * open->open.buffer_bytes, share = o->memory / (uint64_t)o->readers;
	uint32_t bounce = open->open.method == SEND ? open->open.buffer_bytes : 0;

	s->open = open;
	if (bytes + bounce > share)
		fail("%u buffers of %u bytes%s exceed the %llu bytes of a reader (--memory and --readers of the server)", open->open.buffers,
		     open->open.buffer_bytes, bounce ? " and one for copies" : "", (unsigned long long)share);
	source_open(&s->source, root, open->open.path, (open->open.flags & FROM_DISK) != 0);
	link_open(&s->link, o, open->open.buffers, open->open.buffer_bytes, 0);
	s->blocks = blocks_of(s->source.bytes, open->open.buffer_bytes);
	if (open->open.method == SEND)
		s->copy = page_aligned(open->open.buffer_bytes);
	if (s->source.fd < 0)
		fill_memory(s->copy ? s->copy : s->link.pool, s->copy ? open->open.buffer_bytes : (size_t)bytes);
	for (uint32_t i = 0; i <= open->open.buffers; i++)
		link_receive(&s->link, 0, 0);
}

void serve_reader(int fd, int root, const struct options *o, struct transfer *t)
{
	struct message open, m = {.type = OPENED};
	struct sender s = {.control = fd, .options = o, .sum = checksum_start()};

	reader = fd;
	before_fail(inform_reader, NULL);
	control_adopt(fd);
	receive_message(fd, OPEN, o->timeout_seconds < FIRST_MESSAGE_SECONDS ? o->timeout_seconds : FIRST_MESSAGE_SECONDS, &open);
	prepare(&s, &open, root);
	link_describe(&s.link, o, &m.opened.end);
	m.opened.bytes = s.source.bytes;
	link_connect(&s.link, o, &m.opened.end, &open.open.end);
	send_message(fd, &m);
	receive_message(fd, START, o->timeout_seconds, &m);
	t->began_ns = now_ns();
	send_blocks(&s);
	t->ended_ns = now_ns();
	t->bytes = s.source.bytes;
	m = (struct message){.type = DONE, .done = {.bytes = s.source.bytes, .checksum = s.sum}};
	send_message(fd, &m);
	receive_message(fd, CLOSE, o->timeout_seconds, &m);
}
