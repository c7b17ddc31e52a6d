/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads post to one queue pair through ibv_wr_*. Only one thread at a time is between
 * ibv_wr_start and ibv_wr_complete, even if it sleeps there. All of their work completes once. The
 * host connects to itself. */
#include "verbs_common.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 30, WRITES = 2 };

static struct side side;
static struct ibv_qp *qp;

static void *builds(void *argument)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint64_t number = (uintptr_t)argument;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		ibv_wr_start(ex);
		for (uint64_t write = 0; write < WRITES; write++) {
			ex->wr_id = (number * ROUNDS + round) * WRITES + write;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(ex, side.mr->rkey, (uintptr_t)side.buffer + IN);
			ibv_wr_set_sge(ex, side.mr->lkey, (uintptr_t)side.buffer + OUT, 8);
			usleep(round % 3 * 50);
		}
		IS(0, ibv_wr_complete(ex));
	}
	return NULL;
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	pthread_t threads[THREADS];
	int seen[THREADS * ROUNDS * WRITES] = {0};

	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	CHECK((side.buffer = aligned_alloc(4096, BUFFER_BYTES)));
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((side.send_cq = side.recv_cq = ibv_create_cq(side.context, THREADS * ROUNDS * WRITES, NULL, NULL, 0)));
	struct ibv_qp_init_attr_ex init = {.send_cq = side.send_cq, .recv_cq = side.recv_cq, .qp_type = IBV_QPT_RC, .pd = side.pd,
					   .cap = {.max_send_wr = THREADS * ROUNDS * WRITES, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	CHECK((qp = ibv_create_qp_ex(side.context, &init)));
	struct ibv_qp *peer = make_qp(&side, IBV_QPT_RC);
	struct address a = own_address(&side, qp), b = own_address(&side, peer);

	to_init(qp);
	to_init(peer);
	to_ready(&side, qp, &a, &b);
	to_ready(&side, peer, &b, &a);
	for (uintptr_t thread = 0; thread < THREADS; thread++)
		IS(0, pthread_create(&threads[thread], NULL, builds, (void *)thread));
	for (int thread = 0; thread < THREADS; thread++) IS(0, pthread_join(threads[thread], NULL));
	for (int done = 0; done < THREADS * ROUNDS * WRITES;) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(side.send_cq, 1, &wc);

		CHECK(count >= 0);
		if (!count) continue;
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < THREADS * ROUNDS * WRITES && !seen[wc.wr_id]++);
		done++;
	}
	printf("shared_builder: as it should be\n");
	return 0;
}
