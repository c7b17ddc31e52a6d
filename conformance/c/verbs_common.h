/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Shared parts of the verbs conformance programs: checks, a control connection between the two
 * sides, queue pairs. All calls go through the system's <infiniband/verbs.h> and its inline
 * functions. */
#ifndef VERBS_COMMON_H
#define VERBS_COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONTROL_PORT = 18999, BUFFER_BYTES = 1 << 20, DEPTH = 16, GRH_BYTES = 40, PATIENCE_SECONDS = 20 };

/* Places in the buffer, far enough apart for every part. */
enum { OUT = 0, IN = 256 << 10, WORD = 512 << 10 };

#define FAIL(...)                                                                                                      \
	do {                                                                                                           \
		fprintf(stderr, "FAILED %s:%d: ", __FILE__, __LINE__);                                                 \
		fprintf(stderr, __VA_ARGS__);                                                                          \
		fprintf(stderr, " (errno %d, %s)\n", errno, strerror(errno));                                          \
		exit(1);                                                                                               \
	} while (0)

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			FAIL("%s", #condition);                                                                        \
	} while (0)

/* Checks a verb that returns 0 or a positive errno. */
#define IS(expected, call)                                                                                             \
	do {                                                                                                           \
		int answer_ = (call);                                                                                  \
		if (answer_ != (expected))                                                                             \
			FAIL("%s answers %d, not %d", #call, answer_, expected);                                       \
	} while (0)

/* Checks a verb that returns NULL and sets errno. */
#define NONE(expected, call)                                                                                           \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		if ((call) != NULL || errno != (expected))                                                             \
			FAIL("%s does not answer NULL with errno %d", #call, expected);                                \
	} while (0)

/* The address of the peer's queue pair. */
struct address {
	uint32_t qpn, psn, lid, rkey;
	uint64_t buffer;
	union ibv_gid gid;
};

struct side {
	int is_client;
	int control;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	uint8_t *buffer;
	struct ibv_port_attr port;
	union ibv_gid gid;
};

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* The control connection. */

static inline int control_connect(const char *peer)
{
	struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(CONTROL_PORT), .sin_addr.s_addr = INADDR_ANY};
	int one = 1, listener, fd;

	if (peer) {
		struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
		char service[8];

		snprintf(service, sizeof service, "%d", CONTROL_PORT);
		CHECK(getaddrinfo(peer, service, &hints, &found) == 0);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0);
		CHECK(connect(fd, found->ai_addr, found->ai_addrlen) == 0);
		freeaddrinfo(found);
		return fd;
	}
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	CHECK(bind(listener, (struct sockaddr *)&where, sizeof where) == 0);
	CHECK(listen(listener, 1) == 0);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	close(listener);
	return fd;
}

static inline void swap_bytes(struct side *s, const void *mine, void *theirs, size_t bytes)
{
	size_t got = 0;

	CHECK(write(s->control, mine, bytes) == (ssize_t)bytes);
	while (got < bytes) {
		ssize_t part = read(s->control, (char *)theirs + got, bytes - got);

		CHECK(part > 0);
		got += part;
	}
}

/* Waits until both sides have reached the same point of the program. */
static inline void meet(struct side *s, int point)
{
	int theirs = -1;

	swap_bytes(s, &point, &theirs, sizeof point);
	if (theirs != point)
		FAIL("the sides are apart: %d here, %d there", point, theirs);
}

/* Queue pairs. */

static inline struct address own_address(struct side *s, struct ibv_qp *qp)
{
	struct address a = {.qpn = qp->qp_num, .psn = 0x1000 + qp->qp_num % 97, .lid = s->port.lid, .rkey = s->mr->rkey,
			    .buffer = (uintptr_t)s->buffer, .gid = s->gid};

	return a;
}

