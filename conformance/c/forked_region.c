/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A forked child releases its copy of a region's record, as UCX does. The region stays with the
 * parent, and so does a region of the child's own with the child. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)
enum { CHILDREN = 2 };

static struct ibv_mr *region_of(struct ibv_context **context, char *memory)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (*context = ibv_open_device(list[0])));
	struct ibv_pd *pd = ibv_alloc_pd(*context);
	CHECK(pd);
	return ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
}

int main(void)
{
	static _Alignas(4096) char memory[8192];
	struct ibv_context *context;
	struct ibv_mr *mr = region_of(&context, memory);
	CHECK(mr);
	for (int number = 0; number < CHILDREN; number++) {
		fflush(stdout);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			struct ibv_context *again;
			/* The second child is a process with verbs of its own by then. */
			struct ibv_mr *own = number ? region_of(&again, memory + 4096) : NULL;
			CHECK(!number || own);
			CHECK(ibv_dereg_mr(mr) == 0);
			CHECK(!own || ibv_dereg_mr(own) == 0);
			printf("child %d released its copy\n", number);
			fflush(stdout);
			_exit(0);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	printf("parent released its region\n");
	return 0;
}
