/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tcpplay.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct channels *c, uint32_t peer, uint32_t tag, int is_outgoing)
{
	uint64_t hash = (((uint64_t)peer << 32 | tag) * 2 + (uint64_t)is_outgoing) * 0x9e3779b97f4a7c15u;
	size_t slot = (hash >> 20) & (c->slot_count - 1);

	while (c->slots[slot] != NONE) {
		const struct channel *found = &c->list[c->slots[slot]];

		if (found->peer == peer && found->tag == tag && found->is_outgoing == is_outgoing)
			break;
		slot = (slot + 1) & (c->slot_count - 1);
	}
	return slot;
}

static void widen(struct channels *c)
{
	size_t i, count = c->slot_count ? 2 * c->slot_count : 256;

	free(c->slots);
	c->slots = zeroed(count, sizeof *c->slots);
	memset(c->slots, 0xff, count * sizeof *c->slots);
	c->slot_count = count;
	for (i = 0; i < c->count; i++)
		c->slots[slot_of(c, c->list[i].peer, c->list[i].tag, c->list[i].is_outgoing)] = (uint32_t)i;
}

uint32_t channel_of(struct channels *c, uint32_t peer, uint32_t tag, int is_outgoing, int adds)
{
	size_t slot;

	if (c->slot_count <= 2 * c->count)
		widen(c);
	slot = slot_of(c, peer, tag, is_outgoing);
	if (c->slots[slot] == NONE && adds) {
		c->list = grown(c->list, c->count, &c->room, sizeof *c->list);
		c->list[c->count] = (struct channel){.peer = peer, .tag = tag, .is_outgoing = is_outgoing, .head = NONE, .tail = NONE};
		c->slots[slot] = (uint32_t)c->count++;
	}
	return c->slots[slot];
}
