/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures the cost of posting and polling alone, in nanoseconds each: one thread, and a queue pair
 * connected to another of the same process, with all data cached. `post_poll [BYTES]` prints one
 * line per run. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DEPTH = 128, BATCHES = 2000, RUNS = 5 };
#define OK(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static double ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }

static void up(struct ibv_qp *qp, uint32_t to, uint16_t lid)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE};
	OK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_attr r = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to, .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = {.dlid = lid, .port_num = 1}};
	OK(!ibv_modify_qp(qp, &r, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	OK(!ibv_modify_qp(qp, &s, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

int main(int argc, char **argv)
{
	uint32_t bytes = argc > 1 ? atoi(argv[1]) : 2;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	char *buffer = aligned_alloc(4096, 1 << 20);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, 1 << 20, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_port_attr port;
	OK(!ibv_query_port(ctx, 1, &port));
	for (int i = 0; i < 2; i++) {
		cq[i] = ibv_create_cq(ctx, 2 * DEPTH, NULL, NULL, 0);
		struct ibv_qp_init_attr_ex init = {.send_cq = cq[i], .recv_cq = cq[i], .qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 64}, .pd = pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND};
		qp[i] = ibv_create_qp_ex(ctx, &init);
		OK(qp[i]);
	}
	up(qp[0], qp[1]->qp_num, port.lid); up(qp[1], qp[0]->qp_num, port.lid);
	struct ibv_sge from = {(uintptr_t)buffer, bytes, mr->lkey}, to = {(uintptr_t)buffer + 4096, bytes, mr->lkey};
	struct ibv_wc wc[16];
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp[0]);
	for (int run = 0; run < RUNS; run++) {
		double t[9] = {0};
		for (int round = 0; round < BATCHES; round++) {
			double a = ns();
			for (int i = 0; i < DEPTH; i++) { struct ibv_recv_wr w = {.sg_list = &to, .num_sge = 1}, *bad; OK(!ibv_post_recv(qp[1], &w, &bad)); }
			double b = ns();
			for (int i = 0; i < DEPTH; i++) { struct ibv_send_wr w = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = i == DEPTH - 1 ? IBV_SEND_SIGNALED : 0}, *bad; OK(!ibv_post_send(qp[0], &w, &bad)); }
			double c = ns();
			int n = 0; while (n < 1) n += ibv_poll_cq(cq[0], 16, wc);
			double d = ns();
			for (n = 0; n < DEPTH;) { int k = ibv_poll_cq(cq[1], 1, wc); n += k; OK(!k || wc->status == 0); }
			double e = ns();
			for (int i = 0; i < DEPTH; i++) { struct ibv_send_wr w = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {to.addr, mr->rkey}}, *bad; OK(!ibv_post_send(qp[0], &w, &bad)); }
			double f = ns();
			for (n = 0; n < DEPTH;) { int k = ibv_poll_cq(cq[0], 1, wc); n += k; OK(!k || wc->status == 0); }
			double g = ns();
			for (int i = 0; i < DEPTH; i++) ibv_poll_cq(cq[0], 1, wc);
			double h = ns();
			for (int i = 0; i < DEPTH; i++) { struct ibv_recv_wr w = {.sg_list = &to, .num_sge = 1}, *bad; OK(!ibv_post_recv(qp[1], &w, &bad)); }
			double j = ns();
			for (int i = 0; i < DEPTH; i++) {
				ibv_wr_start(ex);
				ex->wr_id = i;
				ex->wr_flags = i == DEPTH - 1 ? IBV_SEND_SIGNALED : 0;
				ibv_wr_send(ex);
				ibv_wr_set_sge(ex, from.lkey, from.addr, from.length);
				OK(!ibv_wr_complete(ex));
			}
			double k = ns();
			n = 0; while (n < 1) n += ibv_poll_cq(cq[0], 16, wc);
			double l = ns();
			for (n = 0; n < DEPTH;) n += ibv_poll_cq(cq[1], 16, wc);
			double m = ns();
			t[7] += k - j; t[8] += m - l;
			t[0] += b - a; t[1] += c - b; t[2] += d - c; t[3] += e - d; t[4] += f - e; t[5] += g - f; t[6] += h - g;
		}
		double per = (double)BATCHES * DEPTH;
		printf("post_recv %.1f  post_send %.1f  poll recv %.1f  | post write %.1f  poll own %.1f  empty poll %.1f  | ibv_wr_* send %.1f  poll 16 %.1f ns\n", t[0] / per, t[1] / per, t[3] / per, t[4] / per, t[5] / per, t[6] / per, t[7] / per, t[8] / per);
	}
	return 0;
}
