/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls each working function of the drop-in libibverbs once, between two hosts:
 *
 *     softband run FABRIC --on a './verbs_all' --on b './verbs_all a'
 *
 * Each part prints one line if it passes. The first failure ends the program with status 1.
 * Build: cc -O2 -Wall -Wextra -o verbs_all verbs_all.c verbs_more.c -libverbs */
#include "verbs_common.h"

static void devices(struct side *s)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	struct ibv_values_ex before = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, after = before;
	struct ibv_gid_entry entry, table[8];
	union ibv_gid gid;
	__be16 pkey;
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count >= 1 && list[count] == NULL);
	CHECK(strlen(ibv_get_device_name(list[0])) > 0 && ibv_get_device_guid(list[0]) != 0);
	CHECK(strcmp(ibv_node_type_str(list[0]->node_type), "InfiniBand channel adapter") == 0);
	s->context = ibv_open_device(list[0]);
	CHECK(s->context && s->context->device == list[0] && s->context->async_fd >= 0);
	ibv_free_device_list(list);

	IS(0, ibv_query_device(s->context, &attr));
	CHECK(attr.phys_port_cnt >= 1 && attr.max_qp > 0 && attr.node_guid == ibv_get_device_guid(s->context->device));
	IS(0, ibv_query_device_ex(s->context, NULL, &ex));
	CHECK(ex.orig_attr.node_guid == attr.node_guid && ex.orig_attr.max_qp == attr.max_qp && ex.hca_core_clock > 0);
	IS(0, ibv_query_rt_values_ex(s->context, &before));
	usleep(10);
	IS(0, ibv_query_rt_values_ex(s->context, &after));
	CHECK((after.raw_clock.tv_sec - before.raw_clock.tv_sec) * 1000000000 + after.raw_clock.tv_nsec - before.raw_clock.tv_nsec >= 10000);

	IS(0, ibv_query_port(s->context, 1, &s->port));
	CHECK(s->port.state == IBV_PORT_ACTIVE && s->port.lid != 0 && s->port.link_layer == IBV_LINK_LAYER_INFINIBAND);
	CHECK(s->port.active_mtu >= IBV_MTU_1024 && strcmp(ibv_port_state_str(s->port.state), "active") == 0);
	CHECK(ibv_query_port(s->context, 77, &s->port) != 0);
	IS(0, ibv_query_port(s->context, 1, &s->port));
	IS(0, ibv_query_gid(s->context, 1, 0, &s->gid));
	CHECK(ibv_query_gid(s->context, 1, 1000, &gid) == -1);
	IS(0, ibv_query_gid_ex(s->context, 1, 0, &entry, 0));
	CHECK(memcmp(&entry.gid, &s->gid, 16) == 0 && entry.gid_type == IBV_GID_TYPE_IB && entry.port_num == 1);
	CHECK(ibv_query_gid_table(s->context, table, 8, 0) == attr.phys_port_cnt);
	IS(0, ibv_query_pkey(s->context, 1, 0, &pkey));
	CHECK(pkey == htons(0xFFFF) && ibv_get_pkey_index(s->context, 1, pkey) == 0);
	printf("ok devices, ports, GIDs, P_Keys\n");
}

static void memory(struct side *s)
{
	struct ibv_mr *zero;

	s->pd = ibv_alloc_pd(s->context);
	CHECK(s->pd && s->pd->context == s->context);
	CHECK(posix_memalign((void **)&s->buffer, 4096, BUFFER_BYTES) == 0);
	memset(s->buffer, 0, BUFFER_BYTES);
	NONE(EINVAL, ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_REMOTE_WRITE));
	NONE(EINVAL, ibv_reg_mr(s->pd, s->buffer, 0, IBV_ACCESS_LOCAL_WRITE));
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				   IBV_ACCESS_RELAXED_ORDERING);
	CHECK(s->mr && s->mr->addr == s->buffer && s->mr->length == BUFFER_BYTES && s->mr->lkey != 0);
	zero = ibv_reg_mr_iova(s->pd, s->buffer, 4096, 0x10000, IBV_ACCESS_LOCAL_WRITE);
	CHECK(zero != NULL);
	IS(0, ibv_dereg_mr(zero));
	IS(EBUSY, ibv_dealloc_pd(s->pd));
	printf("ok protection domains and memory regions\n");
}

