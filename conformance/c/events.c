/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Events of completion queues, if the posting thread may carry the work out itself. Each arming
 * gives one event for completions after it and none for completions before it. A program that only
 * polls needs no engine. The queue pairs belong to one process and are connected to each other.
 * With an argument the engine stands still for a while (wall pace only). */
#include "engine_stop.h"
#include <pthread.h>

enum { BYTES = 4096, ROUNDS = 4000, QUIET_MS = 5, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
enum { ANY = 0, SOLICITED_ONLY = 1 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static _Alignas(4096) char buffer[BYTES];
static struct ibv_mr *mr;
/* One end of a connection: a queue pair and its queues, which raise events in one channel. */
struct end {
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	long armings, events;
};

static struct end new_end(void)
{
	struct end e = {.channel = ibv_create_comp_channel(context)};

	CHECK(e.channel != NULL);
	CHECK((e.send_cq = ibv_create_cq(context, 64, NULL, e.channel, 0)) != NULL && (e.recv_cq = ibv_create_cq(context, 64, &port, e.channel, 0)) != NULL);
	struct ibv_qp_init_attr init = {.send_cq = e.send_cq, .recv_cq = e.recv_cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
	CHECK((e.qp = ibv_create_qp(pd, &init)) != NULL);
	return e;
}

static void make_ready(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 1, .ah_attr = {.dlid = port.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void connect_ends(struct end *a, struct end *b)
{
	*a = new_end();
	*b = new_end();
	make_ready(a->qp, b->qp->qp_num);
	make_ready(b->qp, a->qp->qp_num);
}

static void destroy(struct end *e)
{
	IS(0, ibv_destroy_qp(e->qp));
	IS(0, ibv_destroy_cq(e->send_cq));
	IS(0, ibv_destroy_cq(e->recv_cq));
	IS(0, ibv_destroy_comp_channel(e->channel));
}

static void post_receive(struct end *e, uint64_t id)
{
	IS(0, receive(e->qp, id, (struct ibv_sge){(uintptr_t)buffer, 64, mr->lkey}));
}

static void post_work(struct end *e, uint64_t id, enum ibv_wr_opcode opcode, int flags, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)buffer + 1024, 64, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags,
				 .wr.rdma = {(uintptr_t)buffer + 2048, rkey}};

	IS(0, post(e->qp, wr));
}

/* Sends a message and returns after its arrival. */
static void message(struct end *from, struct end *to, uint64_t id, int flags)
{
	post_receive(to, id);
	post_work(from, id, IBV_WR_SEND, flags, mr->rkey);
	success(from->send_cq, id, IBV_WC_SEND);
}

static void arm(struct end *e, struct ibv_cq *cq, int kind)
{
	IS(0, ibv_req_notify_cq(cq, kind));
	e->armings++;
}

static int has_event(struct end *e, int milliseconds)
{
	struct pollfd look = {.fd = e->channel->fd, .events = POLLIN};
	int found;

	do found = poll(&look, 1, milliseconds);
	while (found < 0 && errno == EINTR);
	return found == 1;
}

static void take_event(struct end *e, struct ibv_cq *expected)
{
	struct ibv_cq *cq;
	void *cookie;

	IS(0, ibv_get_cq_event(e->channel, &cq, &cookie));
	CHECK(cq == expected && cookie == (cq == e->recv_cq ? (void *)&port : NULL));
	ibv_ack_cq_events(cq, 1);
	e->events++;
}

static void one_event(struct end *e, struct ibv_cq *cq, const char *why)
{
	if (!has_event(e, PATIENCE_SECONDS * 1000)) FAIL("no event %s", why);
	take_event(e, cq);
	if (has_event(e, QUIET_MS)) FAIL("a second event %s", why);
}

static void no_event(struct end *e, const char *why)
{
	if (has_event(e, QUIET_MS)) FAIL("an event %s", why);
}

/* Tests receives and own work on a queue armed for any completion. */
static void any_completion(void)
{
	struct end a, b;

	connect_ends(&a, &b);
	for (int i = 0; i < 20; i++) {
		arm(&b, b.recv_cq, ANY);
		message(&a, &b, i, 0);
		one_event(&b, b.recv_cq, "after a message");
		message(&a, &b, i, 0);
		no_event(&b, "that nobody asked for");
		arm(&b, b.recv_cq, ANY);
		no_event(&b, "for what was there before");
		message(&a, &b, i, 0);
		one_event(&b, b.recv_cq, "behind what was there before");
		for (int left = 3; left > 0; left--) success(b.recv_cq, i, IBV_WC_RECV);
		arm(&a, a.send_cq, ANY);
		post_work(&a, i, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, mr->rkey);
		one_event(&a, a.send_cq, "of own work");
		success(a.send_cq, i, i % 2 ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
	}
	arm(&b, b.recv_cq, ANY);
	arm(&b, b.recv_cq, ANY);
	message(&a, &b, 1, 0);
	one_event(&b, b.recv_cq, "of a queue armed twice");
	arm(&b, b.recv_cq, ANY);
	message(&a, &b, 2, 0);
	arm(&b, b.recv_cq, ANY);
	message(&a, &b, 3, 0);
	for (int left = 2; left > 0; left--) {
		if (!has_event(&b, PATIENCE_SECONDS * 1000)) FAIL("%d of two events", 2 - left);
		take_event(&b, b.recv_cq);
	}
	no_event(&b, "more than there were armings");
	arm(&b, b.recv_cq, ANY);
	arm(&b, b.send_cq, ANY);
	message(&a, &b, 4, 0);
	one_event(&b, b.recv_cq, "of one queue of two");
	post_work(&b, 5, IBV_WR_RDMA_WRITE, 0, mr->rkey);
	one_event(&b, b.send_cq, "of the other one");
	success(b.send_cq, 5, IBV_WC_RDMA_WRITE);
	destroy(&a);
	destroy(&b);
	puts("ok one event for each arming, none for what was there before");
}

static void solicited_ones(void)
{
	struct end a, b;

	connect_ends(&a, &b);
	for (int i = 0; i < 10; i++) {
		arm(&b, b.recv_cq, SOLICITED_ONLY);
		message(&a, &b, i, 0);
		no_event(&b, "of a message that does not solicit one");
		message(&a, &b, i, IBV_SEND_SOLICITED);
		one_event(&b, b.recv_cq, "of a message that solicits one");
		arm(&b, b.recv_cq, SOLICITED_ONLY);
		post_receive(&b, i);
		post_work(&a, i, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED, mr->rkey);
		success(a.send_cq, i, IBV_WC_RDMA_WRITE);
		one_event(&b, b.recv_cq, "of a write with immediate data that solicits one");
		arm(&b, b.recv_cq, i % 2);
		arm(&b, b.recv_cq, (i + 1) % 2);
		message(&a, &b, i, 0);
		one_event(&b, b.recv_cq, "of a queue armed for both kinds");
		for (int left = 4; left > 0; left--) ends(b.recv_cq, i, IBV_WC_SUCCESS);
		arm(&a, a.send_cq, SOLICITED_ONLY);
		post_work(&a, i, IBV_WR_RDMA_WRITE, IBV_SEND_SOLICITED, mr->rkey);
		no_event(&a, "of own work that has gone well");
		success(a.send_cq, i, IBV_WC_RDMA_WRITE);
	}
	post_work(&a, 100, IBV_WR_RDMA_WRITE, 0, mr->rkey + 0x1000);
	one_event(&a, a.send_cq, "of work that has failed");
	ends(a.send_cq, 100, IBV_WC_REM_ACCESS_ERR);
	arm(&a, a.send_cq, ANY);
	post_work(&a, 101, IBV_WR_RDMA_WRITE, 0, mr->rkey);
	one_event(&a, a.send_cq, "of work that was flushed");
	ends(a.send_cq, 101, IBV_WC_WR_FLUSH_ERR);
	destroy(&a);
	destroy(&b);
	puts("ok solicited events, and those of errors");
}

/* Queues come and go while another queue of the channel is armed.
 * A destroyed queue loses its arming. */
static void queues_that_go(void)
{
	for (int round = 0; round < 20; round++) {
		struct end a, b;

		connect_ends(&a, &b);
		arm(&b, b.recv_cq, ANY);
		arm(&a, a.recv_cq, ANY);
		if (round % 2) {
			message(&a, &b, 1, 0);
			CHECK(has_event(&b, PATIENCE_SECONDS * 1000));
		}
		no_event(&a, "of a queue that nothing came to");
		destroy(&a);
		destroy(&b);
	}
	puts("ok queues that go with an arming, or with an event that nobody took");
}

/* One of two threads. Each sleeps until the other's message arrives. */
struct player {
	struct end *e;
	int kind, begins;
};

/* Takes the next message as the manual page describes: arms, polls once more, sleeps. */
static void sleep_for_message(struct end *e, int kind, uint64_t id)
{
	struct ibv_wc wc;
	int found;

	arm(e, e->recv_cq, kind);
	while ((found = ibv_poll_cq(e->recv_cq, 1, &wc)) == 0) {
		if (id % 2 && !has_event(e, PATIENCE_SECONDS * 1000)) FAIL("message %d: the event is lost", (int)id);
		take_event(e, e->recv_cq);
		CHECK(e->events <= e->armings);
		/* The event may belong to an earlier arming whose message was polled before. */
		if ((found = ibv_poll_cq(e->recv_cq, 1, &wc)) != 0) break;
		arm(e, e->recv_cq, kind);
	}
	CHECK(found == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == id);
}

static void *plays(void *argument)
{
	struct player *p = argument;
	int flags = p->kind == SOLICITED_ONLY ? IBV_SEND_SOLICITED : 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (!p->begins) sleep_for_message(p->e, p->kind, i);
		post_receive(p->e, i + 1);
		post_work(p->e, i, IBV_WR_SEND, flags, mr->rkey);
		success(p->e->send_cq, i, IBV_WC_SEND);
		if (p->begins) sleep_for_message(p->e, p->kind, i);
	}
	return NULL;
}

static void ping_pong(int kind)
{
	struct end a, b;
	struct player players[2] = {{&a, kind, 1}, {&b, kind, 0}};
	pthread_t threads[2];
	double start = seconds();

	connect_ends(&a, &b);
	post_receive(&a, 0);
	post_receive(&b, 0);
	for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, plays, &players[i]) == 0);
	for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < 2; i++) {
		struct end *e = players[i].e;

		while (has_event(e, QUIET_MS)) take_event(e, e->recv_cq);
		if (e->events > e->armings) FAIL("%ld events of %ld armings", e->events, e->armings);
	}
	fprintf(stderr, "%d messages each way, %.1f us for each, %ld and %ld events\n", ROUNDS, (seconds() - start) * 5e5 / ROUNDS, a.events, b.events);
	destroy(&a);
	destroy(&b);
	puts(kind == ANY ? "ok ping-pong of threads that sleep" : "ok ping-pong of threads that sleep for solicited events");
}

