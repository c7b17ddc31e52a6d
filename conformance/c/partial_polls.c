/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * partial_polls TYPE ORDER QUEUES POLL COUNT BYTES [PEER]: both sides send, and sleep until an event.
 * After each event a side takes at most COUNT of the 2 * COUNT completions that its queue may hold, and
 * replaces their requests. The rest must raise events as it comes. ORDER tells whether a side arms the
 * queue before or after it polls, QUEUES whether sends and receives have one queue or two, and POLL
 * which interface polls. */
#include "verbs_common.h"

enum { ROUNDS = 20, SILENCE_MS = 5000, COUNT_MAX = 1024, SEND = 1, RECEIVE = 2 };

static struct side side;
static struct ibv_qp *qp;
static int count, bytes, arms_first, is_extended;

static int is(const char *word, const char *name)
{
	return strcmp(word, name) == 0;
}

static struct ibv_cq *make_queue(int entries)
{
	struct ibv_cq_init_attr_ex wanted = {.cqe = entries, .channel = side.channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq *cq = is_extended ? ibv_cq_ex_to_cq(ibv_create_cq_ex(side.context, &wanted))
					: ibv_create_cq(side.context, entries, NULL, side.channel, 0);

	CHECK(cq != NULL);
	IS(0, ibv_req_notify_cq(cq, 0));
	return cq;
}

static void send_one(void)
{
	struct ibv_sge from = piece(&side, OUT, bytes);

	IS(0, post(qp, (struct ibv_send_wr){.wr_id = SEND, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}));
}

/* Takes at most COUNT completions. Adds them to the numbers by their kind. */
static void take(struct ibv_cq *cq, int *taken)
{
	static struct ibv_wc found[COUNT_MAX];
	struct ibv_poll_cq_attr none = {0};
	int n = 0;

	if (is_extended) {
		struct ibv_cq_ex *extended = (struct ibv_cq_ex *)cq;
		int more = ibv_start_poll(extended, &none), has_begun = more == 0;

		for (; more == 0; more = n < count ? ibv_next_poll(extended) : ENOENT)
			found[n++] = (struct ibv_wc){.wr_id = extended->wr_id, .status = extended->status};
		CHECK(more == ENOENT);
		if (has_begun) ibv_end_poll(extended);
	} else {
		n = ibv_poll_cq(cq, count, found);
	}
	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		CHECK(found[i].status == IBV_WC_SUCCESS);
		taken[found[i].wr_id]++;
	}
}

static void handle_event(int *all)
{
	struct pollfd look = {.fd = side.channel->fd, .events = POLLIN};
	int taken[3] = {0};
	struct ibv_cq *cq;
	void *context;

	if (poll(&look, 1, SILENCE_MS) != 1)
		FAIL("no event after %d sends and %d receives", all[SEND], all[RECEIVE]);
	IS(0, ibv_get_cq_event(side.channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	if (arms_first) IS(0, ibv_req_notify_cq(cq, 0));
	take(cq, taken);
	if (!arms_first) IS(0, ibv_req_notify_cq(cq, 0));
	for (int i = 0; i < taken[RECEIVE]; i++)
		IS(0, receive(qp, RECEIVE, piece(&side, IN, bytes)));
	for (int i = 0; i < taken[SEND]; i++)
		send_one();
	all[SEND] += taken[SEND];
	all[RECEIVE] += taken[RECEIVE];
}

int main(int argc, char **argv)
{
	int all[3] = {0};
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK((argc == 7 || argc == 8) && devices && devices[0]);
	arms_first = is(argv[2], "arm");
	is_extended = is(argv[4], "extended");
	count = atoi(argv[5]);
	bytes = atoi(argv[6]);
	CHECK(count <= COUNT_MAX && bytes <= IN);
	side.control = control_connect(argc == 8 ? argv[7] : NULL);
	side.context = ibv_open_device(devices[0]);
	side.pd = ibv_alloc_pd(side.context);
	side.buffer = malloc(BUFFER_BYTES);
	memset(side.buffer, 1, BUFFER_BYTES);
	side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(side.mr);
	IS(0, ibv_query_port(side.context, 1, &side.port));
	IS(0, ibv_query_gid(side.context, 1, 0, &side.gid));
	side.channel = ibv_create_comp_channel(side.context);
	CHECK(side.channel);
	side.send_cq = side.recv_cq = make_queue(2 * count);
	if (is(argv[3], "two")) side.recv_cq = make_queue(2 * count);

	struct ibv_qp_init_attr init = {.send_cq = side.send_cq, .recv_cq = side.recv_cq, .qp_type = is(argv[1], "uc") ? IBV_QPT_UC : IBV_QPT_RC,
					.cap = {.max_send_wr = count, .max_recv_wr = count, .max_send_sge = 1, .max_recv_sge = 1}};

	qp = ibv_create_qp(side.pd, &init);
	CHECK(qp);
	to_init(qp);
	connect_qp(&side, qp);
	for (int i = 0; i < count; i++)
		IS(0, receive(qp, RECEIVE, piece(&side, IN, bytes)));
	meet(&side, 1);
	for (int i = 0; i < count; i++)
		send_one();
	while (all[SEND] < ROUNDS * count)
		handle_event(all);
	/* The peer may need the requests of this side. */
	while (all[RECEIVE] < ROUNDS * count && init.qp_type == IBV_QPT_RC)
		handle_event(all);
	printf("ok\n");
	meet(&side, 2);
	return 0;
}
