/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * shared_memory KIND WAY ROUNDS: a ping-pong on a word between two processes of a host. KIND is the
 * kind of the shared mapping, WAY is how a side waits for the word of the other. The parent prints
 * the nanoseconds of a hand-over, without the first rounds. */
#define _GNU_SOURCE
#include "verbs_common.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { WARM_UP = 8, BYTES = 1 << 16, LOOKS_MAX = 1 << 30 };

/* The two sides write to pages of their own, as the queues of MPI libraries do. */
struct ball {
	_Alignas(4096) _Atomic uint32_t parent;
	sem_t for_parent;
	_Alignas(4096) _Atomic uint32_t child;
	sem_t for_child;
	_Alignas(4096) pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_barrier_t barrier;
	uint32_t turn;
};

static struct ball *ball;
static const char *way;
static struct ibv_cq *cqs[2];
static sem_t *named[2];
/* The word that the other process reads or writes by a system call. */
static _Atomic uint32_t own;
static pid_t other;
static volatile long looks;
static volatile long thousands;
static int is_parent;

/* Makes the memory before the fork. Returns a descriptor or the number of a segment. */
static int make(const char *kind)
{
	char name[64];
	int fd;

	snprintf(name, sizeof name, "/softband-%s-%d", kind, (int)getpid());
	if (strncmp(kind, "sysv", 4) == 0) return shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
	if (strcmp(kind, "inherited") == 0) {
		ball = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		CHECK(ball != MAP_FAILED);
		return 0;
	}
	if (strcmp(kind, "memfd") == 0 || strstr(kind, "by_") != NULL) {
		fd = memfd_create("ball", 0);
	} else if (strcmp(kind, "shm_open") == 0) {
		fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		CHECK(fd >= 0);
		IS(0, shm_unlink(name));
	} else {
		CHECK(strcmp(kind, "file") == 0);
		fd = open(".", O_TMPFILE | O_RDWR, 0600);
	}
	CHECK(fd >= 0);
	IS(0, ftruncate(fd, BYTES));
	return fd;
}

/* Makes a system call by an own instruction. */
static void *call_kernel(int made)
{
	register long flags __asm__("r10") = MAP_SHARED, fd __asm__("r8") = made, offset __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_mmap), "D"(NULL), "S"(BYTES), "d"(PROT_READ | PROT_WRITE), "r"(flags), "r"(fd), "r"(offset)
			 : "rcx", "r11", "memory");
	return (void *)result;
}

/* Maps the memory, in each process by itself: by the linker's functions, by those that the C library
 * has in its own table, or by a system call. Libraries that change calls of `mmap` use all of them. */
