/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rfio.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOP_LIMIT = 64 };

/* Local ACK timeout 4.096 us x 2^14 = 67 ms, seven tries. RNR retries have no limit. */
enum { ACK_TIMEOUT = 14, RETRIES = 7, RNR_TIMER = 12, RNR_RETRIES = 7 };

/* Empty polls between two looks at the control connection. */
enum { POLLS_BETWEEN_LOOKS = 64 };

/* Softband defines it, because the program's own work takes no simulated time. Hardware has no such
 * function: there a copy takes its time. */
extern void softband_copied(uint64_t bytes) __attribute__((weak));

void copy_bytes(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	if (softband_copied)
		softband_copied(bytes);
}

uint8_t *page_aligned(size_t bytes)
{
	void *memory;

	if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), bytes))
		fail("no memory for buffers of %zu bytes", bytes);
	memset(memory, 0, bytes);
	return memory;
}

static struct ibv_context *open_device(const char *wanted)
{
	struct ibv_context *context;
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

static int is_active(struct link *l, uint8_t port)
{
	return ibv_query_port(l->context, port, &l->attr) == 0 && l->attr.state == IBV_PORT_ACTIVE;
}

static void choose_port(struct link *l, const struct options *o)
{
	const char *name = ibv_get_device_name(l->context->device);
	struct ibv_device_attr device;

	if (ibv_query_device(l->context, &device))
		fail_errno("cannot query %s", name);
	if (o->ib_port > device.phys_port_cnt)
		fail("%s has no port %d: it has %d", name, o->ib_port, device.phys_port_cnt);
	for (uint8_t port = 1; port <= device.phys_port_cnt; port++)
		if ((!o->ib_port || port == o->ib_port) && is_active(l, port)) {
			l->port = port;
			return;
		}
	fail("%s has no active port%s: is it cabled?", name, o->ib_port ? " of this number" : "");
}

static void make_queue_pair(struct link *l, int remote)
{
	struct ibv_qp_init_attr init = {.send_cq = l->cq, .recv_cq = l->cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = l->buffers + 1, .max_recv_wr = l->buffers + 1, .max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = l->port,
				   .qp_access_flags = (unsigned)(IBV_ACCESS_LOCAL_WRITE | remote)};

	l->qp = ibv_create_qp(l->pd, &init);
	if (!l->qp)
		fail_errno("cannot create a queue pair with %u requests", l->buffers + 1);
	if (ibv_modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail_errno("cannot bind a queue pair to port %d", l->port);
}

void link_open(struct link *l, const struct options *o, uint32_t buffers, uint32_t buffer_bytes, int remote)
{
	size_t bytes = (size_t)buffers * buffer_bytes;

	*l = (struct link){.buffers = buffers, .buffer_bytes = buffer_bytes};
	l->context = open_device(o->device);
	choose_port(l, o);
	l->pool = page_aligned(bytes);
	l->pd = ibv_alloc_pd(l->context);
	if (!l->pd)
		fail_errno("cannot allocate a protection domain");
	l->mr = ibv_reg_mr(l->pd, l->pool, bytes, IBV_ACCESS_LOCAL_WRITE | remote);
	if (!l->mr)
		fail_errno("cannot register %zu bytes", bytes);
	l->cq = ibv_create_cq(l->context, 2 * (int)buffers + 2, NULL, NULL, 0);
	if (!l->cq)
		fail_errno("cannot create a completion queue");
	make_queue_pair(l, remote);
}

void link_describe(const struct link *l, const struct options *o, struct endpoint *end)
{
	union ibv_gid gid;

	if (ibv_query_gid(l->context, l->port, o->gid_index < 0 ? 0 : o->gid_index, &gid))
		fail_errno("port %d has no GID with index %d", l->port, o->gid_index);
	*end = (struct endpoint){.qpn = l->qp->qp_num, .psn = l->qp->qp_num & 0xffffff, .lid = l->attr.lid, .mtu = (uint8_t)l->attr.active_mtu,
				 .is_global = o->gid_index >= 0 || l->attr.link_layer == IBV_LINK_LAYER_ETHERNET};
	memcpy(end->gid, gid.raw, GID_BYTES);
}

void link_connect(struct link *l, const struct options *o, const struct endpoint *mine, const struct endpoint *theirs)
{
	uint8_t mtu = mine->mtu < theirs->mtu ? mine->mtu : theirs->mtu;
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = (enum ibv_mtu)mtu, .dest_qp_num = theirs->qpn, .rq_psn = theirs->psn,
				  .max_dest_rd_atomic = 1, .min_rnr_timer = RNR_TIMER,
				  .ah_attr = {.dlid = theirs->lid, .port_num = l->port, .is_global = mine->is_global}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = mine->psn, .timeout = ACK_TIMEOUT, .retry_cnt = RETRIES,
				  .rnr_retry = RNR_RETRIES, .max_rd_atomic = 1};

	if (mine->is_global) {
		rtr.ah_attr.grh.sgid_index = (uint8_t)(o->gid_index < 0 ? 0 : o->gid_index);
		rtr.ah_attr.grh.hop_limit = HOP_LIMIT;
		memcpy(rtr.ah_attr.grh.dgid.raw, theirs->gid, GID_BYTES);
	}
	if (ibv_modify_qp(l->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail_errno("cannot connect port %d (no way to LID %u?)", l->port, theirs->lid);
	if (ibv_modify_qp(l->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC))
		fail_errno("cannot start port %d", l->port);
}

void link_receive(struct link *l, uint32_t buffer, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer_at(l, buffer), .length = bytes, .lkey = l->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = bytes ? &sge : NULL, .num_sge = bytes ? 1 : 0}, *bad;
	int error = ibv_post_recv(l->qp, &wr, &bad);

	if (error) {
		errno = error;
		fail_errno("cannot post a receive request");
	}
}

void link_post(struct link *l, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error;

	wr->send_flags |= IBV_SEND_SIGNALED;
	error = ibv_post_send(l->qp, wr, &bad);
	if (error) {
		errno = error;
		fail_errno("cannot post a request");
	}
}

/* Looks at the control connection and the time. A message at this moment is an error or
 * nonsense. */
static void look_around(struct link *l, int control, const struct options *o)
{
	struct message m;

	if (has_message(control)) {
		receive_message(control, ERROR, o->timeout_seconds, &m);
		fail("the other side has sent a message too early");
	}
	if (!l->active_ns)
		l->active_ns = now_ns();
	if (now_ns() - l->active_ns > (uint64_t)o->timeout_seconds * 1000000000u)
		fail("no data has moved for %d s (--timeout)", o->timeout_seconds);
}

int link_poll(struct link *l, int control, const struct options *o, struct ibv_wc *wc)
{
	int found = ibv_poll_cq(l->cq, 1, wc);

	if (found < 0)
		fail("cannot poll a completion queue");
	if (!found) {
		if (++l->silent % POLLS_BETWEEN_LOOKS == 0)
			look_around(l, control, o);
		return 0;
	}
	l->silent = 0;
	l->active_ns = 0;
	if (wc->status == IBV_WC_SUCCESS)
		return 1;
	/* A peer that has failed may have sent its reason. */
	look_around(l, control, o);
	fail("the connection to the other side has broken: %s", ibv_wc_status_str(wc->status));
}
