/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Messages to shared receive queues, and datagrams, between queue pairs of one process. With the
 * argument "stopped" the parent process stands still meanwhile. At wall pace the parent is the
 * engine, so the messages must not need it. Every path gives the same lines about the completions.
 *
 *     without_engine [stopped]
 */
#include "engine_stop.h"

enum { BYTES = 4096, ROUNDS = 500, REQUESTS = 8, SENDERS = 3, QKEY = 0x11111111 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static _Alignas(4096) uint8_t from[BYTES], into[REQUESTS][BYTES];
static struct ibv_mr *from_mr, *into_mr;
static int stops;

static struct ibv_qp *new_queue_pair(enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
					.cap = {.max_send_wr = REQUESTS, .max_recv_wr = REQUESTS, .max_send_sge = 2, .max_recv_sge = 2}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp != NULL);
	to_init(qp);
	return qp;
}

static void make_ready(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct address mine = {.qpn = qp->qp_num, .psn = 5}, other = {.qpn = peer->qp_num, .psn = 5, .lid = port.lid};

	to_ready(NULL, qp, &mine, &other);
}

static struct ibv_recv_wr request(struct ibv_sge sges[2], int round, int bytes)
{
	int half = bytes / 2;

	sges[0] = (struct ibv_sge){(uintptr_t)into[round % REQUESTS], half, into_mr->lkey};
	sges[1] = (struct ibv_sge){(uintptr_t)into[round % REQUESTS] + half, BYTES - half, into_mr->lkey};
	return (struct ibv_recv_wr){.wr_id = 1000 + round, .sg_list = sges, .num_sge = 2};
}

static void post_receive(struct ibv_qp *qp, struct ibv_srq *srq, int round, int bytes)
{
	struct ibv_sge sges[2];
	struct ibv_recv_wr wr = request(sges, round, bytes), *bad;

	if (srq)
		IS(0, ibv_post_srq_recv(srq, &wr, &bad));
	else
		IS(0, ibv_post_recv(qp, &wr, &bad));
}

/* Sends the message of `round` and checks its arrival. `ah` is NULL for connected queue pairs. */
static void message(struct ibv_qp *qp, struct ibv_qp *peer, struct ibv_ah *ah, int round)
{
	int room = ah ? GRH_BYTES : 0, bytes = 1 + round * 7 % 1000, has_immediate = round % 2, of_own_key = round % 4 == 3;
	struct ibv_sge sge = {(uintptr_t)from, bytes, from_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .imm_data = htonl(round),
				 .opcode = has_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc[2];

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = peer->qp_num;
		wr.wr.ud.remote_qkey = of_own_key ? 0x80000000 : QKEY;
	}
	memset(into[round % REQUESTS], 0xA5, BYTES);
	fill(from, bytes, round);
	IS(0, post(qp, wr));
	wc[0] = completion(qp->send_cq);
	wc[1] = completion(qp->send_cq);
	if (wc[0].opcode & IBV_WC_RECV) {
		struct ibv_wc other = wc[0];

		wc[0] = wc[1];
		wc[1] = other;
	}
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[0].opcode == IBV_WC_SEND && (int)wc[0].wr_id == round && wc[0].qp_num == qp->qp_num);
	CHECK(wc[1].status == IBV_WC_SUCCESS && wc[1].opcode == IBV_WC_RECV && (int)wc[1].wr_id == 1000 + round);
	CHECK(wc[1].qp_num == peer->qp_num && wc[1].src_qp == qp->qp_num && (int)wc[1].byte_len == bytes + room);
	CHECK(!has_immediate == !(wc[1].wc_flags & IBV_WC_WITH_IMM) && (!has_immediate || ntohl(wc[1].imm_data) == (uint32_t)round));
	for (int i = 0; i < room; i++)
		CHECK(into[round % REQUESTS][i] == 0xA5); /* the datagram came without a GRH */
	same(into[round % REQUESTS] + room, bytes, round);
	CHECK(into[round % REQUESTS][room + bytes] == 0xA5);
	if (round < 2)
		printf("sl %d pkey_index %d flags %u lid %d path bits %d\n", wc[1].sl, wc[1].pkey_index, wc[1].wc_flags, ah ? wc[1].slid : 0,
		       wc[1].dlid_path_bits);
}

/* Sends from several queue pairs of one kind, in turn.
 * The receivers share a receive queue or not. */
