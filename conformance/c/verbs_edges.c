/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Edge-triggered epoll at a completion channel and at the channel of asynchronous events: a report
 * for each new event, also beside unread ones, and none without a new event. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *queues[2];
static struct ibv_qp *qps[2];
static char memory[64];
static struct ibv_mr *mr;

static void connect_to_each_other(void)
{
	struct ibv_port_attr port;
	CHECK(ibv_query_port(context, 1, &port) == 0);
	for (int at = 0; at < 2; at++) {
		queues[at] = ibv_create_cq(context, 16, NULL, channel, 0);
		CHECK(queues[at]);
		struct ibv_qp_init_attr init = {.send_cq = queues[at], .recv_cq = queues[at], .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
						.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
		qps[at] = ibv_create_qp(pd, &init);
		CHECK(qps[at]);
	}
	for (int at = 0; at < 2; at++) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
		CHECK(ibv_modify_qp(qps[at], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qps[1 - at]->qp_num,
					 .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = {.dlid = port.lid, .port_num = 1}};
		CHECK(ibv_modify_qp(qps[at], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
		CHECK(ibv_modify_qp(qps[at], &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						      IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	}
}

/* Writes to the other queue pair, which raises an event of the queue `at`. */
static void cause_event(int at)
{
	struct ibv_sge part = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr *bad, write = {.sg_list = &part, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .wr.rdma = {(uintptr_t)memory + 32, mr->rkey}};
	CHECK(ibv_req_notify_cq(queues[at], 0) == 0 && ibv_post_send(qps[at], &write, &bad) == 0);
}

static void take_event(void)
{
	struct ibv_cq *queue;
	void *unused;
	CHECK(ibv_get_cq_event(channel, &queue, &unused) == 0);
	ibv_ack_cq_events(queue, 1);
}

static int reports(int epoll, int millis)
{
	struct epoll_event found[2];
	int count = epoll_wait(epoll, found, 2, millis);
	CHECK(count >= 0);
	return count;
}

static int watch_of(int fd)
{
	int epoll = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	return epoll;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context && (pd = ibv_alloc_pd(context)) && (channel = ibv_create_comp_channel(context)));
	mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	connect_to_each_other();
	int epoll = watch_of(channel->fd), asynchronous = watch_of(context->async_fd);

	cause_event(0);
	CHECK(reports(epoll, 1000) == 1);
	cause_event(1);
	printf("an event beside an unread one: %d report\n", reports(epoll, 1000));
	struct timespec before, after;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
	int count = reports(epoll, 1000);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
	long millis = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec + 500000) / 1000000;
	printf("no further event: %d reports after %ld ms\n", count, millis);
	take_event();
	CHECK(reports(epoll, 10) == 0);
	struct ibv_wc completion;
	CHECK(ibv_poll_cq(queues[0], 1, &completion) == 1 && completion.status == IBV_WC_SUCCESS);
	cause_event(0);
	printf("a read event and a new one: %d report\n", reports(epoll, 1000));
	printf("asynchronous channel: %d reports\n", reports(asynchronous, 10));
	return 0;
}
