/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Destroying or resetting a queue pair removes its completions from its completion queues. Others
 * may use the room, and their completions keep their order. The queue pairs belong to one process,
 * and each completion queue holds only as many entries as one queue pair may complete.
 */
#include "verbs_common.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, HALF = DEPTH / 2 };

static struct side s;

/* Waits until all posted work has completed. */
static void settle(void) {
	struct timespec pause = {.tv_nsec = 20000000};

	nanosleep(&pause, NULL);
}

static void pair_up(struct ibv_qp *qp[2]) {
	for (int i = 0; i < 2; i++) {
		struct address mine = {.psn = 5}, peer = {.qpn = qp[1 - i]->qp_num, .psn = 5, .lid = s.port.lid};
		to_init(qp[i]);
		to_ready(&s, qp[i], &mine, &peer);
	}
}

static void make_pair(struct ibv_qp *qp[2]) {
	for (int i = 0; i < 2; i++) qp[i] = make_qp(&s, IBV_QPT_RC);
	pair_up(qp);
}

static void destroy_pair(struct ibv_qp *qp[2]) {
	for (int i = 0; i < 2; i++) IS(0, ibv_destroy_qp(qp[i]));
}

static void reset_pair(struct ibv_qp *qp[2]) {
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	for (int i = 0; i < 2; i++) IS(0, ibv_modify_qp(qp[i], &reset, IBV_QP_STATE));
}

static void send_some(struct ibv_qp *qp[2], int from, int count) {
	struct ibv_sge out = piece(&s, OUT, 64);

	for (int k = from; k < from + count; k++) {
		IS(0, receive(qp[1], 100 + k, piece(&s, IN, 64)));
		IS(0, post(qp[0], (struct ibv_send_wr){.wr_id = k, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}));
	}
}

static void some_came(int from, int count) {
	for (int k = from; k < from + count; k++) success(s.send_cq, k, IBV_WC_SEND);
	for (int k = from; k < from + count; k++) success(s.recv_cq, 100 + k, IBV_WC_RECV);
}

static void nothing_waits(void) {
	struct ibv_wc wc;

	settle();
	IS(0, ibv_poll_cq(s.send_cq, 1, &wc));
	IS(0, ibv_poll_cq(s.recv_cq, 1, &wc));
}

/* Completions of one pair fill the queues. Then the next pair fills them. */
static void room_of(void (*end)(struct ibv_qp *qp[2]), int keeps) {
	struct ibv_qp *qp[2];

	make_pair(qp);
	for (int round = 0; round < 4; round++) {
		send_some(qp, 0, DEPTH);
		settle();
		end(qp);
		if (keeps) pair_up(qp);
		else make_pair(qp);
	}
	send_some(qp, 0, DEPTH);
	some_came(0, DEPTH);
	nothing_waits();
	destroy_pair(qp);
}

/* Interleaves completions of two pairs with flushed
 * requests, which take another path than successes. */
static void what_stays_keeps_its_order(void) {
	struct ibv_qp *stays[2], *goes[2], *fails;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	make_pair(stays);
	for (int round = 0; round < 4; round++) {
		make_pair(goes);
		fails = make_qp(&s, IBV_QPT_RC);
		to_init(fails);
		for (int k = 0; k < 2; k++) IS(0, receive(fails, 200 + k, piece(&s, IN, 64)));
		for (int k = 0; k < 3; k++) {
			send_some(stays, 2 * k, 2);
			send_some(goes, 50 + k, 1);
			settle();
		}
		IS(0, ibv_modify_qp(fails, &error, IBV_QP_STATE));
		settle();
		send_some(stays, 6, 2);
		settle();
		destroy_pair(goes);
		if (round % 2) IS(0, ibv_destroy_qp(fails));
		/* Fill the queues again, after three and two places came back. */
		send_some(stays, 8, round % 2 ? DEPTH - 8 : DEPTH - 10);
		settle();
		for (int k = 0; k < 8; k++) success(s.send_cq, k, IBV_WC_SEND);
		for (int k = 0; k < 6; k++) success(s.recv_cq, 100 + k, IBV_WC_RECV);
		if (round % 2 == 0) {
			/* Flushes and successes take two paths, which have no common order. */
			struct ibv_wc wc;
			int flushed = 0, arrived = 6;

			while (flushed < 2 || arrived < DEPTH - 2) {
				wc = completion(s.recv_cq);
				if (wc.qp_num == fails->qp_num) CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 200u + flushed++);
				else CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 100u + arrived++);
			}
			for (int k = 8; k < DEPTH - 2; k++) success(s.send_cq, k, IBV_WC_SEND);
			IS(0, ibv_destroy_qp(fails));
		} else {
			for (int k = 6; k < DEPTH; k++) success(s.recv_cq, 100 + k, IBV_WC_RECV);
			for (int k = 8; k < DEPTH; k++) success(s.send_cq, k, IBV_WC_SEND);
		}
		nothing_waits();
	}
	destroy_pair(stays);
}

/* A destroyed queue pair returns the places of its completed requests to the shared queue. */
static void a_shared_queue_has_its_places_back(void) {
	struct ibv_srq_init_attr wanted = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(s.pd, &wanted);
	struct ibv_sge in = piece(&s, IN, 64), out = piece(&s, OUT, 64);
	struct ibv_recv_wr wr = {.sg_list = &in, .num_sge = 1}, *bad;

	CHECK(srq != NULL);
	for (int round = 0; round < 3; round++) {
		struct ibv_qp_init_attr init = {.send_cq = s.send_cq, .recv_cq = s.recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
						.cap = {.max_send_wr = DEPTH, .max_send_sge = 1}};
		struct ibv_qp *qp[2] = {ibv_create_qp(s.pd, &init), ibv_create_qp(s.pd, &init)};

		CHECK(qp[0] && qp[1]);
		pair_up(qp);
		for (uint32_t k = 0; k < wanted.attr.max_wr; k++) IS(0, ibv_post_srq_recv(srq, &wr, &bad));
		for (int k = 0; k < DEPTH; k++)
			IS(0, post(qp[0], (struct ibv_send_wr){.wr_id = k, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}));
		settle();
		if (wanted.attr.max_wr > DEPTH) break; /* the queue is larger than requested and cannot be full */
		destroy_pair(qp);
	}
	nothing_waits();
	IS(0, ibv_destroy_srq(srq));
}

/* A completion in flight when its queue pair is destroyed does not come later. */
static void in_full_flight(void) {
	for (int round = 0; round < 20; round++) {
		struct ibv_qp *qp[2];

		make_pair(qp);
		send_some(qp, 0, HALF);
		destroy_pair(qp);
	}
	nothing_waits();
}

int main(void) {
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0] && (s.context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(posix_memalign((void **)&s.buffer, 4096, BUFFER_BYTES) == 0 && (s.pd = ibv_alloc_pd(s.context)));
	s.mr = ibv_reg_mr(s.pd, s.buffer, BUFFER_BYTES, ALL);
	s.send_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	s.recv_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	CHECK(s.mr && s.send_cq && s.recv_cq);
	IS(0, ibv_query_port(s.context, 1, &s.port));
	room_of(destroy_pair, 0);
	room_of(reset_pair, 1);
	what_stays_keeps_its_order();
	a_shared_queue_has_its_places_back();
	in_full_flight();
	printf("the room is there again\n");
	return 0;
}
