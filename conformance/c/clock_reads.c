/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * clock_reads computes COUNT: a process computes and reads the clock COUNT times, beside a process
 * that polls memory which both share. Prints the nanoseconds of all of it for each read.
 *
 * clock_reads clock|queue MICROS: a thread writes a word after each sleep. Another looks at the word, and
 * in turn reads the clock or polls an empty completion queue. Prints the longest nanoseconds from a
 * write to its reader.
 *
 * clock_reads remote MICROS [HOST]: the client writes its time by RDMA after each sleep. The server looks
 * at the word and reads the clock in turn. Prints the longest nanoseconds from a write to its reader. */
#define _GNU_SOURCE
#include "verbs_common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { WRITES = 40, WORK = 100 };

static _Atomic long word;
static _Atomic double written;
static double longest;
static struct ibv_cq *queue;

static int computes(long count)
{
	_Atomic int *ended = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	volatile double value = 1;
	int status;

	CHECK(ended != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	while (child == 0 && !atomic_load(ended)) seconds();
	if (child == 0) exit(0);
	double begun = seconds();
	for (long n = 0; n < count; n++) {
		seconds();
		for (int k = 0; k < WORK; k++) value *= 1.0001;
	}
	printf("%.3f\n", (seconds() - begun) / (double)count * 1e9);
	atomic_store(ended, 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}

static void *reader(void *unused)
{
	(void)unused;
	for (long n = 1; n <= WRITES; n++) {
		while (atomic_load(&word) < n) {
			struct ibv_wc wc;

			if (queue) IS(0, ibv_poll_cq(queue, 1, &wc));
			else seconds();
		}
		double late = seconds() - written;
		if (late > longest) longest = late;
	}
	return NULL;
}

static int threads(long micros, int polls)
{
	struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
	pthread_t other;

	if (polls) {
		struct ibv_device **devices = ibv_get_device_list(NULL);
		struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;

		CHECK(context && (queue = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
	}
	IS(0, pthread_create(&other, NULL, reader, NULL));
	for (long n = 1; n <= WRITES; n++) {
		IS(0, nanosleep(&pause, NULL));
		written = seconds();
		atomic_store(&word, n);
	}
	IS(0, pthread_join(other, NULL));
	printf("%.0f\n", longest * 1e9);
	return 0;
}

static void open_side(struct side *s, const char *peer)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	s->is_client = peer != NULL;
	s->control = control_connect(peer);
	CHECK(devices && devices[0] && (s->context = ibv_open_device(devices[0])) && (s->pd = ibv_alloc_pd(s->context)));
	IS(0, ibv_query_port(s->context, 1, &s->port));
	CHECK((s->buffer = aligned_alloc(4096, BUFFER_BYTES)));
	memset(s->buffer, 0, BUFFER_BYTES);
	CHECK((s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((s->send_cq = s->recv_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0)));
}

static int remote(long micros, const char *peer)
{
	struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
	static struct side side;

	open_side(&side, peer);
	struct ibv_qp *qp = make_qp(&side, IBV_QPT_RC);
	to_init(qp);
	struct address other = connect_qp(&side, qp);
	volatile double *came = (double *)(side.buffer + IN);
	double seen = 0;
	meet(&side, 1);
	for (int n = 0; n < WRITES && peer; n++) {
		struct ibv_sge sge = piece(&side, OUT, sizeof seen);
		struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {other.buffer + IN, other.rkey}};

		IS(0, nanosleep(&pause, NULL));
		*(double *)(side.buffer + OUT) = seconds();
		IS(0, post(qp, wr));
		success(side.send_cq, 1, IBV_WC_RDMA_WRITE);
	}
	for (int n = 0; n < WRITES && !peer; n++) {
		double now = 0;

		while (*came == seen) now = seconds();
		seen = *came;
		if (now - seen > longest) longest = now - seen;
	}
	if (!peer) printf("%.0f\n", longest * 1e9);
	meet(&side, 2);
	return 0;
}

int main(int count, char **words)
{
	CHECK(count >= 3);
	if (strcmp(words[1], "remote") == 0) return remote(atol(words[2]), count > 3 ? words[3] : NULL);
	return strcmp(words[1], "computes") == 0 ? computes(atol(words[2]))
					       : threads(atol(words[2]), strcmp(words[1], "queue") == 0);
}
