/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Plays the steps of a rank. One thread waits for connections and calculations, and never spins. */
#define _GNU_SOURCE
#include "tcpplay.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A processor calculates one step at a time. */
struct cpu {
	uint32_t head, tail; /* steps; the first one is under way */
	uint64_t free_at;    /* end of the first step, or of the last one */
};

static struct {
	struct trace *trace;
	struct mesh *mesh;
	const struct options *options;
	struct cpu *cpus;
	uint32_t ready_head, ready_tail;
	uint32_t left;     /* steps without an end */
	uint32_t children; /* in the tree, without a report */
	int is_going, has_finished, has_told, has_ended;
	uint64_t began, longest; /* longest: of this rank's part of the tree, in nanoseconds */
} state;

#define P (&state)

static struct step *step(uint32_t number)
{
	return &P->trace->steps[number];
}

static void append(uint32_t *head, uint32_t *tail, uint32_t number)
{
	step(number)->next = NONE;
	if (*head == NONE)
		*head = number;
	else
		step(*tail)->next = number;
	*tail = number;
}

static uint32_t take_first(uint32_t *head)
{
	uint32_t first = *head;

	*head = step(first)->next;
	return first;
}

/* Meets the requirements that wait for the begin or the end of a step. */
static void meet(uint32_t earlier, int begun, uint64_t at)
{
	const struct trace *t = P->trace;
	size_t i;

	for (i = step(earlier)->orders; i < t->order_count && t->orders[i].earlier == earlier; i++) {
		struct step *later = step(t->orders[i].later);

		if (t->orders[i].until_begun != begun)
			continue;
		later->at = at;
		if (--later->waits == 0)
			append(&P->ready_head, &P->ready_tail, t->orders[i].later);
	}
}

static void end_step(uint32_t number, uint64_t at)
{
	P->left--;
	meet(number, 0, at);
}

static void end_send(uint32_t number)
{
	end_step(number, now_ns());
}

static void deliver(struct channel *c)
{
	if (c->head == NONE)
		c->arrived++;
	else
		end_step(take_first(&c->head), now_ns());
}

static void fail_left(const struct peer *p) __attribute__((noreturn));
static void fail_left(const struct peer *p)
{
	fail("rank %u has left before the end: its own message has the reason", p->rank);
}

static struct peer *peer_of(uint32_t rank)
{
	return P->mesh->by_rank[rank];
}

static void tell(uint32_t rank, enum message message, uint64_t value)
{
	if (peer_tell(peer_of(rank), message, value))
		fail_left(peer_of(rank));
}

static void tell_children(enum message message)
{
	size_t i;

	for (i = P->mesh->count; i-- > 0;)
		if (is_child(P->mesh->peers[i].rank, P->trace->rank))
			tell(P->mesh->peers[i].rank, message, 0);
}

static void begin_send(uint32_t number)
{
	struct step *s = step(number);
	struct peer *p = peer_of(s->peer);

	if (s->peer == P->trace->rank) {
		deliver(&P->trace->channels.list[channel_of(&P->trace->channels, s->peer, s->tag, 0, 0)]);
		end_step(number, now_ns());
		return;
	}
	append(&p->head, &p->tail, number);
	if (!p->is_full && peer_send(p, P->trace, end_send))
		fail_left(p);
}

static void begin_receive(uint32_t number)
{
	struct channel *c = &P->trace->channels.list[step(number)->channel];

	if (!c->arrived) {
		append(&c->head, &c->tail, number);
		return;
	}
	c->arrived--;
	end_step(number, now_ns());
}

/* Starts the first calculation of a processor. It begins when the former one has ended. */
static void calculate(struct cpu *cpu)
{
	const struct step *s = step(cpu->head);

	cpu->free_at = (s->at > cpu->free_at ? s->at : cpu->free_at) + s->amount;
}

