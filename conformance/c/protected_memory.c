/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program removes its own rights from registered memory. An HCA has pinned the pages, and reads
 * and writes them all the same. Memory with unmapped pages cannot be registered. With
 * "shared", transfers to a shared mapping may fail, and must not harm other memory. */
#include "verbs_common.h"
#include <errno.h>
#include <sys/mman.h>

enum { PAGE = 4096, BYTES = 3 * PAGE, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_pd *pd;
static struct ibv_port_attr port;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static uint8_t *plain;
static struct ibv_mr *plain_mr;

static struct ibv_qp *new_queue_pair(void)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp != NULL);
	return qp;
}

static void make_ready(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	IS(0, ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	at = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 1, .ah_attr = {.dlid = port.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	at = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 3, .rnr_retry = 7, .max_rd_atomic = 1};
	IS(0, ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void start(enum ibv_wr_opcode opcode, uint8_t *local, uint8_t *remote, struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)local, BYTES, plain_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)remote, mr->rkey}};

	IS(0, post(a, wr));
}

static uint8_t *mapping(int flags, int file)
{
	uint8_t *found = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, file, 0);

	CHECK(found != MAP_FAILED);
	return found;
}

/* Writes memory that is read-only, and reads memory without any rights. */
static void serves(uint8_t *memory, int seed, const char *what)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL);

	CHECK(mr != NULL);
	memset(memory, 1, BYTES);
	fill(plain, BYTES, seed);
	CHECK(mprotect(memory, BYTES, PROT_READ) == 0);
	start(IBV_WR_RDMA_WRITE, plain, memory, mr);
	success(cq, 5, IBV_WC_RDMA_WRITE);
	same(memory, BYTES, seed);
	CHECK(mprotect(memory, BYTES, PROT_NONE) == 0);
	memset(plain, 0, BYTES);
	start(IBV_WR_RDMA_READ, plain, memory, mr);
	success(cq, 5, IBV_WC_RDMA_READ);
	same(plain, BYTES, seed);
	IS(0, ibv_dereg_mr(mr));
	printf("ok %s\n", what);
}

/* A write that fails does not harm the data of others. */
static void beside_others(int file, int rights)
{
	uint8_t *shared = mapping(MAP_SHARED, file), *other = plain + 2 * BYTES;
	struct ibv_mr *mr = ibv_reg_mr(pd, shared, BYTES, ALL);

	CHECK(mr != NULL && mprotect(shared, BYTES, rights) == 0);
	fill(plain, BYTES, 9);
	for (int i = 0; i < 4; i++) {
		memset(other, 0, BYTES);
		start(IBV_WR_RDMA_WRITE, plain, shared, mr);
		start(IBV_WR_RDMA_WRITE, plain, other, plain_mr);
		completion(cq);
		completion(cq);
		same(other, BYTES, 9);
	}
	puts("ok what others are written");
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	FILE *file = tmpfile();

	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	CHECK((cq = ibv_create_cq(context, 64, NULL, NULL, 0)) != NULL && file != NULL && ftruncate(fileno(file), BYTES) == 0);
	a = new_queue_pair();
	b = new_queue_pair();
	make_ready(a, b->qp_num);
	make_ready(b, a->qp_num);
	plain = aligned_alloc(PAGE, 4 * BYTES);
	CHECK(plain != NULL && (plain_mr = ibv_reg_mr(pd, plain, 4 * BYTES, ALL)) != NULL);
	if (argc > 1 && strcmp(argv[1], "shared") == 0) {
		beside_others(fileno(file), argc > 2 ? PROT_NONE : PROT_READ);
	} else {
		serves(mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1), 3, "memory of its own");
		serves(mapping(MAP_PRIVATE, fileno(file)), 4, "its own copy of a file");
		uint8_t *too_long = mapping(MAP_SHARED, fileno(file));
		CHECK(ftruncate(fileno(file), PAGE) == 0);
		CHECK(ibv_reg_mr(pd, too_long, BYTES, ALL) == NULL && errno == EFAULT);
		CHECK(ibv_reg_mr(pd, too_long, PAGE, ALL) != NULL);
		puts("ok what lies behind the end of a file");
	}
	puts("all parts hold");
	return 0;
}
