/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Provokes every failure of work, on two queue pairs of one process, connected to each other. Each
 * gives the status of the specification on both sides, in the order of the work, and moves no
 * byte. */
#include "verbs_common.h"

enum { BYTES = 4096, MARK = 0x5a, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static struct ibv_context *context;
static struct ibv_pd *pd, *other_pd;
static struct ibv_port_attr port;
static _Alignas(4096) char source[BYTES], target[BYTES];
static struct ibv_mr *source_mr, *target_mr;

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};
struct pair {
	struct end a, b;
};

static struct end new_end(enum ibv_qp_type type, int entries) {
	struct end s = {.cq = ibv_create_cq(context, entries, NULL, NULL, 0)};
	CHECK(s.cq != NULL);
	struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .qp_type = type,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 32}};
	CHECK((s.qp = ibv_create_qp(pd, &init)) != NULL);
	return s;
}

static void init_qp(struct ibv_qp *qp, int access) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void make_ready(struct ibv_qp *qp, uint32_t peer, int rnr_retry) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 1, .ah_attr = {.dlid = port.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 2, .rnr_retry = rnr_retry, .max_rd_atomic = 1};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct pair pair(int access_of_b, int rnr_retry) {
	struct pair p = {new_end(IBV_QPT_RC, 32), new_end(IBV_QPT_RC, 32)};
	init_qp(p.a.qp, ALL & ~IBV_ACCESS_LOCAL_WRITE);
	init_qp(p.b.qp, access_of_b);
	make_ready(p.a.qp, p.b.qp->qp_num, rnr_retry);
	make_ready(p.b.qp, p.a.qp->qp_num, rnr_retry);
	memset(source, 1, BYTES);
	memset(target, MARK, BYTES);
	return p;
}

static void close_end(struct end *s) {
	IS(0, ibv_destroy_qp(s->qp));
	IS(0, ibv_destroy_cq(s->cq));
}

static void untouched(void) {
	for (int i = 0; i < BYTES; i++) CHECK(target[i] == MARK);
}

static void done(struct pair *p) {
	close_end(&p->a);
	close_end(&p->b);
}

/* Checks that the next completion comes soon and is this one. */
static void completes(struct end *s, uint64_t wr_id, enum ibv_wc_status status) {
	struct ibv_wc wc;
	time_t start = time(NULL);
	while (ibv_poll_cq(s->cq, 1, &wc) == 0)
		if (time(NULL) - start > PATIENCE_SECONDS) FAIL("no completion of %d", (int)wr_id);
	if (wc.wr_id != wr_id || wc.status != status)
		FAIL("request %d ends with '%s', not request %d with '%s'", (int)wc.wr_id, ibv_wc_status_str(wc.status), (int)wr_id, ibv_wc_status_str(status));
}

static void is_quiet(struct end *s) {
	struct ibv_wc wc;
	for (int i = 0; i < 20; i++) {
		int found = ibv_poll_cq(s->cq, 1, &wc);
		if (found != 0) FAIL("an unexpected completion: request %d, '%s'", (int)wc.wr_id, ibv_wc_status_str(wc.status));
		usleep(500);
	}
}

