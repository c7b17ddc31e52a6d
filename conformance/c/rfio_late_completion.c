/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Runs a copy of softband-rfio on a network whose acknowledgments of credits never come. The server
 * has the credits, so its DONE ends the copy. */
#include "rfio.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 2, BUFFER = 4096, BLOCKS = 2 };

static struct ibv_mr region;
static uint8_t memory[BUFFERS * BUFFER];
static uint32_t arrived, credited;
static int silent_polls, is_finished;

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	exit(1);
}

void fail_errno(const char *format, ...)
{
	fail("%s", format);
}

uint64_t now_ns(void)
{
	return 0;
}

int control_dial(const struct options *o)
{
	(void)o;
	return 0;
}

void send_message(int fd, const struct message *m)
{
	(void)fd;
	(void)m;
}

void receive_message(int fd, enum message_type type, int timeout_seconds, struct message *m)
{
	(void)fd;
	(void)timeout_seconds;
	if (type == DONE && credited != BLOCKS)
		fail("the server has %u credits\n", credited);
	*m = (struct message){.type = type};
	if (type == OPENED)
		m->opened.bytes = BLOCKS * BUFFER;
	else
		m->done.bytes = BLOCKS * BUFFER;
}

void link_open(struct link *l, const struct options *o, uint32_t buffers, uint32_t buffer_bytes, int remote)
{
	(void)o;
	(void)remote;
	*l = (struct link){.mr = &region, .pool = memory, .buffers = buffers, .buffer_bytes = buffer_bytes};
}

void link_describe(const struct link *l, const struct options *o, struct endpoint *end)
{
	(void)l;
	(void)o;
	memset(end, 0, sizeof *end);
}

void link_connect(struct link *l, const struct options *o, const struct endpoint *mine, const struct endpoint *theirs)
{
	(void)l;
	(void)o;
	(void)mine;
	(void)theirs;
}

void link_receive(struct link *l, uint32_t buffer, uint32_t bytes)
{
	(void)l;
	(void)buffer;
	(void)bytes;
}

void link_post(struct link *l, struct ibv_send_wr *wr)
{
	(void)l;
	credited = be32toh(wr->imm_data);
}

/* All blocks come, and then DONE by TCP. */
int link_poll(struct link *l, int control, const struct options *o, struct ibv_wc *wc)
{
	(void)l;
	(void)control;
	(void)o;
	if (arrived == BLOCKS) {
		if (++silent_polls > 1000)
			fail("the copy waits for completions of its credits\n");
		return 0;
	}
	*wc = (struct ibv_wc){.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = BUFFER, .imm_data = htobe32(arrived)};
	arrived++;
	return 1;
}

uint8_t *page_aligned(size_t bytes)
{
	return malloc(bytes);
}

void copy_bytes(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

void target_open(const char *path)
{
	(void)path;
}

void target_write(const uint8_t *data, size_t bytes)
{
	(void)data;
	(void)bytes;
}

void target_finish(void)
{
	is_finished = 1;
}

int main(void)
{
	struct options o = {.path = "data", .destination = "copy", .method = RDMA, .buffers = BUFFERS, .buffer_bytes = BUFFER, .timeout_seconds = 1};

	run_copy(&o);
	return !is_finished;
}
