/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A queue pair alone at its completion queue shares the queue with another in the midst of a
 * stream, then is alone again, many times. Two processes send. One process receives by one
 * completion queue. Every message comes once, whole and in the order of its sender. The test runs
 * on one host.
 *
 *     company ROUNDS
 */
#include "verbs_common.h"
#include <pthread.h>
#include <sys/wait.h>

enum { SENDERS = 2, REQUESTS = 64, A_ROUND = 400, STEADY = 0, GUEST = 1 };

struct end {
	struct side side;
	struct ibv_qp *qp;
	uint32_t next;
};

static void open_side(struct side *s, int control)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	s->control = control;
	CHECK(devices && devices[0] && (s->context = ibv_open_device(devices[0])) && (s->pd = ibv_alloc_pd(s->context)));
	IS(0, ibv_query_port(s->context, 1, &s->port));
	CHECK((s->buffer = aligned_alloc(4096, BUFFER_BYTES)));
	CHECK((s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE)));
	CHECK((s->send_cq = s->recv_cq = ibv_create_cq(s->context, 4 * REQUESTS, NULL, NULL, 0)));
}

static struct ibv_qp *new_pair(struct side *s)
{
	struct ibv_qp_init_attr init = {.send_cq = s->send_cq, .recv_cq = s->recv_cq, .qp_type = IBV_QPT_RC, .cap = {REQUESTS, REQUESTS, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp);
	to_init(qp);
	return qp;
}

/* Sends `count` numbered messages as fast as possible. */
static void stream(struct side *s, struct ibv_qp *qp, uint32_t *next, int count)
{
	for (int under_way = 0, left = count; left || under_way;) {
		while (left && under_way < REQUESTS) {
			size_t at = OUT + 64 * (*next % REQUESTS); /* free again: at most REQUESTS messages are in flight */

			*(uint32_t *)(s->buffer + at) = *next;
			IS(0, post(qp, (struct ibv_send_wr){.sg_list = &(struct ibv_sge){(uintptr_t)s->buffer + at, 4, s->mr->lkey}, .num_sge = 1,
							    .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl((*next)++), .send_flags = IBV_SEND_SIGNALED}));
			left--, under_way++;
		}
		struct ibv_wc wc = completion(s->send_cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND);
		under_way--;
	}
}

/* Runs a sender in its own process. The steady one has one
 * queue pair for all rounds, the guest one for each round. */
static int sends(int which, int control, int rounds)
{
	struct side s = {0};
	struct ibv_qp *qp = NULL;
	uint32_t next = 0;

	open_side(&s, control);
	for (int round = 0; round < rounds; round++) {
		if (!qp) {
			qp = new_pair(&s);
			connect_qp(&s, qp);
			meet(&s, 1);
		}
		stream(&s, qp, &next, which == STEADY ? 3 * A_ROUND : A_ROUND);
		meet(&s, 2);
		if (which == GUEST) {
			IS(0, ibv_destroy_qp(qp));
			qp = NULL;
		}
	}
	return 0;
}

static struct end sides[SENDERS];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* Posts a request into the place of its number. */
static int requests(struct end *end, uint64_t id)
{
	return receive(end->qp, id, piece(&end->side, IN + 64 * ((end - sides) * REQUESTS + id), 4));
}

static void joins(struct end *end)
{
	struct ibv_qp *qp = new_pair(&end->side);

	pthread_mutex_lock(&changing);
	end->qp = qp;
	pthread_mutex_unlock(&changing);
	for (int i = 0; i < REQUESTS; i++) IS(0, requests(end, i));
	connect_qp(&end->side, qp);
	meet(&end->side, 1);
}

static uint32_t taken(int which)
{
	return __atomic_load_n(&sides[which].next, __ATOMIC_SEQ_CST);
}

/* Takes the messages of `count` rounds while the other thread makes and destroys queue pairs. */
static void *takes(void *count)
{
	uint32_t rounds = (uintptr_t)count;

	while (taken(STEADY) < 3 * A_ROUND * rounds || taken(GUEST) < A_ROUND * rounds) {
		struct ibv_wc wc = completion(sides[STEADY].side.recv_cq);

		pthread_mutex_lock(&changing);
		struct end *end = wc.qp_num == sides[STEADY].qp->qp_num ? &sides[STEADY] : &sides[GUEST];
		uint32_t number = end->next;

		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 4);
		CHECK(end->qp && wc.qp_num == end->qp->qp_num);
		if (ntohl(wc.imm_data) != number) FAIL("message %u of sender %d comes instead of %u", ntohl(wc.imm_data), end == &sides[GUEST], number);
		CHECK(*(uint32_t *)(uintptr_t)(end->side.buffer + IN + 64 * ((end - sides) * REQUESTS + wc.wr_id)) == number);
		IS(0, requests(end, wc.wr_id));
		__atomic_store_n(&end->next, number + 1, __ATOMIC_SEQ_CST);
		pthread_mutex_unlock(&changing);
	}
	return NULL;
}

static void until(int which, uint32_t count)
{
	double start = seconds();

	while (taken(which) < count) {
		if (seconds() - start > PATIENCE_SECONDS) FAIL("sender %d: %u of %u messages", which, taken(which), count);
		usleep(20);
	}
}

static void receives(int controls[SENDERS], int rounds)
{
	pthread_t taker;

	open_side(&sides[STEADY].side, controls[STEADY]);
	sides[GUEST].side = sides[STEADY].side;
	sides[GUEST].side.control = controls[GUEST];
	joins(&sides[STEADY]);
	IS(0, pthread_create(&taker, NULL, takes, (void *)(uintptr_t)rounds));
	for (uint32_t round = 0; round < (uint32_t)rounds; round++) {
		until(STEADY, 3 * A_ROUND * round + A_ROUND);
		joins(&sides[GUEST]);
		until(GUEST, A_ROUND * (round + 1));
		meet(&sides[GUEST].side, 2);
		struct ibv_qp *gone = sides[GUEST].qp;
		IS(0, ibv_destroy_qp(gone));
		until(STEADY, 3 * A_ROUND * (round + 1));
		meet(&sides[STEADY].side, 2);
	}
	IS(0, pthread_join(taker, NULL));
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(sides[STEADY].side.recv_cq, 1, &wc) == 0); /* no further completion */
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, pairs[SENDERS][2], controls[SENDERS], status;

	for (int which = 0; which < SENDERS; which++) IS(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[which]));
	for (int which = 0; which < SENDERS; which++) {
		pid_t child = fork();

		CHECK(child >= 0);
		controls[which] = pairs[which][0];
		if (child > 0) continue;
		for (int i = 0; i < SENDERS; i++) {
			close(pairs[i][0]);
			if (i != which) close(pairs[i][1]);
		}
		return sends(which, pairs[which][1], rounds);
	}
	for (int which = 0; which < SENDERS; which++) close(pairs[which][1]); /* a process that fails ends the connection */
	receives(controls, rounds);
	for (int which = 0; which < SENDERS; which++) CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("company: as it should be\n");
	return 0;
}
