/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A queue pair with `max_rd_atomic` 0 allows no reads and atomics: each fails and moves no data.
 * The test runs on one host. */
#include "verbs_common.h"

static struct side side;

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .rq_psn = 1,
				  .max_dest_rd_atomic = 4, .min_rnr_timer = 12, .ah_attr = {.dlid = side.port.lid, .port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};

	to_init(qp);
	IS(0, ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	IS(0, ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void fails(enum ibv_wr_opcode opcode)
{
	struct ibv_qp *qp = make_qp(&side, IBV_QPT_RC), *peer = make_qp(&side, IBV_QPT_RC);
	struct ibv_sge sge = piece(&side, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = opcode, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	uint64_t *word = (uint64_t *)(side.buffer + WORD);

	connect_to(qp, peer);
	connect_to(peer, qp);
	*word = 5;
	memset(side.buffer + OUT, 0, 8);
	if (opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = (uintptr_t)word;
		wr.wr.rdma.rkey = side.mr->rkey;
	} else {
		wr.wr.atomic.remote_addr = (uintptr_t)word;
		wr.wr.atomic.rkey = side.mr->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	IS(0, post(qp, wr));
	ends(side.send_cq, opcode, IBV_WC_LOC_QP_OP_ERR);
	CHECK(*word == 5 && *(uint64_t *)(side.buffer + OUT) == 0);
	IS(0, ibv_destroy_qp(qp));
	IS(0, ibv_destroy_qp(peer));
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	CHECK((side.buffer = aligned_alloc(4096, BUFFER_BYTES)));
	memset(side.buffer, 0, BUFFER_BYTES);
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, access)));
	CHECK((side.send_cq = side.recv_cq = ibv_create_cq(side.context, 64, NULL, NULL, 0)));
	fails(IBV_WR_RDMA_READ);
	fails(IBV_WR_ATOMIC_FETCH_AND_ADD);
	printf("no_reads: as it should be\n");
	return 0;
}
