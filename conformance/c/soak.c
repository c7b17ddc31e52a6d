/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Random work between all pairs of processes, with every byte checked: soak SEED SECONDS RANK
 * HOST... Each HOST gets one process, and RANK counts from 0. The seed alone determines a process's
 * work, so the peer knows the order and the bytes of its messages. Completions must match the
 * posted work, in order. Every pair has a reliable connection. A third of them receives by a queue
 * that the process's connections share. Datagrams go both ways. */
#include "verbs_common.h"
#include <sys/resource.h>

enum { PORT = 18700, PEERS = 16, SLOTS = 16, SLOT_BYTES = 32 << 10, WINDOW = 8, RECEIVES = 16, SENDS = 64, IN_FLIGHT = 12,
       DATAGRAM_BYTES = 1024, DATAGRAM_SLOT = 2048, DATAGRAM_WINDOW = 4 };
enum kind { SEND, SEND_IMM, WRITE_IMM, WRITE_THEN_SEND, READ, FETCH_ADD, COMPARE_SWAP, KINDS, FIN };

/* Layout of the memory that belongs to one peer. */
enum {
	FROM = 0,                             /* outgoing payload */
	INTO = FROM + SLOTS * SLOT_BYTES,     /* receive buffers */
	AREA = INTO + RECEIVES * SLOT_BYTES,  /* the peer writes here */
	FETCHED = AREA + SLOTS * SLOT_BYTES,  /* data read from the peer */
	CONSTANT = FETCHED + SLOTS * SLOT_BYTES, /* data that the peer may read */
	WORDS = CONSTANT + SLOT_BYTES,        /* 0: credit, 1: datagrams' credit, 2: counter, 3: swapped word, 8..: results */
	PEER_BYTES = WORDS + 4096
};

struct operation {
	enum kind kind;
	uint32_t size;
	uint64_t expected;
};

struct peer {
	struct ibv_qp *qp;
	char *memory;
	uint32_t lkey, rkey, peer_rkey;
	uint64_t peer_memory;
	int control;
	/* As a sender: operations begun, done, announced to
	 * the peer; requests queued, signalled among them. */
	uint64_t next, done, told;
	struct operation slots[SLOTS];
	uint64_t posted, retired, pending[SENDS * 2], pending_head, pending_tail;
	uint64_t counter, swapped;
	int fin_sent;
	/* As a receiver: the next expected operation, and the verified ones.
	 * The credits lie side by side, as at the peer. */
	uint64_t expect, verified, credits[2], receives;
	int fin_seen, shares;
	/* Datagrams: posted, received, and their total. */
	struct ibv_ah *ah;
	uint32_t datagram_qpn, lid;
	uint64_t datagrams, datagrams_seen, datagrams_total;
};

static uint64_t seed, operations, bytes;
static int rank, size;
static struct peer peers[PEERS];
static struct ibv_cq *cq, *datagram_cq;
/* The shared receive queue, which completes in any order, and the queue pair for datagrams. */
static struct ibv_srq *srq;
static struct ibv_qp *datagram_qp;
static char *pool, *datagram_pool;
static struct ibv_mr *pool_mr, *datagram_mr;
static char is_there[PEERS * RECEIVES];
static uint64_t datagrams_posted, datagrams_sent, datagrams_received;

