/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tests random sequences of verbs against a model of the objects and their users:
 * life_cycle SEED SECONDS [HOST].
 * Each call must answer as the model does: objects in use stay, and absurd or foreign arguments
 * give their errno. In between, this side attacks the memory of the process without HOST, with keys
 * that are wrong, freed, of another domain or without the right. Each attempt fails as the
 * specification states, and changes not a byte there. */
#include "verbs_common.h"

enum { MAX = 24, GUARDED = 1 << 16, MAILBOX = 4096, MARK = 0x5a, CALLS_PER_ATTEMPT = 200, QUEUE = 4 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

enum attempt { GOOD, READ_ONLY, BEYOND, FREED, OTHER_DOMAIN, NO_KEY, NO_RIGHT, NO_ATOMIC, NO_READ, FREED_LOCAL, LOCAL_BEYOND, WRAPS, ATTEMPTS, END };

struct offer {
	uint32_t attempt, qpn, lid, rkey;
	uint64_t address;
};

/* An object of the model: the number of its users, and the objects that it uses. */
struct object {
	void *verbs;
	int users, state, has_queue;
	enum ibv_qp_type type;
	struct object *uses[4];
};

static struct object pds[MAX], cqs[MAX], mrs[MAX], qps[MAX], srqs[MAX], ahs[MAX], channels[MAX];
static struct side s;
static uint64_t state, calls;
static _Alignas(4096) uint8_t guarded[GUARDED], mailbox[MAILBOX], local[MAILBOX];

static uint32_t draw(uint32_t below) {
	uint64_t z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 16) % below;
}

static struct object *any(struct object *of, int there) {
	int from = draw(MAX);
	for (int i = 0; i < MAX; i++) {
		struct object *o = &of[(from + i) % MAX];
		if ((o->verbs != NULL) == there) return o;
	}
	return NULL;
}

static void made(struct object *o, void *verbs, struct object *a, struct object *b, struct object *c, struct object *d) {
	if (!verbs) FAIL("an object is not made");
	*o = (struct object){.verbs = verbs, .uses = {a, b, c, d}};
	for (int i = 0; i < 4; i++)
		if (o->uses[i]) o->uses[i]->users++;
}

/* Checks `answer`, the result of destroying `o`: EBUSY as long as others use it. */
static void destroyed(struct object *o, int answer, const char *what) {
	int expected = o->users ? EBUSY : 0;
	if (answer != expected) FAIL("destroying a %s with %d users answers %d, not %d", what, o->users, answer, expected);
	if (answer) return;
	for (int i = 0; i < 4; i++)
		if (o->uses[i]) o->uses[i]->users--;
	*o = (struct object){0};
}

static void make_cq(void) {
	struct object *o = any(cqs, 0), *channel = draw(2) ? any(channels, 1) : NULL;
	static const int absurd[] = {0, -1, 0x7fffffff};
	void *of = channel ? channel->verbs : NULL;
	if (draw(4) == 0)
		NONE(EINVAL, ibv_create_cq(s.context, absurd[draw(3)], NULL, of, 0));
	else if (draw(8) == 0)
		NONE(EINVAL, ibv_create_cq(s.context, 16, NULL, of, draw(2) ? 1000 : -1));
	else if (o)
		made(o, ibv_create_cq(s.context, 1 + draw(100), NULL, of, 0), channel, NULL, NULL, NULL);
}

static void make_mr(void) {
	struct object *o = any(mrs, 0), *pd = any(pds, 1);
	if (!pd) return;
	switch (draw(6)) {
	case 0: NONE(EINVAL, ibv_reg_mr(pd->verbs, local, MAILBOX, IBV_ACCESS_REMOTE_WRITE)); return;
	case 1: NONE(EINVAL, ibv_reg_mr(pd->verbs, local, MAILBOX, IBV_ACCESS_REMOTE_ATOMIC)); return;
	case 2: NONE(EFAULT, ibv_reg_mr(pd->verbs, (void *)4096, MAILBOX, IBV_ACCESS_LOCAL_WRITE)); return;
	default:
		if (o) made(o, ibv_reg_mr(pd->verbs, local + draw(64), 1 + draw(MAILBOX - 64), draw(2) ? ALL : 0), pd, NULL, NULL, NULL);
	}
}

