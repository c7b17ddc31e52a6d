/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A receiver posts a receive request, confirms it over a socket, and gets the datagram: the request
 * exists when the datagram comes. A datagram without a request is lost, and no side sends it again.
 *
 *     datagram_ready ROUNDS            the receiver
 *     datagram_ready ROUNDS RECEIVER   the sender
 *
 * On a busy machine a round takes long. After ENOUGH_SECONDS the receiver ends the test.
 */
#include "verbs_common.h"

enum { ENOUGH_SECONDS = 10 };

static void set_up(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	s->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(s->context && posix_memalign((void **)&s->buffer, 4096, BUFFER_BYTES) == 0);
	s->pd = ibv_alloc_pd(s->context);
	CHECK(s->pd);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	s->send_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	CHECK(s->mr && s->send_cq && s->recv_cq);
	IS(0, ibv_query_port(s->context, 1, &s->port));
}

int main(int argc, char **argv)
{
	struct side s = {.is_client = argc > 2};
	int rounds = argc > 1 ? atoi(argv[1]) : 1000;
	char is_last = 0;

	set_up(&s);
	s.control = control_connect(argc > 2 ? argv[2] : NULL);
	struct ibv_qp *qp = make_qp(&s, IBV_QPT_UD);
	to_init(qp);
	struct address peer = connect_qp(&s, qp);
	struct ibv_ah_attr to = {.dlid = peer.lid, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(s.pd, &to);
	CHECK(ah);
	meet(&s, 0);
	double start = seconds();
	int round = 0;
	for (; round < rounds && !is_last; round++) {
		if (s.is_client) {
			struct ibv_sge sge = piece(&s, OUT, 8);
			struct ibv_send_wr wr = {.wr_id = round, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
						 .num_sge = 1};

			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = peer.qpn;
			wr.wr.ud.remote_qkey = 0x11111111;
			CHECK(read(s.control, &is_last, 1) == 1);
			IS(0, post(qp, wr));
			success(s.send_cq, round, IBV_WC_SEND);
		} else {
			IS(0, receive(qp, round, piece(&s, IN, 8 + GRH_BYTES)));
			is_last = seconds() - start > ENOUGH_SECONDS;
			CHECK(write(s.control, &is_last, 1) == 1);
			success(s.recv_cq, round, IBV_WC_RECV);
		}
	}
	meet(&s, 1);
	printf("%d datagrams, none lost\n", round);
	return 0;
}
