/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tests random work on queue pairs of all kinds against a model of both sides' memory and
 * completions: data_path SEED ROUNDS [HOST]. The side with HOST connects to the other.
 * Both sides draw the same numbers, so each knows the other's work and its results: every
 * completion with all of its fields, and every byte of memory. A round posts a batch of requests on
 * each queue pair, in one direction or in both. At most one of them fails. The requests behind it
 * are flushed. Then the queue pairs are reset or made anew, and connected again.
 *
 * With DATA_PATH_TRACE=FILE in the environment, each side writes FILE.0 or FILE.1. The file has a
 * line for each completion, with the fields that the specification defines and a digest of its
 * data. A last line per queue pair describes its memory. Lines of one queue pair and direction keep
 * their order, so a stable sort makes runs comparable. */
#include "data_path.h"

struct side s;
struct pair pairs[PAIRS];
struct expected_receive srq_receives[SRQ_DEPTH];
uint8_t model[2][ARENA];
int me;
static uint64_t seed, rounds, state, apart, done_rounds, completions, failures;
static int is_over, looked_at = -1;
static uint8_t *arena;
static struct ibv_mr *good, *poor;
static struct ibv_srq *srq;
static struct ibv_cq *cqs[4];
static struct ibv_comp_channel *channel;
static FILE *trace;

static const struct kind kinds[PAIRS] = {
	{IBV_QPT_RC, 0, 0, 0}, {IBV_QPT_RC, 1, 0, 0}, {IBV_QPT_RC, 2, 0, 0}, {IBV_QPT_UC, 0, 0, 0}, {IBV_QPT_UC, 1, 0, 0},
	{IBV_QPT_UD, 1, 0, 0}, {IBV_QPT_RC, 0, 1, 0}, {IBV_QPT_RC, 1, 1, 0}, {IBV_QPT_RC, 0, 0, 1},
};

static uint32_t draw_from(uint64_t *from, uint32_t below) {
	uint64_t z = *from += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 16) % below;
}

uint32_t draw(uint32_t below) { return draw_from(&state, below); }

uint32_t draw_apart(uint32_t below) { return draw_from(&apart, below); }

static void tell(void) {
	if (is_over) return;
	fprintf(stderr, "data_path: seed %llu, round %llu, side %d\n", (unsigned long long)seed, (unsigned long long)done_rounds, me);
	if (looked_at >= 0) show_plan(looked_at);
}

/* Creation and connection. */

static void make(int number) {
	struct pair *p = &pairs[number];
	const struct kind *k = p->kind = &kinds[number];
	int set = (k->set + (me && number % 3 == 0)) % 3;
	struct ibv_qp_init_attr init = {.send_cq = cqs[set], .recv_cq = set == 1 ? cqs[3] : cqs[set], .qp_type = k->type, .srq = k->has_srq ? srq : NULL,
		.sq_sig_all = k->signals_all, .cap = {.max_send_wr = BATCH, .max_recv_wr = k->has_srq ? 0 : DEPTH_OF_RECEIVES, .max_send_sge = SGES, .max_recv_sge = 2,
		.max_inline_data = INLINE}};
	CHECK((p->qp = ibv_create_qp(s.pd, &init)) != NULL);
	CHECK(k->has_srq || init.cap.max_recv_wr <= SLOTS);
	p->send_room = init.cap.max_send_wr;
	p->receive_room = init.cap.max_recv_wr;
	p->own_cqs[0] = set;
	p->own_cqs[1] = set == 1 ? 3 : set;
}

/* Takes a queue pair from RESET to RTS.
 * Draws every attribute except the numbers of the queue pairs. */
