/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures the cost of many queue pairs: queue_pairs COUNT. Makes COUNT ends of reliable
 * connections on one device, each connected to its neighbour, all with one completion queue. Prints
 * "name value" lines. The engine is the parent process. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 500, ROUNDS = 20000, EMPTY_POLLS = 200000, BYTES = 64 };

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			perror(#condition);                                                                            \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static struct ibv_qp **qps;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[2 * BYTES];

static double micros(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static double resident_kib(int pid)
{
	char path[64];
	long pages = 0;

	snprintf(path, sizeof path, "/proc/%d/statm", pid);
	FILE *file = fopen(path, "r");
	if (file) {
		if (fscanf(file, "%*d %ld", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	return pages * 4.0;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, uint16_t lid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = peer, .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .dlid = lid, .port_num = 1 } };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static double empty_polls(void)
{
	struct ibv_wc wc;
	double began = micros();

	for (int i = 0; i < EMPTY_POLLS; i++)
		CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	return (micros() - began) / EMPTY_POLLS;
}

/* Posts one write at a time, on each of `active` queue pairs in turn. Returns the time from post to
 * completion. */
static double writes(int active, int rounds)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = BYTES, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	double began = micros();

	wr.wr.rdma.remote_addr = (uintptr_t)memory + BYTES;
	wr.wr.rdma.rkey = mr->rkey;
	for (int i = 0; i < rounds; i++) {
		struct ibv_wc wc;

		wr.wr_id = i;
		CHECK(!ibv_post_send(qps[i % active], &wr, &bad));
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i);
	}
	return (micros() - began) / rounds;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) & ~1 : 10000, engine = getppid();
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_port_attr port;

	CHECK(context && count > 0);
	CHECK(!ibv_query_port(context, 1, &port));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK(cq = ibv_create_cq(context, 1024, NULL, NULL, 0));
	CHECK(mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	CHECK(qps = calloc(count, sizeof *qps));
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };
	double own = resident_kib(getpid()), theirs = resident_kib(engine), first = 0, last = 0, began = micros();

	for (int made = 0; made < count;) {
		double step_began = micros();
		int step = made;

		for (; made < count && made < step + STEP; made += 2) {
			CHECK(qps[made] = ibv_create_qp(pd, &init));
			CHECK(qps[made + 1] = ibv_create_qp(pd, &init));
			connect_to(qps[made], qps[made + 1]->qp_num, port.lid);
			connect_to(qps[made + 1], qps[made]->qp_num, port.lid);
		}
		last = (micros() - step_began) / (made - step);
		if (step == 0)
			first = last;
	}
	printf("setup_us %.2f\nsetup_first_us %.2f\nsetup_last_us %.2f\n", (micros() - began) / count, first, last);
	printf("program_kib %.3f\nengine_kib %.3f\n", (resident_kib(getpid()) - own) / count, (resident_kib(engine) - theirs) / count);
	writes(count, count); /* one full round touches all memory first */
	printf("empty_poll_us %.4f\n", empty_polls());
	printf("write_10_us %.3f\n", writes(count < 10 ? count : 10, ROUNDS));
	printf("write_all_us %.3f\n", writes(count, ROUNDS));
	began = micros();
	for (int i = 0; i < count; i++)
		CHECK(!ibv_destroy_qp(qps[i]));
	printf("destroy_us %.2f\n", (micros() - began) / count);
	return 0;
}