static void messages(enum ibv_qp_type type, int is_shared)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = REQUESTS, .max_sge = 2}};
	struct ibv_srq *srq = is_shared ? ibv_create_srq(pd, &init) : NULL;
	struct ibv_qp *sender[SENDERS], *receiver[SENDERS];
	struct ibv_qp_attr only_receives = {.qp_state = IBV_QPS_RTR};
	struct ibv_ah_attr to = {.dlid = port.lid, .sl = 2, .port_num = 1};
	struct ibv_ah *ah = type == IBV_QPT_UD ? ibv_create_ah(pd, &to) : NULL;

	CHECK(cq && (srq || !is_shared) && (ah || type != IBV_QPT_UD));
	for (int i = 0; i < SENDERS; i++) {
		sender[i] = new_queue_pair(type, cq, NULL);
		receiver[i] = new_queue_pair(type, cq, srq);
		if (i == 0 && type == IBV_QPT_UD)
			IS(0, ibv_modify_qp(receiver[i], &only_receives, IBV_QP_STATE));
		else
			make_ready(receiver[i], sender[i]);
		make_ready(sender[i], receiver[i]);
	}
	/* The first message of each sender finds the receiver. */
	for (int round = 0; round < ROUNDS; round++) {
		int which = round % SENDERS;

		if (round == SENDERS && stops)
			engine_stands_still();
		post_receive(receiver[which], srq, round, 1 + round * 7 % 1000);
		message(sender[which], receiver[which], ah, round);
	}
	engine_goes_on();
	for (int i = 0; i < SENDERS; i++) {
		IS(0, ibv_destroy_qp(sender[i]));
		IS(0, ibv_destroy_qp(receiver[i]));
	}
	if (srq)
		IS(0, ibv_destroy_srq(srq));
	if (ah)
		IS(0, ibv_destroy_ah(ah));
	IS(0, ibv_destroy_cq(cq));
	printf("ok messages of type %d to %s\n", type, is_shared ? "a shared receive queue" : "receive queues of their own");
}

static int is_told(struct ibv_srq *srq, int milliseconds)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&fd, 1, milliseconds) == 0)
		return 0;
	IS(0, ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
	return 1;
}

static unsigned limit_of(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	IS(0, ibv_query_srq(srq, &attr));
	return attr.srq_limit;
}

/* A shared receive queue raises one event when fewer
 * requests than its limit are left, even if peers took them. */
static void limit(enum ibv_qp_type type)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = REQUESTS, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_qp *sender = new_queue_pair(type, cq, NULL), *receiver = new_queue_pair(type, cq, srq);
	struct ibv_srq_attr attr = {.srq_limit = 4};
	struct ibv_ah_attr to = {.dlid = port.lid, .sl = 2, .port_num = 1};
	struct ibv_ah *ah = type == IBV_QPT_UD ? ibv_create_ah(pd, &to) : NULL;

	make_ready(receiver, sender);
	make_ready(sender, receiver);
	for (int round = 0; round < REQUESTS; round++)
		post_receive(receiver, srq, round, 1 + round * 7 % 1000);
	IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	message(sender, receiver, ah, 0);
	message(sender, receiver, ah, 1);
	if (stops)
		engine_stands_still();
	message(sender, receiver, ah, 2);
	message(sender, receiver, ah, 3); /* four requests are left */
	CHECK(!is_told(srq, 20));
	message(sender, receiver, ah, 4);
	message(sender, receiver, ah, 5);
	engine_goes_on();
	CHECK(is_told(srq, 1000 * PATIENCE_SECONDS) && limit_of(srq) == 0);
	attr.srq_limit = 1;
	IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK(limit_of(srq) == 1);
	message(sender, receiver, ah, 6);
	CHECK(!is_told(srq, 20) && limit_of(srq) == 1);
	message(sender, receiver, ah, 7);
	CHECK(is_told(srq, 1000 * PATIENCE_SECONDS) && limit_of(srq) == 0);
	post_receive(receiver, srq, 8, 1);
	message(sender, receiver, ah, 8);
	CHECK(!is_told(srq, 20));
	/* The event also comes if the queue pair that took the last request is gone. */
	post_receive(receiver, srq, 9, 1 + 9 * 7 % 1000);
	IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	message(sender, receiver, ah, 9);
	IS(0, ibv_destroy_qp(receiver));
	CHECK(is_told(srq, 1000 * PATIENCE_SECONDS) && limit_of(srq) == 0);
	IS(0, ibv_destroy_qp(sender));
	if (ah)
		IS(0, ibv_destroy_ah(ah));
	IS(0, ibv_destroy_srq(srq));
	IS(0, ibv_destroy_cq(cq));
	printf("ok the limit of a shared receive queue for queue pairs of type %d\n", type);
}

