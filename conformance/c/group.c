/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Datagrams to a multicast group. The sender and other queue pairs of its process are members. With
 * the argument "stopped" the engine stands still meanwhile (wall pace only). Every path gives the
 * same output.
 *
 *     group [stopped]
 */
#include "engine_stop.h"
#include <pthread.h>

enum { BYTES = 2048, ROUNDS = 300, MEMBERS = 4, QKEY = 0x11111111, GROUP_LID = 0xC012, REQUESTS = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static union ibv_gid group = {.raw = {0xFF, 0x12, 0x40, 0x1B, [15] = 9}}, own_gid;
static _Alignas(4096) uint8_t from[BYTES], into[MEMBERS][REQUESTS][GRH_BYTES + BYTES];
static struct ibv_mr *from_mr, *into_mr;
static struct ibv_cq *sent;
static struct member {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	int next;
} members[MEMBERS];

static void make_member(struct member *m, int is_deaf)
{
	struct ibv_qp_init_attr_ex init = {.recv_cq = m->cq = ibv_create_cq(context, 64, NULL, NULL, 0), .send_cq = sent, .qp_type = IBV_QPT_UD, .pd = pd,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
					   .create_flags = is_deaf ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0,
					   .cap = {.max_send_wr = 8, .max_recv_wr = REQUESTS, .max_send_sge = 1, .max_recv_sge = 1}};

	CHECK(m->cq && (m->qp = ibv_create_qp_ex(context, &init)) != NULL);
	IS(0, ibv_attach_mcast(m->qp, &group, GROUP_LID));
}

static void make_ready(struct member *m)
{
	struct address any = {.psn = 5};

	to_init(m->qp);
	to_ready(NULL, m->qp, &any, &any);
}

static void post_receive(struct member *m)
{
	struct ibv_sge sge = {(uintptr_t)into[m - members][m->next % REQUESTS], sizeof into[0][0], into_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = m->next, .sg_list = &sge, .num_sge = 1}, *bad;

	memset(into[m - members][m->next % REQUESTS], 0xA5, sizeof into[0][0]);
	IS(0, ibv_post_recv(m->qp, &wr, &bad));
}

static void gets(struct member *m, struct ibv_qp *sender, int bytes, int seed)
{
	const uint8_t *place = into[m - members][m->next % REQUESTS];
	const struct ibv_grh *route = (const struct ibv_grh *)place;
	struct ibv_wc wc = success(m->cq, m->next, IBV_WC_RECV);

	CHECK(wc.qp_num == m->qp->qp_num && wc.src_qp == sender->qp_num && (int)wc.byte_len == GRH_BYTES + bytes && wc.wc_flags == IBV_WC_GRH);
	CHECK(memcmp(&route->dgid, &group, sizeof group) == 0 && memcmp(&route->sgid, &own_gid, sizeof own_gid) == 0 && route->hop_limit == 7);
	same(place + GRH_BYTES, bytes, seed);
	m->next++;
}

static void quiet(struct member *m)
{
	struct ibv_wc wc;

	IS(0, ibv_poll_cq(m->cq, 1, &wc));
}

/* Returns whether a member gets the sender's datagram. The last member does not hear itself, and
 * `starved` has no receive request. */
static int is_served(int member, int sender, int starved)
{
	return member != starved && (member != sender || member != MEMBERS - 1);
}

/* Each sends in turn to all remaining members. Those from `left` on have left. */
static void rounds(struct ibv_ah *ah, int first, int count, int left, int starved, int stops)
{
	for (int round = first; round < first + count; round++) {
		int sender = round % left, bytes = round * 7 % BYTES;
		struct ibv_sge sge = {(uintptr_t)from, bytes, from_mr->lkey};
		struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {.ah = ah, .remote_qpn = 0xFFFFFF, .remote_qkey = QKEY}};

		if (round == first + 2 * MEMBERS && stops)
			engine_stands_still();
		fill(from, bytes, round);
		for (int i = 0; i < left; i++)
			if (is_served(i, sender, starved))
				post_receive(&members[i]);
		IS(0, post(members[sender].qp, wr));
		success(sent, round, IBV_WC_SEND);
		for (int i = 0; i < left; i++)
			if (is_served(i, sender, starved))
				gets(&members[i], members[sender].qp, bytes, round);
		for (int i = 0; i < MEMBERS; i++)
			quiet(&members[i]);
	}
	engine_goes_on();
}

static volatile int is_done;

/* Joins and leaves another group meanwhile. */
static void *comes_and_goes(void *unused)
{
	union ibv_gid other = group;
	struct ibv_qp_init_attr init = {.send_cq = sent, .recv_cq = sent, .qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	(void)unused;
	other.raw[15] = 77;
	CHECK(qp != NULL);
	while (!is_done) {
		IS(0, ibv_attach_mcast(qp, &other, GROUP_LID));
		usleep(100);
		IS(0, ibv_detach_mcast(qp, &other, GROUP_LID));
	}
	IS(0, ibv_destroy_qp(qp));
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_ah_attr to = {.dlid = GROUP_LID, .sl = 1, .port_num = 1, .is_global = 1, .grh = {.dgid = group, .hop_limit = 7}};
	struct ibv_ah *ah;
	int stops = argc > 1 && strcmp(argv[1], "stopped") == 0;

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	IS(0, ibv_query_gid(context, 1, 0, &own_gid));
	CHECK((from_mr = ibv_reg_mr(pd, from, sizeof from, IBV_ACCESS_LOCAL_WRITE)) && (into_mr = ibv_reg_mr(pd, into, sizeof into, IBV_ACCESS_LOCAL_WRITE)));
	CHECK((sent = ibv_create_cq(context, 64, NULL, NULL, 0)) && (ah = ibv_create_ah(pd, &to)));
	for (int i = 0; i < MEMBERS; i++)
		make_member(&members[i], i == MEMBERS - 1);
	/* A queue pair gets no datagram before it is ready, and every datagram afterwards. */
	for (int i = 0; i < MEMBERS; i++) {
		make_ready(&members[i]);
		rounds(ah, ROUNDS * (20 + i), 2 * (i + 1), i + 1, -1, 0);
	}
	rounds(ah, 0, ROUNDS, MEMBERS, -1, stops);
	for (int i = 0; i < MEMBERS; i++)
		rounds(ah, ROUNDS * (1 + i), 6, MEMBERS, i, 0);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, comes_and_goes, NULL) == 0);
	rounds(ah, ROUNDS * 30, ROUNDS, MEMBERS, -1, 0);
	is_done = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	IS(0, ibv_detach_mcast(members[MEMBERS - 1].qp, &group, GROUP_LID));
	post_receive(&members[MEMBERS - 1]);
	rounds(ah, ROUNDS * 9, ROUNDS, MEMBERS - 1, -1, stops);
	puts("every member got its copy");
	return 0;
}