static inline void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (qp->qp_type == IBV_QPT_UD) {
		attr.qkey = 0x11111111;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
		if (qp->qp_type == IBV_QPT_RC)
			attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	IS(0, ibv_modify_qp(qp, &attr, mask));
	CHECK(qp->state == IBV_QPS_INIT);
}

static inline void to_ready(struct side *s, struct ibv_qp *qp, const struct address *mine, const struct address *peer)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn, .rq_psn = peer->psn,
				  .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
				  .ah_attr = {.dlid = peer->lid, .port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = mine->psn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				  .max_rd_atomic = 4};
	int rtr_mask = IBV_QP_STATE, rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	(void)s;
	if (qp->qp_type != IBV_QPT_UD)
		rtr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
		rtr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
		rts_mask |= IBV_QP_TIMEOUT;
	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND)
		rts_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	IS(0, ibv_modify_qp(qp, &rtr, rtr_mask));
	IS(0, ibv_modify_qp(qp, &rts, rts_mask));
	CHECK(qp->state == IBV_QPS_RTS);
}

/* Takes a queue pair from INIT to RTS on both sides. Returns the address of the peer. */
static inline struct address connect_qp(struct side *s, struct ibv_qp *qp)
{
	struct address mine = own_address(s, qp), peer;

	swap_bytes(s, &mine, &peer, sizeof mine);
	to_ready(s, qp, &mine, &peer);
	return peer;
}

static inline struct ibv_qp *make_qp(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = s->send_cq, .recv_cq = s->recv_cq, .qp_type = type,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2,
						.max_inline_data = 32}};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp != NULL);
	CHECK(init.cap.max_send_wr >= DEPTH && init.cap.max_send_sge >= 2 && init.cap.max_inline_data >= 32);
	CHECK(qp->state == IBV_QPS_RESET && qp->qp_type == type && qp->qp_num != 0 && qp->send_cq == s->send_cq);
	return qp;
}

/* Work. */

static inline struct ibv_sge piece(struct side *s, size_t offset, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buffer + offset, .length = bytes, .lkey = s->mr->lkey};

	return sge;
}

static inline int receive(struct ibv_qp *qp, uint64_t id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int error = ibv_post_recv(qp, &wr, &bad);

	CHECK(!error || bad == &wr);
	return error;
}

static inline int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(qp, &wr, &bad);

	CHECK(!error || bad == &wr);
	return error;
}

/* Waits for the next completion of any kind. */
static inline struct ibv_wc completion(struct ibv_cq *cq)
{
	double start = seconds();
	struct ibv_wc wc;
	int found;

	while ((found = ibv_poll_cq(cq, 1, &wc)) == 0)
		if (seconds() - start > PATIENCE_SECONDS)
			FAIL("no completion within %d s", PATIENCE_SECONDS);
	CHECK(found == 1);
	return wc;
}

static inline struct ibv_wc success(struct ibv_cq *cq, uint64_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = completion(cq);

	if (wc.status != IBV_WC_SUCCESS)
		FAIL("work %llu ends with: %s", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	if (wc.wr_id != id || wc.opcode != opcode)
		FAIL("work %llu opcode %d came, expected %llu and %d", (unsigned long long)wc.wr_id, wc.opcode, (unsigned long long)id,
		     opcode);
	return wc;
}

/* Checks that the next completion belongs to this work and has this status. */
static inline void ends(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = completion(cq);

	if (wc.wr_id != id || wc.status != status)
		FAIL("work %llu ends with %s, expected %llu with %s", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
		     (unsigned long long)id, ibv_wc_status_str(status));
}

/* Fills memory with bytes that encode their place. */
static inline void fill(uint8_t *to, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static inline void same(const uint8_t *got, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != (uint8_t)(seed + i * 7 + i / 251))
			FAIL("byte %zu of %zu is %u", i, bytes, got[i]);
}

/* The parts in verbs_more.c. */
void errors(struct side *s, struct ibv_qp *rc);
void datagrams(struct side *s);
void extended(struct side *s);

#endif
