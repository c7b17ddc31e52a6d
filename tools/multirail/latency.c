/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures latency: half a round trip of sends or writes, or the whole of a read or atomic. */
#include "multirail.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 10 };

static void send_message(struct rails *r, uint64_t size)
{
	rail_post(r, 0, IBV_WR_SEND, 0, (uint32_t)size);
	drain(r->send_cq, 1);
}

/* Every receive request has room for the largest message, because the next message may be
 * larger. */
static void await_message(struct rails *r)
{
	drain(r->recv_cq, 1);
	rail_receive(r, 0, (uint32_t)r->half);
}

/* The last byte of a message holds the number of its turn, because it arrives last. */
static void write_message(struct rails *r, uint64_t size, uint8_t turn)
{
	r->buffer[size - 1] = turn;
	rail_post(r, 0, IBV_WR_RDMA_WRITE, 0, (uint32_t)size);
	drain(r->send_cq, 1);
}

static void await_write(struct rails *r, uint64_t size, uint8_t turn)
{
	volatile uint8_t *last = r->buffer + r->half + size - 1;

	while (*last != turn)
		;
}

static void one_sided(struct rails *r, enum test test, uint64_t size)
{
	enum ibv_wr_opcode opcode = test == READ_LAT	   ? IBV_WR_RDMA_READ
				    : test == CMP_SWAP_LAT ? IBV_WR_ATOMIC_CMP_AND_SWP
							   : IBV_WR_ATOMIC_FETCH_AND_ADD;

	rail_post(r, 0, opcode, 0, (uint32_t)size);
	drain(r->send_cq, 1);
}

/* Plays one turn of this side. Numbers distinguish consecutive turns. */
static void turn(struct rails *r, const struct control *c, enum test test, uint64_t size, int number)
{
	uint8_t mark = (uint8_t)(1 + number % 2);

	if (test == SEND_LAT && c->side == 1) {
		send_message(r, size);
		await_message(r);
	} else if (test == SEND_LAT) {
		await_message(r);
		send_message(r, size);
	} else if (test == WRITE_LAT && c->side == 1) {
		write_message(r, size, mark);
		await_write(r, size, mark);
	} else if (test == WRITE_LAT) {
		await_write(r, size, mark);
		write_message(r, size, mark);
	} else if (c->side == 1) {
		one_sided(r, test, size);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static void print_row(uint64_t *spans, const struct options *o, uint64_t size)
{
	int trips = o->test == SEND_LAT || o->test == WRITE_LAT ? 2 : 1, count = o->iterations;
	double scale = 1e-3 / trips, sum = 0;

	for (int i = 0; i < count; i++)
		sum += (double)spans[i];
	qsort(spans, (size_t)count, sizeof *spans, by_value);
	printf(" %-10llu %-14d %-14.3f %-14.3f %-18.3f %-.3f\n", (unsigned long long)size, count, (double)spans[0] * scale,
	       (double)spans[count - 1] * scale, (double)spans[count / 2] * scale, sum / count * scale);
	fflush(stdout);
}

void run_latency(struct rails *r, struct control *c, const struct options *o)
{
	uint64_t *spans = malloc((size_t)o->iterations * sizeof *spans);

	if (!spans)
		fail("no memory for %d results", o->iterations);
	if (c->side == 1)
		printf(" #bytes     #iterations    t_min[usec]    t_max[usec]    t_typical[usec]    t_avg[usec]\n");
	for (uint64_t size = o->size_from; size <= o->size_to; size *= 2) {
		uint64_t before;

		/* A byte of the previous size must not look like a turn. */
		r->buffer[r->half + size - 1] = 0;
		barrier(c);
		for (int i = 0; i < WARM_UP; i++)
			turn(r, c, o->test, size, i);
		before = now_ns();
		for (int i = 0; i < o->iterations; i++) {
			uint64_t after;

			turn(r, c, o->test, size, WARM_UP + i);
			after = now_ns();
			spans[i] = after - before;
			before = after;
		}
		barrier(c);
		if (c->side == 1)
			print_row(spans, o, size);
	}
	free(spans);
}
