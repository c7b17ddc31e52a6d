/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "multirail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECEIVES = 2, HOP_LIMIT = 64 };

/* Local ACK timeout 4.096 us x 2^14 = 67 ms, seven tries. RNR retries have no limit. */
enum { ACK_TIMEOUT = 14, RETRIES = 7, RNR_TIMER = 12, RNR_RETRIES = 7 };

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ibv_context *open_device(const char *wanted)
{
	struct ibv_context *context = NULL;
	char names[256] = "";
	int count, i;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list || !count)
		fail("there is no HCA on this host");
	for (i = 0; i < count; i++) {
		const char *name = ibv_get_device_name(list[i]);

		if (!wanted || strcmp(wanted, name) == 0)
			break;
		snprintf(names + strlen(names), sizeof names - strlen(names), " %s", name);
	}
	if (i == count)
		fail("there is no HCA `%s` on this host: it has%s", wanted, names);
	context = ibv_open_device(list[i]);
	if (!context)
		fail_errno("cannot open %s", ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return context;
}

static int is_active(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port, attr) == 0 && attr->state == IBV_PORT_ACTIVE;
}

static void choose_ports(struct rails *r, const struct options *o)
{
	const char *name = ibv_get_device_name(r->context->device);
	struct ibv_device_attr device;

	if (ibv_query_device(r->context, &device))
		fail_errno("cannot query %s", name);
	for (int i = 0; i < o->ports_listed; i++) {
		uint8_t port = o->port_list[i];

		if (port > device.phys_port_cnt)
			fail("%s has no port %d: it has %d", name, port, device.phys_port_cnt);
		if (!is_active(r->context, port, &r->rail[i].attr))
			fail("port %d of %s is not active: is it cabled?", port, name);
		r->rail[i].port = port;
		r->count++;
	}
	for (uint8_t port = 1; !o->ports_listed && port <= device.phys_port_cnt && r->count < o->ports; port++)
		if (is_active(r->context, port, &r->rail[r->count].attr))
			r->rail[r->count++].port = port;
	if (r->count < o->ports)
		fail("%s has %d active port%s, and --ports asks for %d", name, r->count, r->count == 1 ? "" : "s", o->ports);
}

