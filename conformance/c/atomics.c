/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Atomic operations, directly and through the engine.
 *   atomics           tests results and refusals, between two queue pairs of one process;
 *                     with "stop" also while the engine stands still
 *   atomics beside    tests the same with memory that is registered while other threads block
 *                     signals: threads that create threads, and threads of the kernel
 *   atomics serve N   owns a word that N connections change at the same time;
 *                     with NATIVE as a further argument its own threads change the word too
 *   atomics at HOST N N threads, each with a connection to that word */
#include "engine_stop.h"
#include <linux/io_uring.h>
#include <pthread.h>

enum { PORT = 18800, EACH = 20000, NATIVES = 2, NATIVE_CHANGES = 10000000, CONNECTIONS = 64,
       ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct end new_end(void)
{
	struct end e = {.cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0)};
	struct ibv_qp_init_attr init = {.send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 8}};

	CHECK(e.cq != NULL && (e.qp = ibv_create_qp(pd, &init)) != NULL);
	return e;
}

static void make_ready(struct ibv_qp *qp, uint32_t peer, uint32_t lid, int access)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 4,
				 .min_rnr_timer = 1, .ah_attr = {.dlid = lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	IS(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void destroy(struct end *e)
{
	IS(0, ibv_destroy_qp(e->qp));
	IS(0, ibv_destroy_cq(e->cq));
}

/* The address and the key of a word. */
struct word {
	uint64_t address;
	uint32_t rkey;
};

static void post_atomic(struct ibv_qp *qp, uint64_t id, struct ibv_sge *list, int count, struct word at, enum ibv_wr_opcode opcode, uint64_t first, uint64_t swap)
{
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = list, .num_sge = count, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {at.address, first, swap, at.rkey}};

	IS(0, post(qp, wr));
}

/* Tests within one process. */

static _Alignas(4096) uint64_t words[512];
static struct ibv_mr *mr, *unwritable, *closed;
static struct end a, b;

static struct ibv_sge into(int index, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)&words[index], bytes, mr->lkey};
}

static void connect_ends(int access)
{
	make_ready(a.qp, b.qp->qp_num, port.lid, ALL);
	make_ready(b.qp, a.qp->qp_num, port.lid, access);
}

static uint64_t atomic(enum ibv_wr_opcode opcode, uint64_t first, uint64_t swap)
{
	struct ibv_sge list = into(256, 8);

	words[256] = ~0ull;
	post_atomic(a.qp, 1, &list, 1, (struct word){(uintptr_t)&words[0], mr->rkey}, opcode, first, swap);
	struct ibv_wc wc = success(a.cq, 1, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	CHECK(wc.byte_len == 8 && wc.qp_num == a.qp->qp_num);
	return words[256];
}

static void write_word(int index, uint64_t value, int is_inline)
{
	struct ibv_sge list = into(256, 8);
	struct ibv_send_wr wr = {.wr_id = 6, .sg_list = &list, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0),
				 .wr.rdma = {(uintptr_t)&words[index], mr->rkey}};

	words[256] = value;
	IS(0, post(a.qp, wr));
	CHECK(success(a.cq, 6, IBV_WC_ATOMIC_WRITE).qp_num == a.qp->qp_num);
	CHECK(words[index] == value);
}

static void atomic_writes(void)
{
	connect_ends(ALL);
	words[4] = 44;
	write_word(3, 0x0102030405060708, 0);
	write_word(3, ~0ull, 1);
	write_word(5, 7, 0);
	CHECK(words[3] == ~0ull && words[4] == 44 && words[6] == 0);
	puts("ok atomic writes");
}

static void write_refused(struct ibv_sge *list, int count, struct word at, int access, enum ibv_wc_status status, const char *what)
{
	struct ibv_send_wr wr = {.wr_id = 9, .sg_list = list, .num_sge = count, .opcode = IBV_WR_ATOMIC_WRITE, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {at.address, at.rkey}};

	connect_ends(access);
	words[0] = words[1] = 9;
	IS(0, post(a.qp, wr));
	struct ibv_wc wc = completion(a.cq);
	if (wc.status != status) FAIL("an atomic write %s ends with '%s'", what, ibv_wc_status_str(wc.status));
	CHECK(words[0] == 9 && words[1] == 9);
}

