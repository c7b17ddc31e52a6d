/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * empty_looks KIND LOOKS ROUNDS [PEER]: a ping-pong of 8 bytes between two sides. Before each look
 * for the peer's message, a side looks LOOKS times at a completion queue that stays empty. KIND is
 * the way of a message: "send", "write" (found in memory) or "socket" (found by poll without a
 * wait; the answer is a send). "lazy" is a send whose completions stay unread for seven rounds. The
 * client prints the nanoseconds of a round, without the first. */
#include "verbs_common.h"

enum { SEND, WRITE, SOCKET, LAZY, KINDS };

static const char *const NAMES[KINDS] = {"send", "write", "socket", "lazy"};

struct game {
	struct side s;
	struct ibv_qp *qp;
	struct ibv_cq *empty;
	struct address peer;
	int kind, looks;
};

static int kind_of(const char *name)
{
	for (int kind = 0; kind < KINDS; kind++)
		if (strcmp(name, NAMES[kind]) == 0) return kind;
	FAIL("no kind %s", name);
}

static void open_side(struct side *s, const char *peer)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	s->context = ibv_open_device(list[0]);
	CHECK(s->context != NULL);
	s->pd = ibv_alloc_pd(s->context);
	CHECK(s->pd != NULL);
	s->send_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	s->buffer = aligned_alloc(4096, BUFFER_BYTES);
	CHECK(s->buffer != NULL);
	memset(s->buffer, 0, BUFFER_BYTES);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(s->send_cq && s->recv_cq && s->mr);
	IS(0, ibv_query_port(s->context, 1, &s->port));
	s->control = control_connect(peer);
}

/* Sends the message of a round. Every eighth has a completion. The side takes it at once, or before
 * the next. */
static void say(struct game *g, uint64_t round)
{
	int is_signaled = round % 8 == 7;
	struct ibv_sge sge = piece(&g->s, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};

	if (g->kind == SOCKET && g->s.is_client) {
		CHECK(write(g->s.control, &round, sizeof round) == sizeof round);
		return;
	}
	if (is_signaled) wr.send_flags |= IBV_SEND_SIGNALED;
	if (g->kind == WRITE) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = g->peer.buffer + IN;
		wr.wr.rdma.rkey = g->peer.rkey;
	}
	*(uint64_t *)(g->s.buffer + OUT) = round + 1;
	if (g->kind == LAZY && round > 8 && is_signaled) success(g->s.send_cq, round - 8, IBV_WC_SEND);
	IS(0, post(g->qp, wr));
	if (is_signaled && g->kind != LAZY) success(g->s.send_cq, round, g->kind == WRITE ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
}

/* Looks once for the message of a round. */
static int has_come(struct game *g, uint64_t round)
{
	struct pollfd set = {.fd = g->s.control, .events = POLLIN};
	struct ibv_wc wc;
	uint64_t word;

	if (g->kind == WRITE) return __atomic_load_n((uint64_t *)(g->s.buffer + IN), __ATOMIC_ACQUIRE) == round + 1;
	if (g->kind == SOCKET && !g->s.is_client) {
		if (poll(&set, 1, 0) == 0) return 0;
		CHECK(read(g->s.control, &word, sizeof word) == sizeof word && word == round);
		return 1;
	}
	if (ibv_poll_cq(g->s.recv_cq, 1, &wc) == 0) return 0;
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == round);
	IS(0, receive(g->qp, round + DEPTH, piece(&g->s, IN, 64)));
	return 1;
}

static void await(struct game *g, uint64_t round)
{
	struct ibv_wc wc;

	do {
		for (int i = 0; i < g->looks; i++) CHECK(ibv_poll_cq(g->empty, 1, &wc) == 0);
	} while (!has_come(g, round));
}

int main(int count, char **words)
{
	struct game g = {.s = {.is_client = count > 4}};
	double start = 0;

	CHECK(count > 3);
	g.kind = kind_of(words[1]);
	g.looks = atoi(words[2]);
	int rounds = atoi(words[3]);
	open_side(&g.s, g.s.is_client ? words[4] : NULL);
	g.empty = ibv_create_cq(g.s.context, DEPTH, NULL, NULL, 0);
	CHECK(g.empty != NULL);
	g.qp = make_qp(&g.s, IBV_QPT_RC);
	to_init(g.qp);
	for (uint64_t id = 0; id < DEPTH; id++) IS(0, receive(g.qp, id, piece(&g.s, IN, 64)));
	g.peer = connect_qp(&g.s, g.qp);
	meet(&g.s, 1);
	for (int round = 0; round <= rounds; round++) {
		if (round == 1) start = seconds();
		if (g.s.is_client) say(&g, round);
		await(&g, round);
		if (!g.s.is_client) say(&g, round);
	}
	if (g.s.is_client) printf("round %.1f ns\n", (seconds() - start) / rounds * 1e9);
	meet(&g.s, 2);
	return 0;
}
