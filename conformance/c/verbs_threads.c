/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Runs several threads, each with queue pairs connected to each other within the HCA. Half of them
 * poll, half sleep for events, and one thread waits for asynchronous events. At the end an
 * unacknowledged event delays the destruction of its queue.
 *
 *     softband run FABRIC --on a './verbs_threads'
 *
 * Build: cc -O2 -Wall -Wextra -pthread -o verbs_threads verbs_threads.c -libverbs */
#include "verbs_common.h"
#include <pthread.h>
#include <semaphore.h>

enum { WORKERS = 4, ROUNDS = 200 };

static struct side shared;
static struct ibv_cq *last_queue;
static sem_t heard;

/* Makes two queue pairs that are connected to each other. */
static void make_pair(struct side *s, struct ibv_qp *pair[2])
{
	struct address where[2];

	for (int i = 0; i < 2; i++) {
		pair[i] = make_qp(s, IBV_QPT_RC);
		to_init(pair[i]);
		where[i] = own_address(s, pair[i]);
	}
	for (int i = 0; i < 2; i++)
		to_ready(s, pair[i], &where[i], &where[1 - i]);
}

static void wait_received(struct side *s, int by_event)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *cookie;
	int found;

	while ((found = ibv_poll_cq(s->recv_cq, 1, &wc)) == 0) {
		if (!by_event)
			continue;
		IS(0, ibv_req_notify_cq(s->recv_cq, 0));
		found = ibv_poll_cq(s->recv_cq, 1, &wc);
		if (found)
			break;
		IS(0, ibv_get_cq_event(s->channel, &cq, &cookie));
		CHECK(cq == s->recv_cq);
		ibv_ack_cq_events(cq, 1);
	}
	CHECK(found == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
}

static void *worker(void *number)
{
	int me = (int)(intptr_t)number, by_event = me % 2;
	size_t at = (size_t)me * 65536;
	struct side s = shared;
	struct ibv_qp *pair[2];
	struct ibv_sge sge = piece(&s, at, 512);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	s.channel = ibv_create_comp_channel(s.context);
	s.send_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	s.recv_cq = ibv_create_cq(s.context, DEPTH, NULL, s.channel, 0);
	CHECK(s.channel && s.send_cq && s.recv_cq);
	make_pair(&s, pair);
	for (int round = 0; round < ROUNDS; round++) {
		fill(s.buffer + at, 512, round);
		IS(0, receive(pair[(round + 1) % 2], 2, piece(&s, at + 4096, 512)));
		IS(0, post(pair[round % 2], wr));
		wait_received(&s, by_event);
		success(s.send_cq, 1, IBV_WC_SEND);
		same(s.buffer + at + 4096, 512, round);
	}
	for (int i = 0; i < 2; i++)
		IS(0, ibv_destroy_qp(pair[i]));
	IS(0, ibv_destroy_cq(s.send_cq));
	IS(0, ibv_destroy_cq(s.recv_cq));
	IS(0, ibv_destroy_comp_channel(s.channel));
	return NULL;
}

/* Gets the event of the connection that `held_back` breaks, and acknowledges it late. */
static void *watcher(void *unused)
{
	struct ibv_async_event event;

	IS(0, ibv_get_async_event(shared.context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
	sem_post(&heard);
	usleep(2000);
	ibv_ack_async_event(&event);
	return unused;
}

static void *acknowledge_late(void *unused)
{
	usleep(2000);
	ibv_ack_cq_events(last_queue, 1);
	return unused;
}

static void held_back(struct side *s)
{
	struct ibv_sge sge = piece(s, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)s->buffer, 0x00DEAD00}};
	struct ibv_qp *pair[2];
	struct ibv_cq *cq;
	pthread_t thread;
	void *cookie;

	s->channel = ibv_create_comp_channel(s->context);
	s->send_cq = s->recv_cq = last_queue = ibv_create_cq(s->context, DEPTH, NULL, s->channel, 0);
	CHECK(last_queue);
	make_pair(s, pair);
	IS(0, ibv_req_notify_cq(last_queue, 0));
	IS(0, post(pair[0], wr));
	IS(0, ibv_get_cq_event(s->channel, &cq, &cookie));
	ends(last_queue, 0, IBV_WC_REM_ACCESS_ERR);
	sem_wait(&heard); /* destroying a queue pair drops its untaken events */
	for (int i = 0; i < 2; i++)
		IS(0, ibv_destroy_qp(pair[i]));
	CHECK(pthread_create(&thread, NULL, acknowledge_late, NULL) == 0);
	IS(0, ibv_destroy_cq(last_queue)); /* returns after the other thread's acknowledgement */
	CHECK(pthread_join(thread, NULL) == 0);
	IS(0, ibv_destroy_comp_channel(s->channel));
}

int main(void)
{
	pthread_t threads[WORKERS], watching;
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(sem_init(&heard, 0, 0) == 0);
	CHECK(list && list[0]);
	shared.context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(shared.context);
	shared.pd = ibv_alloc_pd(shared.context);
	CHECK(shared.pd && posix_memalign((void **)&shared.buffer, 4096, BUFFER_BYTES) == 0);
	shared.mr = ibv_reg_mr(shared.pd, shared.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(shared.mr);
	IS(0, ibv_query_port(shared.context, 1, &shared.port));
	CHECK(pthread_create(&watching, NULL, watcher, NULL) == 0);
	for (int i = 0; i < WORKERS; i++)
		CHECK(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i) == 0);
	for (int i = 0; i < WORKERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	printf("ok %d threads, %d messages each, within one HCA\n", WORKERS, ROUNDS);
	held_back(&shared);
	CHECK(pthread_join(watching, NULL) == 0);
	printf("ok unacknowledged events hold their objects back\n");
	IS(0, ibv_dereg_mr(shared.mr));
	IS(0, ibv_dealloc_pd(shared.pd));
	IS(0, ibv_close_device(shared.context));
	free(shared.buffer);
	printf("all parts hold\n");
	return 0;
}