static uint64_t mix(uint64_t z) {
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t draw(int from, int to, uint64_t k) { return mix(seed ^ mix((uint64_t)from << 40 ^ (uint64_t)to << 32 ^ k)); }

static struct operation plan(int from, int to, uint64_t k) {
	uint64_t r = draw(from, to, k);
	uint32_t size = (r >> 8) % 4 ? 1 + (r >> 16) % 512 : 1 + (r >> 16) % SLOT_BYTES;
	return (struct operation){.kind = r % KINDS, .size = size};
}

static void pattern(char *to, uint32_t size, uint64_t key) {
	for (uint32_t at = 0; at < size; at += 8) {
		uint64_t word = mix(key + at);
		memcpy(to + at, &word, size - at < 8 ? size - at : 8);
	}
}

static void verify(const char *what, const char *found, uint32_t size, uint64_t key) {
	static char wanted[SLOT_BYTES];
	pattern(wanted, size, key);
	if (memcmp(found, wanted, size) != 0) FAIL("%s of %u bytes: a byte is wrong", what, size);
	bytes += size;
}

static uint64_t constant_key(int owner, int reader) { return draw(owner, reader, ~0ull); }

static void put_shared(uint64_t slot) {
	struct ibv_sge sge = {(uintptr_t)pool + slot * SLOT_BYTES, SLOT_BYTES, pool_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
	is_there[slot] = 1;
	IS(0, ibv_post_srq_recv(srq, &wr, &bad));
}

static void put_datagram_receive(uint64_t number) {
	struct ibv_sge sge = {(uintptr_t)datagram_pool + number % (size * DATAGRAM_WINDOW) * DATAGRAM_SLOT, DATAGRAM_SLOT, datagram_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
	IS(0, ibv_post_recv(datagram_qp, &wr, &bad));
}

static void put_receive(struct peer *p) {
	uint64_t slot = p->receives++ % RECEIVES;
	struct ibv_sge sge = {(uintptr_t)p->memory + INTO + slot * SLOT_BYTES, SLOT_BYTES, p->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
	IS(0, ibv_post_recv(p->qp, &wr, &bad));
}

/* Posts a request. `wr_id` identifies the operation, 0 means a credit. */
static void submit(struct peer *p, struct ibv_send_wr *wr, int signalled) {
	struct ibv_send_wr *bad;
	p->posted++;
	if (signalled) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		p->pending[p->pending_tail++ % (SENDS * 2)] = p->posted << 32 | (wr->wr_id & 0xffffffff);
	}
	IS(0, ibv_post_send(p->qp, wr, &bad));
}

static int has_room(struct peer *p) { return p->posted - p->retired < SENDS - 4; }

static void give_credit(struct peer *p) {
	if ((p->verified - p->credits[0] < WINDOW / 2 && p->datagrams_seen - p->credits[1] < DATAGRAM_WINDOW / 2) || !has_room(p)) return;
	p->credits[0] = p->verified;
	p->credits[1] = p->datagrams_seen;
	struct ibv_sge sge = {(uintptr_t)p->credits, sizeof p->credits, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE};
	wr.wr.rdma.remote_addr = p->peer_memory + WORDS;
	wr.wr.rdma.rkey = p->peer_rkey;
	submit(p, &wr, 1);
}

static void begin(struct peer *p, int to) {
	volatile uint64_t *credit = (uint64_t *)(p->memory + WORDS);
	if (p->fin_sent || p->next - p->done >= IN_FLIGHT || p->told - *credit >= WINDOW || !has_room(p)) return;
	uint64_t k = p->next++, slot = k % SLOTS;
	struct operation o = p->slots[slot] = plan(rank, to, k);
	char *out = p->memory + FROM + slot * SLOT_BYTES;
	struct ibv_sge sge = {(uintptr_t)out, o.size, p->lkey};
	struct ibv_send_wr wr = {.wr_id = k + 1, .sg_list = &sge, .num_sge = 1, .imm_data = htonl((uint32_t)k)};
	/* The peer has verified all announced writes but one window, so this place is free again. */
	wr.wr.rdma.remote_addr = p->peer_memory + AREA + p->told % SLOTS * SLOT_BYTES;
	wr.wr.rdma.rkey = p->peer_rkey;
	operations++;
	pattern(out, o.size, draw(rank, to, k));
	switch (o.kind) {
	case SEND: wr.opcode = IBV_WR_SEND; break;
	case SEND_IMM: wr.opcode = IBV_WR_SEND_WITH_IMM; break;
	case WRITE_IMM: wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM; break;
	case WRITE_THEN_SEND: {
		wr.opcode = IBV_WR_RDMA_WRITE;
		submit(p, &wr, 0);
		struct ibv_sge none = {(uintptr_t)out, 0, p->lkey};
		wr = (struct ibv_send_wr){.wr_id = k + 1, .sg_list = &none, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl((uint32_t)k)};
		p->told++;
		submit(p, &wr, 1);
		return;
	}
	case READ:
		wr.opcode = IBV_WR_RDMA_READ;
		sge.addr = (uintptr_t)p->memory + FETCHED + slot * SLOT_BYTES;
		wr.wr.rdma.remote_addr = p->peer_memory + CONSTANT;
		break;
	default:
		wr.opcode = o.kind == FETCH_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
		sge = (struct ibv_sge){(uintptr_t)p->memory + WORDS + 64 + slot * 8, 8, p->lkey};
		wr.wr.atomic.remote_addr = p->peer_memory + WORDS + (o.kind == FETCH_ADD ? 16 : 24);
		wr.wr.atomic.rkey = p->peer_rkey;
		p->slots[slot].expected = o.kind == FETCH_ADD ? p->counter : p->swapped;
		wr.wr.atomic.compare_add = o.kind == FETCH_ADD ? o.size : p->swapped;
		wr.wr.atomic.swap = draw(rank, to, k);
		if (o.kind == FETCH_ADD) p->counter += o.size;
		else p->swapped = wr.wr.atomic.swap;
	}
	p->told += o.kind < READ;
	submit(p, &wr, o.kind >= READ || draw(rank, to, k) >> 60 < 6 || k % 4 == 3);
}

static uint64_t datagram_key(int from, int to, uint64_t k) { return draw(from, to, k | 1ull << 60); }

static void send_datagram(struct peer *p, int to) {
	volatile uint64_t *credit = (uint64_t *)(p->memory + WORDS) + 1;
	if (p->fin_sent || p->datagrams - *credit >= DATAGRAM_WINDOW || datagrams_posted - datagrams_sent >= SENDS) return;
	uint64_t k = p->datagrams++, key = datagram_key(rank, to, k), number = datagrams_posted++;
	char *out = datagram_pool + (size * DATAGRAM_WINDOW + number % SENDS) * DATAGRAM_SLOT;
	struct ibv_sge sge = {(uintptr_t)out, key % (DATAGRAM_BYTES + 1), datagram_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl((uint32_t)k), .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.ud.ah = p->ah;
	wr.wr.ud.remote_qpn = p->datagram_qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	pattern(out, sge.length, key);
	operations++;
	IS(0, ibv_post_send(datagram_qp, &wr, &bad));
}

static void poll_datagrams(void) {
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(datagram_cq, 16, wc);
	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) FAIL("datagrams: %s", ibv_wc_status_str(wc[i].status));
		if (!(wc[i].opcode & IBV_WC_RECV)) {
			if (wc[i].wr_id != datagrams_sent++) FAIL("datagram %llu is told of out of order", (unsigned long long)wc[i].wr_id);
			continue;
		}
		int from = 0;
		while (from < size && (from == rank || peers[from].datagram_qpn != wc[i].src_qp || peers[from].lid != wc[i].slid)) from++;
		CHECK(from < size);
		struct peer *p = &peers[from];
		uint64_t k = p->datagrams_seen++, key = datagram_key(from, rank, k);
		if (wc[i].wr_id != datagrams_received++) FAIL("a datagram took receive request %llu out of order", (unsigned long long)wc[i].wr_id);
		if (ntohl(wc[i].imm_data) != (uint32_t)k) FAIL("datagram %u of peer %d came in the place of %llu", ntohl(wc[i].imm_data), from, (unsigned long long)k);
		CHECK(wc[i].byte_len == key % (DATAGRAM_BYTES + 1) + GRH_BYTES);
		verify("datagram", datagram_pool + wc[i].wr_id % (size * DATAGRAM_WINDOW) * DATAGRAM_SLOT + GRH_BYTES, wc[i].byte_len - GRH_BYTES, key);
		put_datagram_receive(wc[i].wr_id + size * DATAGRAM_WINDOW);
	}
}

/* Sends the last message, which carries the number of datagrams. */
static void finish(struct peer *p) {
	struct ibv_sge sge = {(uintptr_t)&p->datagrams, 8, 0};
	struct ibv_send_wr wr = {.wr_id = 0, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_INLINE, .imm_data = htonl(0xffffffffu)};
	p->fin_sent = 1;
	p->told++;
	submit(p, &wr, 1);
}

static void sent(struct peer *p, const struct ibv_wc *wc, int to) {
	if (p->pending_head == p->pending_tail) FAIL("a completion that nothing was posted for");
	uint64_t wanted = p->pending[p->pending_head++ % (SENDS * 2)];
	if ((wanted & 0xffffffff) != wc->wr_id) FAIL("completion of %llu, not of %llu", (unsigned long long)wc->wr_id, (unsigned long long)(wanted & 0xffffffff));
	p->retired = wanted >> 32 | (p->retired & ~0xffffffffull);
	if (wc->wr_id == 0) return;
	uint64_t k = (p->next & ~0xffffffffull) | (wc->wr_id - 1);
	for (p->done = p->done; p->done <= k; p->done++) {
		struct operation *o = &p->slots[p->done % SLOTS];
		if (o->kind == READ) verify("read", p->memory + FETCHED + p->done % SLOTS * SLOT_BYTES, o->size, constant_key(to, rank));
		if (o->kind == FETCH_ADD || o->kind == COMPARE_SWAP)
			CHECK(*(uint64_t *)(p->memory + WORDS + 64 + p->done % SLOTS * 8) == o->expected);
	}
}

static void received(struct peer *p, const struct ibv_wc *wc, int from) {
	struct operation o;
	char *into = p->shares ? pool + wc->wr_id * SLOT_BYTES : p->memory + INTO + wc->wr_id * SLOT_BYTES;
	if (p->shares) {
		CHECK(wc->wr_id < (uint64_t)size * RECEIVES && is_there[wc->wr_id]);
		is_there[wc->wr_id] = 0;
	} else if (wc->wr_id != p->verified % RECEIVES) FAIL("receive %llu completed out of order", (unsigned long long)wc->wr_id);
	p->verified++;
	if (wc->wc_flags & IBV_WC_WITH_IMM && ntohl(wc->imm_data) == 0xffffffffu) {
		p->fin_seen = 1;
		memcpy(&p->datagrams_total, into, 8);
		return;
	}
	for (;; p->expect++) {
		o = plan(from, rank, p->expect);
		if (o.kind < READ) break;
	}
	uint64_t k = p->expect++;
	char *area = p->memory + AREA + (p->verified - 1) % SLOTS * SLOT_BYTES;
	if (o.kind != SEND) CHECK(wc->wc_flags & IBV_WC_WITH_IMM && ntohl(wc->imm_data) == (uint32_t)k);
	CHECK(wc->opcode == (o.kind == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	if (o.kind <= SEND_IMM) CHECK(wc->byte_len == o.size);
	verify(o.kind <= SEND_IMM ? "message" : "write", o.kind <= SEND_IMM ? into : area, o.size, draw(from, rank, k));
	if (p->shares) put_shared(wc->wr_id);
	else put_receive(p);
}

static int poll_all(void) {
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(cq, 16, wc);
	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		int peer = 0;
		while (peer < size && (peer == rank || peers[peer].qp->qp_num != wc[i].qp_num)) peer++;
		CHECK(peer < size);
		if (wc[i].status != IBV_WC_SUCCESS) FAIL("peer %d: %s", peer, ibv_wc_status_str(wc[i].status));
		if (wc[i].opcode & IBV_WC_RECV) received(&peers[peer], &wc[i], peer);
		else sent(&peers[peer], &wc[i], peer);
	}
	return count;
}

/* Opens a TCP connection to every peer. The lower rank listens. */
static int rendezvous(int peer, char **hosts, int listener) {
	if (peer > rank) {
		int at = -1, fd = accept(listener, NULL, NULL);
		CHECK(fd >= 0 && read(fd, &at, sizeof at) == sizeof at && at > rank && at < size);
		peers[at].control = fd;
		return fd;
	}
	char port[16];
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	snprintf(port, sizeof port, "%d", PORT + peer);
	CHECK(getaddrinfo(hosts[peer], port, &hints, &found) == 0);
	for (int attempt = 0; attempt < 200; attempt++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
			CHECK(write(fd, &rank, sizeof rank) == sizeof rank);
			freeaddrinfo(found);
			return peers[peer].control = fd;
		}
		close(fd);
		usleep(50000);
	}
	FAIL("peer %d does not answer", peer);
}

struct greeting {
	uint32_t qpn, rkey;
	uint64_t memory;
	uint32_t lid, datagram_qpn;
};

static void connect_queue(struct peer *p, struct ibv_pd *pd, uint16_t lid, int peer) {
	p->memory = aligned_alloc(4096, (PEER_BYTES + 4095) / 4096 * 4096);
	memset(p->memory, 0, PEER_BYTES);
	pattern(p->memory + CONSTANT, SLOT_BYTES, constant_key(rank, peer));
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *mr = ibv_reg_mr(pd, p->memory, PEER_BYTES, access);
	CHECK(mr != NULL);
	p->lkey = mr->lkey;
	/* Each side decides for itself. */
	p->shares = (rank + 2 * peer) % 3 == 0;
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .srq = p->shares ? srq : NULL,
		.cap = {.max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16}};
	CHECK((p->qp = ibv_create_qp(pd, &init)) != NULL);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	IS(0, ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (int i = 0; i < RECEIVES; i++) {
		if (p->shares) put_shared(peer * RECEIVES + i);
		else put_receive(p);
	}
	struct greeting mine = {.qpn = p->qp->qp_num, .rkey = mr->rkey, .memory = (uintptr_t)p->memory, .lid = lid, .datagram_qpn = datagram_qp->qp_num}, theirs;
	CHECK(write(p->control, &mine, sizeof mine) == sizeof mine);
	CHECK(recv(p->control, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs);
	p->peer_rkey = theirs.rkey;
	p->peer_memory = theirs.memory;
	p->datagram_qpn = theirs.datagram_qpn;
	p->lid = theirs.lid;
	struct ibv_ah_attr where = {.dlid = theirs.lid, .port_num = 1};
	CHECK((p->ah = ibv_create_ah(pd, &where)) != NULL);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = theirs.qpn, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 12, .ah_attr = {.dlid = theirs.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	IS(0, ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Creates the objects that all connections share. */
static void open_common(struct ibv_context *context, struct ibv_pd *pd) {
	size_t shared_bytes = (size_t)size * RECEIVES * SLOT_BYTES, datagram_bytes = (size_t)(size * DATAGRAM_WINDOW + SENDS) * DATAGRAM_SLOT;
	CHECK((cq = ibv_create_cq(context, size * (SENDS + RECEIVES), NULL, NULL, 0)) != NULL);
	CHECK((datagram_cq = ibv_create_cq(context, size * DATAGRAM_WINDOW + SENDS, NULL, NULL, 0)) != NULL);
	CHECK((pool = aligned_alloc(4096, shared_bytes)) != NULL && (datagram_pool = aligned_alloc(4096, datagram_bytes)) != NULL);
	memset(pool, 0, shared_bytes);
	memset(datagram_pool, 0, datagram_bytes);
	CHECK((pool_mr = ibv_reg_mr(pd, pool, shared_bytes, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK((datagram_mr = ibv_reg_mr(pd, datagram_pool, datagram_bytes, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = size * RECEIVES, .max_sge = 1}};
	CHECK((srq = ibv_create_srq(pd, &shared)) != NULL);
	struct ibv_qp_init_attr init = {.send_cq = datagram_cq, .recv_cq = datagram_cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = SENDS, .max_recv_wr = size * DATAGRAM_WINDOW, .max_send_sge = 1, .max_recv_sge = 1}};
	CHECK((datagram_qp = ibv_create_qp(pd, &init)) != NULL);
	to_init(datagram_qp);
	for (int i = 0; i < size * DATAGRAM_WINDOW; i++) put_datagram_receive(i);
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR}, rts = {.qp_state = IBV_QPS_RTS};
	IS(0, ibv_modify_qp(datagram_qp, &rtr, IBV_QP_STATE));
	IS(0, ibv_modify_qp(datagram_qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

/* Waits for all processes. No process continues or ends before. */
static void barrier(void) {
	char byte = 1;
	for (int i = 0; i < size; i++)
		if (i != rank) CHECK(write(peers[i].control, &byte, 1) == 1);
	for (int i = 0; i < size; i++)
		if (i != rank) CHECK(recv(peers[i].control, &byte, 1, MSG_WAITALL) == 1);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Returns a figure of /proc/self/status in KiB: the process's own memory, without mapped memory of
 * peers, or all that it has mapped. */
static long status_kib(const char *figure) {
	char line[256];
	long kib = 0;
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file != NULL);
	while (fgets(line, sizeof line, file))
		if (strncmp(line, figure, strlen(figure)) == 0) kib = atol(line + strlen(figure));
	fclose(file);
	CHECK(kib > 0);
	return kib;
}

static void is_flat(const char *figure, long early) {
	long late = status_kib(figure);
	if (late > early + early / 10 + 1024) FAIL("%s grew from %ld to %ld KiB", figure, early, late);
}

static int is_over(void) {
	for (int i = 0; i < size; i++) {
		struct peer *p = &peers[i];
		if (i != rank && (!p->fin_seen || !p->fin_sent || p->pending_head != p->pending_tail || p->datagrams_seen != p->datagrams_total)) return 0;
	}
	return datagrams_posted == datagrams_sent;
}

int main(int count, char **words) {
	if (count < 6 || count - 4 > PEERS) {
		fprintf(stderr, "soak SEED SECONDS RANK HOST HOST...: at most %d hosts\n", PEERS);
		return 2;
	}
	seed = strtoull(words[1], NULL, 0);
	double seconds = atof(words[2]);
	rank = atoi(words[3]);
	size = count - 4;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CHECK(devices != NULL && devices[0] != NULL);
	struct ibv_context *context = ibv_open_device(devices[0]);
	CHECK(context != NULL);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_port_attr port;
	CHECK(pd != NULL && ibv_query_port(context, 1, &port) == 0);
	open_common(context, pd);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT + rank)};
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof any) == 0 && listen(listener, PEERS) == 0);
	for (int i = 0; i < size; i++)
		if (i != rank) rendezvous(i, words + 4, listener);
	for (int i = 0; i < size; i++)
		if (i != rank) connect_queue(&peers[i], pd, port.lid, i);
	barrier();
	double start = now();
	long own = 0, mapped = 0;
	for (uint64_t round = 0; !is_over(); round++) {
		double passed = round % 64 ? 0 : now() - start;
		if (own == 0 && passed > seconds / 10) {
			own = status_kib("RssAnon:");
			mapped = status_kib("VmSize:");
		}
		for (int i = 0; i < size; i++) {
			if (i == rank) continue;
			give_credit(&peers[i]);
			if (passed > seconds && !peers[i].fin_sent && has_room(&peers[i])) finish(&peers[i]);
			begin(&peers[i], i);
			if ((round + i) % 4 == 0) send_datagram(&peers[i], i);
		}
		poll_all();
		poll_datagrams();
	}
	barrier();
	is_flat("RssAnon:", own);
	is_flat("VmSize:", mapped);
	printf("soak: rank %d, %llu operations, %llu bytes checked, none wrong\n", rank, (unsigned long long)operations, (unsigned long long)bytes);
	return 0;
}
