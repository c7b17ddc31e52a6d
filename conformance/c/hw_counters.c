/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Checks the counters of the hardware (/sys/class/infiniband/HCA/ports/1/hw_counters):
 * datagrams without a receive request, RNR NAKs, and requests of the peer.
 *
 *     hw_counters          the receiver
 *     hw_counters RECEIVER the sender
 */
#include "verbs_common.h"

enum { DATAGRAMS = 5, PLACES = 2 };

static unsigned long long counter(struct side *s, const char *name)
{
	char path[256], text[32] = "";
	int fd;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/hw_counters/%s", ibv_get_device_name(s->context->device), name);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
	close(fd);
	return strtoull(text, NULL, 10);
}

/* Waits for a counter: a packet of the peer may be on its way. */
static void reaches(struct side *s, const char *name, unsigned long long value)
{
	double start = seconds();

	while (counter(s, name) < value) {
		if (seconds() - start > PATIENCE_SECONDS)
			FAIL("%s is %llu, not %llu", name, counter(s, name), value);
		usleep(1000);
	}
}

static void is(struct side *s, const char *name, unsigned long long value)
{
	reaches(s, name, value);
	if (counter(s, name) != value)
		FAIL("%s is %llu, not %llu", name, counter(s, name), value);
}

static void set_up(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	CHECK(list && list[0]);
	s->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(s->context && posix_memalign((void **)&s->buffer, 4096, BUFFER_BYTES) == 0);
	s->pd = ibv_alloc_pd(s->context);
	CHECK(s->pd);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, access);
	s->send_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	CHECK(s->mr && s->send_cq && s->recv_cq);
	IS(0, ibv_query_port(s->context, 1, &s->port));
}

/* The receiver has requests for only some of the datagrams. */
static void overflow(struct side *s)
{
	struct ibv_qp *qp = make_qp(s, IBV_QPT_UD);
	struct address peer;

	to_init(qp);
	for (int i = 0; !s->is_client && i < PLACES; i++)
		IS(0, receive(qp, i, piece(s, IN, GRH_BYTES + 8)));
	peer = connect_qp(s, qp);
	meet(s, 1);
	for (int i = 0; s->is_client && i < DATAGRAMS; i++) {
		struct ibv_ah_attr to = {.dlid = peer.lid, .port_num = 1};
		struct ibv_sge sge = piece(s, OUT, 8);
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};

		wr.wr.ud.ah = ibv_create_ah(s->pd, &to);
		CHECK(wr.wr.ud.ah);
		wr.wr.ud.remote_qpn = peer.qpn;
		wr.wr.ud.remote_qkey = 0x11111111;
		IS(0, post(qp, wr));
		success(s->send_cq, i, IBV_WC_SEND);
	}
	meet(s, 2);
	is(s, "out_of_buffer", s->is_client ? 0 : DATAGRAMS - PLACES);
	for (int i = 0; !s->is_client && i < PLACES; i++)
		success(s->recv_cq, i, IBV_WC_RECV);
	meet(s, 3);
	IS(0, ibv_destroy_qp(qp));
}

/* A send waits for its receive request, and requests reach the memory of the receiver. */
static void connected(struct side *s)
{
	struct ibv_qp *qp = make_qp(s, IBV_QPT_RC);
	struct address peer;

	to_init(qp);
	peer = connect_qp(s, qp);
	meet(s, 4);
	struct ibv_sge sge = piece(s, OUT, 8);
	struct ibv_send_wr wr = {.wr_id = 10, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	if (s->is_client) {
		IS(0, post(qp, wr));
		reaches(s, "rnr_nak_retry_err", 1);
	} else {
		reaches(s, "out_of_buffer", DATAGRAMS - PLACES + 1);
	}
	meet(s, 5);
	if (!s->is_client) {
		IS(0, receive(qp, 10, piece(s, IN, 8)));
		success(s->recv_cq, 10, IBV_WC_RECV);
	} else {
		success(s->send_cq, 10, IBV_WC_SEND);
		wr.wr.rdma.remote_addr = peer.buffer + WORD;
		wr.wr.rdma.rkey = peer.rkey;
		wr.opcode = IBV_WR_RDMA_WRITE;
		for (int i = 0; i < 3; i++) {
			IS(0, post(qp, wr));
			success(s->send_cq, 10, IBV_WC_RDMA_WRITE);
		}
		wr.opcode = IBV_WR_RDMA_READ;
		for (int i = 0; i < 2; i++) {
			IS(0, post(qp, wr));
			success(s->send_cq, 10, IBV_WC_RDMA_READ);
		}
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = peer.buffer + WORD;
		wr.wr.atomic.rkey = peer.rkey;
		IS(0, post(qp, wr));
		success(s->send_cq, 10, IBV_WC_FETCH_ADD);
	}
	meet(s, 6);
	is(s, "rx_write_requests", s->is_client ? 0 : 3);
	is(s, "rx_read_requests", s->is_client ? 0 : 2);
	is(s, "rx_atomic_requests", s->is_client ? 0 : 1);
	if (!s->is_client) is(s, "rnr_nak_retry_err", 0);
	/* The key of the peer is wrong: its queue pair ends with an error, and this one too. */
	is(s, "req_cqe_error", 0);
	meet(s, 7);
	if (s->is_client) {
		wr.wr.atomic.rkey = peer.rkey ^ 0x5555;
		IS(0, post(qp, wr));
		ends(s->send_cq, 10, IBV_WC_REM_ACCESS_ERR);
		is(s, "req_cqe_error", 1);
		is(s, "req_remote_access_errors", 1);
	} else {
		is(s, "resp_remote_access_errors", 1);
	}
	is(s, "resp_cqe_error", 0);
	is(s, "lifespan", 10);
	meet(s, 8);
	IS(0, ibv_destroy_qp(qp));
}

int main(int argc, char **argv)
{
	struct side s = {.is_client = argc > 1};

	set_up(&s);
	s.control = control_connect(argc > 1 ? argv[1] : NULL);
	overflow(&s);
	connected(&s);
	puts("all counters hold");
	return 0;
}
