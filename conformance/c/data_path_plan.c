/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The rounds of data_path: the posted requests, and the model of their results. */
#include "data_path.h"

static uint8_t messages[PAIRS][2][BATCH][MESSAGE_MAX];
static int srq_there[2];
static uint64_t number;

/* Spans that reads of this batch fetch from the peer, before any request waits for them. */
static struct {
	uint32_t from, to;
} reads[BATCH];
static int read_count, has_fetched;

static uint32_t up_to(uint32_t most) {
	switch (draw(8)) {
	case 0: return 0;
	case 1: return draw(most + 1);
	default: return draw(most < 512 ? most + 1 : 513);
	}
}

static int is_atomic(enum ibv_wr_opcode opcode) { return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP; }
static int is_write(enum ibv_wr_opcode opcode) { return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
static int takes_receive(enum ibv_wr_opcode opcode) { return opcode != IBV_WR_RDMA_WRITE && opcode < IBV_WR_RDMA_READ; }
static int is_remote(enum fault f) { return f >= F_RKEY && f <= F_RECEIVE; }

/* Receive requests. */

static void announce(struct half *h, struct announced a) {
	CHECK(h->announced < BATCH + SLOTS);
	h->messages[h->announced++] = a;
}

void flush_receives(struct pair *p, int requester) {
	struct half *h = &p->halves[requester];
	if (p->kind->has_srq) return;
	for (; h->consumed < h->planned; h->consumed++) announce(h, (struct announced){.status = IBV_WC_WR_FLUSH_ERR});
}

static void plan_receives(int q, int requester, int wanted, int is_datagram) {
	struct half *h = &pairs[q].halves[requester];
	for (int i = 0; i < wanted; i++, h->planned++) {
		int slot = h->planned % SLOTS;
		uint32_t len = draw(3) ? SLOT_BYTES : up_to(SLOT_BYTES), first = len > SLOT_BYTES / 2 ? SLOT_BYTES / 2 : draw(len + 1);
		if (is_datagram) len = SLOT_BYTES, first = SLOT_BYTES / 2;
		h->receives[slot] = (struct expected_receive){.wr_id = IS_RECEIVE | (uint64_t)q << 48 | number++ << 16 >> 16, .place = q * PAIR_BYTES + RCV + slot * SLOT_BYTES, .lens = {first, len - first}};
	}
}

static void fill_srq(int side, int wanted) {
	srq_there[side] += wanted;
	for (int i = 0; i < SRQ_DEPTH && wanted > 0; i++) {
		if (side != me || srq_receives[i].is_there) continue;
		srq_receives[i] = (struct expected_receive){.wr_id = (uint64_t)SRQ_MARK << 48 | (number++ & 0xffffffff) << 16 | i,
			.place = PAIRS * PAIR_BYTES + i * SLOT_BYTES, .lens = {SLOT_BYTES / 2, SLOT_BYTES / 2}, .is_new = 1, .is_there = 1};
		wanted--;
	}
}

/* Requests. */

/* Places `len` bytes in up to three pieces. The pieces may touch if the request only reads them. */
static void place(struct request *r, int q, uint32_t len, uint32_t area, uint32_t area_bytes, int apart) {
	uint32_t left = len, room = area_bytes / SGES;
	r->len = len;
	r->entries = 0;
	for (int e = 0; e < SGES && (left > 0 || (e == 0 && draw(2))); e++) {
		uint32_t part = e == SGES - 1 || draw(2) ? left : draw(left + 1);
		if (part > room) part = room;
		uint32_t from = apart ? e * room + draw(room - part + 1) : draw(area_bytes - part + 1);
		r->places[e] = q * PAIR_BYTES + area + from;
		r->lens[e] = part;
		r->entries = e + 1;
		left -= part;
	}
	r->len -= left;
}

static enum ibv_wr_opcode draw_opcode(enum ibv_qp_type type) {
	static const enum ibv_wr_opcode all[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
	return all[draw(type == IBV_QPT_UD ? 2 : type == IBV_QPT_UC ? 5 : 8)];
}

static void plan_request(int q, int x, struct request *r, uint32_t most) {
	enum ibv_qp_type type = pairs[q].kind->type;
	enum ibv_wr_opcode op = r->opcode;
	uint32_t wanted = up_to(most), fenced = 0;
	if (r->fault && wanted == 0) wanted = 1;
	r->imm = draw(1u << 31);
	r->remote = q * PAIR_BYTES + TGT + WORDS_COUNT * 8;
	if (is_atomic(op)) {
		uint32_t word = draw(WORDS_COUNT) * 8;
		r->places[0] = q * PAIR_BYTES + LOC + draw(LOC_BYTES / 8) * 8;
		r->lens[0] = r->len = 8;
		r->entries = 1;
		r->remote = q * PAIR_BYTES + TGT + word;
		uint64_t now;
		memcpy(&now, model[!x] + r->remote, 8);
		r->compare_add = op == IBV_WR_ATOMIC_CMP_AND_SWP && draw(2) ? now : (uint64_t)draw(1u << 31) << 20;
		r->swap = (uint64_t)draw(1u << 31) << 31 | draw(1u << 31);
	} else if (op == IBV_WR_RDMA_READ) {
		place(r, q, wanted, LOC, LOC_BYTES, 1);
	} else if (!r->fault && draw(4) == 0) {
		r->flags |= IBV_SEND_INLINE;
		r->lens[0] = r->len = wanted % (INLINE + 1);
		r->entries = 1;
		for (int i = 0; i < INLINE; i++) r->inlined[i] = draw(256);
	} else {
		int from_fetched = type == IBV_QPT_RC && draw(4) == 0;
		place(r, q, wanted, from_fetched ? LOC : SRC, from_fetched ? LOC_BYTES : SRC_BYTES, 0);
		fenced = from_fetched && has_fetched;
	}
	if (r->fault == F_LKEY || r->fault == F_LBOUND) { /* the first entry is the bad one and must not be empty */
		r->entries = 1;
		r->lens[0] = r->len = wanted;
	}
	if ((is_write(op) || op == IBV_WR_RDMA_READ) && r->len < TGT_BYTES - WORDS_COUNT * 8) r->remote += draw(TGT_BYTES - WORDS_COUNT * 8 - r->len);
	/* A write may overtake a read before it. */
	for (int i = 0; i < read_count && is_write(op); i++) fenced |= r->remote < reads[i].to && reads[i].from < r->remote + r->len;
	if (fenced || (type == IBV_QPT_RC && draw(8) == 0)) {
		r->flags |= IBV_SEND_FENCE;
		read_count = has_fetched = 0;
	}
	if (op == IBV_WR_RDMA_READ) {
		reads[read_count].from = r->remote;
		reads[read_count++].to = r->remote + r->len;
	}
	has_fetched |= op == IBV_WR_RDMA_READ || is_atomic(op);
	if (draw(3) == 0) r->flags |= IBV_SEND_SIGNALED;
	if (takes_receive(op) && draw(4) == 0) r->flags |= IBV_SEND_SOLICITED;
}

/* Applies a successful request to the memory of both sides. */
static void apply(int x, const struct request *r, uint8_t *message) {
	static uint8_t bytes[RDMA_MAX];
	uint32_t at = 0;
	uint64_t old, new;
	CHECK(r->len <= RDMA_MAX);
	if (is_atomic(r->opcode)) {
		memcpy(&old, model[!x] + r->remote, 8);
		new = r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + r->compare_add : old == r->compare_add ? r->swap : old;
		memcpy(model[!x] + r->remote, &new, 8);
		memcpy(model[x] + r->places[0], &old, 8);
		return;
	}
	for (int e = 0; e < r->entries; at += r->lens[e++]) {
		if (r->opcode == IBV_WR_RDMA_READ) memcpy(model[x] + r->places[e], model[!x] + r->remote + at, r->lens[e]);
		else memcpy(bytes + at, r->flags & IBV_SEND_INLINE ? r->inlined : model[x] + r->places[e], r->lens[e]);
	}
	if (is_write(r->opcode)) memcpy(model[!x] + r->remote, bytes, r->len);
	else if (r->opcode != IBV_WR_RDMA_READ) memcpy(message, bytes, r->len);
}

static const enum ibv_wc_status status_of[FAULTS] = {
	[F_LKEY] = IBV_WC_LOC_PROT_ERR, [F_LBOUND] = IBV_WC_LOC_PROT_ERR, [F_LPERM] = IBV_WC_LOC_PROT_ERR, [F_RKEY] = IBV_WC_REM_ACCESS_ERR,
	[F_RBOUND] = IBV_WC_REM_ACCESS_ERR, [F_RPERM] = IBV_WC_REM_ACCESS_ERR, [F_LONG] = IBV_WC_REM_INV_REQ_ERR, [F_RECEIVE] = IBV_WC_REM_OP_ERR,
	[F_NO_RECEIVE] = IBV_WC_RNR_RETRY_EXC_ERR};

/* Returns an opcode that can fail in this manner. */
static enum ibv_wr_opcode opcode_of(enum fault f) {
	switch (f) {
	case F_LKEY:
	case F_LBOUND: return draw(2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	case F_LPERM: return IBV_WR_RDMA_READ;
	case F_RKEY:
	case F_RPERM: return (enum ibv_wr_opcode[]){IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}[draw(3)];
	case F_RBOUND: return draw(2) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	default: return IBV_WR_SEND;
	}
}

static enum fault draw_fault(struct pair *p) {
	if (draw(6)) return FINE;
	if (p->kind->type != IBV_QPT_RC) return draw(2) ? F_LKEY : F_LBOUND;
	enum fault f = F_LKEY + draw(FAULTS - 1);
	if (p->kind->has_srq && f >= F_RECEIVE) return F_RKEY;
	if (f == F_NO_RECEIVE && p->rnr_retry != 0) return F_RPERM;
	return f;
}

/* Plans one direction of a queue pair. `fault` is the mistake in one of its requests.
 * Returns true if a request stays unacknowledged. */
static int plan_half(int q, int x, enum fault fault) {
	struct pair *p = &pairs[q];
	struct half *h = &p->halves[x];
	enum ibv_qp_type type = p->kind->type;
	int count = draw(3) ? draw(6) : draw(BATCH + 1), waits = 0, is_flushed = 0, fault_at;
	if (fault && count == 0) count = 1;
	fault_at = fault ? (int)draw(count) : -1;
	read_count = has_fetched = 0;
	if (!p->kind->has_srq) {
		int room = p->receive_room - (h->planned - h->consumed), wanted = draw(8) ? (int)draw(room + 1) : room;
		if (fault == F_RECEIVE && wanted == 0 && room > 0) wanted = 1;
		plan_receives(q, x, wanted, type == IBV_QPT_UD);
		if (fault == F_RECEIVE && wanted == 0) fault = F_NO_RECEIVE;
		if (fault == F_RECEIVE) {
			struct expected_receive *e = &h->receives[(h->planned - 1) % SLOTS];
			e->is_bad = 1;
			e->lens[0] = e->lens[1] = SLOT_BYTES / 2;
		}
		h->is_late = type == IBV_QPT_RC && !fault && p->rnr_retry == 7 && draw(4) == 0;
	}
	if (fault == F_NO_RECEIVE && p->rnr_retry != 0) fault = FINE, fault_at = -1;
	for (int i = 0; i < count; i++) {
		struct request *r = &h->requests[i];
		int there = p->kind->has_srq ? srq_there[!x] : h->planned - h->consumed;
		struct expected_receive *e = there > 0 ? &h->receives[h->consumed % SLOTS] : NULL;
		uint32_t slot = p->kind->has_srq ? SLOT_BYTES : e ? e->lens[0] + e->lens[1] : 0;
		*r = (struct request){.wr_id = (uint64_t)q << 48 | number++, .opcode = draw_opcode(type)};
		enum fault f = i == fault_at && !is_flushed ? fault : FINE;
		if (f == F_LONG && (there == 0 || slot >= MESSAGE_MAX)) f = F_RBOUND;
		if (f == F_NO_RECEIVE && there > 0) f = F_LKEY;
		if (f == F_RECEIVE) f = FINE; /* takes effect at its receive request */
		if (f) r->opcode = opcode_of(f);
		int needs = takes_receive(r->opcode), is_dropped = 0;
		if (needs && !f && !is_flushed) {
			int is_bad = e && !p->kind->has_srq && e->is_bad;
			if (is_bad) f = F_RECEIVE, r->opcode = IBV_WR_SEND;
			else if (there == 0 && type == IBV_QPT_RC) needs = 0, r->opcode = draw(2) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
			else is_dropped = there == 0;
		}
		uint32_t most = !takes_receive(r->opcode) ? RDMA_MAX : r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? RDMA_MAX : type == IBV_QPT_UD ? DATAGRAM_MAX : is_dropped || is_flushed ? MESSAGE_MAX : slot;
		if (f == F_LKEY || f == F_LBOUND || f == F_RECEIVE || f == F_NO_RECEIVE) most = 512;
		r->fault = f;
		plan_request(q, x, r, most);
		f = r->fault;
		if (f == F_LONG) {
			place(r, q, slot + 1 + draw(MESSAGE_MAX - slot), SRC, SRC_BYTES, 0);
			while (r->len <= slot) place(r, q, slot + 1, SRC, SRC_BYTES, 0);
		}
		r->ends_chain = draw(2);
		if (i == count - 1) r->flags |= IBV_SEND_SIGNALED;
		r->status = is_flushed ? IBV_WC_WR_FLUSH_ERR : status_of[f];
		r->is_told = r->flags & IBV_SEND_SIGNALED || p->kind->signals_all || r->status;
		waits |= type != IBV_QPT_RC;
		if (is_flushed) continue;
		if (f) {
			is_flushed = 1;
			if (f == F_LONG || f == F_RECEIVE) {
				announce(h, (struct announced){.status = f == F_LONG ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR});
				if (p->kind->has_srq) srq_there[!x]--;
				else h->consumed++;
			}
			h->is_broken = 1;
			if (is_remote(f)) flush_receives(p, x);
			if (type == IBV_QPT_RC) flush_receives(p, !x); /* the other kinds continue to receive */
			continue;
		}
		if (is_dropped) {
			if (r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) r->opcode = IBV_WR_SEND_WITH_IMM, r->remote = 0;
			if (r->len > MESSAGE_MAX) r->entries = r->len = 0;
			continue;
		}
		apply(x, r, messages[q][x][i]);
		if (needs) {
			announce(h, (struct announced){.opcode = r->opcode, .len = r->len, .imm = r->imm, .bytes = messages[q][x][i]});
			if (p->kind->has_srq) srq_there[!x]--;
			else h->consumed++;
		}
	}
	h->count = count;
	/* An unusable receive request must not stay for the next round. */
	if (fault == F_RECEIVE && !is_flushed) h->is_broken = 1;
	return waits;
}

static void fill_sources(void) {
	for (int side = 0; side < 2; side++)
		for (int q = 0; q < PAIRS; q++) {
			uint64_t word = (uint64_t)draw(1u << 31) << 32 | draw(1u << 31) | 1;
			for (uint32_t i = 0; i < SRC_BYTES; i += 8) {
				word ^= word << 13, word ^= word >> 7, word ^= word << 17;
				memcpy(model[side] + q * PAIR_BYTES + SRC + i, &word, 8);
			}
		}
}

int plan_round(void) {
	int waits = 0;
	fill_sources();
	for (int side = 0; side < 2; side++) fill_srq(side, draw(SRQ_DEPTH - srq_there[side] + 1));
	for (int q = 0; q < PAIRS; q++) {
		for (int x = 0; x < 2; x++) {
			struct half *h = &pairs[q].halves[x];
			h->count = h->checked = h->announced = h->heard = h->is_late = 0;
		}
		/* A failure of one direction may end the other's work at any time, so the other is idle then. */
		enum fault fault = draw_fault(&pairs[q]);
		int first = draw(2), ways = fault ? 1 : draw(3);
		for (int i = 0; i < ways; i++) waits |= plan_half(q, i ? !first : first, i ? FINE : fault);
	}
	return waits;
}

void show_plan(int q) {
	struct pair *p = &pairs[q];
	fprintf(stderr, "queue pair %d (type %d, rnr_retry %d, completion queues %d and %d):\n", q, p->kind->type, p->rnr_retry, p->own_cqs[0], p->own_cqs[1]);
	for (int x = 0; x < 2; x++) {
		struct half *h = &p->halves[x];
		for (int i = 0; i < h->count; i++) {
			struct request *r = &h->requests[i];
			fprintf(stderr, " %d: request %llx opcode %d flags %x, %u bytes in %d, remote %u, fault %d: %s%s\n", x, (unsigned long long)r->wr_id, r->opcode, r->flags,
				r->len, r->entries, r->remote % PAIR_BYTES, r->fault, ibv_wc_status_str(r->status), r->is_told ? "" : ", not told");
		}
		for (int i = 0; i < h->announced; i++)
			fprintf(stderr, " %d: message %d of %u bytes: %s\n", x, i, h->messages[i].len, ibv_wc_status_str(h->messages[i].status));
		fprintf(stderr, " %d: receive requests %d posted of %d, %d used%s\n", x, h->posted, h->planned, h->consumed, h->is_late ? ", late" : "");
	}
}
