/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * read_before_reply [PEER]: the client reads memory of the server and sends a request behind the
 * read. It looks for the server's reply alone. When the reply is there, the completion of the read
 * is in the other queue, and its data is in memory. Libraries that emulate an atomic by a request
 * and a reply rely on it. Every second read is fenced. */
#include "verbs_common.h"

enum { ROUNDS = 200, REQUEST_BYTES = 35, REPLY_BYTES = 17 };

static const uint32_t SIZES[] = {8, 40, 1000};

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
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(s->send_cq && s->recv_cq && s->mr);
	IS(0, ibv_query_port(s->context, 1, &s->port));
	s->control = control_connect(peer);
}

static void say(struct side *s, struct ibv_qp *qp, uint64_t id, uint32_t bytes, int flags)
{
	struct ibv_sge sge = piece(s, OUT, bytes);
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

	IS(0, post(qp, wr));
}

static void ask(struct side *s, struct ibv_qp *qp, const struct address *peer, uint64_t round)
{
	uint32_t bytes = SIZES[round % (sizeof SIZES / sizeof *SIZES)];
	struct ibv_sge sge = piece(s, IN, bytes);
	struct ibv_send_wr wr = {.wr_id = 2 * round, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = peer->buffer + WORD;
	wr.wr.rdma.rkey = peer->rkey;
	if (round % 2) wr.send_flags |= IBV_SEND_FENCE;
	memset(s->buffer + IN, 0, bytes);
	IS(0, post(qp, wr));
	say(s, qp, 2 * round + 1, REQUEST_BYTES, IBV_SEND_SIGNALED);
	CHECK(success(s->recv_cq, round, IBV_WC_RECV).byte_len == REPLY_BYTES);
	CHECK(ibv_poll_cq(s->send_cq, 1, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 * round && wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == bytes);
	same(s->buffer + IN, bytes, 3);
	success(s->send_cq, 2 * round + 1, IBV_WC_SEND);
}

static void answer(struct side *s, struct ibv_qp *qp, uint64_t round)
{
	CHECK(success(s->recv_cq, round, IBV_WC_RECV).byte_len == REQUEST_BYTES);
	say(s, qp, round, REPLY_BYTES, IBV_SEND_SIGNALED);
	success(s->send_cq, round, IBV_WC_SEND);
}

int main(int count, char **words)
{
	struct side s = {.is_client = count > 1};

	open_side(&s, s.is_client ? words[1] : NULL);
	struct ibv_qp *qp = make_qp(&s, IBV_QPT_RC);
	to_init(qp);
	struct address peer = connect_qp(&s, qp);
	fill(s.buffer + WORD, 4096, 3);
	IS(0, receive(qp, 0, piece(&s, WORD + 65536, 64)));
	meet(&s, 1);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		IS(0, receive(qp, round + 1, piece(&s, WORD + 65536, 64)));
		if (s.is_client) ask(&s, qp, &peer, round);
		else answer(&s, qp, round);
	}
	meet(&s, 2);
	if (s.is_client) printf("each read was there before the reply\n");
	return 0;
}
