/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Epochs of one-sided calls: post and wait, locks, flushes; and each kind of window. */
#include "check.h"

#include <stdlib.h>

enum { WORDS = 1024 };

static int *open_window(MPI_Win *window)
{
	int *memory = calloc(WORDS, sizeof(int));

	MPI_Win_create(memory, WORDS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, window);
	MPI_Barrier(MPI_COMM_WORLD);
	return memory;
}

static void close_window(MPI_Win *window, int *memory)
{
	MPI_Win_free(window);
	free(memory);
}

/* Each rank exposes its window to the previous one, and writes to the next one. */
static void post_start_complete_wait(void)
{
	int *memory, out[WORDS], before = previous_rank(), after = next_rank(), done = 0;
	MPI_Group world, origins, targets;
	MPI_Win window;

	memory = open_window(&window);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &before, &origins);
	MPI_Group_incl(world, 1, &after, &targets);
	for (int round = 0; round < 3; round++) {
		fill(out, WORDS, rank + round);
		MPI_Win_post(origins, 0, window);
		MPI_Win_start(targets, 0, window);
		MPI_Put(out, WORDS, MPI_INT, after, 0, WORDS, MPI_INT, window);
		MPI_Win_complete(window);
		if (round % 2)
			MPI_Win_wait(window);
		else
			for (done = 0; !done;)
				MPI_Win_test(window, &done);
		EXPECT_FILLED(memory, WORDS, before + round);
	}
	MPI_Group_free(&world);
	MPI_Group_free(&origins);
	MPI_Group_free(&targets);
	close_window(&window, memory);
}

/* All ranks read, add 1 and write back under an exclusive lock. No addition is lost. */
static void exclusive_lock(void)
{
	int *memory, value = -1;
	MPI_Win window;

	memory = open_window(&window);
	for (int i = 0; i < 4; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
		MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
		MPI_Win_flush(0, window);
		value++;
		MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
		MPI_Win_unlock(0, window);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
	MPI_Win_unlock(0, window);
	EXPECT(value == 4 * size);
	close_window(&window, memory);
}

/* A flush to one rank completes there; a flush to all completes everywhere. */
static void flushes(void)
{
	int *memory, in[2] = {-1, -1}, own = rank + 1;
	MPI_Win window;

	memory = open_window(&window);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
	MPI_Put(&own, 1, MPI_INT, next_rank(), rank, 1, MPI_INT, window);
	MPI_Win_flush(next_rank(), window);
	MPI_Get(&in[0], 1, MPI_INT, next_rank(), rank, 1, MPI_INT, window);
	MPI_Win_flush_local(next_rank(), window);
	EXPECT(in[0] == own);
	for (int r = 0; r < size; r++)
		MPI_Put(&own, 1, MPI_INT, r, 100 + rank, 1, MPI_INT, window);
	MPI_Win_flush_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(window);
	for (int r = 0; r < size; r++)
		EXPECT(memory[100 + r] == r + 1);
	MPI_Win_unlock_all(window);
	close_window(&window, memory);
}

/* Fences with assertions about what stands before and behind them. */
static void asserted_fences(void)
{
	int *memory, own = rank + 5;
	MPI_Win window;

	memory = open_window(&window);
	MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
	MPI_Put(&own, 1, MPI_INT, next_rank(), 0, 1, MPI_INT, window);
	MPI_Win_fence(MPI_MODE_NOSTORE, window);
	EXPECT(memory[0] == previous_rank() + 5);
	MPI_Put(&own, 1, MPI_INT, previous_rank(), 1, 1, MPI_INT, window);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
	EXPECT(memory[1] == next_rank() + 5);
	close_window(&window, memory);
}

/* Memory that a rank attaches after the window is there. */
static void dynamic_window(void)
{
	int *memory = calloc(WORDS, sizeof(int)), out[WORDS];
	MPI_Aint own, *all = malloc(size * sizeof *all);
	MPI_Win window;

	fill(out, WORDS, rank);
	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_attach(window, memory, WORDS * sizeof(int));
	MPI_Get_address(memory, &own);
	MPI_Allgather(&own, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
	MPI_Win_fence(0, window);
	MPI_Put(out, WORDS, MPI_INT, next_rank(), all[next_rank()], WORDS, MPI_INT, window);
	MPI_Win_fence(0, window);
	EXPECT_FILLED(memory, WORDS, previous_rank());
	MPI_Win_detach(window, memory);
	MPI_Win_free(&window);
	free(memory);
	free(all);
}

/* Each rank has another unit, and rank 0 has no memory. */
static void different_units(void)
{
	int unit = rank % 2 ? 1 : (int)sizeof(int), *memory = calloc(WORDS, sizeof(int)), own = rank + 3;
	MPI_Win window;

	MPI_Win_create(memory, rank ? WORDS * sizeof(int) : 0, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	if (next_rank() != 0)
		MPI_Put(&own, 1, MPI_INT, next_rank(), next_rank() % 2 ? 40 : 10, 1, MPI_INT, window);
	MPI_Win_fence(0, window);
	EXPECT(memory[10] == (rank ? previous_rank() + 3 : 0));
	close_window(&window, memory);
}

const struct check SYNCHRONIZATION[] = {
	{"post, start, complete, wait and test", post_start_complete_wait},
	{"exclusive lock", exclusive_lock},
	{"flush, flush_all and flush_local", flushes},
	{"fences with assertions", asserted_fences},
	{"dynamic window", dynamic_window},
	{"units of displacement", different_units},
	{0},
};