static void connect_pair(int number) {
	struct pair *p = &pairs[number];
	uint32_t psn[2] = {draw(1 << 24), draw(1 << 24)}, mine[2] = {p->qp->qp_num, s.port.lid}, theirs[2];
	p->rnr_retry = draw(3) ? 7 : 0;
	to_init(p->qp);
	swap_bytes(&s, mine, theirs, sizeof mine);
	p->peer_qpn = theirs[0];
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = theirs[0], .rq_psn = psn[!me], .max_dest_rd_atomic = 4,
		.min_rnr_timer = 1, .ah_attr = {.dlid = theirs[1], .port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = psn[me], .timeout = 14, .retry_cnt = 7, .rnr_retry = p->rnr_retry, .max_rd_atomic = 4};
	int rtr_mask = IBV_QP_STATE, rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (p->kind->type != IBV_QPT_UD) rtr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (p->kind->type == IBV_QPT_RC) {
		rtr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	if (p->kind->type == IBV_QPT_UD && !p->ah) CHECK((p->ah = ibv_create_ah(s.pd, &rtr.ah_attr)) != NULL);
	IS(0, ibv_modify_qp(p->qp, &rtr, rtr_mask));
	IS(0, ibv_modify_qp(p->qp, &rts, rts_mask));
	meet(&s, 100 + number);
}

/* Receive requests. */

static void post_receive(int number, const struct expected_receive *e) {
	struct pair *p = number < 0 ? NULL : &pairs[number];
	struct ibv_sge list[2];
	for (int i = 0; i < 2; i++) list[i] = (struct ibv_sge){(uintptr_t)arena + e->place + i * (SLOT_BYTES / 2), e->lens[i], e->is_bad ? good->lkey ^ 0x55u << 24 : good->lkey};
	int entries = e->lens[1] ? 2 : e->lens[0] ? 1 : 0;
	struct ibv_recv_wr wr = {.wr_id = e->wr_id, .sg_list = list, .num_sge = entries}, *bad = NULL;
	IS(0, p ? ibv_post_recv(p->qp, &wr, &bad) : ibv_post_srq_recv(srq, &wr, &bad));
}

static void post_receives(int late) {
	for (int q = 0; q < PAIRS; q++) {
		struct half *h = &pairs[q].halves[!me];
		if (h->is_late != late) continue;
		for (; h->posted < h->planned; h->posted++) post_receive(q, &h->receives[h->posted % SLOTS]);
		if (!late && !pairs[q].kind->has_srq && h->planned - h->completed == pairs[q].receive_room) {
			struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
			IS(ENOMEM, ibv_post_recv(pairs[q].qp, &wr, &bad));
			CHECK(bad == &wr);
		}
	}
	if (!late)
		for (int i = 0; i < SRQ_DEPTH; i++)
			if (srq_receives[i].is_new) {
				post_receive(-1, &srq_receives[i]);
				srq_receives[i].is_new = 0;
			}
}

/* Send requests. */

static void post_batch(int q) {
	static struct ibv_send_wr wrs[BATCH + 1];
	static struct ibv_sge lists[BATCH + 1][SGES];
	static uint8_t inlined[BATCH + 1][INLINE];
	struct pair *p = &pairs[q];
	struct half *h = &p->halves[me];
	struct ibv_send_wr *first = NULL, **last = &first, *bad;
	for (int i = 0; i < h->count; i++) {
		struct request *r = &h->requests[i];
		struct ibv_send_wr *wr = &wrs[i];
		*wr = (struct ibv_send_wr){.wr_id = r->wr_id, .sg_list = lists[i], .num_sge = r->entries, .opcode = r->opcode, .send_flags = r->flags, .imm_data = htonl(r->imm)};
		for (int e = 0; e < r->entries; e++) {
			lists[i][e] = (struct ibv_sge){(uintptr_t)arena + r->places[e], r->lens[e], r->fault == F_LPERM ? poor->lkey : good->lkey};
			if (r->flags & IBV_SEND_INLINE) lists[i][e] = (struct ibv_sge){(uintptr_t)memcpy(inlined[i], r->inlined, INLINE), r->lens[e], 0};
		}
		if (r->fault == F_LKEY) lists[i][0].lkey ^= 0x55u << 24;
		if (r->fault == F_LBOUND) lists[i][0].addr = (uintptr_t)arena + ARENA - lists[i][0].length + 1;
		uint64_t remote = p->peer_arena + (r->fault == F_RBOUND ? ARENA - r->len + 1 : r->remote);
		uint32_t rkey = r->fault == F_RKEY ? p->peer_rkey ^ 0x55u << 24 : r->fault == F_RPERM ? p->peer_poor : p->peer_rkey;
		if (p->kind->type == IBV_QPT_UD) {
			wr->wr.ud.ah = p->ah;
			wr->wr.ud.remote_qpn = p->peer_qpn;
			wr->wr.ud.remote_qkey = 0x11111111;
		} else if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
			wr->wr.atomic.remote_addr = remote;
			wr->wr.atomic.rkey = rkey;
			wr->wr.atomic.compare_add = r->compare_add;
			wr->wr.atomic.swap = r->swap;
		} else {
			wr->wr.rdma.remote_addr = remote;
			wr->wr.rdma.rkey = rkey;
		}
		*last = wr;
		last = &wr->next;
		if (r->ends_chain || i == h->count - 1) {
			IS(0, ibv_post_send(p->qp, first, &bad));
			last = &first;
			memset(inlined, 0xee, sizeof inlined);
		}
	}
	if (h->count == p->send_room) {
		wrs[0].next = NULL;
		wrs[0].send_flags &= ~IBV_SEND_INLINE;
		wrs[0].num_sge = 0;
		IS(ENOMEM, ibv_post_send(p->qp, &wrs[0], &bad));
		CHECK(bad == &wrs[0]);
	}
}