static void map(const char *kind, int made)
{
	void *library = dlopen("libc.so.6", RTLD_LAZY);

	CHECK(library != NULL);
	if (strcmp(kind, "inherited") == 0) return;
	if (strcmp(kind, "sysv") == 0) {
		ball = shmat(made, NULL, 0);
	} else if (strcmp(kind, "sysv_by_library") == 0) {
		void *(*attach)(int, const void *, int) = (void *(*)(int, const void *, int))dlsym(library, "shmat");

		ball = attach(made, NULL, 0);
	} else if (strcmp(kind, "by_library") == 0) {
		void *(*map)(void *, size_t, int, int, int, off_t) =
			(void *(*)(void *, size_t, int, int, int, off_t))dlsym(library, "mmap");

		ball = map(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
	} else if (strcmp(kind, "remapped_by_library") == 0) {
		void *(*remap)(void *, size_t, size_t, int, ...) =
			(void *(*)(void *, size_t, size_t, int, ...))dlsym(library, "mremap");

		ball = mmap(NULL, BYTES / 2, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
		CHECK(ball != MAP_FAILED);
		ball = remap(ball, BYTES / 2, BYTES, MREMAP_MAYMOVE);
	} else if (strcmp(kind, "by_syscall") == 0) {
		ball = (void *)syscall(SYS_mmap, NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
	} else if (strcmp(kind, "by_instruction") == 0) {
		ball = call_kernel(made);
	} else {
		ball = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
	}
	CHECK(ball != MAP_FAILED);
}

static void make_locks(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_barrierattr_t barrier;

	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	IS(0, pthread_mutex_init(&ball->mutex, &mutex));
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	IS(0, pthread_cond_init(&ball->changed, &cond));
	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
	IS(0, pthread_barrier_init(&ball->barrier, &barrier, 2));
	IS(0, sem_init(&ball->for_parent, 1, 0));
	IS(0, sem_init(&ball->for_child, 1, 0));
}

static void open_queues(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context != NULL);
	for (int n = 0; n < 2; n++) {
		cqs[n] = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
		CHECK(cqs[n] != NULL);
	}
}

static void look(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	IS(0, ibv_poll_cq(cq, 1, &wc));
}

/* Does what the way does between two looks at the word. */
static void between(_Atomic uint32_t *word, uint32_t seen)
{
	struct timespec now;

	if (strcmp(way, "cq") == 0) {
		look(cqs[0]);
	} else if (strcmp(way, "cqs") == 0) {
		look(cqs[0]);
		look(cqs[1]);
	} else if (strcmp(way, "twice") == 0) {
		look(cqs[0]);
		look(cqs[0]);
	} else if (strcmp(way, "yield") == 0) {
		sched_yield();
	} else if (strcmp(way, "clock") == 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} else if (strcmp(way, "counted") == 0) {
		looks++;
	} else if (strcmp(way, "limited") == 0) {
		if (++looks > LOOKS_MAX) FAIL("nothing came");
	} else if (strcmp(way, "remainder") == 0) {
		if (++looks % 1000 == 0) thousands++;
	} else if (strcmp(way, "futex") == 0) {
		syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
	}
}

/* Waits until a word of the other side has a value. */
static void await(_Atomic uint32_t *word, uint32_t value)
{
	uint32_t seen;

	while ((seen = atomic_load_explicit(word, memory_order_acquire)) != value) between(word, seen);
}

static void await_remote(uint32_t value)
{
	uint32_t seen = 0;
	struct iovec here = {.iov_base = &seen, .iov_len = sizeof seen}, there = {.iov_base = &own, .iov_len = sizeof own};

	while (seen != value) CHECK(process_vm_readv(other, &here, 1, &there, 1, 0) == sizeof seen);
}

static void write_remote(uint32_t value)
{
	struct iovec here = {.iov_base = &value, .iov_len = sizeof value}, there = {.iov_base = &own, .iov_len = sizeof own};

	CHECK(process_vm_writev(other, &here, 1, &there, 1, 0) == sizeof value);
}

static void take_turn(uint32_t turn)
{
	IS(0, pthread_mutex_lock(&ball->mutex));
	while (ball->turn != turn) IS(0, pthread_cond_wait(&ball->changed, &ball->mutex));
	ball->turn++;
	IS(0, pthread_cond_signal(&ball->changed));
	IS(0, pthread_mutex_unlock(&ball->mutex));
}

static void hold(uint32_t turn)
{
	int is_mine = 0;

	while (!is_mine) {
		IS(0, pthread_mutex_lock(&ball->mutex));
		is_mine = ball->turn == turn;
		ball->turn += is_mine;
		IS(0, pthread_mutex_unlock(&ball->mutex));
		if (!is_mine) sched_yield();
	}
}

/* One round: the parent's half comes first. */
static void play(uint32_t round)
{
	_Atomic uint32_t *mine = is_parent ? &ball->parent : &ball->child, *theirs = is_parent ? &ball->child : &ball->parent;

	if (strcmp(way, "semaphore") == 0 || strcmp(way, "named") == 0) {
		int is_named = way[0] == 'n';
		sem_t *post = is_named ? named[is_parent] : is_parent ? &ball->for_child : &ball->for_parent;
		sem_t *wait = is_named ? named[!is_parent] : is_parent ? &ball->for_parent : &ball->for_child;

		if (is_parent) IS(0, sem_post(post));
		IS(0, sem_wait(wait));
		if (!is_parent) IS(0, sem_post(post));
	} else if (strcmp(way, "mutex") == 0) {
		hold(2 * round + !is_parent);
	} else if (strcmp(way, "condition") == 0) {
		take_turn(2 * round + !is_parent);
	} else if (strcmp(way, "barrier") == 0) {
		for (int n = 0; n < 2; n++) {
			int answer = pthread_barrier_wait(&ball->barrier);

			CHECK(answer == 0 || answer == PTHREAD_BARRIER_SERIAL_THREAD);
		}
	} else if (strcmp(way, "readv") == 0) {
		if (!is_parent) await_remote(round + 1);
		atomic_store(&own, round + 1);
		if (is_parent) await_remote(round + 1);
	} else if (strcmp(way, "writev") == 0) {
		if (is_parent) write_remote(round + 1);
		while (atomic_load(&own) != round + 1) look(cqs[0]);
		if (!is_parent) write_remote(round + 1);
	} else {
		if (!is_parent) await(theirs, round + 1);
		atomic_store_explicit(mine, round + 1, memory_order_release);
		if (strcmp(way, "futex") == 0) syscall(SYS_futex, mine, FUTEX_WAKE, 1, NULL, NULL, 0);
		if (is_parent) await(theirs, round + 1);
	}
}

int main(int count, char **words)
{
	CHECK(count == 4);
	way = words[2];
	const char *kind = words[1];
	uint32_t rounds = (uint32_t)atoi(words[3]);
	int made = make(kind), status;
	double begun = 0;

	CHECK(made >= 0);
	for (int n = 0; n < 2 && strcmp(way, "named") == 0; n++) {
		char name[64];

		snprintf(name, sizeof name, "/softband-%d-%d", (int)getpid(), n);
		named[n] = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
		CHECK(named[n] != SEM_FAILED);
		IS(0, sem_unlink(name));
	}
	if (strcmp(kind, "inherited") != 0) map(kind, made);
	make_locks();
	pid_t parent = getpid(), child = fork();
	CHECK(child >= 0);
	is_parent = child != 0;
	other = is_parent ? child : parent;
	if (!is_parent) map(kind, made);
	if (strncmp(way, "cq", 2) == 0 || strcmp(way, "twice") == 0 || strcmp(way, "writev") == 0) open_queues();
	for (uint32_t round = 0; round < rounds + WARM_UP; round++) {
		if (round == WARM_UP) begun = seconds();
		play(round);
	}
	/* The parent still reads the child's word. */
	if (strcmp(way, "readv") == 0 && !is_parent) await_remote(rounds + WARM_UP + 1);
	if (!is_parent) return 0;
	printf("%s %s %.0f\n", kind, way, (seconds() - begun) / (2.0 * rounds) * 1e9);
	atomic_store(&own, rounds + WARM_UP + 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