/* The two ends work without the engine. */
static void without_engine(void)
{
	struct end a, b;

	connect_ends(&a, &b);
	for (int i = 0; i < 3; i++) {
		message(&a, &b, i, 0); /* each end has found the other */
		success(b.recv_cq, i, IBV_WC_RECV);
	}
	engine_stands_still();
	for (int i = 0; i < 500; i++) {
		message(&a, &b, i, i % 3 ? 0 : IBV_SEND_SOLICITED);
		success(b.recv_cq, i, IBV_WC_RECV);
		post_work(&b, i, i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 0, mr->rkey);
		success(b.send_cq, i, i % 2 ? IBV_WC_RDMA_WRITE : IBV_WC_RDMA_READ);
	}
	arm(&b, b.recv_cq, ANY);
	message(&a, &b, 7, 0);
	no_event(&b, "that nobody can bring");
	arm(&b, b.recv_cq, ANY);
	message(&a, &b, 8, 0);
	engine_goes_on();
	for (int left = 2; left > 0; left--) {
		CHECK(has_event(&b, PATIENCE_SECONDS * 1000));
		take_event(&b, b.recv_cq);
	}
	no_event(&b, "more than there were armings");
	destroy(&a);
	destroy(&b);
	puts("ok queues that are polled need nobody; events wait for who brings them");
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	(void)argv;
	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	CHECK((mr = ibv_reg_mr(pd, buffer, BYTES, ALL)) != NULL);
	if (argc > 1) without_engine();
	any_completion();
	solicited_ones();
	queues_that_go();
	ping_pong(ANY);
	ping_pong(SOLICITED_ONLY);
	puts("all parts hold");
	return 0;
}
