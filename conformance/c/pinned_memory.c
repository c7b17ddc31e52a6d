/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel holds pages itself: buffers registered with io_uring. It reads into them while they
 * are also registered with an HCA, and afterwards. The program and its peers must see the data. */
#include "verbs_common.h"
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGE = 4096, BYTES = 512, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static int ring, ends_of_pipe[2];
static struct io_uring_params params;
static struct io_uring_sqe *requests;
static char *queues;

static void *part(size_t bytes, off_t offset)
{
	void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset);

	CHECK(found != MAP_FAILED);
	return found;
}

/* Opens an io_uring. Returns false if the system forbids it. */
static int open_ring(void)
{
	ring = syscall(SYS_io_uring_setup, 4, &params);
	if (ring < 0) {
		CHECK(errno == ENOSYS || errno == EPERM || errno == EACCES);
		return 0;
	}
	CHECK(params.features & IORING_FEAT_SINGLE_MMAP);
	queues = part(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_SQ_RING);
	requests = part(params.sq_entries * sizeof *requests, IORING_OFF_SQES);
	return 1;
}

static void pin(void *at)
{
	struct iovec all = {at, PAGE};

	IS(0, syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &all, 1));
}

/* Reads from the pipe into the buffer with number 0. */
static void read_fixed(void *to)
{
	_Atomic unsigned *tail = (void *)(queues + params.sq_off.tail), *head = (void *)(queues + params.cq_off.head);
	unsigned mask = *(unsigned *)(queues + params.sq_off.ring_mask), *array = (void *)(queues + params.sq_off.array);
	unsigned next = *tail & mask;
	struct io_uring_cqe *done = (void *)(queues + params.cq_off.cqes);

	requests[next] = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED, .fd = ends_of_pipe[0], .addr = (uintptr_t)to, .len = BYTES, .off = -1};
	array[next] = next;
	atomic_fetch_add(tail, 1);
	IS(1, syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
	IS(BYTES, done[*head & *(unsigned *)(queues + params.cq_off.ring_mask)].res);
	atomic_fetch_add(head, 1);
}

static void arrives(uint8_t *page, int seed, const char *when)
{
	uint8_t sent[BYTES];

	fill(sent, BYTES, seed);
	memset(page, 0, BYTES);
	CHECK(write(ends_of_pipe[1], sent, BYTES) == BYTES);
	read_fixed(page);
	if (memcmp(page, sent, BYTES) != 0) FAIL("what the kernel has read is not there %s", when);
	printf("ok what the kernel reads is there %s\n", when);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint8_t *first = aligned_alloc(PAGE, PAGE), *second = aligned_alloc(PAGE, PAGE);

	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	CHECK(first != NULL && second != NULL && pipe(ends_of_pipe) == 0);
	if (!open_ring()) {
		puts("no io_uring here");
		return 0;
	}
	pin(first);
	struct ibv_mr *mr = ibv_reg_mr(pd, first, PAGE, ALL);
	CHECK(mr != NULL);
	arrives(first, 1, "in memory that was registered with it before");
	IS(0, ibv_dereg_mr(mr));
	arrives(first, 2, "when the region is gone");
	IS(0, syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0));
	CHECK((mr = ibv_reg_mr(pd, second, PAGE, ALL)) != NULL);
	pin(second);
	arrives(second, 3, "in memory that was registered with it afterwards");
	IS(0, ibv_dereg_mr(mr));
	arrives(second, 4, "when that region is gone, too");
	puts("all parts hold");
	return 0;
}