static void atomic_write_refusals(void)
{
	uint64_t first = (uintptr_t)&words[0];
	struct ibv_sge list = into(256, 8), longer = into(256, 16), shorter = into(256, 4);

	write_refused(&list, 1, (struct word){first + 4, mr->rkey}, ALL, IBV_WC_REM_INV_REQ_ERR, "that is not aligned");
	write_refused(&list, 1, (struct word){first, unwritable->rkey}, ALL, IBV_WC_REM_ACCESS_ERR, "without the region's right");
	write_refused(&list, 1, (struct word){first, mr->rkey}, ALL & ~IBV_ACCESS_REMOTE_WRITE, IBV_WC_REM_INV_REQ_ERR, "without the queue pair's right");
	write_refused(&longer, 1, (struct word){first, mr->rkey}, ALL, IBV_WC_LOC_LEN_ERR, "of sixteen bytes");
	write_refused(&shorter, 1, (struct word){first, mr->rkey}, ALL, IBV_WC_LOC_LEN_ERR, "of four bytes");
	puts("ok what atomic writes refuse");
}

static void results(void)
{
	connect_ends(ALL);
	words[0] = 5;
	words[1] = 77;
	CHECK(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0) == 5 && words[0] == 8);
	CHECK(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, -1ull, 0) == 8 && words[0] == 7);
	CHECK(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 7, 100) == 7 && words[0] == 100);
	CHECK(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 7, 200) == 100 && words[0] == 100 && words[1] == 77);
	struct ibv_sge halves[2] = {into(300, 3), into(310, 5)};
	words[0] = 0x0807060504030201;
	post_atomic(a.qp, 2, halves, 2, (struct word){(uintptr_t)&words[0], mr->rkey}, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	success(a.cq, 2, IBV_WC_FETCH_ADD);
	CHECK(memcmp(&words[300], "\1\2\3", 3) == 0 && memcmp(&words[310], "\4\5\6\7\10", 5) == 0);
	/* The result of an operation may lie on the word itself. */
	struct ibv_sge same = into(0, 8);
	words[0] = 40;
	post_atomic(a.qp, 3, &same, 1, (struct word){(uintptr_t)&words[0], mr->rkey}, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0);
	success(a.cq, 3, IBV_WC_FETCH_ADD);
	CHECK(words[0] == 40);
	/* Operations with results on the stack take the slow path.
	 * Later operations complete after them. */
	uint64_t here = 0;
	struct ibv_mr *stack = ibv_reg_mr(pd, &here, sizeof here, ALL);
	CHECK(stack != NULL);
	struct ibv_sge onto_stack = {(uintptr_t)&here, 8, stack->lkey};
	for (int i = 0; i < 50; i++) {
		struct ibv_sge list = into(256, 8);
		post_atomic(a.qp, 4, &onto_stack, 1, (struct word){(uintptr_t)&words[0], mr->rkey}, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		post_atomic(a.qp, 5, &list, 1, (struct word){(uintptr_t)&words[0], mr->rkey}, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		success(a.cq, 4, IBV_WC_FETCH_ADD);
		success(a.cq, 5, IBV_WC_FETCH_ADD);
		CHECK(*(volatile uint64_t *)&here == 40u + 2 * i && words[256] == 41u + 2 * i);
	}
	IS(0, ibv_dereg_mr(stack));
	puts("ok results of atomics, in one piece and in two");
}

static void refused(struct word at, struct ibv_sge list, int access, enum ibv_wc_status status, const char *what)
{
	connect_ends(access);
	words[0] = words[511] = 9;
	post_atomic(a.qp, 7, &list, 1, at, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	struct ibv_wc wc = completion(a.cq);
	if (wc.status != status) FAIL("%s ends with '%s'", what, ibv_wc_status_str(wc.status));
	CHECK(words[0] == 9 && words[511] == 9);
}

static void refusals(void)
{
	uint64_t first = (uintptr_t)&words[0];
	struct ibv_sge list = into(256, 8), read_only = list;

	read_only.lkey = unwritable->lkey;
	refused((struct word){first + 4, mr->rkey}, list, ALL, IBV_WC_REM_INV_REQ_ERR, "a word that is not aligned");
	refused((struct word){first + sizeof words, mr->rkey}, list, ALL, IBV_WC_REM_ACCESS_ERR, "a word behind the region");
	refused((struct word){first, closed->rkey}, list, ALL, IBV_WC_REM_ACCESS_ERR, "a region without the right");
	refused((struct word){first, mr->rkey}, list, ALL & ~IBV_ACCESS_REMOTE_ATOMIC, IBV_WC_REM_INV_REQ_ERR, "a queue pair without the right");
	refused((struct word){first, mr->rkey + 0x1000}, list, ALL, IBV_WC_REM_ACCESS_ERR, "a key of nobody");
	connect_ends(ALL);
	post_atomic(a.qp, 8, &read_only, 1, (struct word){first, mr->rkey}, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	ends(a.cq, 8, IBV_WC_LOC_PROT_ERR);
	puts("ok what atomics refuse");
}

static void without_engine(void)
{
	connect_ends(ALL);
	words[0] = 0;
	atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	engine_stands_still();
	for (uint64_t i = 1; i < 1000; i += 2) {
		CHECK(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0) == i);
		CHECK(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, i + 1, i + 2) == i + 1);
		write_word(3, i, i % 4 == 1);
	}
	engine_goes_on();
	puts("ok atomics need nobody else");
}

/* A thread blocks all signals while it creates a thread, and while it ends. */
static volatile int all_are_made;
static void *nothing(void *argument)
{
	return argument;
}

static void *makes_threads(void *argument)
{
	pthread_t made;

	while (!all_are_made) CHECK(pthread_create(&made, NULL, nothing, NULL) == 0 && pthread_join(made, NULL) == 0);
	return argument;
}

/* Starts a thread of the kernel if the system permits it. It blocks every signal, too. */
static void begin_io_uring(void)
{
	struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 60000};

	syscall(SYS_io_uring_setup, 4, &params);
}

static void beside_makers(void)
{
	enum { REGIONS = 300, MAKERS = 3 };
	static struct ibv_mr *regions[REGIONS];
	static uint64_t *there[REGIONS];
	pthread_t makers[MAKERS];

	begin_io_uring();
	for (int i = 0; i < MAKERS; i++) CHECK(pthread_create(&makers[i], NULL, makes_threads, NULL) == 0);
	for (int i = 0; i < REGIONS; i++) CHECK((there[i] = aligned_alloc(4096, 4096)) != NULL && (regions[i] = ibv_reg_mr(pd, there[i], 4096, ALL)) != NULL);
	all_are_made = 1;
	for (int i = 0; i < MAKERS; i++) CHECK(pthread_join(makers[i], NULL) == 0);
	connect_ends(ALL);
	engine_stands_still();
	for (int i = 0; i < REGIONS; i++) {
		struct ibv_sge list = into(256, 8);

		*there[i] = i;
		post_atomic(a.qp, i, &list, 1, (struct word){(uintptr_t)there[i], regions[i]->rkey}, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		success(a.cq, i, IBV_WC_FETCH_ADD);
		CHECK(words[256] == (uint64_t)i && *(volatile uint64_t *)there[i] == 1u + i);
	}
	engine_goes_on();
	for (int i = 0; i < REGIONS; i++) IS(0, ibv_dereg_mr(regions[i]));
	puts("ok memory that was registered beside makers of threads");
}

static void in_one_process(int stops, int makes)
{
	CHECK((mr = ibv_reg_mr(pd, words, sizeof words, ALL)) != NULL && (unwritable = ibv_reg_mr(pd, words, sizeof words, 0)) != NULL);
	CHECK((closed = ibv_reg_mr(pd, words, sizeof words, ALL & ~IBV_ACCESS_REMOTE_ATOMIC)) != NULL);
	a = new_end();
	b = new_end();
	if (stops) without_engine();
	if (makes) beside_makers();
	results();
	atomic_writes();
	refusals();
	atomic_write_refusals();
	destroy(&a);
	destroy(&b);
}

/* Tests between processes. Every operation adds one, so each sees another value.
 * Together they see all values from 0 on. */

struct hello {
	uint32_t qpn, lid;
	struct word shared, moved_never;
};
struct seen {
	uint64_t count[2], sum[2], squares[2];
};

static void exchange(int fd, const void *mine, void *theirs, size_t bytes)
{
	struct side s = {.control = fd};

	swap_bytes(&s, mine, theirs, bytes);
}

static void note(struct seen *seen, int which, uint64_t value)
{
	seen->count[which]++;
	seen->sum[which] += value;
	seen->squares[which] += value * value;
}

static uint64_t *shared_word;
static struct seen native[NATIVES];
static volatile int over;
static void *changes_natively(void *argument)
{
	/* The loop ends: a remote compare-and-swap may fail while a processor keeps changing the word. */
	for (int i = 0; !over && i < NATIVE_CHANGES; i++) {
		note(argument, 0, __atomic_fetch_add(shared_word, 1, __ATOMIC_SEQ_CST));
		for (volatile int pause = 0; pause < 200; pause++) {}
	}
	return NULL;
}

static void add_up(struct seen *all, const struct seen *part)
{
	for (int which = 0; which < 2; which++) {
		all->count[which] += part->count[which];
		all->sum[which] += part->sum[which];
		all->squares[which] += part->squares[which];
	}
}

static void is_right(const char *what, uint64_t word, const struct seen *seen, int which)
{
	uint64_t sum = 0, squares = 0;

	for (uint64_t value = 0; value < word; value++) {
		sum += value;
		squares += value * value;
	}
	if (word != seen->count[which]) FAIL("%s: %llu after %llu additions", what, (unsigned long long)word, (unsigned long long)seen->count[which]);
	if (sum != seen->sum[which] || squares != seen->squares[which]) FAIL("%s: two have seen the same", what);
}

static int listener_at(int number)
{
	struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(number), .sin_addr.s_addr = INADDR_ANY};
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
	CHECK(bind(listener, (struct sockaddr *)&where, sizeof where) == 0 && listen(listener, CONNECTIONS) == 0);
	return listener;
}

static void serve(int count, int natives)
{
	static _Alignas(4096) uint64_t page[512];
	uint64_t on_stack = 0; /* the library cannot move it to a shared file */
	struct ibv_mr *shared = ibv_reg_mr(pd, page, sizeof page, ALL), *stack = ibv_reg_mr(pd, &on_stack, sizeof on_stack, ALL);
	int listener = listener_at(PORT), fds[CONNECTIONS], done = 1;
	struct end ends[CONNECTIONS];
	pthread_t threads[NATIVES];
	struct hello theirs;
	struct seen all = {0}, part;

	CHECK(shared != NULL && stack != NULL && count <= CONNECTIONS);
	shared_word = &page[7];
	for (int i = 0; i < count; i++) {
		ends[i] = new_end();
		struct hello mine = {ends[i].qp->qp_num, port.lid, {(uintptr_t)shared_word, shared->rkey}, {(uintptr_t)&on_stack, stack->rkey}};
		CHECK((fds[i] = accept(listener, NULL, NULL)) >= 0);
		exchange(fds[i], &mine, &theirs, sizeof mine);
		make_ready(ends[i].qp, theirs.qpn, theirs.lid, ALL);
	}
	for (int i = 0; i < count; i++) CHECK(write(fds[i], &done, sizeof done) == sizeof done); /* start all at the same time */
	for (int i = 0; i < natives; i++) CHECK(pthread_create(&threads[i], NULL, changes_natively, &native[i]) == 0);
	for (int i = 0; i < count; i++) {
		CHECK(recv(fds[i], &part, sizeof part, MSG_WAITALL) == sizeof part);
		add_up(&all, &part);
	}
	over = 1;
	for (int i = 0; i < natives; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		add_up(&all, &native[i]);
	}
	is_right("memory that peers map", *shared_word, &all, 0);
	is_right("memory that they do not map", *(volatile uint64_t *)&on_stack, &all, 1);
	for (int i = 0; i < count; i++) {
		CHECK(write(fds[i], &done, sizeof done) == sizeof done);
		destroy(&ends[i]);
	}
}

static int connect_to(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char service[8];
	double start = seconds();

	snprintf(service, sizeof service, "%d", PORT);
	CHECK(getaddrinfo(host, service, &hints, &found) == 0);
	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		CHECK(fd >= 0);
		if (connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
			freeaddrinfo(found);
			return fd;
		}
		close(fd);
		if (seconds() - start > PATIENCE_SECONDS) FAIL("nobody serves at %s", host);
		usleep(10000);
	}
}