static void make_srq(void) {
	struct object *o = any(srqs, 0), *pd = any(pds, 1);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1 + draw(16), .max_sge = 1}};
	if (!pd) return;
	if (draw(4) == 0) {
		init.attr.max_wr = 0xffffffff;
		NONE(EINVAL, ibv_create_srq(pd->verbs, &init));
	} else if (o) {
		made(o, ibv_create_srq(pd->verbs, &init), pd, NULL, NULL, NULL);
	}
}

static void make_random_qp(void) {
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct object *o = any(qps, 0), *pd = any(pds, 1), *send = any(cqs, 1), *recv = any(cqs, 1), *srq = draw(3) ? NULL : any(srqs, 1);
	if (!pd || !send) return;
	struct ibv_qp_init_attr init = {.send_cq = send->verbs, .recv_cq = recv->verbs, .srq = srq ? srq->verbs : NULL, .qp_type = types[draw(3)],
		.cap = {.max_send_wr = QUEUE, .max_recv_wr = QUEUE, .max_send_sge = 1, .max_recv_sge = 1}};
	switch (draw(8)) {
	case 0: init.cap.max_send_wr = 0xffffffff; break;
	case 1: init.cap.max_send_sge = 100000; break;
	case 2: init.cap.max_inline_data = 1 << 30; break;
	case 3: init.send_cq = NULL; break;
	default:
		if (!o) return;
		made(o, ibv_create_qp(pd->verbs, &init), pd, send, recv, srq);
		o->type = init.qp_type;
		o->state = IBV_QPS_RESET;
		o->has_queue = !srq;
		return;
	}
	NONE(EINVAL, ibv_create_qp(pd->verbs, &init));
}

static void make_ah(void) {
	struct object *o = any(ahs, 0), *pd = any(pds, 1);
	struct ibv_ah_attr attr = {.dlid = s.port.lid, .port_num = 1};
	if (!pd) return;
	if (draw(3) == 0) {
		attr.port_num = draw(2) ? 0 : 100;
		NONE(EINVAL, ibv_create_ah(pd->verbs, &attr));
	} else if (o) {
		made(o, ibv_create_ah(pd->verbs, &attr), pd, NULL, NULL, NULL);
	}
}

/* Moves a queue pair up by one state, to error,
 * to reset, or by a transition that does not exist. */