static void queues(struct side *s)
{
	s->channel = ibv_create_comp_channel(s->context);
	CHECK(s->channel && s->channel->fd >= 0);
	NONE(EINVAL, ibv_create_cq(s->context, 0, NULL, NULL, 0));
	NONE(EINVAL, ibv_create_cq(s->context, 16, NULL, NULL, 99));
	s->send_cq = ibv_create_cq(s->context, 4 * DEPTH, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, 4 * DEPTH, s, s->channel, 0);
	CHECK(s->send_cq && s->recv_cq && s->recv_cq->cqe >= 4 * DEPTH && s->recv_cq->cq_context == s);
	IS(EBUSY, ibv_destroy_comp_channel(s->channel));
	printf("ok completion queues and channels\n");
}

static void refusals(struct side *s)
{
	struct ibv_qp_init_attr raw = {.send_cq = s->send_cq, .recv_cq = s->recv_cq, .qp_type = IBV_QPT_RAW_PACKET};
	struct ibv_alloc_dm_attr dm = {.length = 64};

	NONE(EOPNOTSUPP, ibv_alloc_mw(s->pd, IBV_MW_TYPE_1));
	NONE(EOPNOTSUPP, ibv_alloc_dm(s->context, &dm));
	NONE(EOPNOTSUPP, ibv_create_qp(s->pd, &raw));
	NONE(EOPNOTSUPP, ibv_alloc_null_mr(s->pd));
	IS(EINVAL, ibv_resize_cq(s->send_cq, 0));
	IS(0, ibv_fork_init());
	printf("ok what is not offered says so\n");
}