static void begin_calculation(uint32_t number)
{
	struct cpu *cpu = &P->cpus[step(number)->cpu];
	int is_idle = cpu->head == NONE;

	append(&cpu->head, &cpu->tail, number);
	if (is_idle)
		calculate(cpu);
}

static void begin(uint32_t number)
{
	meet(number, 1, step(number)->at);
	switch (step(number)->kind) {
	case SEND:
		begin_send(number);
		break;
	case RECEIVE:
		begin_receive(number);
		break;
	case CALCULATE:
		begin_calculation(number);
		break;
	}
}

/* Ends the calculations that are over. Returns the time of the next end, or 0. */
static uint64_t end_calculations(void)
{
	uint64_t now = now_ns(), next = 0;
	size_t i;

	for (i = 0; i < P->trace->cpu_count; i++) {
		struct cpu *cpu = &P->cpus[i];

		while (cpu->head != NONE && cpu->free_at <= now) {
			end_step(take_first(&cpu->head), cpu->free_at);
			if (cpu->head != NONE)
				calculate(cpu);
		}
		if (cpu->head != NONE && (!next || cpu->free_at < next))
			next = cpu->free_at;
	}
	return next;
}

static uint32_t children_of(void)
{
	uint32_t count = 0;
	size_t i;

	for (i = 0; i < P->mesh->count; i++)
		count += (uint32_t)is_child(P->mesh->peers[i].rank, P->trace->rank);
	return count;
}

static void go(void)
{
	uint32_t i;

	tell_children(GO);
	P->children = children_of();
	P->is_going = 1;
	P->began = now_ns();
	for (i = 0; i < P->trace->step_count; i++)
		if (!step(i)->waits) {
			step(i)->at = P->began;
			append(&P->ready_head, &P->ready_tail, i);
		}
}

static void print_result(void)
{
	printf("ranks,seconds\n%u,%" PRIu64 ".%09" PRIu64 "\n", P->trace->ranks, P->longest / 1000000000u, P->longest % 1000000000u);
	if (fflush(stdout))
		fail_errno("cannot print the result");
}

/* Notes the end of this rank's own steps. */
static void note_end(void)
{
	uint64_t own = now_ns() - P->began;

	P->longest = own > P->longest ? own : P->longest;
	P->has_finished = 1;
}

/* Reports the end of this rank's part of the tree to its parent. Rank 0 ends all. */
static void pass_end(void)
{
	P->has_told = 1;
	if (P->trace->rank) {
		tell(parent_of(P->trace->rank), DONE, P->longest);
		return;
	}
	tell_children(END);
	print_result();
	P->has_ended = 1;
}

static void pass_ready(void)
{
	if (P->trace->rank)
		tell(parent_of(P->trace->rank), READY, 0);
	else
		go();
}

static void receive_data(const struct peer *p, const struct header *h)
{
	uint32_t number = channel_of(&P->trace->channels, p->rank, h->tag, 0, 0);

	if (number == NONE)
		fail("rank %u has sent a message with tag %u, which the trace lacks", p->rank, h->tag);
	deliver(&P->trace->channels.list[number]);
}

static int is_due(const struct peer *p, enum message message)
{
	if (message == READY)
		return is_child(p->rank, P->trace->rank) && !P->is_going;
	if (message == DONE)
		return is_child(p->rank, P->trace->rank) && P->is_going && !p->is_done;
	return is_child(P->trace->rank, p->rank) && (message == GO ? !P->is_going : P->has_told);
}

static void receive_report(struct peer *p, const struct header *h)
{
	if (!is_due(p, h->message))
		fail("rank %u has sent a report at a wrong time", p->rank);
	switch (h->message) {
	case READY:
		if (--P->children == 0)
			pass_ready();
		break;
	case GO:
		go();
		break;
	case DONE:
		P->children--;
		p->is_done = 1;
		P->longest = h->value > P->longest ? h->value : P->longest;
		break;
	case END:
		tell_children(END);
		P->has_ended = 1;
		break;
	}
}

