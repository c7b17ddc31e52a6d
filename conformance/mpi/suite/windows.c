/* SPDX-License-Identifier: MIT OR Apache-2.0
 * One-sided calls between fences: put, get, accumulate and the atomic ones. */
#include "check.h"

#include <stdlib.h>

enum { WORDS = 8192 };

static int *open_window(MPI_Win *window)
{
	int *memory;

	MPI_Win_allocate(WORDS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, window);
	for (int i = 0; i < WORDS; i++)
		memory[i] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	return memory;
}

static void put(void)
{
	int *out = integers(WORDS), *memory;
	MPI_Win window;

	memory = open_window(&window);
	for (int count = 1; count <= WORDS; count *= 8) {
		fill(out, count, rank + count);
		MPI_Win_fence(0, window);
		MPI_Put(out, count, MPI_INT, next_rank(), 0, count, MPI_INT, window);
		MPI_Win_fence(0, window);
		EXPECT_FILLED(memory, count, previous_rank() + count);
	}
	MPI_Win_free(&window);
	free(out);
}

static void get(void)
{
	int *in = integers(WORDS), *memory;
	MPI_Win window;

	memory = open_window(&window);
	for (int count = 1; count <= WORDS; count *= 8) {
		fill(memory, count, rank + count);
		MPI_Win_fence(0, window);
		MPI_Get(in, count, MPI_INT, next_rank(), 0, count, MPI_INT, window);
		MPI_Win_fence(0, window);
		EXPECT_FILLED(in, count, next_rank() + count);
	}
	MPI_Win_free(&window);
	free(in);
}

/* A column of the target's matrix comes from a row. */
static void put_with_types(void)
{
	enum { SIDE = 64 };
	int *out = integers(SIDE), *memory, wanted[SIDE];
	MPI_Datatype column;
	MPI_Win window;

	memory = open_window(&window);
	MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &column);
	MPI_Type_commit(&column);
	fill(out, SIDE, rank);
	fill(wanted, SIDE, previous_rank());
	MPI_Win_fence(0, window);
	MPI_Put(out, SIDE, MPI_INT, next_rank(), 5, 1, column, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < SIDE * SIDE; i++)
		EXPECT(memory[i] == (i % SIDE == 5 ? wanted[i / SIDE] : 0));
	MPI_Type_free(&column);
	MPI_Win_free(&window);
	free(out);
}

/* All ranks add to the same words of rank 0. */
static void accumulate(void)
{
	int *out = integers(1000), *memory;
	MPI_Win window;

	memory = open_window(&window);
	for (int i = 0; i < 1000; i++)
		out[i] = rank + i;
	MPI_Win_fence(0, window);
	for (int i = 0; i < 3; i++)
		MPI_Accumulate(out, 1000, MPI_INT, 0, 0, 1000, MPI_INT, MPI_SUM, window);
	MPI_Accumulate(&rank, 1, MPI_INT, 0, 2000, 1, MPI_INT, MPI_MAX, window);
	MPI_Win_fence(0, window);
	for (int i = 0; rank == 0 && i < 1000; i++)
		EXPECT(memory[i] == 3 * (size * (size - 1) / 2 + size * i));
	EXPECT(memory[2000] == (rank == 0 ? size - 1 : 0));
	MPI_Win_free(&window);
	free(out);
}

