/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * More parts of verbs_all: errors and recovery, datagrams, extended completion queues, ibv_wr_*. */
#include "verbs_common.h"

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	IS(0, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	CHECK(qp->state == attr.qp_state);
	return attr.qp_state;
}

static void to_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	IS(0, ibv_modify_qp(qp, &reset, IBV_QP_STATE));
	CHECK(state_of(qp) == IBV_QPS_RESET);
}

/* A wrong key ends the connection on both sides.
 * Posted work is flushed. A reset renews the queue pair. */
void errors(struct side *s, struct ibv_qp *rc)
{
	struct ibv_sge sge = piece(s, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = 200, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)s->buffer, 0x00DEAD00}};
	struct ibv_async_event event;
	struct address peer;

	IS(0, receive(rc, 210, piece(s, IN, 64)));
	meet(s, 20);
	if (s->is_client) {
		IS(0, post(rc, wr));
		wr.wr_id = 201;
		IS(0, post(rc, wr));
		ends(s->send_cq, 200, IBV_WC_REM_ACCESS_ERR);
		ends(s->send_cq, 201, IBV_WC_WR_FLUSH_ERR);
	} else {
		IS(0, ibv_get_async_event(s->context, &event));
		if (event.event_type != IBV_EVENT_QP_ACCESS_ERR || event.element.qp != rc)
			FAIL("the responder hears: %s", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	ends(s->recv_cq, 210, IBV_WC_WR_FLUSH_ERR);
	CHECK(state_of(rc) == IBV_QPS_ERR);
	wr.wr_id = 202;
	IS(0, post(rc, wr));
	ends(s->send_cq, 202, IBV_WC_WR_FLUSH_ERR);
	meet(s, 21);
	printf("ok RC: remote access error, flush, asynchronous event\n");

	to_reset(rc);
	to_init(rc);
	peer = connect_qp(s, rc);
	wr.wr.rdma.remote_addr = peer.buffer + IN;
	wr.wr.rdma.rkey = peer.rkey;
	meet(s, 22);
	for (int i = 0; i < 3 * DEPTH; i++) {
		IS(0, post(rc, wr));
		success(s->send_cq, 202, IBV_WC_RDMA_WRITE);
	}
	meet(s, 23);
	printf("ok RC: reset, connected anew\n");
}

/* The client sends a datagram. The server answers to the source that the completion names. */
void datagrams(struct side *s)
{
	struct ibv_qp *qp = make_qp(s, IBV_QPT_UD);
	struct ibv_ah_attr to = {.port_num = 1};
	struct ibv_sge sge = piece(s, OUT, 500);
	struct ibv_send_wr wr = {.wr_id = 300, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(0xCAFE)};
	struct address peer;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	fill(s->buffer + OUT, 500, 60 + s->is_client);
	to_init(qp);
	IS(0, receive(qp, 310, piece(s, IN, 500 + GRH_BYTES)));
	peer = connect_qp(s, qp);
	meet(s, 30);
	if (s->is_client) {
		to.dlid = peer.lid;
		ah = ibv_create_ah(s->pd, &to);
		wr.wr.ud.remote_qpn = peer.qpn;
	} else {
		wc = success(s->recv_cq, 310, IBV_WC_RECV);
		CHECK(wc.src_qp == peer.qpn && wc.slid == peer.lid && wc.byte_len == 500 + GRH_BYTES);
		CHECK((wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == htonl(0xCAFE));
		same(s->buffer + IN + GRH_BYTES, 500, 61);
		ah = ibv_create_ah_from_wc(s->pd, &wc, (struct ibv_grh *)(s->buffer + IN), 1);
		wr.wr.ud.remote_qpn = wc.src_qp;
	}
	CHECK(ah && ah->pd == s->pd);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qkey = 0x11111111;
	IS(0, post(qp, wr));
	success(s->send_cq, 300, IBV_WC_SEND);
	wr.opcode = IBV_WR_RDMA_WRITE;
	IS(EINVAL, post(qp, wr));
	if (s->is_client) {
		wc = success(s->recv_cq, 310, IBV_WC_RECV);
		CHECK(wc.src_qp == peer.qpn);
		same(s->buffer + IN + GRH_BYTES, 500, 60);
	}
	meet(s, 31);
	IS(0, ibv_destroy_ah(ah));
	IS(0, ibv_destroy_qp(qp));
	printf("ok UD: address handles, the way back, immediate\n");
}

/* Checks the next completion of an extended queue. The poll stays open. */
static void start(struct ibv_cq_ex *cq, uint64_t id)
{
	struct ibv_poll_cq_attr none = {};
	double begin = seconds();
	int error;

	while ((error = ibv_start_poll(cq, &none)) == ENOENT)
		if (seconds() - begin > PATIENCE_SECONDS)
			FAIL("no completion within %d s", PATIENCE_SECONDS);
	CHECK(error == 0);
	if (cq->status != IBV_WC_SUCCESS || cq->wr_id != id)
		FAIL("work %llu: %s", (unsigned long long)cq->wr_id, ibv_wc_status_str(cq->status));
}

static struct ibv_qp *make_extended_qp(struct side *s, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .pd = s->pd,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 32},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP};
	struct ibv_qp *qp;

	init.send_ops_flags |= IBV_QP_EX_WITH_TSO;
	NONE(EOPNOTSUPP, ibv_create_qp_ex(s->context, &init));
	init.send_ops_flags &= ~IBV_QP_EX_WITH_TSO;
	qp = ibv_create_qp_ex(s->context, &init);
	CHECK(qp != NULL);
	return qp;
}

