/* Ping over rdma_cm: the client sends numbers, and the server returns each of them plus one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define PORT "7471"

struct ping {
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint64_t number;
};

static int fail(const char *step)
{
	fprintf(stderr, "ping: ");
	perror(step);
	return -1;
}

/* The status of a completion is the report of a fault: a dead peer, or a link that stays down. */
static int completed(int count, const struct ibv_wc *wc, const char *step)
{
	if (count < 0)
		return fail(step);
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "ping: %s: %s\n", step, ibv_wc_status_str(wc->status));
	return -1;
}

static int receive(struct ping *ping)
{
	struct ibv_wc wc;
	int count = rdma_get_recv_comp(ping->id, &wc);

	return completed(count, &wc, "receive");
}

static int expect(struct ping *ping)
{
	if (rdma_post_recv(ping->id, NULL, &ping->number, sizeof(ping->number), ping->mr))
		return fail("rdma_post_recv");
	return 0;
}

static int transmit(struct ping *ping, uint64_t number)
{
	struct ibv_wc wc;
	int count;

	if (rdma_post_send(ping->id, NULL, &number, sizeof(number), NULL, IBV_SEND_INLINE))
		return fail("rdma_post_send");
	count = rdma_get_send_comp(ping->id, &wc);
	return completed(count, &wc, "send");
}

static int open_endpoint(struct ping *ping, const char *server)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = server ? 0 : RAI_PASSIVE };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_id **endpoint = server ? &ping->id : &ping->listener;
	struct rdma_addrinfo *address;
	int status;

	if (rdma_getaddrinfo(server, PORT, &hints, &address))
		return fail("rdma_getaddrinfo");
	status = rdma_create_ep(endpoint, address, NULL, &attr);
	rdma_freeaddrinfo(address);
	if (status)
		return fail("rdma_create_ep");
	if (!server && (rdma_listen(ping->listener, 1) || rdma_get_request(ping->listener, &ping->id)))
		return fail("rdma_listen");
	ping->mr = rdma_reg_msgs(ping->id, &ping->number, sizeof(ping->number));
	return ping->mr ? expect(ping) : fail("rdma_reg_msgs");
}

static int serve(struct ping *ping, uint64_t rounds)
{
	if (rdma_accept(ping->id, NULL))
		return fail("rdma_accept");
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t number;

		if (receive(ping))
			return -1;
		number = ping->number;
		if (expect(ping) || transmit(ping, number + 1))
			return -1;
	}
	return 0;
}

static int ask(struct ping *ping, uint64_t rounds)
{
	if (rdma_connect(ping->id, NULL))
		return fail("rdma_connect");
	for (uint64_t i = 0; i < rounds; i++) {
		if (transmit(ping, i) || receive(ping))
			return -1;
		if (ping->number != i + 1) {
			fprintf(stderr, "ping: %" PRIu64 " instead of %" PRIu64 "\n", ping->number, i + 1);
			return -1;
		}
		if (expect(ping))
			return -1;
	}
	printf("%" PRIu64 " numbers came back\n", rounds);
	return 0;
}

int main(int argc, char **argv)
{
	struct ping ping = { 0 };
	const char *server = argc > 2 ? argv[2] : NULL;
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	int status;

	if (!rounds) {
		fprintf(stderr, "usage: ping ROUNDS [SERVER]\n");
		return 2;
	}
	status = open_endpoint(&ping, server);
	if (!status)
		status = server ? ask(&ping, rounds) : serve(&ping, rounds);
	if (ping.mr)
		rdma_dereg_mr(ping.mr);
	if (ping.id)
		rdma_destroy_ep(ping.id);
	if (ping.listener)
		rdma_destroy_ep(ping.listener);
	return status ? 1 : 0;
}