/* The trace. */

static uint64_t digest_of(const uint8_t *bytes, uint32_t count, uint64_t digest) {
	for (uint32_t i = 0; i < count; i++) digest = (digest ^ bytes[i]) * 0x100000001b3u;
	return digest;
}

/* Clears bytes that the specification leaves undefined, so that all runs agree on them. */
static void forget(uint32_t place, uint32_t count) {
	memset(arena + place, 0, count);
	memset(model[me] + place, 0, count);
}

/* Writes a completion to the trace, without its
 * request of a shared queue: message order decides it. */
static void trace_completion(int q, const struct ibv_wc *wc, int is_receive, uint64_t digest) {
	if (!trace) return;
	int is_shared = is_receive && pairs[q].kind->has_srq;
	fprintf(trace, "%d %s round %llu wr_id %llx: %s", q, is_receive ? "receive" : "send", (unsigned long long)done_rounds,
		is_shared ? 0ull : (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS) {
		fprintf(trace, ", opcode %d, flags %x", wc->opcode, wc->wc_flags);
		if (is_receive || wc->opcode == IBV_WC_RDMA_READ || wc->opcode == IBV_WC_COMP_SWAP || wc->opcode == IBV_WC_FETCH_ADD) fprintf(trace, ", %u bytes", wc->byte_len);
		if (wc->wc_flags & IBV_WC_WITH_IMM) fprintf(trace, ", immediate %x", ntohl(wc->imm_data));
		if (is_receive) fprintf(trace, ", data %llx", (unsigned long long)digest);
		if (is_receive && pairs[q].kind->type == IBV_QPT_UD) fprintf(trace, ", from %s", wc->src_qp == pairs[q].peer_qpn ? "the peer" : "another");
	}
	fprintf(trace, "\n");
}

static void trace_memory(void) {
	for (int q = 0; trace && q < PAIRS; q++)
		fprintf(trace, "%d memory %llx\n", q, (unsigned long long)digest_of(arena + q * PAIR_BYTES, PAIR_BYTES, 0xcbf29ce484222325u));
}

/* Completions. */

static void sent(struct pair *p, const struct ibv_wc *wc) {
	struct half *h = &p->halves[me];
	while (h->checked < h->count && !h->requests[h->checked].is_told) h->checked++;
	if (h->checked == h->count) FAIL("a completion of %llx that nothing is left for", (unsigned long long)wc->wr_id);
	struct request *r = &h->requests[h->checked++];
	if (wc->wr_id != r->wr_id || wc->status != r->status)
		FAIL("request %llx ends with %s; %llx should, with %s (fault %d)", (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), (unsigned long long)r->wr_id,
		     ibv_wc_status_str(r->status), r->fault);
	if (wc->status) return;
	static const enum ibv_wc_opcode opcodes[] = {[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE, [IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND, [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ, [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD};
	CHECK(wc->opcode == opcodes[r->opcode]);
	if (r->opcode >= IBV_WR_RDMA_READ) CHECK(wc->byte_len == r->len);
}

/* Returns a digest of the data that came. */
static uint64_t received(struct pair *p, const struct ibv_wc *wc) {
	struct half *h = &p->halves[!me];
	struct expected_receive *e;
	if (h->heard == h->announced) FAIL("a receive of %llx that nothing was sent for", (unsigned long long)wc->wr_id);
	const struct announced *a = &h->messages[h->heard++];
	if (p->kind->has_srq) {
		uint32_t slot = wc->wr_id & 0xffff;
		CHECK(wc->wr_id >> 48 == SRQ_MARK && slot < SRQ_DEPTH && srq_receives[slot].is_there);
		e = &srq_receives[slot];
		e->is_there = 0;
	} else {
		e = &h->receives[h->completed++ % SLOTS];
	}
	if (wc->wr_id != e->wr_id || wc->status != a->status)
		FAIL("receive %llx ends with %s; %llx should, with %s", (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), (unsigned long long)e->wr_id, ibv_wc_status_str(a->status));
	if (a->status == IBV_WC_LOC_LEN_ERR) forget(e->place, SLOT_BYTES); /* part of the data may have arrived */
	if (a->status) return 0;
	int is_datagram = p->kind->type == IBV_QPT_UD;
	CHECK(wc->opcode == (a->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	CHECK(wc->byte_len == a->len + (is_datagram ? GRH_BYTES : 0));
	CHECK(wc->wc_flags == (a->opcode != IBV_WR_SEND ? IBV_WC_WITH_IMM : 0));
	if (a->opcode != IBV_WR_SEND) CHECK(ntohl(wc->imm_data) == a->imm);
	if (is_datagram) CHECK(wc->src_qp == p->peer_qpn);
	if (a->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) return 0;
	if (is_datagram) forget(e->place, GRH_BYTES); /* undefined without a GRH */
	uint64_t digest = 0xcbf29ce484222325u;
	uint32_t at = is_datagram ? GRH_BYTES : 0;
	for (uint32_t i = 0; i < a->len; i++, at++) {
		uint32_t place = e->place + (at < e->lens[0] ? at : SLOT_BYTES / 2 + at - e->lens[0]);
		model[me][place] = a->bytes[i];
		digest = digest_of(&arena[place], 1, digest);
	}
	return digest;
}

static int poll_one(struct ibv_cq *cq) {
	struct ibv_wc wc[5];
	int count = ibv_poll_cq(cq, 1 + draw_apart(5), wc);
	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		int q = 0;
		while (q < PAIRS && pairs[q].qp->qp_num != wc[i].qp_num) q++;
		CHECK(q < PAIRS);
		int is_receive = wc[i].wr_id >> 63;
		looked_at = q;
		CHECK(cq == cqs[pairs[q].own_cqs[is_receive]]);
		uint64_t digest = 0;
		if (is_receive) digest = received(&pairs[q], &wc[i]);
		else sent(&pairs[q], &wc[i]);
		trace_completion(q, &wc[i], is_receive, digest);
		completions++;
		failures += wc[i].status != IBV_WC_SUCCESS;
		looked_at = -1;
	}
	return count;
}

static int is_complete(int cq) {
	for (int q = 0; q < PAIRS; q++) {
		struct half *out = &pairs[q].halves[me], *in = &pairs[q].halves[!me];
		while (out->checked < out->count && !out->requests[out->checked].is_told) out->checked++;
		if (out->checked < out->count && (cq < 0 || pairs[q].own_cqs[0] == cq)) return 0;
		if (in->heard < in->announced && (cq < 0 || pairs[q].own_cqs[1] == cq)) return 0;
	}
	return 1;
}

/* Sleeps for the queue with the channel: arms it, polls once more, then waits for its event. */
static void sleep_for_event(void) {
	struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *whose;
	void *context;
	IS(0, ibv_req_notify_cq(cqs[2], 0));
	if (poll_one(cqs[2])) return;
	if (poll(&ready, 1, PATIENCE_SECONDS * 1000) != 1) FAIL("no event within %d s", PATIENCE_SECONDS);
	IS(0, ibv_get_cq_event(channel, &whose, &context));
	CHECK(whose == cqs[2]);
	ibv_ack_cq_events(whose, 1);
}

static void await_completions(void) {
	double start = seconds();
	while (!is_complete(-1)) {
		int found = 0;
		for (int i = 0; i < 4; i++) found += poll_one(cqs[i]);
		if (found) start = seconds();
		else if (is_complete(0) && is_complete(1) && is_complete(3)) sleep_for_event();
		if (seconds() - start > PATIENCE_SECONDS) {
			for (int q = 0; q < PAIRS; q++) {
				struct half *out = &pairs[q].halves[me], *in = &pairs[q].halves[!me];
				fprintf(stderr, "queue pair %d: %d of %d sent, %d of %d received\n", q, out->checked, out->count, in->heard, in->announced);
			}
			FAIL("completions are missing");
		}
	}
}

static void nothing_more(void) {
	for (int i = 0; i < 4; i++) CHECK(poll_one(cqs[i]) == 0);
}

static void compare(void) {
	if (memcmp(arena, model[me], ARENA) == 0) return;
	for (uint32_t i = 0; i < ARENA; i++) {
		if (arena[i] == model[me][i]) continue;
		looked_at = i / PAIR_BYTES < PAIRS ? (int)(i / PAIR_BYTES) : -1;
		FAIL("byte %u (queue pair %u, place %u) is %u, not %u", i, i / PAIR_BYTES, i % PAIR_BYTES, arena[i], model[me][i]);
	}
}

/* Renews a queue pair, always after an error and sometimes without.
 * Posted requests are flushed or lost. */
static void renew(int q) {
	struct pair *p = &pairs[q];
	int is_broken = p->halves[0].is_broken || p->halves[1].is_broken, how = draw(12);
	if (!is_broken && how > 1) return;
	struct half *h = &p->halves[!me];
	if (how % 2) {
		struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
		IS(0, ibv_modify_qp(p->qp, &error, IBV_QP_STATE));
		flush_receives(p, !me);
		await_completions();
	}
	if (how == 1 || how == 4) {
		IS(0, ibv_destroy_qp(p->qp));
		make(q);
	} else {
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
		IS(0, ibv_modify_qp(p->qp, &reset, IBV_QP_STATE));
	}
	for (int x = 0; x < 2; x++) {
		h = &p->halves[x];
		h->completed = h->consumed = h->posted = h->planned = h->is_broken = 0;
	}
	connect_pair(q);
}

static void round_of_work(void) {
	int waits = plan_round();
	for (int q = 0; q < PAIRS; q++) memcpy(arena + q * PAIR_BYTES + SRC, model[me] + q * PAIR_BYTES + SRC, SRC_BYTES);
	post_receives(0);
	meet(&s, 1);
	int from = draw_apart(PAIRS);
	for (int q = 0; q < PAIRS; q++) post_batch((from + q) % PAIRS);
	usleep(draw_apart(3) * 150);
	post_receives(1);
	await_completions();
	if (waits) usleep(3000); /* unacknowledged packets may still be in flight */
	meet(&s, 2);
	nothing_more();
	compare();
	/* Neither side posts new work before both have compared. */
	meet(&s, 3);
	for (int q = 0; q < PAIRS; q++) renew(q);
}

static void open_side(const char *peer) {
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CHECK(devices != NULL && devices[0] != NULL && (s.context = ibv_open_device(devices[0])) != NULL);
	ibv_free_device_list(devices);
	CHECK((s.pd = ibv_alloc_pd(s.context)) != NULL && ibv_query_port(s.context, 1, &s.port) == 0);
	CHECK((channel = ibv_create_comp_channel(s.context)) != NULL);
	for (int i = 0; i < 4; i++) CHECK((cqs[i] = ibv_create_cq(s.context, PAIRS * (BATCH + SLOTS) + SRQ_DEPTH, NULL, i == 2 ? channel : NULL, 0)) != NULL);
	CHECK((arena = aligned_alloc(4096, ARENA)) != NULL);
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	CHECK((good = ibv_reg_mr(s.pd, arena, ARENA, all)) != NULL && (poor = ibv_reg_mr(s.pd, arena, ARENA, 0)) != NULL);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = SRQ_DEPTH, .max_sge = 2}};
	CHECK((srq = ibv_create_srq(s.pd, &init)) != NULL);
	s.control = control_connect(peer);
}

int main(int count, char **words) {
	if (count < 3) {
		fprintf(stderr, "data_path SEED ROUNDS [HOST]\n");
		return 2;
	}
	state = seed = strtoull(words[1], NULL, 0);
	rounds = strtoull(words[2], NULL, 0);
	me = count > 3;
	apart = ~seed + me;
	const char *path = getenv("DATA_PATH_TRACE");
	char name[4096];
	if (path) {
		snprintf(name, sizeof name, "%s.%d", path, me);
		CHECK((trace = fopen(name, "w")) != NULL);
	}
	atexit(tell);
	open_side(words[3]);
	for (uint32_t i = 0; i < ARENA; i++) model[0][i] = model[1][i] = (uint8_t)(i * 7 + i / 251);
	memcpy(arena, model[me], ARENA);
	uint64_t mine[3] = {(uintptr_t)arena, good->rkey, poor->rkey}, theirs[3];
	swap_bytes(&s, mine, theirs, sizeof mine);
	for (int q = 0; q < PAIRS; q++) {
		pairs[q].peer_arena = theirs[0];
		pairs[q].peer_rkey = (uint32_t)theirs[1];
		pairs[q].peer_poor = (uint32_t)theirs[2];
		make(q);
		connect_pair(q);
	}
	for (; done_rounds < rounds; done_rounds++) round_of_work();
	meet(&s, 9);
	trace_memory();
	if (trace) CHECK(fclose(trace) == 0);
	is_over = 1;
	printf("data_path: seed %llu, %llu rounds, %llu completions (%llu failed), all as the model says\n", (unsigned long long)seed, (unsigned long long)rounds,
	       (unsigned long long)completions, (unsigned long long)failures);
	return 0;
}