static void make_queue_pair(struct rails *r, struct rail *rail, const struct options *o)
{
	struct ibv_qp_init_attr init = {.send_cq = r->send_cq, .recv_cq = r->recv_cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = (uint32_t)o->window, .max_recv_wr = RECEIVES, .max_send_sge = 1,
						.max_recv_sge = 1, .max_inline_data = o->inline_bytes}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = rail->port,
				   .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};

	rail->qp = ibv_create_qp(r->pd, &init);
	if (!rail->qp)
		fail_errno("cannot create a queue pair with %d requests and %u bytes inline", o->window, o->inline_bytes);
	if (ibv_modify_qp(rail->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail_errno("cannot bind a queue pair to port %d", rail->port);
}

void rails_open(struct rails *r, const struct options *o)
{
	long page = sysconf(_SC_PAGESIZE);
	void *buffer;

	*r = (struct rails){.inline_bytes = o->inline_bytes};
	r->context = open_device(o->device);
	choose_ports(r, o);
	r->half = (o->size_to + (size_t)page - 1) / (size_t)page * (size_t)page;
	if (posix_memalign(&buffer, (size_t)page, 2 * r->half))
		fail("no memory for two buffers of %zu bytes", r->half);
	r->buffer = buffer;
	memset(r->buffer, 0, 2 * r->half);
	r->pd = ibv_alloc_pd(r->context);
	if (!r->pd)
		fail_errno("cannot allocate a protection domain");
	r->mr = ibv_reg_mr(r->pd, r->buffer, 2 * r->half,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!r->mr)
		fail_errno("cannot register %zu bytes", 2 * r->half);
	r->send_cq = ibv_create_cq(r->context, o->window * r->count, NULL, NULL, 0);
	r->recv_cq = ibv_create_cq(r->context, RECEIVES * r->count, NULL, NULL, 0);
	if (!r->send_cq || !r->recv_cq)
		fail_errno("cannot create completion queues");
	for (int i = 0; i < r->count; i++)
		make_queue_pair(r, &r->rail[i], o);
}

static enum ibv_mtu mtu_code(const struct rail *rail, const struct options *o)
{
	enum ibv_mtu code = rail->attr.active_mtu;

	if (o->mtu) {
		code = IBV_MTU_256;
		for (int bytes = 256; bytes < o->mtu; bytes *= 2)
			code++;
		if (code > rail->attr.active_mtu)
			fail("port %d has an active MTU of %d: -m %d is too much", rail->port, 128 << rail->attr.active_mtu, o->mtu);
	}
	return code;
}

static struct ibv_ah_attr path_to(const struct rail *rail, const struct options *o, const uint64_t *theirs)
{
	struct ibv_ah_attr path = {.dlid = (uint16_t)theirs[0], .port_num = rail->port};
	int global = o->gid_index >= 0 || rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET;

	if (global) {
		path.is_global = 1;
		path.grh.sgid_index = (uint8_t)(o->gid_index < 0 ? 0 : o->gid_index);
		path.grh.hop_limit = HOP_LIMIT;
		memcpy(path.grh.dgid.raw, theirs + 5, 16);
	}
	return path;
}

static void to_ready(struct rail *rail, const struct options *o, const uint64_t *mine, const uint64_t *theirs, enum ibv_mtu mtu)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = (uint32_t)theirs[1], .rq_psn = (uint32_t)theirs[1],
				  .max_dest_rd_atomic = 1, .min_rnr_timer = RNR_TIMER, .ah_attr = path_to(rail, o, theirs)};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = (uint32_t)mine[1], .timeout = ACK_TIMEOUT, .retry_cnt = RETRIES,
				  .rnr_retry = RNR_RETRIES, .max_rd_atomic = 1};

	if (ibv_modify_qp(rail->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail_errno("cannot connect port %d (no way to LID %u?)", rail->port, (unsigned)theirs[0]);
	if (ibv_modify_qp(rail->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_MAX_QP_RD_ATOMIC))
		fail_errno("cannot start port %d", rail->port);
	rail->remote_address = theirs[2];
	rail->remote_key = (uint32_t)theirs[3];
}

/* Writes the words of a rail: LID, queue pair number (also the first PSN), address and key of the
 * receive buffer, MTU, GID. */
static void describe(struct rails *r, struct rail *rail, const struct options *o, uint64_t *words)
{
	union ibv_gid gid;

	if (ibv_query_gid(r->context, rail->port, o->gid_index < 0 ? 0 : o->gid_index, &gid))
		fail_errno("port %d has no GID with index %d", rail->port, o->gid_index);
	words[0] = rail->attr.lid;
	words[1] = rail->qp->qp_num;
	words[2] = (uintptr_t)(r->buffer + r->half);
	words[3] = r->mr->rkey;
	words[4] = mtu_code(rail, o);
	memcpy(words + 5, gid.raw, 16);
}

void rails_connect(struct rails *r, struct control *c, const struct options *o)
{
	uint64_t mine[PORTS_MAX * RAIL_WORDS] = {0};
	uint64_t *all = calloc(2 * (size_t)c->procs, sizeof mine);
	const uint64_t *theirs;

	if (!all)
		fail("no memory");
	for (int i = 0; i < r->count; i++)
		describe(r, &r->rail[i], o, mine + i * RAIL_WORDS);
	exchange(c, mine, PORTS_MAX * RAIL_WORDS, all);
	theirs = all + peer_number(c) * PORTS_MAX * RAIL_WORDS;
	for (int i = 0; i < r->count; i++) {
		const uint64_t *own = mine + i * RAIL_WORDS, *other = theirs + i * RAIL_WORDS;
		enum ibv_mtu mtu = (enum ibv_mtu)(own[4] < other[4] ? own[4] : other[4]);

		to_ready(&r->rail[i], o, own, other, mtu);
	}
	free(all);
	for (int i = 0; o->test == SEND_LAT && i < RECEIVES; i++)
		rail_receive(r, 0, (uint32_t)r->half);
	barrier(c);
}

void rail_post(struct rails *r, int index, enum ibv_wr_opcode opcode, uint64_t offset, uint32_t bytes)
{
	struct rail *rail = &r->rail[index];
	struct ibv_sge sge = {.addr = (uintptr_t)r->buffer + offset, .length = bytes, .lkey = r->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
	int reads = opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	int error;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = rail->remote_address + offset;
		wr.wr.atomic.rkey = rail->remote_key;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 1;
	} else {
		wr.wr.rdma.remote_addr = rail->remote_address + offset;
		wr.wr.rdma.rkey = rail->remote_key;
	}
	if (!reads && bytes <= r->inline_bytes)
		wr.send_flags |= IBV_SEND_INLINE;
	error = ibv_post_send(rail->qp, &wr, &bad);
	if (error) {
		errno = error;
		fail_errno("cannot post to port %d", rail->port);
	}
}

void rail_receive(struct rails *r, int index, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)r->buffer + r->half, .length = bytes, .lkey = r->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	int error = ibv_post_recv(r->rail[index].qp, &wr, &bad);

	if (error) {
		errno = error;
		fail_errno("cannot post a receive request to port %d", r->rail[index].port);
	}
}

void drain(struct ibv_cq *cq, int count)
{
	struct ibv_wc wc[16];

	while (count > 0) {
		int found = ibv_poll_cq(cq, count < 16 ? count : 16, wc);

		if (found < 0)
			fail("cannot poll a completion queue");
		for (int i = 0; i < found; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				fail("a request has failed: %s", ibv_wc_status_str(wc[i].status));
		count -= found;
	}
}
