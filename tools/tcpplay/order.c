/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Labels of a rank's steps, and their order. */
#include "tcpplay.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN(word) (int)((word).length < 80 ? (word).length : 80), (word).text

static size_t slot_of(const struct labels *l, const struct word *word)
{
	uint64_t hash = 0xcbf29ce484222325u;
	size_t i, slot;

	for (i = 0; i < word->length; i++)
		hash = (hash ^ (unsigned char)word->text[i]) * 0x100000001b3u;
	for (slot = hash & (l->slot_count - 1); l->slots[slot].word.length; slot = (slot + 1) & (l->slot_count - 1)) {
		const struct word *found = &l->slots[slot].word;

		if (found->length == word->length && memcmp(found->text, word->text, word->length) == 0)
			break;
	}
	return slot;
}

static void widen(struct labels *l)
{
	struct labels old = *l;
	size_t i;

	l->slot_count = old.slot_count ? 2 * old.slot_count : 1024;
	l->slots = zeroed(l->slot_count, sizeof *l->slots);
	for (i = 0; i < old.slot_count; i++)
		if (old.slots[i].word.length)
			l->slots[slot_of(l, &old.slots[i].word)] = old.slots[i];
	free(old.slots);
}

void label_add(struct labels *l, const struct trace *t, struct word word, uint32_t step)
{
	size_t slot;

	if (l->slot_count <= 2 * l->count)
		widen(l);
	slot = slot_of(l, &word);
	if (l->slots[slot].word.length)
		wrong_trace(t->path, word.line, "each step of a rank has its own", "the label %.*s is there already, on line %u", SHOWN(word),
			    l->slots[slot].word.line);
	l->slots[slot].word = word;
	l->slots[slot].step = step;
	l->count++;
}

static uint32_t step_of(const struct trace *t, const struct labels *l, const struct word *word)
{
	size_t slot = l->slot_count ? slot_of(l, word) : 0;

	if (!l->slot_count || !l->slots[slot].word.length)
		wrong_trace(t->path, word->line, "orders name steps of their own rank", "rank %u has no label %.*s", t->rank, SHOWN(*word));
	return l->slots[slot].step;
}

static void put(struct trace *t, struct order order)
{
	t->orders[--t->steps[order.earlier].orders] = order;
}

/* Fails if steps of this rank wait for each other. Takes messages as sent at once. */
static void check_circles(const struct trace *t)
{
	uint32_t *waits = zeroed(t->step_count, sizeof *waits), *ready = zeroed(t->step_count, sizeof *ready);
	size_t i, done, count = 0;

	for (i = 0; i < t->step_count; i++) {
		waits[i] = t->steps[i].waits;
		if (!waits[i])
			ready[count++] = (uint32_t)i;
	}
	for (done = 0; done < count; done++)
		for (i = t->steps[ready[done]].orders; i < t->order_count && t->orders[i].earlier == ready[done]; i++)
			if (!--waits[t->orders[i].later])
				ready[count++] = t->orders[i].later;
	for (i = 0; count < t->step_count && i < t->step_count; i++)
		if (waits[i])
			wrong_trace(t->path, t->steps[i].line, "take an order out: `softband model --check` names the circle",
				    "steps of rank %u wait for each other, so the step on this line never begins", t->rank);
	free(waits);
	free(ready);
}

void order_steps(struct trace *t, const struct labels *l, const struct wish *wishes, size_t count)
{
	struct order *given = zeroed(count, sizeof *given);
	uint32_t before = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		given[i] = (struct order){.earlier = step_of(t, l, &wishes[i].earlier), .later = step_of(t, l, &wishes[i].later),
					  .until_begun = wishes[i].until_begun};
		t->steps[given[i].earlier].orders++;
		t->steps[given[i].later].waits++;
	}
	/* The orders of a step begin where those of the step before it end. */
	for (i = 0; i < t->step_count; i++)
		before = t->steps[i].orders += before;
	t->orders = zeroed(count, sizeof *t->orders);
	t->order_count = count;
	for (i = count; i-- > 0;)
		put(t, given[i]);
	free(given);
	check_circles(t);
}
