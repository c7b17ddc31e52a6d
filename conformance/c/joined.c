/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program begins with one thread and gets a second thread in the midst of its work. Both post to
 * one queue pair and poll one completion queue. Then the first thread is alone again. Every receive
 * completes once, in the order of the sends. The host connects to itself. */
#include "verbs_common.h"
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 40, EACH = 50, ROOM = 3 * EACH };

static struct side side;
static struct ibv_qp *from, *to;
static uint32_t taken, sent, received;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Sends `count` messages. Each carries its number as immediate data. */
static void sends(int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge out = {(uintptr_t)side.buffer + OUT, 8, side.mr->lkey}, in = {(uintptr_t)side.buffer + IN, 8, side.mr->lkey};
		struct ibv_send_wr *bad, send = {.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_recv_wr *bad_receive, receive = {.sg_list = &in, .num_sge = 1};

		pthread_mutex_lock(&one_at_a_time);
		IS(0, ibv_post_recv(to, &receive, &bad_receive));
		send.imm_data = sent++;
		IS(0, ibv_post_send(from, &send, &bad));
		pthread_mutex_unlock(&one_at_a_time);
	}
}

static void polls(uint32_t until)
{
	while (__atomic_load_n(&taken, __ATOMIC_SEQ_CST) < until) {
		struct ibv_wc wc[4];

		pthread_mutex_lock(&one_at_a_time);
		int count = ibv_poll_cq(side.send_cq, 4, wc);
		CHECK(count >= 0);
		for (int i = 0; i < count; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			if (wc[i].opcode == IBV_WC_RECV) CHECK(wc[i].imm_data == received++);
		}
		__atomic_add_fetch(&taken, count, __ATOMIC_SEQ_CST);
		pthread_mutex_unlock(&one_at_a_time);
		sched_yield(); /* lets the thread that waits for the lock take it */
	}
}

/* Polls the queue and does not wait for the other thread. */
static void *second(void *until)
{
	struct ibv_wc wc[1];

	for (int i = 0; i < 50; i++) CHECK(ibv_poll_cq(side.recv_cq, 1, wc) == 0);
	sends(EACH);
	polls((uint32_t)(uintptr_t)until);
	return NULL;
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	pthread_t thread;

	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	CHECK((side.buffer = aligned_alloc(4096, BUFFER_BYTES)));
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((side.send_cq = ibv_create_cq(side.context, 2 * ROOM, NULL, NULL, 0)));
	CHECK((side.recv_cq = ibv_create_cq(side.context, 8, NULL, NULL, 0)));
	struct ibv_qp_init_attr init = {.send_cq = side.send_cq, .recv_cq = side.send_cq, .qp_type = IBV_QPT_RC, .cap = {ROOM, ROOM, 1, 1, 0}};
	CHECK((from = ibv_create_qp(side.pd, &init)) && (to = ibv_create_qp(side.pd, &init)));
	struct address a = own_address(&side, from), b = own_address(&side, to);

	to_init(from);
	to_init(to);
	to_ready(&side, from, &a, &b);
	to_ready(&side, to, &b, &a);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t until = taken + 2 * 3 * EACH;

		sends(EACH);
		IS(0, pthread_create(&thread, NULL, second, (void *)(uintptr_t)until));
		sends(EACH);
		polls(until);
		IS(0, pthread_join(thread, NULL));
	}
	CHECK(received == ROUNDS * 3 * EACH);
	printf("joined: as it should be\n");
	return 0;
}