/* Posts one batch: a write, a read, two atomics, and an inline send with immediate data. */
static void post_batch(struct side *s, struct ibv_qp_ex *qp, const struct address *peer)
{
	struct ibv_sge two[2] = {piece(s, OUT, 100), piece(s, OUT + 100, 100)};

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 400;
	ibv_wr_rdma_write(qp, peer->rkey, peer->buffer + IN);
	ibv_wr_set_sge_list(qp, 2, two);
	qp->wr_id = 401;
	ibv_wr_rdma_read(qp, peer->rkey, peer->buffer + OUT);
	ibv_wr_set_sge(qp, s->mr->lkey, (uintptr_t)s->buffer + IN, 200);
	qp->wr_id = 402;
	ibv_wr_atomic_fetch_add(qp, peer->rkey, peer->buffer + WORD, 3);
	ibv_wr_set_sge(qp, s->mr->lkey, (uintptr_t)s->buffer + WORD + 8, 8);
	qp->wr_id = 403;
	ibv_wr_atomic_cmp_swp(qp, peer->rkey, peer->buffer + WORD, 13, 21);
	ibv_wr_set_sge(qp, s->mr->lkey, (uintptr_t)s->buffer + WORD + 16, 8);
	/* Only a fence orders later work behind reads and atomics (IBTA 10.8.3.3). */
	qp->wr_flags |= IBV_SEND_FENCE;
	qp->wr_id = 404;
	ibv_wr_send_imm(qp, htonl(404));
	ibv_wr_set_inline_data(qp, "softband", 8);
	IS(0, ibv_wr_complete(qp));
}

static void refused_batches(struct side *s, struct ibv_qp_ex *qp)
{
	struct ibv_poll_cq_attr none = {};

	ibv_wr_start(qp);
	qp->wr_id = 499;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, s->mr->lkey, (uintptr_t)s->buffer, 8);
	ibv_wr_send_tso(qp, NULL, 0, 0);
	IS(EOPNOTSUPP, ibv_wr_complete(qp));
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_abort(qp);
	IS(ENOENT, ibv_start_poll((struct ibv_cq_ex *)qp->qp_base.send_cq, &none));
}

void extended(struct side *s)
{
	struct ibv_cq_init_attr_ex want = {.cqe = 4 * DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	static const enum ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP, IBV_WC_SEND};
	uint64_t *words = (uint64_t *)(s->buffer + WORD), earlier = 0;
	struct ibv_cq_ex *cq;
	struct address peer;
	struct ibv_qp *qp;

	want.wc_flags |= IBV_WC_EX_WITH_CVLAN;
	NONE(EOPNOTSUPP, ibv_create_cq_ex(s->context, &want));
	want.wc_flags &= ~IBV_WC_EX_WITH_CVLAN;
	cq = ibv_create_cq_ex(s->context, &want);
	CHECK(cq != NULL);
	qp = make_extended_qp(s, cq);
	CHECK(ibv_qp_to_qp_ex(qp) != NULL);
	to_init(qp);
	IS(0, receive(qp, 410, piece(s, IN + 4096, 64)));
	peer = connect_qp(s, qp);
	refused_batches(s, ibv_qp_to_qp_ex(qp));
	words[0] = 10;
	memset(s->buffer + IN, 0, 200);
	fill(s->buffer + OUT, 200, 70 + s->is_client);
	meet(s, 40);
	if (s->is_client) {
		post_batch(s, ibv_qp_to_qp_ex(qp), &peer);
		for (int i = 0; i < 5; i++) {
			start(cq, 400 + i);
			CHECK(ibv_wc_read_opcode(cq) == opcodes[i] && ibv_wc_read_qp_num(cq) == qp->qp_num);
			CHECK(ibv_wc_read_completion_ts(cq) >= earlier);
			earlier = ibv_wc_read_completion_ts(cq);
			ibv_end_poll(cq);
		}
		same(s->buffer + IN, 200, 70);
		CHECK(words[1] == 10 && words[2] == 13);
	} else {
		start(cq, 410);
		CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV && ibv_wc_read_byte_len(cq) == 8);
		CHECK((ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) && ibv_wc_read_imm_data(cq) == htonl(404));
		CHECK(ibv_next_poll(cq) == ENOENT);
		ibv_end_poll(cq);
		CHECK(memcmp(s->buffer + IN + 4096, "softband", 8) == 0);
		same(s->buffer + IN, 200, 71);
		CHECK(words[0] == 21);
	}
	meet(s, 41);
	IS(0, ibv_destroy_qp(qp));
	IS(0, ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	printf("ok extended completion queue and ibv_wr_*\n");
}