/* A connection whose messages name one of two queues,
 * each with its own completions. Reads and writes go in between. */
static void named_queues(void)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &domain);
	struct ibv_cq *sent = ibv_create_cq(context, 64, NULL, NULL, 0), *received[2];
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = REQUESTS, .max_sge = 2}, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
							 IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_qp_init_attr_ex target_init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_srq *srq[2];
	struct ibv_qp *target, *sender = new_queue_pair(IBV_QPT_XRC_SEND, sent, NULL);
	struct ibv_qp_attr rights = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	uint32_t number[2];

	CHECK(xrcd && sent && (target = ibv_create_qp_ex(context, &target_init)) != NULL);
	to_init(target);
	IS(0, ibv_modify_qp(target, &rights, IBV_QP_ACCESS_FLAGS));
	for (int i = 0; i < 2; i++) {
		CHECK((received[i] = init.cq = ibv_create_cq(context, 64, NULL, NULL, 0)) != NULL);
		CHECK((srq[i] = ibv_create_srq_ex(context, &init)) != NULL);
		IS(0, ibv_get_srq_num(srq[i], &number[i]));
	}
	make_ready(target, sender);
	make_ready(sender, target);
	for (int round = 0; round < ROUNDS; round++) {
		int which = round / 3 % 2, bytes = 1 + round * 7 % 1000, kind = round % 5;
		enum ibv_wr_opcode opcode = kind == 2 ? IBV_WR_RDMA_WRITE : kind == 3 ? IBV_WR_RDMA_READ : kind == 4 ? IBV_WR_RDMA_WRITE_WITH_IMM :
					    kind == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
		int takes = kind != 2 && kind != 3;
		uint8_t *place = into[round % REQUESTS];
		struct ibv_sge sge = {(uintptr_t)from, bytes, from_mr->lkey};
		struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .imm_data = htonl(round), .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = number[which],
					 .wr.rdma = {(uintptr_t)place, into_mr->rkey}};

		if (round == 6 && stops)
			engine_stands_still();
		if (takes)
			post_receive(NULL, srq[which], round, bytes);
		memset(place, 0xA5, BYTES);
		fill(kind == 3 ? place : from, bytes, round);
		IS(0, post(sender, wr));
		CHECK(success(sent, round, kind == 2 || kind == 4 ? IBV_WC_RDMA_WRITE : kind == 3 ? IBV_WC_RDMA_READ : IBV_WC_SEND).qp_num == sender->qp_num);
		same(kind == 3 ? from : place, bytes, round);
		if (takes) {
			struct ibv_wc wc = success(received[which], 1000 + round, kind == 4 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);

			CHECK(wc.qp_num == target->qp_num && wc.src_qp == sender->qp_num && (int)wc.byte_len == bytes);
			CHECK(!kind == !(wc.wc_flags & IBV_WC_WITH_IMM) && (!kind || ntohl(wc.imm_data) == (uint32_t)round));
			if (round < 2)
				printf("sl %d pkey_index %d flags %u path bits %d\n", wc.sl, wc.pkey_index, wc.wc_flags, wc.dlid_path_bits);
		}
	}
	engine_goes_on();
	IS(0, ibv_destroy_qp(sender));
	IS(0, ibv_destroy_qp(target));
	for (int i = 0; i < 2; i++) {
		IS(0, ibv_destroy_srq(srq[i]));
		IS(0, ibv_destroy_cq(received[i]));
	}
	IS(0, ibv_destroy_cq(sent));
	IS(0, ibv_close_xrcd(xrcd));
	puts("ok extended reliable connections");
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	CHECK((from_mr = ibv_reg_mr(pd, from, BYTES, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK((into_mr = ibv_reg_mr(pd, into, sizeof into, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)) != NULL);
	stops = argc > 1 && strcmp(argv[1], "stopped") == 0;
	messages(IBV_QPT_RC, 0);
	messages(IBV_QPT_UC, 0);
	messages(IBV_QPT_RC, 1);
	messages(IBV_QPT_UC, 1);
	messages(IBV_QPT_UD, 0);
	messages(IBV_QPT_UD, 1);
	limit(IBV_QPT_RC);
	limit(IBV_QPT_UC);
	limit(IBV_QPT_UD);
	named_queues();
	puts("all parts hold");
	return 0;
}