/* Checks that post_send and post_recv refuse work before the queue pair is connected. */
static void refused_posts(struct side *s, struct ibv_qp *qp)
{
	struct ibv_sge three[3] = {piece(s, 0, 1), piece(s, 0, 1), piece(s, 0, 1)}, one = piece(s, IN, 64);
	struct ibv_send_wr wr = {.sg_list = three, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	IS(EINVAL, receive(qp, 1, one));
	IS(EINVAL, post(qp, wr));
	to_init(qp);
	IS(EINVAL, post(qp, wr));
}

static void rc_messages(struct side *s, struct ibv_qp *qp)
{
	struct ibv_sge two[2] = {piece(s, OUT, 1000), piece(s, OUT + 1000, 3000)};
	struct ibv_send_wr wr = {.wr_id = 10, .sg_list = two, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	uint8_t small[32];
	struct ibv_wc wc;

	fill(s->buffer + OUT, 4000, 3);
	for (int i = 0; i < 3 && !s->is_client; i++)
		IS(0, receive(qp, 20 + i, piece(s, IN + 8192 * i, 8192)));
	meet(s, 1);
	if (s->is_client) {
		IS(0, post(qp, wr));
		success(s->send_cq, 10, IBV_WC_SEND);
		wr.wr_id = 11;
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htonl(0x01020304);
		IS(0, post(qp, wr));
		success(s->send_cq, 11, IBV_WC_SEND);
		/* Inline: the program may reuse the buffer at once. */
		fill(small, sizeof small, 9);
		two[0] = (struct ibv_sge){.addr = (uintptr_t)small, .length = sizeof small};
		wr.wr_id = 12;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_SEND;
		wr.send_flags |= IBV_SEND_INLINE;
		IS(0, post(qp, wr));
		memset(small, 0xEE, sizeof small);
		success(s->send_cq, 12, IBV_WC_SEND);
		two[0] = piece(s, OUT, 1 << 16);
		IS(EINVAL, post(qp, wr));
		wr.num_sge = 3;
		IS(EINVAL, post(qp, wr));
	} else {
		wc = success(s->recv_cq, 20, IBV_WC_RECV);
		CHECK(wc.byte_len == 4000 && !(wc.wc_flags & IBV_WC_WITH_IMM) && wc.qp_num == qp->qp_num);
		same(s->buffer + IN, 4000, 3);
		wc = success(s->recv_cq, 21, IBV_WC_RECV);
		CHECK((wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == htonl(0x01020304));
		wc = success(s->recv_cq, 22, IBV_WC_RECV);
		CHECK(wc.byte_len == 32);
		same(s->buffer + IN + 16384, 32, 9);
	}
	printf("ok RC: send, immediate, inline, scatter-gather\n");
}

static void rdma(struct side *s, struct ibv_qp *qp, const struct address *peer, int point)
{
	struct ibv_sge sge = piece(s, OUT, 100000);
	struct ibv_send_wr wr = {.wr_id = 30, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {peer->buffer + IN, peer->rkey}};
	struct ibv_wc wc;

	memset(s->buffer + IN, 0, 128 << 10);
	fill(s->buffer + OUT, 100000, 40 + s->is_client);
	if (!s->is_client)
		IS(0, receive(qp, 41, piece(s, IN, 0)));
	meet(s, point);
	if (s->is_client) {
		IS(0, post(qp, wr));
		success(s->send_cq, 30, IBV_WC_RDMA_WRITE);
		wr.wr_id = 31;
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = htonl(77);
		IS(0, post(qp, wr));
		success(s->send_cq, 31, IBV_WC_RDMA_WRITE);
	} else {
		wc = success(s->recv_cq, 41, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK(wc.imm_data == htonl(77) && wc.byte_len == 100000);
		same(s->buffer + IN, 100000, 41);
	}
	if (qp->qp_type == IBV_QPT_RC && s->is_client) {
		sge = piece(s, IN, 100000);
		wr.wr_id = 32;
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = peer->buffer + OUT;
		IS(0, post(qp, wr));
		success(s->send_cq, 32, IBV_WC_RDMA_READ);
		same(s->buffer + IN, 100000, 40);
	}
	meet(s, point + 1);
	printf("ok %s: RDMA write, immediate%s\n", qp->qp_type == IBV_QPT_RC ? "RC" : "UC", qp->qp_type == IBV_QPT_RC ? ", read" : "");
}

static void rc_atomics(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	uint64_t *word = (uint64_t *)(s->buffer + WORD), *old = (uint64_t *)(s->buffer + OUT);
	struct ibv_sge sge = piece(s, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = 50, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {.remote_addr = peer->buffer + WORD, .compare_add = 5, .rkey = peer->rkey}};

	*word = 100;
	meet(s, 5);
	if (s->is_client) {
		IS(0, post(qp, wr));
		success(s->send_cq, 50, IBV_WC_FETCH_ADD);
		CHECK(*old == 100);
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.compare_add = 105;
		wr.wr.atomic.swap = 7;
		IS(0, post(qp, wr));
		success(s->send_cq, 50, IBV_WC_COMP_SWAP);
		CHECK(*old == 105);
		wr.wr.atomic.swap = 9; /* no longer equal: only returns the word */
		IS(0, post(qp, wr));
		success(s->send_cq, 50, IBV_WC_COMP_SWAP);
		CHECK(*old == 7);
	}
	meet(s, 6);
	CHECK(*word == (s->is_client ? 100 : 7));
	printf("ok RC: fetch-and-add, compare-and-swap\n");
}

/* Tests a full send queue, and unsignalled work that a later completion retires. */
static void rc_full_queue(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	struct ibv_sge sge = piece(s, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = 60, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {peer->buffer + IN, peer->rkey}};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t posted = 0;
	int error;

	IS(0, ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && init.qp_type == IBV_QPT_RC && init.send_cq == s->send_cq);
	meet(s, 7);
	if (s->is_client) {
		for (int round = 0; round < 3; round++) {
			for (posted = 0, wr.send_flags = 0; posted < init.cap.max_send_wr; posted++) {
				if (posted == init.cap.max_send_wr - 1)
					wr.send_flags = IBV_SEND_SIGNALED;
				IS(0, post(qp, wr));
			}
			error = post(qp, wr);
			if (error != ENOMEM)
				FAIL("a full queue answers %d", error);
			success(s->send_cq, 60, IBV_WC_RDMA_WRITE);
		}
	}
	meet(s, 8);
	printf("ok RC: a full queue, unsignalled work\n");
}

static void event(struct side *s, int expected)
{
	struct ibv_cq *cq = NULL;
	void *cookie = NULL;

	errno = 0;
	if (ibv_get_cq_event(s->channel, &cq, &cookie) != expected)
		FAIL("ibv_get_cq_event does not answer %d", expected);
	if (expected == 0) {
		CHECK(cq == s->recv_cq && cookie == s);
		ibv_ack_cq_events(cq, 1);
	} else {
		CHECK(errno == EAGAIN);
	}
}

static void events(struct side *s, struct ibv_qp *qp)
{
	struct ibv_sge sge = piece(s, OUT, 64);
	struct ibv_send_wr wr = {.wr_id = 70, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct pollfd waiting = {.fd = s->channel->fd, .events = POLLIN};
	struct ibv_wc wc;
	int flags = fcntl(s->channel->fd, F_GETFL);

	if (!s->is_client) {
		for (int i = 0; i < 3; i++)
			IS(0, receive(qp, 80 + i, piece(s, IN, 64)));
		IS(0, ibv_req_notify_cq(s->recv_cq, 0));
		CHECK(ibv_poll_cq(s->recv_cq, 1, &wc) == 0);
	}
	meet(s, 9);
	if (s->is_client) {
		usleep(1000);
		IS(0, post(qp, wr));
		success(s->send_cq, 70, IBV_WC_SEND);
	} else {
		event(s, 0); /* sleeps until the message comes */
		success(s->recv_cq, 80, IBV_WC_RECV);
		CHECK(fcntl(s->channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
		event(s, -1);
		CHECK(poll(&waiting, 1, 0) == 0);
		IS(0, ibv_req_notify_cq(s->recv_cq, 1));
	}
	meet(s, 10);
	if (s->is_client) { /* not solicited, then solicited: only the second wakes */
		IS(0, post(qp, wr));
		success(s->send_cq, 70, IBV_WC_SEND);
		meet(s, 11);
		wr.send_flags |= IBV_SEND_SOLICITED;
		IS(0, post(qp, wr));
		success(s->send_cq, 70, IBV_WC_SEND);
	} else {
		success(s->recv_cq, 81, IBV_WC_RECV);
		meet(s, 11);
		CHECK(poll(&waiting, 1, PATIENCE_SECONDS * 1000) == 1 && (waiting.revents & POLLIN));
		event(s, 0);
		success(s->recv_cq, 82, IBV_WC_RECV);
		CHECK(fcntl(s->channel->fd, F_SETFL, flags) == 0);
	}
	meet(s, 12);
	printf("ok completion events: blocking, non-blocking, solicited\n");
}

/* Posts the receive only after the message has come. The sender retries until then. */
static void receiver_not_ready(struct side *s, struct ibv_qp *qp)
{
	struct ibv_sge sge = piece(s, OUT, 512);
	struct ibv_send_wr wr = {.wr_id = 90, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	fill(s->buffer + OUT, 512, 5);
	meet(s, 13);
	if (s->is_client) {
		IS(0, post(qp, wr));
		success(s->send_cq, 90, IBV_WC_SEND);
	} else {
		usleep(3000);
		IS(0, receive(qp, 91, piece(s, IN, 512)));
		success(s->recv_cq, 91, IBV_WC_RECV);
		same(s->buffer + IN, 512, 5);
	}
	meet(s, 14);
	printf("ok RC: receiver not ready, repeated\n");
}

static void connected(struct side *s)
{
	struct ibv_qp *rc = make_qp(s, IBV_QPT_RC), *uc = make_qp(s, IBV_QPT_UC);
	struct address peer;

	refused_posts(s, rc);
	peer = connect_qp(s, rc);
	CHECK(ibv_qp_to_qp_ex(rc) == NULL);
	IS(EBUSY, ibv_destroy_cq(s->send_cq));
	rc_messages(s, rc);
	rdma(s, rc, &peer, 2);
	rc_atomics(s, rc, &peer);
	rc_full_queue(s, rc, &peer);
	events(s, rc);
	receiver_not_ready(s, rc);

	to_init(uc);
	peer = connect_qp(s, uc);
	rdma(s, uc, &peer, 15);
	errors(s, rc);
	IS(0, ibv_destroy_qp(uc));
	IS(0, ibv_destroy_qp(rc));
}

static void clean_up(struct side *s)
{
	meet(s, 99);
	IS(0, ibv_destroy_cq(s->send_cq));
	IS(0, ibv_destroy_cq(s->recv_cq));
	IS(0, ibv_destroy_comp_channel(s->channel));
	IS(0, ibv_dereg_mr(s->mr));
	IS(0, ibv_dealloc_pd(s->pd));
	IS(0, ibv_close_device(s->context));
	free(s->buffer);
	close(s->control);
	printf("ok everything can be given back\n");
}

int main(int argc, char **argv)
{
	struct side s = {.is_client = argc > 1};

	setvbuf(stdout, NULL, _IOLBF, 0);
	devices(&s);
	memory(&s);
	queues(&s);
	refusals(&s);
	s.control = control_connect(argc > 1 ? argv[1] : NULL);
	connected(&s);
	datagrams(&s);
	extended(&s);
	clean_up(&s);
	printf("all parts hold\n");
	return 0;
}