static void receive(struct peer *p, const struct header *h)
{
	if (h->message == DATA)
		receive_data(p, h);
	else
		receive_report(p, h);
}

/* A peer may leave when all ranks have ended. This rank may hear of that later. */
static void lose(struct peer *p)
{
	int is_parent = is_child(P->trace->rank, p->rank), is_open_child = is_child(p->rank, P->trace->rank) && !p->is_done;

	if (P->has_ended)
		return;
	if (!P->has_finished || is_parent || is_open_child)
		fail_left(p);
	close(p->fd);
	p->fd = -1;
}

static void name_first_wait(void) __attribute__((noreturn));
static void name_first_wait(void)
{
	const struct trace *t = P->trace;
	size_t i;

	for (i = 0; i < t->channels.count; i++)
		if (t->channels.list[i].head != NONE) {
			const struct step *s = step(t->channels.list[i].head);

			fail("nothing has happened for %d s (--timeout): %s:%u waits for a message of rank %u with tag %u", P->options->seconds,
			     t->path, s->line, s->peer, s->tag);
		}
	for (i = 0; i < P->mesh->count; i++)
		if (P->mesh->peers[i].head != NONE)
			fail("nothing has happened for %d s (--timeout): rank %u takes no more bytes", P->options->seconds, P->mesh->peers[i].rank);
	fail("nothing has happened for %d s (--timeout): other ranks still play", P->options->seconds);
}

/* Sleeps until a connection or a calculation needs this rank. `until`: the end of a calculation, or 0. */
static void wait_for(struct pollfd *fds, uint64_t until)
{
	uint64_t now = until ? now_ns() : 0, nanos = !until ? (uint64_t)P->options->seconds * 1000000000u : until > now ? until - now : 0;
	struct timespec timeout = {.tv_sec = (time_t)(nanos / 1000000000u), .tv_nsec = (long)(nanos % 1000000000u)};
	size_t i;
	int ready;

	for (i = 0; i < P->mesh->count; i++)
		fds[i] = (struct pollfd){.fd = P->mesh->peers[i].fd, .events = (short)(POLLIN | (P->mesh->peers[i].is_full ? POLLOUT : 0))};
	ready = ppoll(fds, P->mesh->count, &timeout, NULL);
	if (ready < 0 && errno != EINTR)
		fail_errno("cannot wait for connections");
	if (ready == 0 && !until)
		name_first_wait();
	for (i = 0; ready > 0 && i < P->mesh->count; i++) {
		struct peer *p = &P->mesh->peers[i];

		if ((fds[i].revents & POLLOUT) && peer_send(p, P->trace, end_send))
			lose(p);
		if (p->fd >= 0 && (fds[i].revents & ~POLLOUT) && peer_receive(p, receive))
			lose(p);
	}
}

/* Begins all steps that can begin. Returns the end of the next calculation, or 0. */
static uint64_t begin_all(void)
{
	uint64_t next;

	do {
		while (P->ready_head != NONE)
			begin(take_first(&P->ready_head));
		next = end_calculations();
	} while (P->ready_head != NONE);
	return next;
}

void play(struct trace *t, struct mesh *m, const struct options *o)
{
	struct pollfd *fds = zeroed(m->count, sizeof *fds);
	size_t i;

	P->trace = t;
	P->mesh = m;
	P->options = o;
	P->ready_head = NONE;
	P->left = (uint32_t)t->step_count;
	P->children = children_of();
	P->cpus = zeroed(t->cpu_count, sizeof *P->cpus);
	for (i = 0; i < t->cpu_count; i++)
		P->cpus[i].head = NONE;
	if (!P->children)
		pass_ready();
	while (!P->has_ended) {
		uint64_t next = begin_all();

		if (P->is_going && !P->left && !P->has_finished)
			note_end();
		if (P->has_finished && !P->children && !P->has_told)
			pass_end();
		if (!P->has_ended)
			wait_for(fds, next);
	}
	free(fds);
	free(P->cpus);
}
