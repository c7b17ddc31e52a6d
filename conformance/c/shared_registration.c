/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * shared_registration BESIDE OWN WAY: registers memory that another process has mapped, and writes it
 * by an HCA. BESIDE is the work of the other process before that: it writes the memory, reads it, does
 * neither, or has ended. OWN is that of the registering process: it writes, reads, or neither. WAY is
 * the call by which it registers. At the end a page without the right to write must be refused. */
#define _GNU_SOURCE
#include "verbs_common.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, BYTES = 4 * PAGE, WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

static int is(const char *word, const char *name)
{
	return strcmp(word, name) == 0;
}

static void touch(const char *how, volatile uint64_t *word)
{
	if (is(how, "writes")) ++*word;
	if (is(how, "reads")) (void)*word;
}

static pid_t begin_beside(const char *how, volatile uint64_t *words)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child > 0) return child;
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		touch(how, words + 1);
	}
	/* Sees the bytes of the HCA. */
	while (!is(how, "ends") && words[2] != 77)
		usleep(100);
	_exit(0);
}

static struct ibv_mr *registered(struct ibv_pd *pd, void *memory, const char *way)
{
	if (is(way, "plain")) return ibv_reg_mr(pd, memory, BYTES, WRITES);
	if (is(way, "receive")) return ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (is(way, "demand")) return ibv_reg_mr(pd, memory, BYTES, WRITES | IBV_ACCESS_ON_DEMAND);
	if (is(way, "implicit")) return ibv_reg_mr(pd, NULL, SIZE_MAX, WRITES | IBV_ACCESS_ON_DEMAND);
	CHECK(is(way, "again"));

	static uint64_t former[BYTES / 8];
	struct ibv_mr *mr = ibv_reg_mr(pd, former, BYTES, WRITES);

	CHECK(mr);
	IS(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, pd, memory, BYTES, 0));
	return mr;
}

static void join(struct side *s, struct ibv_qp *qp, struct ibv_qp *to)
{
	struct address mine = own_address(s, qp), peer = own_address(s, to);

	to_init(qp);
	to_ready(s, qp, &mine, &peer);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	volatile uint64_t *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static uint64_t from[8];
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct side s = {0};
	struct ibv_mr *source;
	struct ibv_qp *qp, *to;
	pid_t child;

	CHECK(words != MAP_FAILED && devices && devices[0]);
	words[0] = 1;
	child = begin_beside(argv[1], words);
	s.context = ibv_open_device(devices[0]);
	s.pd = ibv_alloc_pd(s.context);
	IS(0, ibv_query_port(s.context, 1, &s.port));
	IS(0, ibv_query_gid(s.context, 1, 0, &s.gid));
	s.send_cq = s.recv_cq = ibv_create_cq(s.context, 16, NULL, NULL, 0);
	if (is(argv[1], "ends")) CHECK(waitpid(child, NULL, 0) == child);
	else usleep(5000);
	touch(argv[2], words + 3);
	s.mr = registered(s.pd, (void *)words, argv[3]);
	CHECK(s.mr);
	source = ibv_reg_mr(s.pd, from, sizeof from, IBV_ACCESS_LOCAL_WRITE);
	CHECK(source);

	qp = make_qp(&s, IBV_QPT_RC);
	to = make_qp(&s, IBV_QPT_RC);
	s.buffer = (void *)words;
	join(&s, qp, to);
	join(&s, to, qp);
	usleep(1000);
	from[0] = 77;
	struct ibv_sge sge = {(uintptr_t)from, 8, source->lkey}, room = {(uintptr_t)(words + 2), 8, s.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)(words + 2), s.mr->rkey}};
	if (is(argv[3], "receive")) {
		IS(0, receive(to, 5, room));
		wr.opcode = IBV_WR_SEND;
	}
	IS(0, post(qp, wr));
	for (int i = is(argv[3], "receive"); i >= 0; i--)
		CHECK(completion(s.send_cq).status == IBV_WC_SUCCESS);
	CHECK(words[2] == 77);
	if (!is(argv[1], "ends")) CHECK(waitpid(child, NULL, 0) == child);
	IS(0, mprotect((void *)words, PAGE, PROT_READ));
	NONE(EFAULT, ibv_reg_mr(s.pd, (void *)words, BYTES, WRITES));
	printf("ok\n");
	return 0;
}
