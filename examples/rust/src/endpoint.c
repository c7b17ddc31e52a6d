/* An endpoint of rdma_cm in a few functions, for callers in other languages. */
#include <stdint.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

struct endpoint {
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint64_t word;
};

void endpoint_close(struct endpoint *end)
{
	if (end->mr)
		rdma_dereg_mr(end->mr);
	if (end->id)
		rdma_destroy_ep(end->id);
	if (end->listener)
		rdma_destroy_ep(end->listener);
	free(end);
}

static int expect(struct endpoint *end)
{
	return rdma_post_recv(end->id, NULL, &end->word, sizeof(end->word), end->mr);
}

static int open_end(struct endpoint *end, const char *server, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = server ? 0 : RAI_PASSIVE };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *address;
	int status;

	if (rdma_getaddrinfo(server, port, &hints, &address))
		return -1;
	status = rdma_create_ep(server ? &end->id : &end->listener, address, NULL, &attr);
	rdma_freeaddrinfo(address);
	if (status)
		return -1;
	if (!server && (rdma_listen(end->listener, 1) || rdma_get_request(end->listener, &end->id)))
		return -1;
	end->mr = rdma_reg_msgs(end->id, &end->word, sizeof(end->word));
	if (!end->mr || expect(end))
		return -1;
	return server ? rdma_connect(end->id, NULL) : rdma_accept(end->id, NULL);
}

/* Returns NULL and sets errno on failure. Waits for a client if there is no server. */
struct endpoint *endpoint_open(const char *server, const char *port)
{
	struct endpoint *end = calloc(1, sizeof(*end));

	if (end && open_end(end, server, port)) {
		endpoint_close(end);
		return NULL;
	}
	return end;
}

/* Returns the status of the completion, or -1 with errno. */
int endpoint_send(struct endpoint *end, uint64_t word)
{
	struct ibv_wc wc;

	if (rdma_post_send(end->id, NULL, &word, sizeof(word), NULL, IBV_SEND_INLINE))
		return -1;
	return rdma_get_send_comp(end->id, &wc) < 0 ? -1 : (int)wc.status;
}

/* Returns the status of the completion, or -1 with errno. */
int endpoint_receive(struct endpoint *end, uint64_t *word)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(end->id, &wc) < 0)
		return -1;
	*word = end->word;
	return wc.status == IBV_WC_SUCCESS && expect(end) ? -1 : (int)wc.status;
}
