/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Work posted between ibv_start_poll and ibv_end_poll completes afterwards, so that its event finds
 * a completion. No completion overtakes another, however often the program polls. The host connects
 * to itself. */
#include "verbs_common.h"

enum { ROUNDS = 200, LOOKS = 5 };

static struct side side;
static struct ibv_cq_ex *cq;

static void write_word(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = piece(&side, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)side.buffer + IN;
	wr.wr.rdma.rkey = side.mr->rkey;
	IS(0, post(qp, wr));
}

static void begins_with(uint64_t id, struct ibv_qp *qp)
{
	struct ibv_poll_cq_attr attr = {0};
	double start = seconds();
	int error;

	while ((error = ibv_start_poll(cq, &attr)) == ENOENT && seconds() - start < PATIENCE_SECONDS)
		;
	IS(0, error);
	CHECK(cq->status == IBV_WC_SUCCESS && cq->wr_id == id && ibv_wc_read_qp_num(cq) == qp->qp_num);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_cq_init_attr_ex init = {.cqe = 64};

	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	CHECK((side.buffer = aligned_alloc(4096, BUFFER_BYTES)));
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((cq = ibv_create_cq_ex(side.context, &init)));
	side.send_cq = side.recv_cq = ibv_cq_ex_to_cq(cq);
	struct ibv_qp *one = make_qp(&side, IBV_QPT_RC), *other = make_qp(&side, IBV_QPT_RC);
	struct address a = own_address(&side, one), b = own_address(&side, other);
	to_init(one);
	to_init(other);
	to_ready(&side, one, &a, &b);
	to_ready(&side, other, &b, &a);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		write_word(one, 4 * round);
		begins_with(4 * round, one);
		write_word(one, 4 * round + 1);
		write_word(other, 4 * round + 2);
		for (int look = 0; look < LOOKS; look++) IS(ENOENT, ibv_next_poll(cq));
		ibv_end_poll(cq);
		begins_with(4 * round + 1, one);
		ibv_end_poll(cq);
		begins_with(4 * round + 2, other);
		ibv_end_poll(cq);
	}
	printf("extended_poll: as it should be\n");
	return 0;
}
