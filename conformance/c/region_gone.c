/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread stops in the midst of an RDMA write. The peer deregisters the region and registers
 * another, whose key has the same place. Another thread writes to the new region. Then the first
 * thread continues: its remaining bytes go nowhere else. The test runs on one host, the writer is a
 * child. */
#include "verbs_common.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PAGE = 4096, FIRST_BYTES = 2 * PAGE, SECOND_BYTES = 1 << 20, WRITTEN = 16 };

static struct shared {
	volatile int is_held, is_registered, is_written;
	volatile uint32_t rkey;
	volatile uint64_t address;
} *shared;
static uint8_t *page;
static struct ibv_qp *qps[2];
static struct side side;

static void held_up(int number, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;

	(void)number;
	(void)context;
	if (at < page || at >= page + PAGE) _exit(99); /* its target is not mapped any more */
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	shared->is_held = 1;
	while (!shared->is_written) usleep(1000);
}

static void write_to(struct ibv_qp *qp, uint64_t address, uint32_t rkey, struct ibv_sge sge, unsigned flags)
{
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED | flags};

	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = rkey;
	IS(0, post(qp, wr));
}

static void *other_thread(void *unused)
{
	while (!shared->is_registered) usleep(1000);
	write_to(qps[1], shared->address, shared->rkey, piece(&side, 0, 8), 0);
	struct ibv_wc wc = completion(side.send_cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qps[1]->qp_num);
	shared->is_written = 1;
	return unused;
}

static void writer(struct address peer)
{
	struct sigaction action = {.sa_sigaction = held_up, .sa_flags = SA_SIGINFO | SA_NODEFER};
	pthread_t thread;

	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(page, 7, PAGE);
	mprotect(page, PAGE, PROT_NONE);
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && pthread_create(&thread, NULL, other_thread, NULL) == 0);
	struct ibv_sge sge = {(uintptr_t)page, WRITTEN, 0};
	write_to(qps[0], peer.buffer, peer.rkey, sge, IBV_SEND_INLINE);
	pthread_join(thread, NULL);
}

int main(void)
{
	struct ibv_device **devices;
	struct address peer = {0};
	int pair[2], status;

	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	side.is_client = child == 0;
	side.control = pair[side.is_client];
	if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
	devices = ibv_get_device_list(NULL);
	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	side.buffer = mmap(NULL, FIRST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *second = mmap(NULL, SECOND_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, FIRST_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((side.send_cq = side.recv_cq = ibv_create_cq(side.context, 64, NULL, NULL, 0)));
	for (int i = 0; i < 2; i++) {
		qps[i] = make_qp(&side, IBV_QPT_RC);
		to_init(qps[i]);
		peer = connect_qp(&side, qps[i]);
	}
	meet(&side, 1);
	if (child == 0) {
		writer(peer);
		return 0;
	}
	while (!shared->is_held) usleep(1000);
	IS(0, ibv_dereg_mr(side.mr));
	CHECK((side.mr = ibv_reg_mr(side.pd, second, SECOND_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	shared->address = (uintptr_t)second;
	shared->rkey = side.mr->rkey;
	shared->is_registered = 1;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	for (int i = 0; i < SECOND_BYTES; i++) CHECK(second[i] == 0);
	printf("region_gone: as it should be\n");
	return 0;
}
