/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * RDMA writes and reads that the posting thread may carry out itself. The direct path and the
 * engine must accept and refuse the same. Two queue pairs of one process are connected to each
 * other. */
#include "verbs_common.h"
#include <pthread.h>

enum { BYTES = 1 << 16, ENTRIES = 16, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static _Alignas(4096) char from[BYTES], into[BYTES];
static struct ibv_mr *from_mr, *into_mr;

static struct ibv_qp *new_queue_pair(struct ibv_cq *cq) {
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = ENTRIES, .max_recv_wr = ENTRIES, .max_send_sge = 2, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp != NULL);
	return qp;
}

static void make_ready(struct ibv_qp *qp, uint32_t peer, uint32_t own_psn, uint32_t peer_psn) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = peer_psn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = {.dlid = port.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 1, .rnr_retry = 7, .max_rd_atomic = 1, .sq_psn = own_psn};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void post_rdma(struct ibv_qp *qp, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t bytes, int signalled) {
	struct ibv_sge sge = {(uintptr_t)from, bytes, from_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = signalled ? IBV_SEND_SIGNALED : 0}, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)into;
	wr.wr.rdma.rkey = into_mr->rkey;
	IS(0, ibv_post_send(qp, &wr, &bad));
}

static void completes(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status) {
	struct ibv_wc wc;
	time_t start = time(NULL);
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		if (time(NULL) - start > PATIENCE_SECONDS) FAIL("no completion of %d", (int)wr_id);
	if (wc.wr_id != wr_id || wc.status != status) FAIL("request %d ends with '%s', not request %d", (int)wc.wr_id, ibv_wc_status_str(wc.status), (int)wr_id);
}

static void resized_queue(void) {
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0), *other = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp *a = new_queue_pair(cq), *b = new_queue_pair(other);
	make_ready(a, b->qp_num, 5, 6);
	make_ready(b, a->qp_num, 6, 5);
	for (int i = 0; i < 3; i++) post_rdma(a, i, IBV_WR_RDMA_WRITE, 64, 1);
	IS(0, ibv_resize_cq(cq, 8));
	for (int i = 3; i < 6; i++) post_rdma(a, i, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 64, 1);
	for (int i = 0; i < 6; i++) completes(cq, i, IBV_WC_SUCCESS);
	IS(0, ibv_destroy_qp(a));
	IS(0, ibv_destroy_qp(b));
	IS(0, ibv_destroy_cq(cq));
	IS(0, ibv_destroy_cq(other));
	puts("ok completions that wait outlast a change of their queue's size");
}

static void resets(void) {
	struct ibv_cq *cq = ibv_create_cq(context, 2 * ENTRIES, NULL, NULL, 0);
	struct ibv_qp *a = new_queue_pair(cq), *b = new_queue_pair(cq);
	for (int round = 0; round < 200; round++) {
		make_ready(a, b->qp_num, round, 2 * round);
		make_ready(b, a->qp_num, 2 * round, round);
		struct ibv_sge sge = {(uintptr_t)into, 64, into_mr->lkey};
		struct ibv_recv_wr receive = {.wr_id = 1000 + round, .sg_list = &sge, .num_sge = 1}, *bad;
		IS(0, ibv_post_recv(b, &receive, &bad));
		for (int i = 0; i < 6; i++) post_rdma(a, 10 * round + i, IBV_WR_RDMA_WRITE, 8, i % 3 == 2);
		post_rdma(a, 10 * round + 6, IBV_WR_SEND, 8, 0);
		post_rdma(a, 10 * round + 7, IBV_WR_RDMA_WRITE, 8, 1);
		completes(cq, 10 * round + 2, IBV_WC_SUCCESS);
		completes(cq, 10 * round + 5, IBV_WC_SUCCESS);
		/* The send and the write behind it complete in either order.
		 * Some rounds leave both to the reset. */
		for (int left = round % 2 ? 2 : 0; left > 0; left--) {
			struct ibv_wc wc;
			while (ibv_poll_cq(cq, 1, &wc) == 0) {}
			CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id == 1000u + round || wc.wr_id == 10u * round + 7));
		}
	}
	IS(0, ibv_destroy_qp(a));
	IS(0, ibv_destroy_qp(b));
	IS(0, ibv_destroy_cq(cq));
	puts("ok resets: nothing of before comes after, nothing of after is lost");
}

static void unconnected(void) {
	struct ibv_cq *cq = ibv_create_cq(context, ENTRIES, NULL, NULL, 0);
	struct ibv_qp *a = new_queue_pair(cq), *b = new_queue_pair(cq);
	make_ready(a, b->qp_num, 5, 6);
	make_ready(b, a->qp_num, 6, 7); /* expects another sequence number */
	memset(into, 0x5a, 64);
	memset(from, 1, 64);
	post_rdma(a, 1, IBV_WR_RDMA_WRITE, 64, 1);
	completes(cq, 1, IBV_WC_RETRY_EXC_ERR);
	make_ready(a, b->qp_num, 5, 6);
	IS(0, ibv_destroy_qp(b));
	b = new_queue_pair(cq); /* a new queue pair in its place */
	make_ready(b, a->qp_num, 6, 5);
	post_rdma(a, 2, IBV_WR_RDMA_WRITE, 64, 1);
	completes(cq, 2, IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; i < 64; i++) CHECK(into[i] == 0x5a);
	IS(0, ibv_destroy_qp(a));
	IS(0, ibv_destroy_qp(b));
	IS(0, ibv_destroy_cq(cq));
	puts("ok sequence numbers and connections that do not fit: retries exceeded, no byte moved");
}

static volatile int over;
static void *registers(void *unused) {
	while (!over) {
		struct ibv_mr *mr = ibv_reg_mr(pd, from, BYTES, IBV_ACCESS_LOCAL_WRITE);
		CHECK(mr != NULL);
		IS(0, ibv_dereg_mr(mr));
	}
	return unused;
}

/* Threads wait while others call verbs. */
static void threads(void) {
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, registers, NULL) == 0);
	for (int round = 0; round < 50; round++) {
		struct ibv_cq *cq = ibv_create_cq(context, ENTRIES, NULL, NULL, 0);
		struct ibv_qp *a = new_queue_pair(cq), *b = new_queue_pair(cq);
		make_ready(a, b->qp_num, 1, 2);
		make_ready(b, a->qp_num, 2, 1);
		post_rdma(a, round, IBV_WR_RDMA_READ, BYTES, 1);
		completes(cq, round, IBV_WC_SUCCESS);
		IS(0, ibv_destroy_qp(a));
		IS(0, ibv_destroy_qp(b));
		IS(0, ibv_destroy_cq(cq));
	}
	over = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	puts("ok a thread that registers memory while another one makes and unmakes queues");
}

int main(void) {
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	CHECK((from_mr = ibv_reg_mr(pd, from, BYTES, IBV_ACCESS_LOCAL_WRITE)) != NULL && (into_mr = ibv_reg_mr(pd, into, BYTES, ALL)) != NULL);
	resized_queue();
	resets();
	unconnected();
	threads();
	puts("all parts hold");
	return 0;
}