static void is_in(struct ibv_qp *qp, enum ibv_qp_state state) {
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	IS(0, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	if (attr.qp_state != state) FAIL("the queue pair is in state %d, not %d", attr.qp_state, state);
}

static int send_from(struct end *s, uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t remote, uint32_t rkey) {
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

static int receive_at(struct end *s, uint64_t wr_id, struct ibv_sge sge) {
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
	return ibv_post_recv(s->qp, &wr, &bad);
}

static struct ibv_sge at(void *memory, uint32_t len, uint32_t lkey) { return (struct ibv_sge){(uintptr_t)memory, len, lkey}; }
static struct ibv_sge good_source(void) { return at(source, 64, source_mr->lkey); }
static struct ibv_sge good_target(void) { return at(target, 64, target_mr->lkey); }

/* Checks the event that an HCA raises for a queue pair. */
static void raises(struct ibv_qp *qp, enum ibv_event_type wanted) {
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	CHECK(poll(&fd, 1, PATIENCE_SECONDS * 1000) == 1);
	struct ibv_async_event event;
	IS(0, ibv_get_async_event(context, &event));
	if (event.event_type != wanted || event.element.qp != qp) FAIL("the event is '%s'", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static void local_protection(void) {
	struct ibv_mr *foreign = ibv_reg_mr(other_pd, source, BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(foreign != NULL);
	struct ibv_sge wrong[] = {at(source, 64, source_mr->lkey ^ 0x100), at(source, 64, foreign->lkey), at(source + BYTES - 63, 64, source_mr->lkey),
		at(source - 1, 64, source_mr->lkey)};
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct pair p = pair(ALL, 0);
		IS(0, receive_at(&p.b, 7, good_target()));
		IS(0, send_from(&p.a, 1, IBV_WR_SEND, wrong[i], 0, 0));
		IS(0, send_from(&p.a, 2, IBV_WR_SEND, good_source(), 0, 0));
		completes(&p.a, 1, IBV_WC_LOC_PROT_ERR);
		completes(&p.a, 2, IBV_WC_WR_FLUSH_ERR);
		is_in(p.a.qp, IBV_QPS_ERR);
		is_quiet(&p.b);
		untouched();
		done(&p);
	}
	IS(0, ibv_dereg_mr(foreign));
	puts("ok a local key, domain or bound that is wrong: local protection error, the rest flushed");
}

static void receive_side(void) {
	struct ibv_mr *read_only = ibv_reg_mr(pd, target, BYTES, 0);
	CHECK(read_only != NULL);
	struct pair p = pair(ALL, 0);
	IS(0, receive_at(&p.b, 7, at(target, 64, read_only->lkey)));
	IS(0, receive_at(&p.b, 8, good_target()));
	IS(0, send_from(&p.a, 1, IBV_WR_SEND, good_source(), 0, 0));
	completes(&p.b, 7, IBV_WC_LOC_PROT_ERR);
	completes(&p.b, 8, IBV_WC_WR_FLUSH_ERR);
	completes(&p.a, 1, IBV_WC_REM_OP_ERR);
	is_in(p.b.qp, IBV_QPS_ERR);
	untouched();
	done(&p);
	p = pair(ALL, 0);
	IS(0, receive_at(&p.b, 7, at(target, 63, target_mr->lkey)));
	IS(0, send_from(&p.a, 1, IBV_WR_SEND, good_source(), 0, 0));
	completes(&p.b, 7, IBV_WC_LOC_LEN_ERR);
	completes(&p.a, 1, IBV_WC_REM_INV_REQ_ERR);
	untouched();
	done(&p);
	IS(0, ibv_dereg_mr(read_only));
	puts("ok a receive that may not be written or is too small: an error on both sides");
}

static void remote_access(void) {
	struct ibv_mr *foreign = ibv_reg_mr(other_pd, target, BYTES, ALL), *closed = ibv_reg_mr(pd, target, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *gone = ibv_reg_mr(pd, target, BYTES, ALL);
	CHECK(foreign != NULL && closed != NULL && gone != NULL);
	uint32_t gone_key = gone->rkey;
	IS(0, ibv_dereg_mr(gone));
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
	for (unsigned o = 0; o < 4; o++) {
		struct {
			uint32_t rkey;
			int offset, access;
		} wrong[] = {{target_mr->rkey ^ 0x100, 0, ALL}, {foreign->rkey, 0, ALL}, {closed->rkey, 0, ALL}, {gone_key, 0, ALL},
			{target_mr->rkey, BYTES, ALL}, {target_mr->rkey, -8, ALL}, {target_mr->rkey, 0, 0}};
		for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
			struct pair p = pair(wrong[i].access, 0);
			struct ibv_sge sge = at(source, o < 2 ? 64 : 8, source_mr->lkey);
			IS(0, receive_at(&p.b, 7, good_target()));
			IS(0, send_from(&p.a, 1, opcodes[o], sge, (uintptr_t)target + wrong[i].offset, wrong[i].rkey));
			IS(0, send_from(&p.a, 2, IBV_WR_SEND, good_source(), 0, 0));
			/* The queue pair refuses an operation as an invalid request before it checks the key. */
			int by_queue_pair = wrong[i].access == 0;
			enum ibv_wc_status status = by_queue_pair ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR;
			completes(&p.a, 1, status);
			completes(&p.a, 2, IBV_WC_WR_FLUSH_ERR);
			completes(&p.b, 7, IBV_WC_WR_FLUSH_ERR);
			is_in(p.b.qp, IBV_QPS_ERR);
			raises(p.b.qp, by_queue_pair ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_ACCESS_ERR);
			for (int b = 0; b < 64; b++) CHECK(source[b] == 1);
			untouched();
			done(&p);
		}
	}
	IS(0, ibv_dereg_mr(foreign));
	IS(0, ibv_dereg_mr(closed));
	puts("ok a remote key, domain, bound or right that is wrong: remote access error, or invalid request; no byte moved");
}

static void misaligned_atomic(void) {
	struct pair p = pair(ALL, 0);
	IS(0, send_from(&p.a, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, at(source, 8, source_mr->lkey), (uintptr_t)target + 4, target_mr->rkey));
	completes(&p.a, 1, IBV_WC_REM_INV_REQ_ERR);
	raises(p.b.qp, IBV_EVENT_QP_REQ_ERR);
	untouched();
	done(&p);
	puts("ok an atomic on an odd address: remote invalid request");
}

static void retries(void) {
	struct pair p = pair(ALL, 1);
	IS(0, send_from(&p.a, 1, IBV_WR_SEND, good_source(), 0, 0));
	IS(0, send_from(&p.a, 2, IBV_WR_SEND, good_source(), 0, 0));
	completes(&p.a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	completes(&p.a, 2, IBV_WC_WR_FLUSH_ERR);
	done(&p);
	p = pair(ALL, 7);
	IS(0, send_from(&p.a, 1, IBV_WR_SEND, good_source(), 0, 0));
	is_quiet(&p.a);
	IS(0, receive_at(&p.b, 7, good_target()));
	completes(&p.a, 1, IBV_WC_SUCCESS);
	completes(&p.b, 7, IBV_WC_SUCCESS);
	done(&p);
	p = pair(ALL, 7);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	IS(0, ibv_modify_qp(p.b.qp, &reset, IBV_QP_STATE));
	IS(0, send_from(&p.a, 1, IBV_WR_RDMA_WRITE, good_source(), (uintptr_t)target, target_mr->rkey));
	completes(&p.a, 1, IBV_WC_RETRY_EXC_ERR);
	is_in(p.a.qp, IBV_QPS_ERR);
	untouched();
	done(&p);
	puts("ok nobody ready: RNR retries, for ever with 7; nobody there: transport retries exceeded");
}

static void flush_and_reset(void) {
	struct pair p = pair(ALL, 7);
	for (int i = 0; i < 4; i++) IS(0, receive_at(&p.b, 10 + i, good_target()));
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	IS(0, ibv_modify_qp(p.b.qp, &error, IBV_QP_STATE));
	for (int i = 0; i < 4; i++) completes(&p.b, 10 + i, IBV_WC_WR_FLUSH_ERR);
	IS(0, receive_at(&p.b, 20, good_target()));
	IS(0, send_from(&p.b, 21, IBV_WR_SEND, good_source(), 0, 0));
	completes(&p.b, 20, IBV_WC_WR_FLUSH_ERR);
	completes(&p.b, 21, IBV_WC_WR_FLUSH_ERR);
	IS(0, ibv_modify_qp(p.b.qp, &reset, IBV_QP_STATE));
	IS(EINVAL, receive_at(&p.b, 22, good_target()));
	IS(EINVAL, send_from(&p.b, 23, IBV_WR_SEND, good_source(), 0, 0));
	is_quiet(&p.b);
	init_qp(p.b.qp, ALL);
	IS(0, receive_at(&p.b, 30, good_target()));
	make_ready(p.b.qp, p.a.qp->qp_num, 7);
	IS(0, ibv_modify_qp(p.a.qp, &reset, IBV_QP_STATE));
	init_qp(p.a.qp, ALL);
	make_ready(p.a.qp, p.b.qp->qp_num, 7);
	IS(0, send_from(&p.a, 1, IBV_WR_SEND, good_source(), 0, 0));
	completes(&p.a, 1, IBV_WC_SUCCESS);
	completes(&p.b, 30, IBV_WC_SUCCESS);
	CHECK(memcmp(source, target, 64) == 0);
	done(&p);
	puts("ok to error: everything flushed in order; to reset: nothing is left, and the pair works again");
}

static void refused_at_once(void) {
	struct pair p = pair(ALL, 7);
	struct ibv_sge three[3] = {at(source, 1, source_mr->lkey), at(source, 1, source_mr->lkey), at(source, 1, source_mr->lkey)};
	struct ibv_send_wr many = {.sg_list = three, .num_sge = 3, .opcode = IBV_WR_SEND}, *bad = NULL;
	IS(EINVAL, ibv_post_send(p.a.qp, &many, &bad));
	CHECK(bad == &many);
	struct ibv_sge big = at(source, 4096, source_mr->lkey);
	struct ibv_send_wr inlined = {.sg_list = &big, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
	CHECK(ibv_post_send(p.a.qp, &inlined, &bad) != 0 && bad == &inlined);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	IS(0, ibv_query_qp(p.a.qp, &attr, IBV_QP_CAP, &init));
	unsigned posted = 0;
	while (send_from(&p.a, posted, IBV_WR_SEND, good_source(), 0, 0) == 0) CHECK(++posted <= init.cap.max_send_wr);
	CHECK(posted == init.cap.max_send_wr);
	IS(ENOMEM, send_from(&p.a, 99, IBV_WR_SEND, good_source(), 0, 0));
	for (posted = 0; receive_at(&p.a, posted, good_target()) == 0;) CHECK(++posted <= init.cap.max_recv_wr);
	CHECK(posted == init.cap.max_recv_wr);
	done(&p);
	puts("ok too many entries, too much inline data, full queues: refused at once");
}

static void dropped_datagrams(void) {
	struct end a = new_end(IBV_QPT_UD, 16), b = new_end(IBV_QPT_UD, 16);
	struct end *both[2] = {&a, &b};
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
		IS(0, ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
		attr.qp_state = IBV_QPS_RTR;
		IS(0, ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE));
		attr.qp_state = IBV_QPS_RTS;
		IS(0, ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	struct ibv_ah_attr where = {.dlid = port.lid, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(pd, &where);
	CHECK(ah != NULL);
	memset(target, MARK, BYTES);
	struct ibv_sge sge = good_source();
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x1235;
	IS(0, receive_at(&b, 7, at(target, GRH_BYTES + 64, target_mr->lkey)));
	IS(0, ibv_post_send(a.qp, &wr, &bad));
	completes(&a, 1, IBV_WC_SUCCESS);
	is_quiet(&b);
	untouched();
	wr.wr.ud.remote_qkey = 0x1234;
	IS(0, ibv_post_send(a.qp, &wr, &bad));
	completes(&a, 1, IBV_WC_SUCCESS);
	completes(&b, 7, IBV_WC_SUCCESS);
	CHECK(memcmp(source, target + GRH_BYTES, 64) == 0);
	IS(0, ibv_destroy_ah(ah));
	close_end(&a);
	close_end(&b);
	puts("ok datagrams with another Q_Key are dropped without a word");
}

static void overrun(void) {
	struct pair p = pair(ALL, 7);
	struct end small = new_end(IBV_QPT_RC, 1);
	done(&p);
	p = (struct pair){small, new_end(IBV_QPT_RC, 32)};
	init_qp(p.a.qp, ALL);
	init_qp(p.b.qp, ALL);
	make_ready(p.a.qp, p.b.qp->qp_num, 7);
	make_ready(p.b.qp, p.a.qp->qp_num, 7);
	int entries = p.a.cq->cqe;
	CHECK(entries < 8); /* the room of the send queue */
	for (int i = 0; i <= entries; i++) IS(0, send_from(&p.a, i, IBV_WR_RDMA_WRITE, good_source(), (uintptr_t)target, target_mr->rkey));
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	CHECK(poll(&fd, 1, PATIENCE_SECONDS * 1000) == 1);
	struct ibv_async_event event;
	IS(0, ibv_get_async_event(context, &event));
	if (event.event_type != IBV_EVENT_CQ_ERR || event.element.cq != p.a.cq) FAIL("the event is '%s'", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	while (poll(&fd, 1, 20) == 1) {
		IS(0, ibv_get_async_event(context, &event)); /* its queue pairs may raise events, too */
		ibv_ack_async_event(&event);
	}
	done(&p);
	puts("ok a completion queue that is too small: an event, and no completion is made up");
}

int main(void) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL);
	CHECK((pd = ibv_alloc_pd(context)) != NULL && (other_pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	CHECK((source_mr = ibv_reg_mr(pd, source, BYTES, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK((target_mr = ibv_reg_mr(pd, target, BYTES, ALL)) != NULL);
	local_protection();
	receive_side();
	remote_access();
	misaligned_atomic();
	retries();
	flush_and_reset();
	refused_at_once();
	dropped_datagrams();
	overrun();
	puts("all parts hold");
	return 0;
}
