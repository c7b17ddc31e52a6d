/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waits for ever, in the way that the first word names. The time limit's report names each waiter.
 *   waits poll [PEER]     both sides connect a queue pair and poll with a receive outstanding
 *   waits event [PEER]    the same, but sleeps on a completion channel
 *   waits spin [PEER]     the same, but spins on registered memory
 *   waits late [PEER]     the server polls; the client sleeps for 1,500 s and sends, which ends both
 *   waits listen          accepts a connection, but no peer connects
 *   waits data [PEER]     reads from a connection that carries nothing
 *   waits lock            a thread waits for a lock of the first thread, which waits for its end
 *   waits child           a child that sleeps for ever
 *   waits sleep           sleeps for an hour
 *   waits compute         loops without a call */
#include "verbs_common.h"

#include <pthread.h>
#include <sys/wait.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *lock_it(void *nothing)
{
	pthread_mutex_lock(&held);
	return nothing;
}

static struct side prepare(const char *peer)
{
	struct side s = {.is_client = peer != NULL};
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	s.context = ibv_open_device(list[0]);
	CHECK(s.context != NULL);
	s.pd = ibv_alloc_pd(s.context);
	s.channel = ibv_create_comp_channel(s.context);
	CHECK(s.pd && s.channel);
	s.send_cq = ibv_create_cq(s.context, DEPTH, NULL, NULL, 0);
	s.recv_cq = ibv_create_cq(s.context, DEPTH, NULL, s.channel, 0);
	s.buffer = calloc(1, BUFFER_BYTES);
	s.mr = ibv_reg_mr(s.pd, s.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(s.send_cq && s.recv_cq && s.mr);
	IS(0, ibv_query_port(s.context, 1, &s.port));
	s.control = control_connect(peer);
	return s;
}

static void with_queue_pair(const char *way, const char *peer)
{
	struct side s = prepare(peer);
	struct ibv_qp *qp = make_qp(&s, IBV_QPT_RC);
	struct ibv_wc wc;
	volatile uint8_t *word;

	to_init(qp);
	connect_qp(&s, qp);
	IS(0, receive(qp, 1, piece(&s, IN, 64)));
	meet(&s, 1);
	if (!strcmp(way, "late")) {
		if (s.is_client) {
			struct ibv_sge sge = piece(&s, OUT, 64);
			struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

			sleep(1500);
			IS(0, post(qp, wr));
			success(s.send_cq, 2, IBV_WC_SEND);
		} else {
			while (ibv_poll_cq(s.recv_cq, 1, &wc) == 0)
				;
			CHECK(wc.status == IBV_WC_SUCCESS);
		}
		meet(&s, 2);
		puts("it came");
		exit(0);
	}
	if (!strcmp(way, "poll")) {
		while (ibv_poll_cq(s.recv_cq, 1, &wc) == 0)
			;
	} else if (!strcmp(way, "spin")) {
		for (word = s.buffer + WORD; *word == 0;)
			;
	} else {
		struct ibv_cq *cq;
		void *cookie;

		IS(0, ibv_req_notify_cq(s.recv_cq, 0));
		CHECK(ibv_get_cq_event(s.channel, &cq, &cookie) == 0);
	}
	FAIL("something came");
}

int main(int count, char **words)
{
	const char *way = count > 1 ? words[1] : "", *peer = count > 2 ? words[2] : NULL;

	if (!strcmp(way, "poll") || !strcmp(way, "late") || !strcmp(way, "event") || !strcmp(way, "spin")) {
		with_queue_pair(way, peer);
	} else if (!strcmp(way, "listen")) {
		control_connect(NULL);
	} else if (!strcmp(way, "data")) {
		char byte;
		int fd = control_connect(peer);

		CHECK(read(fd, &byte, 1) == 1);
	} else if (!strcmp(way, "lock")) {
		pthread_t other;

		pthread_mutex_lock(&held);
		CHECK(pthread_create(&other, NULL, lock_it, NULL) == 0);
		pthread_join(other, NULL);
	} else if (!strcmp(way, "child")) {
		if (fork() == 0)
			for (;;)
				sleep(3600);
		wait(NULL);
	} else if (!strcmp(way, "sleep")) {
		sleep(3600);
	} else if (!strcmp(way, "compute")) {
		volatile unsigned long sum = 0;

		for (;;)
			sum++;
	}
	return 1;
}
