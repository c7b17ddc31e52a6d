/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Random work between all pairs of processes, and every byte of it checked: soak SEED SECONDS RANK HOST...
 * One process for each HOST that is named, RANK counts from 0. What a process does to a peer follows from the seed alone, so the
 * peer knows what has to come, in which order and with which bytes. Completions must be those of the work posted, in order. */
#include "verbs_common.h"
#include <sys/resource.h>

enum { PORT = 18700, PEERS = 16, SLOTS = 16, SLOT_BYTES = 32 << 10, WINDOW = 8, RECEIVES = 16, SENDS = 64, IN_FLIGHT = 12 };
enum kind { SEND, SEND_IMM, WRITE_IMM, WRITE_THEN_SEND, READ, FETCH_ADD, COMPARE_SWAP, KINDS, FIN };

/* Where things lie in the memory that belongs to one peer. */
enum {
	FROM = 0,                             /* payload on its way out */
	INTO = FROM + SLOTS * SLOT_BYTES,     /* receive buffers */
	AREA = INTO + RECEIVES * SLOT_BYTES,  /* the peer writes here */
	FETCHED = AREA + SLOTS * SLOT_BYTES,  /* what was read from the peer */
	CONSTANT = FETCHED + SLOTS * SLOT_BYTES, /* what the peer may read */
	WORDS = CONSTANT + SLOT_BYTES,        /* 0: credit, 1: counter, 2: swapped word, 4..: results */
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
	/* As a sender: operations begun, done, those that tell the peer; requests in the queue and the signalled among them. */
	uint64_t next, done, told;
	struct operation slots[SLOTS];
	uint64_t posted, retired, pending[SENDS * 2], pending_head, pending_tail;
	uint64_t counter, swapped;
	int fin_sent;
	/* As a receiver: the operation that has to come, and how many came. */
	uint64_t expect, verified, credited, receives;
	int fin_seen;
};

static uint64_t seed, operations, bytes;
static int rank, size;
static struct peer peers[PEERS];
static struct ibv_cq *cq;

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

static void put_receive(struct peer *p) {
	uint64_t slot = p->receives++ % RECEIVES;
	struct ibv_sge sge = {(uintptr_t)p->memory + INTO + slot * SLOT_BYTES, SLOT_BYTES, p->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
	IS(0, ibv_post_recv(p->qp, &wr, &bad));
}

/* Posts a request; wr_id tells the operation, and 0 a credit. */
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
	if (p->verified - p->credited < WINDOW / 2 || !has_room(p)) return;
	p->credited = p->verified;
	struct ibv_sge sge = {(uintptr_t)&p->credited, 8, 0};
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
	/* Of what the peer is told, no more than the window is unverified: so its place is free again. */
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
		wr.wr.atomic.remote_addr = p->peer_memory + WORDS + (o.kind == FETCH_ADD ? 8 : 16);
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

static void finish(struct peer *p) {
	struct ibv_send_wr wr = {.wr_id = 0, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(0xffffffffu)};
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
	if (wc->wr_id != p->verified % RECEIVES) FAIL("receive %llu completed out of order", (unsigned long long)wc->wr_id);
	p->verified++;
	if (wc->wc_flags & IBV_WC_WITH_IMM && ntohl(wc->imm_data) == 0xffffffffu) {
		p->fin_seen = 1;
		return;
	}
	for (;; p->expect++) {
		o = plan(from, rank, p->expect);
		if (o.kind < READ) break;
	}
	uint64_t k = p->expect++;
	char *area = p->memory + AREA + (p->verified - 1) % SLOTS * SLOT_BYTES;
	char *into = p->memory + INTO + wc->wr_id * SLOT_BYTES;
	if (o.kind != SEND) CHECK(wc->wc_flags & IBV_WC_WITH_IMM && ntohl(wc->imm_data) == (uint32_t)k);
	CHECK(wc->opcode == (o.kind == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	if (o.kind <= SEND_IMM) CHECK(wc->byte_len == o.size);
	verify(o.kind <= SEND_IMM ? "message" : "write", o.kind <= SEND_IMM ? into : area, o.size, draw(from, rank, k));
	put_receive(p);
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

/* A TCP connection to every peer: the lower rank listens. */
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
	uint16_t lid;
	uint8_t reserved[6];
};

static void connect_queue(struct peer *p, struct ibv_pd *pd, uint16_t lid, int peer) {
	p->memory = aligned_alloc(4096, (PEER_BYTES + 4095) / 4096 * 4096);
	memset(p->memory, 0, PEER_BYTES);
	pattern(p->memory + CONSTANT, SLOT_BYTES, constant_key(rank, peer));
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *mr = ibv_reg_mr(pd, p->memory, PEER_BYTES, access);
	CHECK(mr != NULL);
	p->lkey = mr->lkey;
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16}};
	CHECK((p->qp = ibv_create_qp(pd, &init)) != NULL);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	IS(0, ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (int i = 0; i < RECEIVES; i++) put_receive(p);
	struct greeting mine = {.qpn = p->qp->qp_num, .rkey = mr->rkey, .memory = (uintptr_t)p->memory, .lid = lid}, theirs;
	CHECK(write(p->control, &mine, sizeof mine) == sizeof mine);
	CHECK(recv(p->control, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs);
	p->peer_rkey = theirs.rkey;
	p->peer_memory = theirs.memory;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = theirs.qpn, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 12, .ah_attr = {.dlid = theirs.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	IS(0, ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Everybody is there: nobody goes on (or away) before. */
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

/* A figure of /proc/self/status: what the process has of its own (peers' memory that it has mapped is theirs), or all that it has mapped. */
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
	for (int i = 0; i < size; i++)
		if (i != rank && (!peers[i].fin_seen || !peers[i].fin_sent || peers[i].pending_head != peers[i].pending_tail)) return 0;
	return 1;
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
	CHECK((cq = ibv_create_cq(context, size * (SENDS + RECEIVES), NULL, NULL, 0)) != NULL);
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
		}
		poll_all();
	}
	barrier();
	is_flat("RssAnon:", own);
	is_flat("VmSize:", mapped);
	printf("soak: rank %d, %llu operations, %llu bytes checked, none wrong\n", rank, (unsigned long long)operations, (unsigned long long)bytes);
	return 0;
}
