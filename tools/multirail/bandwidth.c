/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A window of messages back to back, a wait for all of them, and again. */
#include "multirail.h"

#include <stdio.h>
#include <string.h>

/* What a process tells of its sending. */
enum { BEGAN, ENDED, BEST_WINDOW, TIMES };

/* Chunks of a divided message begin at multiples of this, so that only the last packet of each is short. */
enum { CHUNK_UNIT = 4096 };

/* Which rails carry what this process sends: all of them when messages are divided. */
struct route {
	int divided;
	int first, count;
};

static struct route route_of(const struct rails *r, const struct control *c, const struct options *o)
{
	if (o->policy == STRIPING)
		return (struct route){.divided = 1, .first = 0, .count = r->count};
	/* One process: the direction decides; several: the process. The client's direction is the first one. */
	return (struct route){.first = (o->procs > 1 ? c->rank : 1 - c->side) % r->count, .count = 1};
}

/* Posts one message; returns how many requests it took. */
static int post_message(struct rails *r, const struct route *route, const struct options *o, uint64_t size, int number)
{
	uint64_t chunk = (size + (uint64_t)route->count - 1) / (uint64_t)route->count;
	int posted = 0;

	if (!route->divided || route->count == 1 || size < o->stripe_from) {
		rail_post(r, route->first + number % route->count, IBV_WR_RDMA_WRITE, 0, (uint32_t)size);
		return 1;
	}
	if (chunk > CHUNK_UNIT)
		chunk = (chunk + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT;
	for (uint64_t offset = 0; offset < size; offset += chunk) {
		uint64_t rest = size - offset;

		rail_post(r, route->first + posted, IBV_WR_RDMA_WRITE, offset, (uint32_t)(rest < chunk ? rest : chunk));
		posted++;
	}
	return posted;
}

static void send_window(struct rails *r, const struct route *route, const struct options *o, uint64_t size)
{
	int posted = 0;

	for (int i = 0; i < o->window; i++)
		posted += post_message(r, route, o, size, i);
	drain(r->send_cq, posted);
}

/* Senders neither begin nor end at the same moment. Each sends before and after its clock runs, so that none is measured while
 * another one rests. */
static int windows_after(const struct options *o)
{
	int senders = o->procs * (o->bidirectional ? 2 : 1);

	return senders > 1 ? (o->iterations + 3) / 4 : 0;
}

static void send_all(struct rails *r, const struct route *route, const struct options *o, uint64_t size, uint64_t *times)
{
	uint64_t before;

	send_window(r, route, o, size);
	before = now_ns();
	times[BEGAN] = before;
	for (int i = 0; i < o->iterations; i++) {
		uint64_t after;

		send_window(r, route, o, size);
		after = now_ns();
		if (i == 0 || after - before < times[BEST_WINDOW])
			times[BEST_WINDOW] = after - before;
		before = after;
	}
	times[ENDED] = before;
	for (int i = 0; i < windows_after(o); i++)
		send_window(r, route, o, size);
}

/* MB/s of one side: all its processes, from the first that began to the last that ended. */
static void add_side(const uint64_t *times, const struct options *o, uint64_t size, double *peak, double *average)
{
	double window_bytes = (double)size * o->window, all_bytes = window_bytes * o->iterations * o->procs;
	uint64_t began = times[BEGAN], ended = times[ENDED];

	for (int i = 0; i < o->procs; i++) {
		const uint64_t *one = times + i * TIMES;

		if (one[BEGAN] < began)
			began = one[BEGAN];
		if (one[ENDED] > ended)
			ended = one[ENDED];
		*peak += window_bytes / (double)one[BEST_WINDOW] * 1e3;
	}
	*average += all_bytes / (double)(ended - began) * 1e3;
}

static void print_row(const uint64_t *all, const struct options *o, uint64_t size)
{
	double peak = 0, average = 0;

	add_side(all + o->procs * TIMES, o, size, &peak, &average);
	if (o->bidirectional)
		add_side(all, o, size, &peak, &average);
	/* Windows of several processes need not be their best at the same time. */
	if (peak < average)
		peak = average;
	printf(" %-10llu %-14d %-16.2f %-18.2f %-.6f\n", (unsigned long long)size, o->iterations, peak, average, average / (double)size);
	fflush(stdout);
}

void run_bandwidth(struct rails *r, struct control *c, const struct options *o)
{
	struct route route = route_of(r, c, o);
	int sends = c->side == 1 || o->bidirectional, prints = c->side == 1 && c->rank == 0;

	if (prints)
		printf(" #bytes     #iterations    BW peak[MB/s]    BW average[MB/s]   MsgRate[Mpps]\n");
	for (uint64_t size = o->size_from; size <= o->size_to; size *= 2) {
		uint64_t times[TIMES] = {0}, all[2 * PROCS_MAX * TIMES];

		barrier(c);
		if (sends)
			send_all(r, &route, o, size, times);
		exchange(c, times, TIMES, all);
		if (prints)
			print_row(all, o, size);
	}
}
