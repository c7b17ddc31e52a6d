/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Sends datagrams to its own queue pair by each GID of its port, and prints the service level of each
 * completion, by ibv_poll_cq and by ibv_wc_read_sl. */
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(fact)                                                                                  \
	do {                                                                                         \
		if (!(fact)) {                                                                       \
			printf("line %d: %s is false\n", __LINE__, #fact);                           \
			exit(1);                                                                     \
		}                                                                                    \
	} while (0)

enum { QKEY = 0x11111111, GRH = 40, BYTES = 64 };

static uint8_t buffer[4096] __attribute__((aligned(4096)));

static struct ibv_qp *queue_pair(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp && ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return qp;
}

/* Returns the service level that the completion of the receive states. */
static int level(struct ibv_cq_ex *cq, int is_extended)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_wc wc;

	for (;;) {
		if (!is_extended) {
			int count = ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc);

			CHECK(count >= 0 && (count == 0 || wc.status == IBV_WC_SUCCESS));
			if (count == 1 && wc.opcode == IBV_WC_RECV)
				return wc.sl;
			continue;
		}
		if (ibv_start_poll(cq, &attr) != 0)
			continue;
		int is_receive = ibv_wc_read_opcode(cq) == IBV_WC_RECV, found = is_receive ? ibv_wc_read_sl(cq) : 0;

		ibv_end_poll(cq);
		if (is_receive)
			return found;
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_SL};
	struct ibv_port_attr port;

	CHECK(context && ibv_query_port(context, 1, &port) == 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);

	CHECK(pd && mr && cq);
	struct ibv_qp *qp = queue_pair(pd, ibv_cq_ex_to_cq(cq));

	for (int index = 0; index < 2; index++) {
		struct ibv_ah_attr way = {.dlid = port.lid, .sl = 3, .port_num = 1, .is_global = 1, .grh.hop_limit = 8, .grh.sgid_index = index};

		if (ibv_query_gid(context, 1, index, &way.grh.dgid) != 0 || way.grh.dgid.global.interface_id == 0)
			continue;
		struct ibv_ah *ah = ibv_create_ah(pd, &way);

		CHECK(ah);
		for (int is_extended = 0; is_extended < 2; is_extended++) {
			struct ibv_sge to = {(uintptr_t)buffer, GRH + BYTES, mr->lkey}, from = {(uintptr_t)buffer + 2048, BYTES, mr->lkey};
			struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
			struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
						   .wr.ud = {.ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = QKEY}}, *bad;

			CHECK(ibv_post_recv(qp, &receive, &bad_receive) == 0 && ibv_post_send(qp, &send, &bad) == 0);
			printf("%s to a GID of %s: %d\n", is_extended ? "ibv_wc_read_sl" : "ibv_poll_cq",
			       be64toh(way.grh.dgid.global.interface_id) >> 32 == 0xFFFF ? "IPv4" : "the link", level(cq, is_extended));
		}
	}
	return 0;
}