static uint64_t once(struct end *e, struct ibv_sge list, struct word at, enum ibv_wr_opcode opcode, uint64_t first, uint64_t swap)
{
	post_atomic(e->qp, 1, &list, 1, at, opcode, first, swap);
	success(e->cq, 1, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	return *(volatile uint64_t *)list.addr;
}

static void *changes_from_afar(void *host)
{
	int fd = connect_to(host), go;
	struct end e = new_end();
	uint64_t on_stack = 0, *on_heap = aligned_alloc(4096, 4096), guess = 0;
	struct ibv_mr *stack = ibv_reg_mr(pd, &on_stack, sizeof on_stack, ALL), *heap = ibv_reg_mr(pd, on_heap, 4096, ALL);
	struct hello mine = {.qpn = e.qp->qp_num, .lid = port.lid}, theirs;
	struct seen seen = {0};

	CHECK(stack != NULL && heap != NULL);
	exchange(fd, &mine, &theirs, sizeof mine);
	make_ready(e.qp, theirs.qpn, theirs.lid, ALL);
	CHECK(recv(fd, &go, sizeof go, MSG_WAITALL) == sizeof go);
	struct ibv_sge lists[2] = {{(uintptr_t)on_heap, 8, heap->lkey}, {(uintptr_t)&on_stack, 8, stack->lkey}};
	for (int i = 0; i < EACH; i++) {
		struct ibv_sge list = lists[i % 32 == 31]; /* a result on the stack: the slow path to the same word */
		int which = i % 64 == 63;
		struct word at = which ? theirs.moved_never : theirs.shared;

		if (i % 2) {
			note(&seen, which, once(&e, list, at, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0));
			continue;
		}
		for (;;) {
			uint64_t found = once(&e, list, at, IBV_WR_ATOMIC_CMP_AND_SWP, guess, guess + 1);
			if (found == guess) break;
			guess = found;
		}
		note(&seen, which, guess++);
	}
	CHECK(write(fd, &seen, sizeof seen) == sizeof seen && recv(fd, &go, sizeof go, MSG_WAITALL) == sizeof go);
	destroy(&e);
	IS(0, ibv_dereg_mr(stack));
	IS(0, ibv_dereg_mr(heap));
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	if (argc > 2 && strcmp(argv[1], "serve") == 0) {
		serve(atoi(argv[2]), argc > 3 ? NATIVES : 0);
	} else if (argc > 3 && strcmp(argv[1], "at") == 0) {
		pthread_t threads[CONNECTIONS];
		int count = atoi(argv[3]);

		for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, changes_from_afar, argv[2]) == 0);
		for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
	} else {
		in_one_process(argc > 1 && strcmp(argv[1], "stop") == 0, argc > 1 && strcmp(argv[1], "beside") == 0);
	}
	puts("all parts hold");
	return 0;
}