static void modify(struct object *o) {
	struct ibv_qp_attr a = {.port_num = 1, .qkey = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = ((struct ibv_qp *)o->verbs)->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .timeout = 14, .retry_cnt = 1, .max_rd_atomic = 1, .ah_attr = {.dlid = s.port.lid, .port_num = 1}};
	int rc = o->type == IBV_QPT_RC, ud = o->type == IBV_QPT_UD, mask = IBV_QP_STATE, choice = draw(8);
	if (choice == 0 || choice == 1) {
		a.qp_state = choice ? IBV_QPS_RESET : IBV_QPS_ERR;
		IS(0, ibv_modify_qp(o->verbs, &a, IBV_QP_STATE));
		o->state = a.qp_state;
		return;
	}
	if (choice == 2) {
		a.qp_state = o->state == IBV_QPS_RTS ? IBV_QPS_INIT : IBV_QPS_RTS;
		if (o->state != IBV_QPS_RTR || rc) IS(EINVAL, ibv_modify_qp(o->verbs, &a, IBV_QP_STATE)); /* attributes are missing, too */
		return;
	}
	switch (o->state) {
	case IBV_QPS_RESET:
		a.qp_state = IBV_QPS_INIT;
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		break;
	case IBV_QPS_INIT:
		a.qp_state = IBV_QPS_RTR;
		if (!ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (rc) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTR:
		a.qp_state = IBV_QPS_RTS;
		mask |= IBV_QP_SQ_PSN;
		if (rc) mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	default: return;
	}
	if (choice == 3) { /* a missing port, or a missing attribute */
		if (o->state == IBV_QPS_RESET) a.port_num = 77;
		else if (o->state == IBV_QPS_INIT && !ud) mask &= ~IBV_QP_AV;
		else return;
		IS(EINVAL, ibv_modify_qp(o->verbs, &a, mask));
		return;
	}
	IS(0, ibv_modify_qp(o->verbs, &a, mask));
	o->state = a.qp_state;
}

/* Checks that the library refuses work that the state
 * or a full queue forbids, and names the request. */
static void refuse_work(struct object *o) {
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_recv_wr recv = {.num_sge = 0}, *bad_recv = NULL;
	if (o->state == IBV_QPS_RESET || o->state == IBV_QPS_INIT || o->state == IBV_QPS_RTR) {
		IS(EINVAL, ibv_post_send(o->verbs, &send, &bad_send));
		CHECK(bad_send == &send);
	}
	if (o->state == IBV_QPS_RESET || !o->has_queue) {
		IS(EINVAL, ibv_post_recv(o->verbs, &recv, &bad_recv));
		CHECK(bad_recv == &recv);
	} else if (o->state != IBV_QPS_ERR) {
		recv.num_sge = 2; /* more than the queue pair's limit */
		IS(EINVAL, ibv_post_recv(o->verbs, &recv, &bad_recv));
	}
}

static void look(struct object *o) {
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	IS(0, ibv_query_qp(o->verbs, &attr, IBV_QP_STATE, &init));
	if ((int)attr.qp_state != o->state) FAIL("a queue pair is in state %d, not %d", (int)attr.qp_state, o->state);
	CHECK(init.qp_type == o->type);
}

static void nothing_at_all(void) {
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_device_attr device;
	IS(EINVAL, ibv_dealloc_pd(NULL));
	IS(EINVAL, ibv_destroy_cq(NULL));
	IS(EINVAL, ibv_destroy_qp(NULL));
	IS(EINVAL, ibv_dereg_mr(NULL));
	IS(EINVAL, ibv_destroy_srq(NULL));
	IS(EINVAL, ibv_destroy_ah(NULL));
	IS(EINVAL, ibv_destroy_comp_channel(NULL));
	IS(EINVAL, ibv_query_device(s.context, NULL));
	IS(EINVAL, ibv_query_device(NULL, &device));
	NONE(EINVAL, ibv_create_qp(NULL, &init));
	NONE(EINVAL, ibv_create_qp(s.pd, NULL));
	NONE(EINVAL, ibv_reg_mr(NULL, local, 1, 0));
	NONE(EINVAL, ibv_alloc_pd(NULL));
}

static void random_call(void) {
	struct object *o;
	calls++;
	switch (draw(20)) {
	case 0: if ((o = any(pds, 0))) made(o, ibv_alloc_pd(s.context), NULL, NULL, NULL, NULL); break;
	case 1: make_cq(); break;
	case 2: make_mr(); break;
	case 3: make_srq(); break;
	case 4: case 5: make_random_qp(); break;
	case 6: make_ah(); break;
	case 7: if ((o = any(channels, 0))) made(o, ibv_create_comp_channel(s.context), NULL, NULL, NULL, NULL); break;
	case 8: if ((o = any(pds, 1))) destroyed(o, ibv_dealloc_pd(o->verbs), "protection domain"); break;
	case 9: if ((o = any(cqs, 1))) destroyed(o, ibv_destroy_cq(o->verbs), "completion queue"); break;
	case 10: if ((o = any(mrs, 1))) destroyed(o, ibv_dereg_mr(o->verbs), "memory region"); break;
	case 11: if ((o = any(srqs, 1))) destroyed(o, ibv_destroy_srq(o->verbs), "shared receive queue"); break;
	case 12: if ((o = any(qps, 1))) destroyed(o, ibv_destroy_qp(o->verbs), "queue pair"); break;
	case 13: if ((o = any(ahs, 1))) destroyed(o, ibv_destroy_ah(o->verbs), "address handle"); break;
	case 14: if ((o = any(channels, 1))) destroyed(o, ibv_destroy_comp_channel(o->verbs), "completion channel"); break;
	case 15: case 16: if ((o = any(qps, 1))) modify(o); break;
	case 17: if ((o = any(qps, 1))) refuse_work(o); break;
	case 18: if ((o = any(qps, 1))) look(o); break;
	default: nothing_at_all();
	}
}

/* Destroys all objects, users first. */
static void end_all(void) {
	for (int i = 0; i < MAX; i++) if (qps[i].verbs) destroyed(&qps[i], ibv_destroy_qp(qps[i].verbs), "queue pair");
	for (int i = 0; i < MAX; i++) if (srqs[i].verbs) destroyed(&srqs[i], ibv_destroy_srq(srqs[i].verbs), "shared receive queue");
	for (int i = 0; i < MAX; i++) if (ahs[i].verbs) destroyed(&ahs[i], ibv_destroy_ah(ahs[i].verbs), "address handle");
	for (int i = 0; i < MAX; i++) if (mrs[i].verbs) destroyed(&mrs[i], ibv_dereg_mr(mrs[i].verbs), "memory region");
	for (int i = 0; i < MAX; i++) if (cqs[i].verbs) destroyed(&cqs[i], ibv_destroy_cq(cqs[i].verbs), "completion queue");
	for (int i = 0; i < MAX; i++) if (channels[i].verbs) destroyed(&channels[i], ibv_destroy_comp_channel(channels[i].verbs), "completion channel");
	for (int i = 0; i < MAX; i++) if (pds[i].verbs) destroyed(&pds[i], ibv_dealloc_pd(pds[i].verbs), "protection domain");
}

static struct ibv_qp *new_qp(struct ibv_cq *cq) {
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(s.pd, &init);
	CHECK(qp != NULL);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct offer *to, int access) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qpn, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = {.dlid = to->lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Makes one attempt on the other side's memory, over its own connection. */
static void attempt(enum attempt kind) {
	struct ibv_cq *cq = ibv_create_cq(s.context, 8, NULL, NULL, 0);
	struct ibv_qp *qp = new_qp(cq);
	struct ibv_mr *mr = ibv_reg_mr(s.pd, local, MAILBOX, IBV_ACCESS_LOCAL_WRITE);
	struct offer mine = {.attempt = kind, .qpn = qp->qp_num, .lid = s.port.lid}, there;
	uint32_t bytes = 1 + draw(MAILBOX), fill = 1 + draw(200);
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = calls, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	enum ibv_wc_status expected = kind == GOOD ? IBV_WC_SUCCESS : kind == FREED_LOCAL || kind == LOCAL_BEYOND ? IBV_WC_LOC_PROT_ERR
		/* The queue pair refuses the operation before it checks the key. */
		: kind == NO_RIGHT ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR;
	struct ibv_wc wc;
	double began = seconds();

	memset(local, fill, MAILBOX);
	swap_bytes(&s, &mine, &there, sizeof mine);
	connect_to(qp, &there, ALL & ~IBV_ACCESS_LOCAL_WRITE);
	meet(&s, 1);
	wr.wr.rdma.remote_addr = there.address;
	wr.wr.rdma.rkey = kind == NO_KEY ? draw(0xffffffff) : there.rkey;
	if (kind == BEYOND) wr.wr.rdma.remote_addr += MAILBOX - bytes + 1;
	if (kind == WRAPS) wr.wr.rdma.remote_addr = UINT64_MAX - draw(bytes);
	if (kind == LOCAL_BEYOND) sge.addr += MAILBOX - bytes + 1;
	if (kind == FREED_LOCAL) {
		IS(0, ibv_dereg_mr(mr));
		mr = NULL;
	}
	if (kind == NO_READ) wr.opcode = IBV_WR_RDMA_READ;
	if (kind == NO_ATOMIC) {
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		sge.length = 8;
		wr.wr.atomic.remote_addr = there.address;
		wr.wr.atomic.rkey = there.rkey;
		wr.wr.atomic.compare_add = 1;
	}
	IS(0, ibv_post_send(qp, &wr, &bad));
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		if (seconds() - began > PATIENCE_SECONDS) FAIL("attempt %d never ends", kind);
	if (wc.status != expected || wc.wr_id != calls) FAIL("attempt %d ends with '%s', not '%s'", kind, ibv_wc_status_str(wc.status), ibv_wc_status_str(expected));
	for (int i = 0; i < MAILBOX; i++) CHECK(local[i] == fill);
	swap_bytes(&s, &(uint32_t[]){kind == GOOD ? bytes : 0, fill}, &(uint32_t[]){0, 0}, 8);
	IS(0, ibv_destroy_qp(qp));
	IS(0, ibv_destroy_cq(cq));
	if (mr) IS(0, ibv_dereg_mr(mr));
}

/* Runs the side whose memory must not change: serves the requests and compares afterwards. */
static void suffer(void) {
	struct ibv_pd *other = ibv_alloc_pd(s.context);
	struct ibv_mr *good = ibv_reg_mr(s.pd, mailbox, MAILBOX, ALL), *foreign = ibv_reg_mr(other, guarded, GUARDED, ALL);
	struct ibv_mr *readable = ibv_reg_mr(s.pd, guarded, GUARDED, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *writable = ibv_reg_mr(s.pd, mailbox, MAILBOX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	uint8_t expected[MAILBOX];

	CHECK(other && good && foreign && readable && writable);
	memset(guarded, MARK, GUARDED);
	memset(mailbox, MARK, MAILBOX);
	memset(expected, MARK, MAILBOX);
	for (;;) {
		struct ibv_cq *cq = ibv_create_cq(s.context, 8, NULL, NULL, 0);
		struct ibv_qp *qp = new_qp(cq);
		struct offer mine = {.qpn = qp->qp_num, .lid = s.port.lid}, there;
		size_t got = 0;
		uint32_t word[2];

		while (got < sizeof there) {
			ssize_t part = read(s.control, (char *)&there + got, sizeof there - got);
			CHECK(part > 0);
			got += part;
		}
		if (there.attempt == END) break;
		struct ibv_mr *mr = there.attempt == READ_ONLY || there.attempt == NO_ATOMIC ? readable : there.attempt == OTHER_DOMAIN ? foreign : there.attempt == NO_READ ? writable : good;
		struct ibv_mr *freed = there.attempt == FREED ? ibv_reg_mr(s.pd, guarded, GUARDED, ALL) : NULL;
		mine.rkey = freed ? freed->rkey : mr->rkey;
		mine.address = (uintptr_t)(freed ? guarded : mr->addr);
		if (freed) IS(0, ibv_dereg_mr(freed));
		connect_to(qp, &there, there.attempt == NO_RIGHT ? IBV_ACCESS_REMOTE_READ : ALL & ~IBV_ACCESS_LOCAL_WRITE);
		CHECK(write(s.control, &mine, sizeof mine) == sizeof mine);
		meet(&s, 1);
		swap_bytes(&s, &(uint32_t[]){0, 0}, word, sizeof word);
		memset(expected, word[1], word[0]);
		CHECK(memcmp(mailbox, expected, MAILBOX) == 0);
		for (int i = 0; i < GUARDED; i++) CHECK(guarded[i] == MARK);
		IS(0, ibv_destroy_qp(qp));
		IS(0, ibv_destroy_cq(cq));
	}
	printf("not a byte has changed\n");
}

int main(int argc, char **argv) {
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	double until = seconds() + (argc > 2 ? atof(argv[2]) : 5);
	struct ibv_device **list = ibv_get_device_list(NULL);
	int attempts = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %llu\n", (unsigned long long)seed);
	state = seed;
	s.is_client = argc > 3;
	CHECK(list && *list && (s.context = ibv_open_device(*list)));
	IS(0, ibv_query_port(s.context, 1, &s.port));
	CHECK((s.pd = ibv_alloc_pd(s.context)) != NULL);
	s.control = control_connect(s.is_client ? argv[3] : NULL);
	if (!s.is_client) {
		suffer();
		return 0;
	}
	do {
		for (int i = 0; i < CALLS_PER_ATTEMPT; i++) random_call();
		attempt(attempts < ATTEMPTS ? (enum attempt)attempts : draw(ATTEMPTS));
		attempts++;
	} while (seconds() < until || attempts < 2 * ATTEMPTS);
	end_all();
	CHECK(write(s.control, &(struct offer){.attempt = END}, sizeof(struct offer)) == sizeof(struct offer));
	printf("%llu calls and %d attempts answered as the model says\n", (unsigned long long)calls, attempts);
	return 0;
}
