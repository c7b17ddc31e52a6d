/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Registered memory still belongs to the program: threads that write next to it lose nothing,
 * children of a fork have their own copy, and regions may overlap. Stacks, files and newly mapped
 * memory work as well. Two queue pairs of one process. */
#include "verbs_common.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { PAGE = 4096, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;

static struct ibv_qp *new_queue_pair(void) {
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp != NULL);
	return qp;
}

static void make_ready(struct ibv_qp *qp, uint32_t peer) {
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	IS(0, ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	at = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = {.dlid = port.lid, .port_num = 1}};
	IS(0, ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	at = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 3, .rnr_retry = 7, .max_rd_atomic = 1, .sq_psn = 1};
	IS(0, ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_mr *reg(void *at, size_t bytes) {
	struct ibv_mr *mr = ibv_reg_mr(pd, at, bytes, ALL);
	CHECK(mr != NULL);
	return mr;
}

static void rdma(enum ibv_wr_opcode opcode, void *local, struct ibv_mr *local_mr, void *remote, struct ibv_mr *remote_mr, uint32_t bytes) {
	struct ibv_sge sge = {(uintptr_t)local, bytes, local_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = remote_mr->rkey;
	IS(0, ibv_post_send(a, &wr, &bad));
	struct ibv_wc wc = completion(cq);
	if (wc.status != IBV_WC_SUCCESS) FAIL("ends with %s", ibv_wc_status_str(wc.status));
}

/* Moves bytes from one place to the other both ways, and checks them. */
static void works(void *left, struct ibv_mr *left_mr, void *right, struct ibv_mr *right_mr, uint32_t bytes, int seed) {
	fill(left, bytes, seed);
	memset(right, 0, bytes);
	rdma(IBV_WR_RDMA_WRITE, left, left_mr, right, right_mr, bytes);
	same(right, bytes, seed);
	fill(right, bytes, seed + 1);
	rdma(IBV_WR_RDMA_READ, left, left_mr, right, right_mr, bytes);
	same(left, bytes, seed + 1);
	/* Then one message. */
	struct ibv_sge to = {(uintptr_t)right, bytes, right_mr->lkey}, from = {(uintptr_t)left, bytes, left_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 6, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND};
	fill(left, bytes, seed + 2);
	IS(0, receive(b, 7, to));
	IS(0, post(a, wr));
	ends(cq, 7, IBV_WC_SUCCESS);
	same(right, bytes, seed + 2);
}

/* A counter beside the buffer. Another thread writes it all the time. */
static char shared_page[4 * PAGE];
static volatile int stop;
static volatile uint64_t *const counter = (uint64_t *)(shared_page + PAGE - 64);

static void *count_up(void *lost) {
	uint64_t own = *counter;
	while (!stop) {
		if (*counter != own) *(uint64_t *)lost += 1;
		own = *counter + 1;
		*counter = own;
	}
	return NULL;
}

static void beside_a_writer(void) {
	uint64_t lost = 0, last = 0;
	pthread_t thread;
	char *buffer = shared_page + 16;
	CHECK(pthread_create(&thread, NULL, count_up, &lost) == 0);
	for (int round = 0; round < 300; round++) {
		struct ibv_mr *mr = reg(buffer, 3 * PAGE);
		struct ibv_mr *other = reg(buffer + 1000, 64);
		/* The transfer writes only the bytes before the counter. */
		works(buffer, mr, buffer + 1000, other, 64, round);
		IS(0, ibv_dereg_mr(mr));
		IS(0, ibv_dereg_mr(other));
		CHECK(*counter >= last);
		last = *counter;
	}
	stop = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	if (lost || last == 0) FAIL("%llu of %llu writes were lost", (unsigned long long)lost, (unsigned long long)*counter);
	printf("ok a thread that writes beside the buffer loses nothing\n");
}

static void overlapping(void) {
	char *heap = malloc(64 * PAGE);
	CHECK(heap);
	struct ibv_mr *whole = reg(heap, 64 * PAGE), *part = reg(heap + 10 * PAGE + 100, 5 * PAGE), *again = reg(heap, 64 * PAGE);
	works(heap + 20, whole, heap + 11 * PAGE, part, 3000, 1);
	IS(0, ibv_dereg_mr(whole));
	works(heap + 20, again, heap + 11 * PAGE, part, 3000, 2);
	IS(0, ibv_dereg_mr(again));
	char target[PAGE];
	struct ibv_mr *stack = reg(target, sizeof target);
	works(target, stack, heap + 11 * PAGE, part, 3000, 3);
	IS(0, ibv_dereg_mr(part));
	same((uint8_t *)heap + 11 * PAGE, 3000, 5);
	free(heap);
	IS(0, ibv_dereg_mr(stack));
	printf("ok regions overlap, and go one by one; stacks serve as well\n");
}

static void mapped_anew(void) {
	size_t bytes = 3 << 20;
	char own[256];
	struct ibv_mr *mine = reg(own, sizeof own);
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	for (int round = 0; round < 5; round++) {
		struct ibv_mr *mr = reg(at, bytes);
		for (size_t i = 0; i < bytes; i += PAGE)
			if (at[i + 9] != 0) FAIL("round %d: page %zu is not empty", round, i / PAGE);
		memset(at, 77, bytes);
		works(own, mine, at + bytes - 300, mr, 256, round);
		IS(0, ibv_dereg_mr(mr));
		CHECK(at[bytes / 2] == 77);
		/* Fresh pages at the same place. */
		CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	}
	CHECK(munmap(at, bytes) == 0);
	char name[] = "/tmp/registered-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, 8 * PAGE) == 0);
	at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(at != MAP_FAILED);
	struct ibv_mr *mr = reg(at, 8 * PAGE);
	works(own, mine, at + PAGE, mr, 256, 9);
	char back[256];
	CHECK(pread(file, back, 256, PAGE) == 256);
	same((uint8_t *)back, 256, 11);
	IS(0, ibv_dereg_mr(mr));
	IS(0, ibv_dereg_mr(mine));
	CHECK(munmap(at, 8 * PAGE) == 0);
	close(file);
	printf("ok memory that is mapped anew, and a file's\n");
}

static void forked(void) {
	size_t bytes = 40 * PAGE;
	uint8_t *buffer = malloc(bytes), *other = malloc(bytes);
	struct ibv_mr *mr = reg(buffer, bytes), *other_mr = reg(other, bytes);
	int status, told[2];
	char word = 0;
	fill(buffer, bytes, 1);
	CHECK(pipe(told) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		/* By now the parent has changed its own copy. */
		if (read(told[0], &word, 1) != 1) _exit(2);
		for (size_t i = 0; i < bytes; i++)
			if (buffer[i] != (uint8_t)(1 + i * 7 + i / 251)) _exit(3);
		memset(buffer, 0xEE, bytes);
		memset(other, 0xEE, bytes);
		/* The heap works. */
		for (int i = 0; i < 100; i++) free(malloc(i * 100));
		_exit(0);
	}
	works(other, other_mr, buffer, mr, bytes, 30);
	CHECK(write(told[1], &word, 1) == 1);
	CHECK(waitpid(child, &status, 0) == child);
	if (status) FAIL("the child ends with %d", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	same(buffer, bytes, 32);
	works(buffer, mr, other, other_mr, bytes, 50);
	IS(0, ibv_dereg_mr(mr));
	IS(0, ibv_dereg_mr(other_mr));
	free(buffer);
	free(other);
	printf("ok a child of a fork has its own\n");
}

/* Registers small heap blocks, which share pages with
 * the allocator's data. The child's heap must be whole. */
static void forked_heap(void) {
	enum { BLOCKS = 8, BLOCK = 3000 };
	uint8_t *block[BLOCKS];
	struct ibv_mr *mr[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		CHECK((block[i] = malloc(BLOCK)) != NULL);
		memset(block[i], i, BLOCK);
		mr[i] = reg(block[i], BLOCK);
	}
	for (int round = 0; round < 10; round++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			for (int i = 0; i < 2000; i++) {
				void *some = malloc(16 + i * 37 % 3000);
				if (i % 3) free(some);
			}
			for (int i = 0; i < BLOCKS; i++)
				for (int j = 0; j < BLOCK; j++)
					if (block[i][j] != i) _exit(3);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		free(malloc(100 * round + 50));
	}
	for (int i = 0; i < BLOCKS; i++) {
		IS(0, ibv_dereg_mr(mr[i]));
		free(block[i]);
	}
	printf("ok a child's heap is whole\n");
}

/* Checks a region after a change of its range, and keys after their reuse. */
static void changed(void) {
	char *left = malloc(8 * PAGE), *right = malloc(8 * PAGE);
	struct ibv_mr *mr = reg(left, 8 * PAGE), *other = reg(right, 8 * PAGE);

	works(left, mr, right, other, 500, 1);
	IS(0, ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_TRANSLATION, pd, right + 4 * PAGE, 2 * PAGE, 0));
	works(left, mr, right + 4 * PAGE, other, 500, 2);
	IS(0, ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_TRANSLATION, pd, right, 8 * PAGE, 0));
	works(left, mr, right + 6 * PAGE, other, 500, 3);
	IS(0, ibv_dereg_mr(other));
	for (int round = 0; round < 600; round++) {
		char *place = round % 2 ? right : right + 5 * PAGE;
		other = reg(place, 2 * PAGE);
		if (round % 50 == 49 || round < 4) works(left, mr, place + 100, other, 64, round);
		IS(0, ibv_dereg_mr(other));
	}
	IS(0, ibv_dereg_mr(mr));
	free(left);
	free(right);
	printf("ok changed regions, and keys that come again\n");
}

/* A signal handler counts in a page while its own thread
 * moves the page. Another thread tolerates no fault. */
static volatile long *inside, outside;
static volatile char *beside;

static void count(int unused) {
	(void)unused;
	/* Either thread may be interrupted. */
	__atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&outside, 1, __ATOMIC_SEQ_CST);
}

static volatile int blocked;

/* Avoids the C library: the fault on a moving page would end it. */
static void *undisturbed(void *unused) {
	uint64_t all = ~(uint64_t)0;
	CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all) == 0);
	blocked = 1;
	while (!stop) beside[0]++;
	return unused;
}

