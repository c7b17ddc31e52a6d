/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures bandwidth: sends a window of messages back to back, waits for all of them, and
 * repeats. */
#include "multirail.h"

#include <stdio.h>
#include <stdlib.h>

/* Chunks of a divided message start at multiples of this size, so that only the last packet is
 * short. */
enum { CHUNK_UNIT = 4096 };

/* The rails that carry this process's messages: all rails for divided messages. */
struct route {
	int divided;
	int first, count;
};

static struct route route_of(const struct rails *r, const struct control *c, const struct options *o)
{
	if (o->policy == STRIPING)
		return (struct route){.divided = 1, .first = 0, .count = r->count};
	/* The direction selects the rail of a single process, with the client's direction first.
	 * Otherwise the rank of the process selects it. */
	return (struct route){.first = (o->procs > 1 ? c->rank : 1 - c->side) % r->count, .count = 1};
}

/* Posts one message. Returns the number of requests that it needs. */
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

static int senders(const struct options *o)
{
	return o->procs * (o->bidirectional ? 2 : 1);
}

/* Senders start and end at different moments, and a sender alone on its port finishes early. Each
 * sends before its clock runs and continues until the slowest has finished, so that no measured
 * sender works beside an idle one. */
static void send_all(struct rails *r, struct control *c, const struct route *route, const struct options *o, uint64_t size, uint64_t *record)
{
	send_window(r, route, o, size);
	start_record(record);
	for (int i = 0; i < o->iterations; i++) {
		send_window(r, route, o, size);
		record_window(record);
	}
	record_measured(record);
	if (senders(o) == 1)
		return;
	barrier_enter(c);
	while (!barrier_passed(c)) {
		send_window(r, route, o, size);
		record_window(record);
	}
}

static void print_row(uint64_t *all, const struct options *o, uint64_t size, int64_t ahead)
{
	const uint64_t *sender[2 * PROCS_MAX];
	/* The client's processes follow the server's. */
	int first = o->bidirectional ? 0 : o->procs;
	double peak, average, window_megabytes = (double)size * o->window * 1e3;

	for (int i = 0; i < senders(o); i++) {
		uint64_t *record = all + (size_t)(first + i) * RECORD_WORDS;

		if (first + i < o->procs)
			shift_record(record, ahead);
		sender[i] = record;
	}
	rates(sender, senders(o), &peak, &average);
	peak *= window_megabytes;
	average *= window_megabytes;
	printf(" %-10llu %-14d %-16.2f %-18.2f %-.6f\n", (unsigned long long)size, o->iterations, peak, average, average / (double)size);
	fflush(stdout);
}

void run_bandwidth(struct rails *r, struct control *c, const struct options *o)
{
	struct route route = route_of(r, c, o);
	int sends = c->side == 1 || o->bidirectional, prints = c->side == 1 && c->rank == 0;
	uint64_t *all = malloc(2 * (size_t)c->procs * RECORD_WORDS * sizeof *all);

	if (!all)
		fail("no memory");
	if (prints)
		printf(" #bytes     #iterations    BW peak[MB/s]    BW average[MB/s]   MsgRate[Mpps]\n");
	for (uint64_t size = o->size_from; size <= o->size_to; size *= 2) {
		uint64_t record[RECORD_WORDS] = {0};
		int64_t ahead = o->bidirectional ? clock_ahead(c) : 0;

		barrier(c);
		if (sends)
			send_all(r, c, &route, o, size, record);
		else if (senders(o) > 1)
			barrier(c);
		exchange(c, record, RECORD_WORDS, all);
		if (prints)
			print_row(all, o, size, ahead);
	}
	free(all);
}
