/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A lying program: for SECONDS it writes random words over all memory that it shares with the
 * engine and with its peers:
 *   scribble SECONDS SEED all        everywhere, half of the words in headers, where areas begin
 *   scribble SECONDS SEED behind     not into the first page, where the engine detects it at once
 * Some words are deliberate: "transfer in flight" markers, process numbers, small counters. */
#include "verbs_common.h"
#include <sys/mman.h>

enum { AREAS = 64, PAGE = 4096, HEADER_BYTES = 64 << 10 };

static struct { uint64_t *words; size_t count; } areas[AREAS];
static int count, spared;
static uint64_t state;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Finds the shared areas that this process has mapped, by the names that the kernel shows. */
static void find_areas(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], rights[8];
	unsigned long start, end;

	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps) && count < AREAS)
		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && rights[1] == 'w' && strstr(line, "memfd:softband")) {
			areas[count].words = (uint64_t *)start;
			areas[count++].count = (end - start) / sizeof(uint64_t);
		}
	fclose(maps);
	CHECK(count > 0);
}

static uint64_t lie(void)
{
	switch (next_random() % 4) {
	case 0: return next_random() | 1;
	case 1: return next_random() % 1024;
	case 2: return (uint64_t)getpid() << 32 | (next_random() & 3);
	default: return next_random();
	}
}

static void scribble(void)
{
	uint64_t area = next_random() % count, words = areas[area].count, head = HEADER_BYTES / sizeof(uint64_t);
	uint64_t place = next_random() % (next_random() % 2 && words > head ? head : words);

	if (place >= (uint64_t)spared) areas[area].words[place] = lie();
}

static void queue_pair(struct side *side)
{
	struct ibv_qp_init_attr init = {.send_cq = side->send_cq, .recv_cq = side->recv_cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(side->pd, &init);

	CHECK(qp != NULL);
	to_init(qp);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct side side = {0};
	struct timespec now, until;

	CHECK(argc == 4);
	spared = strcmp(argv[3], "behind") ? 0 : PAGE / sizeof(uint64_t);
	state = strtoull(argv[2], NULL, 0) * 2 + 1;
	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	CHECK((side.buffer = aligned_alloc(PAGE, BUFFER_BYTES)));
	memset(side.buffer, 0, BUFFER_BYTES);
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((side.send_cq = side.recv_cq = ibv_create_cq(side.context, 64, NULL, NULL, 0)));
	for (int made = 0; made < 4; made++) queue_pair(&side);
	find_areas();
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += atoi(argv[1]);
	do {
		for (int times = 0; times < 1000; times++) scribble();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < until.tv_sec);
	_exit(0);
}
