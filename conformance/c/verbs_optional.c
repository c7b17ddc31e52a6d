/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tests the verbs that only some HCAs have, between two hosts that have them:
 *
 *     softband run modern-pair.toml --on a './verbs_optional' --on b './verbs_optional a'
 *
 * Each part prints one line if it passes. The first failure ends the program with status 1. */
#include "verbs_common.h"

enum { GROUP_LID = 0xC011, MANY = 8 };

static void set_up(struct side *s, const char *peer)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	s->context = ibv_open_device(list[0]);
	CHECK(s->context != NULL);
	ibv_free_device_list(list);
	IS(0, ibv_query_port(s->context, 1, &s->port));
	IS(0, ibv_query_gid(s->context, 1, 0, &s->gid));
	s->pd = ibv_alloc_pd(s->context);
	s->send_cq = ibv_create_cq(s->context, 64, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, 64, NULL, NULL, 0);
	s->buffer = calloc(1, BUFFER_BYTES);
	CHECK(s->pd && s->send_cq && s->recv_cq && s->buffer);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				   IBV_ACCESS_MW_BIND);
	CHECK(s->mr != NULL);
	s->control = control_connect(peer);
}

/* Checks the type and the object of the next asynchronous event. */
static void expect_event(struct side *s, enum ibv_event_type type, void *element)
{
	struct ibv_async_event event;

	IS(0, ibv_get_async_event(s->context, &event));
	if (event.event_type != type || event.element.qp != element)
		FAIL("event %s came", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	IS(0, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void post_shared(struct side *s, struct ibv_srq *srq, uint64_t id, size_t offset)
{
	struct ibv_sge sge = piece(s, offset, 4096);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	IS(0, ibv_post_srq_recv(srq, &wr, &bad));
}

static void sizes_and_regions(struct side *s)
{
	struct ibv_cq *cq = ibv_create_cq(s->context, 4, NULL, NULL, 0);
	struct ibv_pd *pd = ibv_alloc_pd(s->context);
	struct ibv_mr *mr = ibv_reg_mr(s->pd, s->buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	uint32_t lkey;

	CHECK(cq && pd && mr);
	lkey = mr->lkey;
	IS(0, ibv_resize_cq(cq, 100));
	CHECK(cq->cqe >= 100);
	IS(EINVAL, ibv_resize_cq(cq, 0));
	IS(0, ibv_destroy_cq(cq));
	IS(-1, ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0));
	IS(-1, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE));
	IS(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION, pd, s->buffer + 4096, 8192, 0));
	CHECK(mr->pd == pd && mr->addr == s->buffer + 4096 && mr->length == 8192 && mr->lkey == lkey);
	IS(EBUSY, ibv_dealloc_pd(pd));
	IS(0, ibv_dereg_mr(mr));
	IS(0, ibv_dealloc_pd(pd));
	printf("ok completion queues change their size and regions their place\n");
}

static void shared_queue(struct side *s)
{
	struct ibv_srq_init_attr want = {.attr = {.max_wr = MANY, .max_sge = 1}};
	struct ibv_srq_attr attr = {.srq_limit = MANY - 1};
	struct ibv_srq *srq = ibv_create_srq(s->pd, &want);
	struct ibv_qp_init_attr init = {.send_cq = s->send_cq, .recv_cq = s->recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = MANY, .max_recv_wr = 99, .max_send_sge = 1}};
	struct ibv_recv_wr none = {}, *bad;
	struct ibv_qp *qp;

	CHECK(srq != NULL && want.attr.max_wr >= MANY);
	qp = ibv_create_qp(s->pd, &init);
	CHECK(qp && init.cap.max_recv_wr == 0);
	to_init(qp);
	for (int i = 0; i < MANY; i++)
		post_shared(s, srq, 100 + i, IN + 4096 * i);
	IS(ENOMEM, ibv_post_srq_recv(srq, &none, &bad));
	IS(EINVAL, ibv_post_recv(qp, &none, &bad));
	IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	IS(0, ibv_query_srq(srq, &attr));
	CHECK(attr.srq_limit == MANY - 1);
	IS(EBUSY, ibv_destroy_srq(srq));
	connect_qp(s, qp);
	meet(s, 1);
	fill(s->buffer + OUT, 4000, 5 + s->is_client);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = piece(s, OUT, 4000);

		IS(0, post(qp, (struct ibv_send_wr){.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
						    .send_flags = IBV_SEND_SIGNALED}));
	}
	for (int i = 0; i < 2; i++) {
		success(s->send_cq, i, IBV_WC_SEND);
		CHECK(success(s->recv_cq, 100 + i, IBV_WC_RECV).qp_num == qp->qp_num);
		same(s->buffer + IN + 4096 * i, 4000, 6 - s->is_client);
	}
	expect_event(s, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	IS(0, ibv_query_srq(srq, &attr));
	CHECK(attr.srq_limit == 0);
	meet(s, 2);
	to_state(qp, IBV_QPS_ERR);
	expect_event(s, IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	IS(0, ibv_destroy_qp(qp));
	IS(0, ibv_destroy_srq(srq));
	printf("ok shared receive queue, its limit, and the last of its requests\n");
}

static void bind_window(struct side *s, struct ibv_qp *qp, struct ibv_mw *mw, size_t offset, size_t bytes)
{
	struct ibv_mw_bind_info info = {.mr = s->mr, .addr = (uintptr_t)s->buffer + offset, .length = bytes,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if (mw->type == IBV_MW_TYPE_1) {
		struct ibv_mw_bind what = {.wr_id = 7, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};

		IS(0, ibv_bind_mw(qp, mw, &what));
	} else {
		struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

		mw->rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = mw->rkey;
		wr.bind_mw.bind_info = info;
		IS(0, post(qp, wr));
	}
	success(s->send_cq, 7, IBV_WC_BIND_MW);
}

/* Both sides open a window, write through the other's, invalidate it, and find it shut. */
static void windows(struct side *s, enum ibv_mw_type type)
{
	struct ibv_qp *qp = make_qp(s, IBV_QPT_RC);
	struct ibv_mw *mw = ibv_alloc_mw(s->pd, type);
	struct ibv_sge sge = piece(s, OUT, 512);
	struct ibv_send_wr write = {.wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr inv = {.wr_id = 9, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
	struct address mine, peer;
	struct ibv_wc wc;

	CHECK(mw && mw->type == type);
	to_init(qp);
	IS(0, receive(qp, 20, piece(s, IN + 8192, 64)));
	connect_qp(s, qp);
	bind_window(s, qp, mw, IN, 512);
	IS(EBUSY, ibv_dereg_mr(s->mr));
	mine = own_address(s, qp);
	mine.rkey = mw->rkey;
	swap_bytes(s, &mine, &peer, sizeof mine);
	fill(s->buffer + OUT, 512, 30 + s->is_client);
	write.wr.rdma.rkey = peer.rkey;
	write.wr.rdma.remote_addr = peer.buffer + IN;
	IS(0, post(qp, write));
	success(s->send_cq, 8, IBV_WC_RDMA_WRITE);
	meet(s, 10);
	same(s->buffer + IN, 512, 31 - s->is_client);
	if (type == IBV_MW_TYPE_2) {
		inv.invalidate_rkey = peer.rkey;
		IS(0, post(qp, inv));
		success(s->send_cq, 9, IBV_WC_SEND);
		wc = success(s->recv_cq, 20, IBV_WC_RECV);
		CHECK((wc.wc_flags & IBV_WC_WITH_INV) && wc.invalidated_rkey == mw->rkey);
	} else {
		bind_window(s, qp, mw, IN, 256); /* gives the window another key */
	}
	memset(s->buffer + IN, 0, 512);
	meet(s, 11);
	if (s->is_client) {
		IS(0, post(qp, write));
		ends(s->send_cq, 8, IBV_WC_REM_ACCESS_ERR);
	}
	meet(s, 12);
	for (int i = 0; i < 512; i++)
		CHECK(s->buffer[IN + i] == 0);
	if (!s->is_client)
		expect_event(s, IBV_EVENT_QP_ACCESS_ERR, qp);
	IS(0, ibv_destroy_qp(qp));
	while (ibv_poll_cq(s->recv_cq, 1, &wc) > 0 || ibv_poll_cq(s->send_cq, 1, &wc) > 0)
		;
	IS(0, ibv_dealloc_mw(mw));
	printf("ok memory window of type %d\n", (int)type);
}

static void extended_connections(struct side *s)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(s->context, &domain);
	struct ibv_srq_init_attr_ex want = {.attr = {.max_wr = MANY, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = s->pd, .xrcd = xrcd,
					    .cq = s->recv_cq,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
							 IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_qp_init_attr_ex target = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .xrcd = xrcd,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				  .ah_attr = {.port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	int connect = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	uint32_t mine[3], peer[3];
	struct ibv_send_wr wr = {.wr_id = 40, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_sge sge = piece(s, OUT, 3000);
	struct ibv_qp *in, *out, *again;
	struct ibv_srq *srq;

	CHECK(xrcd != NULL);
	srq = ibv_create_srq_ex(s->context, &want);
	CHECK(srq != NULL);
	IS(0, ibv_get_srq_num(srq, &mine[2]));
	in = ibv_create_qp_ex(s->context, &target);
	out = make_qp(s, IBV_QPT_XRC_SEND);
	CHECK(in != NULL && in->pd == NULL);
	IS(EBUSY, ibv_close_xrcd(xrcd));
	to_init(in);
	to_init(out);
	mine[0] = in->qp_num;
	mine[1] = out->qp_num;
	swap_bytes(s, mine, peer, sizeof mine);
	swap_bytes(s, &s->port.lid, &rtr.ah_attr.dlid, sizeof s->port.lid);
	rtr.dest_qp_num = peer[1];
	IS(0, ibv_modify_qp(in, &rtr, connect | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	rtr.dest_qp_num = peer[0];
	IS(0, ibv_modify_qp(out, &rtr, connect));
	IS(0, ibv_modify_qp(out, &rts,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	post_shared(s, srq, 41, IN);
	fill(s->buffer + OUT, 3000, 50 + s->is_client);
	meet(s, 20);
	wr.sg_list = &sge;
	wr.qp_type.xrc.remote_srqn = peer[2];
	IS(0, post(out, wr));
	success(s->send_cq, 40, IBV_WC_SEND);
	CHECK(success(s->recv_cq, 41, IBV_WC_RECV).qp_num == in->qp_num);
	same(s->buffer + IN, 3000, 51 - s->is_client);
	open.qp_num = in->qp_num;
	again = ibv_open_qp(s->context, &open);
	CHECK(again != NULL && again != in && again->qp_num == in->qp_num);
	meet(s, 21);
	IS(0, ibv_destroy_qp(in));
	IS(EBUSY, ibv_close_xrcd(xrcd));
	IS(0, ibv_destroy_qp(again));
	IS(0, ibv_destroy_qp(out));
	IS(0, ibv_destroy_srq(srq));
	IS(0, ibv_close_xrcd(xrcd));
	printf("ok extended reliable connections\n");
}

static void multicast(struct side *s)
{
	struct ibv_ah_attr to = {.dlid = GROUP_LID, .port_num = 1, .is_global = 1, .grh = {.hop_limit = 1}};
	struct ibv_qp *first = make_qp(s, IBV_QPT_UD), *second = make_qp(s, IBV_QPT_UD);
	struct ibv_sge sge = piece(s, OUT, 1000);
	struct ibv_send_wr wr = {.wr_id = 60, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	union ibv_gid group = {.raw = {0xFF, 0x12, [15] = 9}};
	struct ibv_ah *ah;

	IS(EINVAL, ibv_attach_mcast(first, &s->gid, GROUP_LID));
	to_init(first);
	to_init(second);
	IS(0, receive(first, 61, piece(s, IN, 2048)));
	IS(0, receive(second, 62, piece(s, IN + 4096, 2048)));
	connect_qp(s, first);
	connect_qp(s, second);
	IS(0, ibv_attach_mcast(first, &group, GROUP_LID));
	IS(0, ibv_attach_mcast(second, &group, GROUP_LID));
	IS(EBUSY, ibv_destroy_qp(first));
	fill(s->buffer + OUT, 1000, 80);
	memcpy(&to.grh.dgid, &group, sizeof group);
	ah = ibv_create_ah(s->pd, &to);
	CHECK(ah != NULL);
	meet(s, 30);
	if (s->is_client) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = 0xFFFFFF;
		wr.wr.ud.remote_qkey = 0x11111111;
		IS(0, post(first, wr));
		success(s->send_cq, 60, IBV_WC_SEND);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion(s->recv_cq);

		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 1040 && (wc.wc_flags & IBV_WC_GRH));
		CHECK(wc.wr_id == (wc.qp_num == first->qp_num ? 61 : 62));
	}
	same(s->buffer + IN + GRH_BYTES, 1000, 80);
	same(s->buffer + IN + 4096 + GRH_BYTES, 1000, 80);
	meet(s, 31);
	IS(0, ibv_detach_mcast(first, &group, GROUP_LID));
	IS(EINVAL, ibv_detach_mcast(first, &group, GROUP_LID));
	IS(0, ibv_detach_mcast(second, &group, GROUP_LID));
	IS(0, ibv_destroy_ah(ah));
	IS(0, ibv_destroy_qp(first));
	IS(0, ibv_destroy_qp(second));
	printf("ok multicast\n");
}

static void drained(struct side *s)
{
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp *qp = make_qp(s, IBV_QPT_RC);

	to_init(qp);
	connect_qp(s, qp);
	IS(0, ibv_modify_qp(qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	expect_event(s, IBV_EVENT_SQ_DRAINED, qp);
	to_state(qp, IBV_QPS_RTS);
	meet(s, 40);
	IS(0, ibv_destroy_qp(qp));
	printf("ok the send queue is drained\n");
}

int main(int argc, char **argv)
{
	struct side s = {.is_client = argc > 1};

	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up(&s, argc > 1 ? argv[1] : NULL);
	sizes_and_regions(&s);
	shared_queue(&s);
	windows(&s, IBV_MW_TYPE_1);
	windows(&s, IBV_MW_TYPE_2);
	extended_connections(&s);
	multicast(&s);
	drained(&s);
	meet(&s, 99);
	IS(0, ibv_destroy_cq(s.send_cq));
	IS(0, ibv_destroy_cq(s.recv_cq));
	IS(0, ibv_dereg_mr(s.mr));
	IS(0, ibv_dealloc_pd(s.pd));
	IS(0, ibv_close_device(s.context));
	free(s.buffer);
	close(s.control);
	printf("all parts hold\n");
	return 0;
}
