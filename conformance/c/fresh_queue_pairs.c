/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Queue pairs that are new or freshly reset, while others keep the fabric busy: they lose no
 * completion, and get none of their former life. Two queue pairs of one process.
 *
 *     fresh_queue_pairs ROUNDS     the test
 *     fresh_queue_pairs            other work for some seconds, beside the test
 */
#include "verbs_common.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, BESIDE_BYTES = 1 << 20, BESIDE_SECONDS = 4 };

static struct side s;

static void pair_up(struct ibv_qp *qp[2]) {
	for (int i = 0; i < 2; i++) {
		struct address mine = {.psn = 5}, peer = {.qpn = qp[1 - i]->qp_num, .psn = 5, .lid = s.port.lid};
		to_init(qp[i]);
		to_ready(&s, qp[i], &mine, &peer);
	}
}

static void fresh(int rounds) {
	struct ibv_qp *qp[2] = {make_qp(&s, IBV_QPT_RC), make_qp(&s, IBV_QPT_RC)};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_sge out = piece(&s, OUT, 64);

	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < 2; i++) {
			if (round % 2) {
				IS(0, ibv_modify_qp(qp[i], &reset, IBV_QP_STATE));
			} else {
				IS(0, ibv_destroy_qp(qp[i]));
				qp[i] = make_qp(&s, IBV_QPT_RC);
			}
		}
		pair_up(qp);
		for (int k = 0; k < 4; k++) IS(0, receive(qp[1], 10 + k, piece(&s, IN, 64)));
		for (int k = 0; k < 4; k++)
			IS(0, post(qp[0], (struct ibv_send_wr){.wr_id = k, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}));
		for (int k = 0; k < 4; k++) success(s.send_cq, k, IBV_WC_SEND);
		for (int k = 0; k < 4; k++) success(s.recv_cq, 10 + k, IBV_WC_RECV);
	}
	printf("%d rounds, nothing lost\n", rounds);
}

/* Writes go through the engine if their completion queue has a channel. */
static void beside(void) {
	struct ibv_comp_channel *channel = ibv_create_comp_channel(s.context);
	CHECK(channel && (s.send_cq = s.recv_cq = ibv_create_cq(s.context, 64, NULL, channel, 0)));
	struct ibv_qp *qp[2] = {make_qp(&s, IBV_QPT_RC), make_qp(&s, IBV_QPT_RC)};
	struct ibv_sge sge = piece(&s, 0, BESIDE_BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	int under_way = 0;

	pair_up(qp);
	wr.wr.rdma.remote_addr = (uintptr_t)s.buffer + BESIDE_BYTES;
	wr.wr.rdma.rkey = s.mr->rkey;
	for (double until = seconds() + BESIDE_SECONDS; under_way > 0 || seconds() < until;) {
		for (; under_way < DEPTH && seconds() < until; under_way++) IS(0, post(qp[0], wr));
		if (ibv_poll_cq(s.send_cq, 1, &wc) > 0) under_way--;
		else usleep(200);
	}
}

int main(int argc, char **argv) {
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0] && (s.context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(posix_memalign((void **)&s.buffer, 4096, 2 * BESIDE_BYTES) == 0 && (s.pd = ibv_alloc_pd(s.context)));
	s.mr = ibv_reg_mr(s.pd, s.buffer, 2 * BESIDE_BYTES, ALL);
	s.send_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	s.recv_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	CHECK(s.mr && s.send_cq && s.recv_cq);
	IS(0, ibv_query_port(s.context, 1, &s.port));
	if (argc > 1) fresh(atoi(argv[1]));
	else beside();
	return 0;
}
