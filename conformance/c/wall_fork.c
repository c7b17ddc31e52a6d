/* A program that uses verbs forks. Its children attach as separate processes at their first verb,
 * and do not change the parent's resources. */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

struct held {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct held make(void)
{
	struct held held;
	held.list = ibv_get_device_list(NULL);
	CHECK(held.list && held.list[0]);
	held.context = ibv_open_device(held.list[0]);
	CHECK(held.context);
	held.pd = ibv_alloc_pd(held.context);
	held.cq = ibv_create_cq(held.context, 8, NULL, NULL, 0);
	CHECK(held.pd && held.cq);
	struct ibv_qp_init_attr init = {.send_cq = held.cq, .recv_cq = held.cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	held.qp = ibv_create_qp(held.pd, &init);
	CHECK(held.qp);
	return held;
}

static void use(struct held *held)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(ibv_query_qp(held->qp, &attr, IBV_QP_STATE, &init) == 0);
	struct ibv_port_attr port;
	CHECK(ibv_query_port(held->context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
}

static void end(struct held *held)
{
	CHECK(ibv_destroy_qp(held->qp) == 0);
	CHECK(ibv_destroy_cq(held->cq) == 0);
	CHECK(ibv_dealloc_pd(held->pd) == 0);
	CHECK(ibv_close_device(held->context) == 0);
	ibv_free_device_list(held->list);
}

/* Lets the grandchild print after the child. */
static int line_is_out[2];

static void child(int depth)
{
	struct held own = make();
	use(&own);
	if (depth == 0) {
		int status;
		CHECK(pipe(line_is_out) == 0);
		pid_t grandchild = fork();
		if (grandchild == 0) {
			child(1);
			_exit(0);
		}
		use(&own);
		printf("child ok\n");
		fflush(stdout);
		CHECK(write(line_is_out[1], "", 1) == 1);
		CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
		use(&own);
	} else {
		char byte;
		CHECK(read(line_is_out[0], &byte, 1) == 1);
		printf("grandchild ok\n");
		fflush(stdout);
	}
	end(&own);
}

static volatile int stop;

static void *background(void *held)
{
	while (!stop)
		use(held);
	return NULL;
}

/* Forks while another thread is inside a call. */
static void fork_among_threads(struct held *held)
{
	int status;
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, background, held) == 0);
	for (int round = 0; round < 50; round++) {
		pid_t busy = fork();
		if (busy == 0) {
			struct ibv_port_attr port;
			CHECK(ibv_query_port(held->context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
			_exit(0);
		}
		CHECK(waitpid(busy, &status, 0) == busy && status == 0);
	}
	stop = 1;
	CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
	int status;
	struct held held = make();
	fork_among_threads(&held);
	/* Some children use no verbs and close every descriptor. */
	for (int round = 0; round < 20; round++) {
		pid_t idle = fork();
		if (idle == 0) {
			for (int fd = 3; fd < 1024; fd++)
				close(fd);
			_exit(0);
		}
		use(&held);
		CHECK(waitpid(idle, &status, 0) == idle && status == 0);
	}
	pid_t first = fork();
	if (first == 0) {
		child(0);
		_exit(0);
	}
	for (int round = 0; round < 100; round++)
		use(&held);
	CHECK(waitpid(first, &status, 0) == first && status == 0);
	use(&held);
	end(&held);
	printf("parent ok\n");
	return 0;
}
