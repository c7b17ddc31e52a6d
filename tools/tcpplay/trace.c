/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Reads a trace, as `softband model` does. Each rank reads all blocks, and checks its own steps and
 * the other side of its messages. */
#include "tcpplay.h"

#include <stdlib.h>
#include <string.h>

static const char FORMS[] = "a line is `l1: send 8b to 1 tag 5`, `l2: recv 8b from 1 tag 5`, `l3: calc 1000` or `l3 requires l1`";

/* The block that is being read. */
struct block {
	struct trace *trace;
	struct reader *reader;
	uint32_t rank;
	int is_own;
	struct labels labels;
	struct wish *wishes;
	size_t wish_count, wish_room;
};

static void count_send(struct trace *t, uint32_t peer, int is_outgoing, const struct step *s)
{
	uint32_t number = channel_of(&t->channels, peer, s->tag, is_outgoing, 1);
	struct channel *c = &t->channels.list[number];

	c->sends++;
	c->send_line = s->line;
}

static void count_receive(struct trace *t, uint32_t peer, int is_outgoing, const struct step *s)
{
	uint32_t number = channel_of(&t->channels, peer, s->tag, is_outgoing, 1);
	struct channel *c = &t->channels.list[number];

	c->receives++;
	c->receive_line = s->line;
}

/* Counts the messages from and to this rank, on both sides. */
static void count(struct trace *t, uint32_t rank, const struct step *s)
{
	void (*add)(struct trace *, uint32_t, int, const struct step *) = s->kind == SEND ? count_send : count_receive;
	uint32_t from = s->kind == SEND ? rank : s->peer, to = s->kind == SEND ? s->peer : rank;

	if (s->kind == CALCULATE)
		return;
	if (from == t->rank)
		add(t, to, 1, s);
	if (to == t->rank)
		add(t, from, 0, s);
}

/* Returns the place of a processor. */
static uint32_t place_of(struct trace *t, uint32_t cpu)
{
	size_t i;

	for (i = 0; i < t->cpu_count; i++)
		if (t->cpus[i] == cpu)
			return (uint32_t)i;
	t->cpus = grown(t->cpus, t->cpu_count, &t->cpu_room, sizeof *t->cpus);
	t->cpus[t->cpu_count] = cpu;
	return (uint32_t)t->cpu_count++;
}

static void keep(struct block *b, struct step *s, uint32_t cpu)
{
	struct trace *t = b->trace;

	if (s->kind == CALCULATE)
		s->cpu = place_of(t, cpu);
	else
		s->channel = channel_of(&t->channels, s->peer, s->tag, s->kind == SEND, 1);
	t->steps = grown(t->steps, t->step_count, &t->step_room, sizeof *t->steps);
	t->steps[t->step_count++] = *s;
}

static uint32_t peer_in(struct block *b, const char *before)
{
	expect_word(b->reader, before);
	return (uint32_t)next_number(b->reader, "a rank of the trace", b->trace->ranks - 1);
}

/* Reads a step after its label. */
static void read_step(struct block *b, const struct word *what)
{
	struct step s = {.line = what->line, .next = NONE};
	struct reader *r = b->reader;
	uint32_t cpu = 0;

	if (is_word(what, "calc")) {
		s.kind = CALCULATE;
		s.amount = next_number(r, "a time in nanoseconds", NANOS_MAX);
	} else if (is_word(what, "send") || is_word(what, "recv")) {
		s.kind = is_word(what, "send") ? SEND : RECEIVE;
		s.amount = next_number(r, "a size", BYTES_MAX);
		s.peer = peer_in(b, s.kind == SEND ? "to" : "from");
	} else {
		wrong_trace(r->path, what->line, FORMS, "there is no step `%.*s`", (int)(what->length < 80 ? what->length : 80), what->text);
	}
	for (;;) {
		if (s.kind != CALCULATE && skip_word(r, "tag"))
			s.tag = (uint32_t)next_number(r, "a tag", UINT32_MAX - 1);
		else if (skip_word(r, "cpu"))
			cpu = (uint32_t)next_number(r, "a processor", UINT32_MAX - 1);
		else if (skip_word(r, "nic"))
			next_number(r, "an HCA", UINT32_MAX - 1);
		else
			break;
	}
	count(b->trace, b->rank, &s);
	if (b->is_own)
		keep(b, &s, cpu);
}

