/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A queue pair alone at its completion queue gets company there in the midst of a stream, again and again, and is alone again: two
 * processes send, one receives by one completion queue. Every message comes once, in the order of its sender. On one host.
 *
 *     company ROUNDS
 */
#include "verbs_common.h"
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

/* Sends so many, numbered, as fast as it can. */
static void stream(struct side *s, struct ibv_qp *qp, uint32_t *next, int count)
{
	for (int under_way = 0, left = count; left || under_way;) {
		while (left && under_way < REQUESTS) {
			*(uint32_t *)(s->buffer + OUT) = *next;
			IS(0, post(qp, (struct ibv_send_wr){.sg_list = &(struct ibv_sge){(uintptr_t)s->buffer + OUT, 4, s->mr->lkey}, .num_sge = 1,
							    .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl((*next)++), .send_flags = IBV_SEND_SIGNALED}));
			left--, under_way++;
		}
		struct ibv_wc wc = completion(s->send_cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND);
		under_way--;
	}
}

/* A sender, in a process of its own: the steady one has one queue pair for all rounds, the guest one for each. */
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

static void joins(struct end *end)
{
	end->qp = new_pair(&end->side);
	for (int i = 0; i < REQUESTS; i++) IS(0, receive(end->qp, 0, piece(&end->side, IN, 4)));
	connect_qp(&end->side, end->qp);
	meet(&end->side, 1);
}

/* Takes what comes until each sender has sent so many. */
static void takes(struct end ends[SENDERS], uint32_t steady, uint32_t guest)
{
	while (ends[STEADY].next < steady || ends[GUEST].next < guest) {
		struct ibv_wc wc = completion(ends[STEADY].side.recv_cq);
		struct end *end = wc.qp_num == ends[STEADY].qp->qp_num ? &ends[STEADY] : &ends[GUEST];

		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
		CHECK(end->qp && wc.qp_num == end->qp->qp_num);
		if (ntohl(wc.imm_data) != end->next) FAIL("message %u of sender %d comes instead of %u", ntohl(wc.imm_data), end == &ends[GUEST], end->next);
		end->next++;
		IS(0, receive(end->qp, 0, piece(&end->side, IN, 4)));
	}
}

static void receives(int controls[SENDERS], int rounds)
{
	struct end ends[SENDERS] = {0};

	open_side(&ends[STEADY].side, controls[STEADY]);
	ends[GUEST].side = ends[STEADY].side;
	ends[GUEST].side.control = controls[GUEST];
	joins(&ends[STEADY]);
	for (uint32_t round = 0; round < (uint32_t)rounds; round++) {
		struct ibv_qp_attr same = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
		uint32_t before = 3 * A_ROUND * round;

		takes(ends, before + A_ROUND, 0);
		joins(&ends[GUEST]);
		takes(ends, before + A_ROUND, A_ROUND * (round + 1));
		meet(&ends[GUEST].side, 2);
		IS(0, ibv_destroy_qp(ends[GUEST].qp));
		ends[GUEST].qp = NULL;
		IS(0, ibv_modify_qp(ends[STEADY].qp, &same, IBV_QP_ACCESS_FLAGS)); /* its entry is written anew: alone again */
		takes(ends, before + 3 * A_ROUND, 0);
		meet(&ends[STEADY].side, 2);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, ends[SENDERS][2], controls[SENDERS], status;

	for (int which = 0; which < SENDERS; which++) {
		IS(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends[which]));
		controls[which] = ends[which][0];
		if (fork() == 0) return sends(which, ends[which][1], rounds);
	}
	receives(controls, rounds);
	for (int which = 0; which < SENDERS; which++) CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("company: as it should be\n");
	return 0;
}