/* Blocks all signals at any moment, even between
 * the library's check of threads and its page move. */
static void *blocking_again(void *unused) {
	sigset_t all, former;
	sigfillset(&all);
	blocked = 1;
	while (!stop) {
		CHECK(pthread_sigmask(SIG_SETMASK, &all, &former) == 0);
		for (int i = 0; i < 20000; i++) beside[0]++;
		CHECK(pthread_sigmask(SIG_SETMASK, &former, NULL) == 0);
		for (int i = 0; i < 20000; i++) beside[0]++;
	}
	return unused;
}

static void interrupted(void *(*with_thread)(void *), const char *how) {
	struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
	char *buffer = aligned_alloc(PAGE, 1 << 20);
	pthread_t thread;

	CHECK(buffer);
	memset(buffer, 1, 1 << 20);
	inside = (volatile long *)(buffer + 64);
	*inside = outside = 0;
	beside = buffer + PAGE + 64;
	stop = blocked = 0;
	if (with_thread) {
		CHECK(pthread_create(&thread, NULL, with_thread, NULL) == 0);
		while (!blocked) sched_yield();
	}
	CHECK(signal(SIGALRM, count) != SIG_ERR && setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (int round = 0; round < 500; round++) {
		struct ibv_mr *mr = reg(buffer, 1 << 20);
		IS(0, ibv_dereg_mr(mr));
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	stop = 1;
	if (with_thread) CHECK(pthread_join(thread, NULL) == 0);
	if (*inside != outside) FAIL("a handler counted %ld, of which %ld are there", outside, *inside);
	free(buffer);
	printf("ok signals while pages move%s\n", how);
}

/* The program's own handler still gets the program's own faults. */
static volatile sig_atomic_t faults;
static char *guarded;

static void on_fault(int signal, siginfo_t *info, void *unused) {
	(void)signal, (void)unused;
	if ((char *)info->si_addr != guarded + 10) _exit(9);
	faults++;
	mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
}

static void own_handler(void) {
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	guarded = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(guarded != MAP_FAILED);
	stop = 0;
	beside_a_writer();
	guarded[10] = 1;
	CHECK(faults == 1 && guarded[10] == 1);
	printf("ok a program's own faults are its own\n");
}

int main(void) {
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	IS(0, ibv_query_port(context, 1, &port));
	a = new_queue_pair();
	b = new_queue_pair();
	make_ready(a, b->qp_num);
	make_ready(b, a->qp_num);
	overlapping();
	mapped_anew();
	forked();
	forked_heap();
	changed();
	interrupted(NULL, "");
	stop = 0;
	beside_a_writer();
	interrupted(undisturbed, ", and a thread that blocks all of them");
	interrupted(blocking_again, ", and a thread that blocks all of them now and then");
	own_handler();
	IS(0, ibv_destroy_qp(a));
	IS(0, ibv_destroy_qp(b));
	printf("all parts hold\n");
	return 0;
}