static void read_order(struct block *b, struct word later)
{
	struct word verb = next_word(b->reader), earlier;
	struct wish wish = {.later = later, .until_begun = is_word(&verb, "irequires")};

	if (!wish.until_begun && !is_word(&verb, "requires"))
		wrong_trace(b->reader->path, later.line, FORMS, "`%.*s` is neither a step nor an order", (int)(later.length < 80 ? later.length : 80),
			    later.text);
	earlier = next_word(b->reader);
	wish.earlier = earlier;
	if (!b->is_own)
		return;
	b->wishes = grown(b->wishes, b->wish_count, &b->wish_room, sizeof *b->wishes);
	b->wishes[b->wish_count++] = wish;
}

static void read_line(struct block *b, struct word first)
{
	struct word what = first;

	if (is_word(&first, "{") || is_word(&first, ":"))
		wrong_trace(b->reader->path, first.line, FORMS, "`%.*s` where a step begins", (int)first.length, first.text);
	if (is_word(&first, "send") || is_word(&first, "recv") || is_word(&first, "calc")) {
		read_step(b, &what);
	} else if (skip_word(b->reader, ":")) {
		if (b->is_own)
			label_add(&b->labels, b->trace, first, (uint32_t)b->trace->step_count);
		what = next_word(b->reader);
		read_step(b, &what);
	} else {
		read_order(b, first);
	}
}

static void read_block(struct trace *t, struct reader *r, uint32_t *seen)
{
	struct block b = {.trace = t, .reader = r};
	struct word w;
	uint32_t line = r->line;

	b.rank = (uint32_t)next_number(r, "a rank of the trace", t->ranks - 1);
	b.is_own = b.rank == t->rank;
	if (seen[b.rank])
		wrong_trace(r->path, line, "put its steps into one block", "rank %u has a block already, on line %u", b.rank, seen[b.rank]);
	seen[b.rank] = line;
	expect_word(r, "{");
	for (w = next_word(r); w.length && !is_word(&w, "}"); w = next_word(r))
		if (!is_word(&w, ";"))
			read_line(&b, w);
	if (!w.length)
		wrong_trace(r->path, w.line, "it may have been cut off: write it out again",
			    "the trace ends within rank %u, which began on line %u", b.rank, line);
	if (b.is_own)
		order_steps(t, &b.labels, b.wishes, b.wish_count);
	free(b.wishes);
	free(b.labels.slots);
}

/* Fails if a message of this rank has no other side. */
static void check_channels(const struct trace *t)
{
	size_t i;

	for (i = 0; i < t->channels.count; i++) {
		const struct channel *c = &t->channels.list[i];
		uint32_t from = c->is_outgoing ? t->rank : c->peer, to = c->is_outgoing ? c->peer : t->rank;

		if (c->sends != c->receives)
			wrong_trace(t->path, c->sends > c->receives ? c->send_line : c->receive_line, "each send needs a receive of its tag",
				    "rank %u sends %u messages with tag %u to rank %u, which receives %u", from, c->sends, c->tag, to,
				    c->receives);
	}
}

static uint64_t digest_of(const struct reader *r)
{
	uint64_t sum = 0xcbf29ce484222325u, part;
	const char *at = r->begin;

	for (; r->end - at >= 8; at += 8) {
		memcpy(&part, at, 8);
		sum = (sum ^ part) * 0x100000001b3u;
	}
	for (; at < r->end; at++)
		sum = (sum ^ (unsigned char)*at) * 0x100000001b3u;
	return sum;
}

void read_trace(struct trace *t, const char *path, uint32_t rank)
{
	struct reader r = {0};
	uint32_t *seen, missing;
	struct word w;

	reader_open(&r, path);
	*t = (struct trace){.path = path, .rank = rank, .digest = digest_of(&r)};
	w = next_word(&r);
	if (!is_word(&w, "num_ranks"))
		wrong_trace(path, w.line, "write `num_ranks 2` first", "a trace begins with `num_ranks N`");
	t->ranks = (uint32_t)next_number(&r, "the number of ranks", RANKS_MAX);
	if (rank >= t->ranks)
		wrong_trace(path, w.line, "each process of the trace plays another rank", "--rank %u is beyond num_ranks %u", rank, t->ranks);
	seen = zeroed(t->ranks, sizeof *seen);
	for (w = next_word(&r); w.length; w = next_word(&r)) {
		if (is_word(&w, ";"))
			continue;
		if (!is_word(&w, "rank"))
			wrong_trace(path, w.line, "write `rank 0 {`, and close it with `}`", "`%.*s` where a rank's block begins",
				    (int)(w.length < 80 ? w.length : 80), w.text);
		read_block(t, &r, seen);
	}
	for (missing = 0; missing < t->ranks; missing++)
		if (!seen[missing])
			wrong_trace(path, w.line, "it may have been cut off; a rank that does nothing has an empty block",
				    "the trace ends, and rank %u of num_ranks %u has no block", missing, t->ranks);
	free(seen);
	check_channels(t);
}
