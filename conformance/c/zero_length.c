/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * zero_length [HOST]: sends, writes and reads of no bytes. A responder does not validate the key of a
 * read or write of no bytes (IBTA C9-88), so any key and address will do. UCX flushes by writes of this
 * kind. A read of eight bytes by the same key is refused. */
#include "verbs_common.h"

enum { IMMEDIATE = 0x5a5a };

static struct side side;

static void zero(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint32_t rkey, int flags)
{
	struct ibv_send_wr wr = {.wr_id = opcode, .sg_list = sge, .num_sge = sge != NULL, .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED | flags, .imm_data = IMMEDIATE, .wr.rdma = {0, rkey}};
	enum ibv_wc_opcode expected = opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
				      : opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_SEND
												 : IBV_WC_RDMA_WRITE;

	IS(0, post(qp, wr));
	success(side.send_cq, opcode, expected);
}

/* The messages of one kind: without a list, with an entry of no bytes and a key that does not exist, and
 * inline. */
static void all_lists(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge empty = piece(&side, OUT, 0), foreign = {0, 0, 0xdead};

	zero(qp, opcode, NULL, rkey, 0);
	zero(qp, opcode, &empty, rkey, 0);
	zero(qp, opcode, &foreign, rkey, 0);
	if (opcode != IBV_WR_RDMA_READ) zero(qp, opcode, NULL, rkey, IBV_SEND_INLINE);
}

/* Eight messages that take a receive request, and others. */
static void request(struct ibv_qp *qp, uint32_t key)
{
	all_lists(qp, IBV_WR_RDMA_WRITE, key);
	all_lists(qp, IBV_WR_RDMA_WRITE_WITH_IMM, key);
	all_lists(qp, IBV_WR_SEND, key);
	if (qp->qp_type == IBV_QPT_RC) all_lists(qp, IBV_WR_RDMA_READ, key);
}

static void refused(struct ibv_qp *qp)
{
	struct ibv_sge sge = piece(&side, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = 99, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {0, 0xff}};

	IS(0, post(qp, wr));
	ends(side.send_cq, 99, IBV_WC_REM_ACCESS_ERR);
}

static void take(struct ibv_qp *qp, int count)
{
	for (int n = 0; n < count; n++) {
		struct ibv_wc wc = completion(side.recv_cq);
		int is_write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;

		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 0);
		CHECK(is_write ? wc.imm_data == IMMEDIATE : wc.opcode == IBV_WC_RECV);
		/* A list without an entry receives no bytes. */
		struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
		IS(0, ibv_post_recv(qp, &wr, &bad));
	}
}

static void one_type(enum ibv_qp_type type)
{
	static const uint32_t keys[] = {0, 0xff, 0xffffffff};
	struct ibv_qp *qp = make_qp(&side, type);

	to_init(qp);
	for (int n = 0; n < DEPTH; n++) IS(0, receive(qp, 1, piece(&side, IN, 64)));
	connect_qp(&side, qp);
	/* An unreliable connection loses a message that finds no receive request. So the sides meet before
	 * these run out. */
	for (int n = 0; n < 3; n++) {
		meet(&side, n + 1);
		if (side.is_client) {
			request(qp, keys[n]);
		} else {
			take(qp, 8);
		}
	}
	meet(&side, 4);
	if (side.is_client && type == IBV_QPT_RC) refused(qp);
	meet(&side, 5);
	IS(0, ibv_destroy_qp(qp));
}

int main(int count, char **words)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	side.is_client = count > 1;
	side.control = control_connect(count > 1 ? words[1] : NULL);
	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	CHECK((side.buffer = aligned_alloc(4096, BUFFER_BYTES)));
	memset(side.buffer, 0, BUFFER_BYTES);
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, access)));
	CHECK((side.send_cq = ibv_create_cq(side.context, 64, NULL, NULL, 0)));
	CHECK((side.recv_cq = ibv_create_cq(side.context, 64, NULL, NULL, 0)));
	one_type(IBV_QPT_UC);
	one_type(IBV_QPT_RC);
	printf("zero_length: as it should be\n");
	return 0;
}