static void get_accumulate(void)
{
	int *memory, one[4] = {1, 1, 1, 1}, old[4] = {-1, -1, -1, -1}, unused = 0, all = -1;
	MPI_Win window;

	memory = open_window(&window);
	MPI_Win_fence(0, window);
	MPI_Get_accumulate(one, 4, MPI_INT, old, 4, MPI_INT, 0, 0, 4, MPI_INT, MPI_SUM, window);
	MPI_Win_fence(0, window);
	/* Each rank saw another value, so the sum is that of 0 to size - 1. */
	MPI_Allreduce(&old[0], &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	EXPECT(all == size * (size - 1) / 2);
	MPI_Get_accumulate(&unused, 1, MPI_INT, &old[3], 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_NO_OP, window);
	MPI_Win_fence(0, window);
	EXPECT(old[3] == size);
	EXPECT(rank != 0 || memory[0] == size);
	MPI_Win_free(&window);
}

/* Each rank draws tickets from a counter at the last rank. No ticket comes twice. */
static void fetch_and_op(void)
{
	enum { DRAWS = 5 };
	int *tickets = integers(DRAWS), *all = integers(DRAWS * size), *memory, one = 1;
	MPI_Win window;

	memory = open_window(&window);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < DRAWS; i++) {
		MPI_Fetch_and_op(&one, &tickets[i], MPI_INT, size - 1, 0, MPI_SUM, window);
		MPI_Win_flush(size - 1, window);
		EXPECT(i == 0 || tickets[i] > tickets[i - 1]);
	}
	MPI_Win_unlock_all(window);
	MPI_Allgather(tickets, DRAWS, MPI_INT, all, DRAWS, MPI_INT, MPI_COMM_WORLD);
	for (int ticket = 0; ticket < DRAWS * size; ticket++) {
		int found = 0;

		for (int i = 0; i < DRAWS * size; i++)
			found += all[i] == ticket;
		EXPECT(found == 1);
	}
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	EXPECT(memory[0] == (rank == size - 1 ? DRAWS * size : 0));
	MPI_Win_unlock(rank, window);
	MPI_Win_free(&window);
	free(tickets);
	free(all);
}

/* One rank of all wins a word of each rank. */
static void compare_and_swap(void)
{
	int empty = 0, own = rank + 1, old = -1, won, winners = -1, *memory;
	MPI_Win window;

	memory = open_window(&window);
	for (int target = 0; target < size; target++) {
		MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
		MPI_Compare_and_swap(&own, &empty, &old, MPI_INT, target, 0, window);
		MPI_Win_unlock(target, window);
		won = old == 0;
		MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		EXPECT(winners == 1);
	}
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	EXPECT(memory[0] >= 1 && memory[0] <= size);
	MPI_Win_unlock(rank, window);
	MPI_Win_free(&window);
}

/* Operations with requests, in an epoch of all ranks. */
static void with_requests(void)
{
	int out[10], in[10] = {0}, add[10], *memory;
	MPI_Request request;
	MPI_Win window;

	memory = open_window(&window);
	fill(out, 10, rank);
	MPI_Win_lock_all(0, window);
	MPI_Rput(out, 10, MPI_INT, next_rank(), 0, 10, MPI_INT, window, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Win_flush(next_rank(), window);
	MPI_Rget(in, 10, MPI_INT, next_rank(), 0, 10, MPI_INT, window, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	EXPECT_FILLED(in, 10, rank);
	for (int i = 0; i < 10; i++)
		add[i] = i;
	MPI_Raccumulate(add, 10, MPI_INT, next_rank(), 100, 10, MPI_INT, MPI_SUM, window, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	EXPECT_FILLED(memory, 10, previous_rank());
	for (int i = 0; i < 10; i++)
		EXPECT(memory[100 + i] == i);
	MPI_Win_unlock(rank, window);
	MPI_Win_free(&window);
}

/* Ranks of a host load and store each other's part of a window. */
static void shared_between_ranks_of_a_host(void)
{
	int own, members, unit, *memory, *next;
	MPI_Comm host;
	MPI_Aint bytes;
	MPI_Win window;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &own);
	MPI_Comm_size(host, &members);
	MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, host, &memory, &window);
	MPI_Win_lock_all(0, window);
	*memory = 100 + own;
	MPI_Win_sync(window);
	MPI_Barrier(host);
	MPI_Win_sync(window);
	MPI_Win_shared_query(window, (own + 1) % members, &bytes, &unit, &next);
	EXPECT(bytes == sizeof(int) && unit == sizeof(int));
	EXPECT(*next == 100 + (own + 1) % members);
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
	MPI_Comm_free(&host);
}

const struct check WINDOWS[] = {
	{"put", put},
	{"get", get},
	{"put to a column", put_with_types},
	{"accumulate", accumulate},
	{"get_accumulate", get_accumulate},
	{"fetch_and_op", fetch_and_op},
	{"compare_and_swap", compare_and_swap},
	{"rput, rget and raccumulate", with_requests},
	{"shared between ranks of a host", shared_between_ranks_of_a_host},
	{0},
};
