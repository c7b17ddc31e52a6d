/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * late_receiver [PEER]: the client sends at once. The server posts its receive request 20 ms
 * later. */
#include "verbs_common.h"

int main(int count, char **words)
{
	struct side s = {.is_client = count > 1};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp *qp;

	CHECK(list && list[0]);
	s.context = ibv_open_device(list[0]);
	CHECK(s.context != NULL);
	s.pd = ibv_alloc_pd(s.context);
	CHECK(s.pd != NULL);
	s.send_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	s.recv_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	s.buffer = calloc(1, BUFFER_BYTES);
	s.mr = ibv_reg_mr(s.pd, s.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(s.send_cq && s.recv_cq && s.mr);
	IS(0, ibv_query_port(s.context, 1, &s.port));
	s.control = control_connect(s.is_client ? words[1] : NULL);
	qp = make_qp(&s, IBV_QPT_RC);
	to_init(qp);
	connect_qp(&s, qp);
	meet(&s, 1);
	if (s.is_client) {
		struct ibv_sge sge = piece(&s, OUT, 64);
		struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

		IS(0, post(qp, wr));
		success(s.send_cq, 2, IBV_WC_SEND);
	} else {
		usleep(20000);
		IS(0, receive(qp, 1, piece(&s, IN, 64)));
		success(s.recv_cq, 1, IBV_WC_RECV);
	}
	meet(&s, 2);
	return 0;
}
