/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Nonblocking collectives, alone and several at once. */
#include "check.h"

#include <stdlib.h>

enum { COUNT = 2000 };

/* Waits by tests, as a program does that overlaps computation. */
static void finish(MPI_Request *request)
{
	int done = 0;

	while (!done)
		MPI_Test(request, &done, MPI_STATUS_IGNORE);
	EXPECT(*request == MPI_REQUEST_NULL);
}

static void barrier(void)
{
	MPI_Request request;

	for (int i = 0; i < 3; i++) {
		MPI_Ibarrier(MPI_COMM_WORLD, &request);
		finish(&request);
	}
}

static void broadcast(void)
{
	int *data = integers(LONGEST);
	MPI_Request request;

	for (int i = 0; i < LENGTH_COUNT; i++)
		for (int root = 0; root < size; root += 3) {
			fill(data, LENGTHS[i], rank == root ? root + i : -1);
			MPI_Ibcast(data, LENGTHS[i], MPI_INT, root, MPI_COMM_WORLD, &request);
			finish(&request);
			EXPECT_FILLED(data, LENGTHS[i], root + i);
		}
	free(data);
}

static void expect_sums(const int *in, int count, int ranks, int first)
{
	for (int i = 0; i < count; i++)
		EXPECT(in[i] == ranks * (ranks - 1) / 2 + ranks * (first + i));
}

static int *terms(int count)
{
	int *out = integers(count);

	for (int i = 0; i < count; i++)
		out[i] = rank + i;
	return out;
}

static void reductions(void)
{
	int *out = terms(COUNT), *in = integers(COUNT);
	MPI_Request request;

	MPI_Iallreduce(out, in, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	finish(&request);
	expect_sums(in, COUNT, size, 0);
	MPI_Ireduce(out, in, COUNT, MPI_INT, MPI_SUM, size - 1, MPI_COMM_WORLD, &request);
	finish(&request);
	if (rank == size - 1)
		expect_sums(in, COUNT, size, 0);
	MPI_Iscan(out, in, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	finish(&request);
	expect_sums(in, COUNT, rank + 1, 0);
	MPI_Iexscan(out, in, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	finish(&request);
	if (rank > 0)
		expect_sums(in, COUNT, rank, 0);
	free(out);
	free(in);
}

static void reduce_scatter(void)
{
	int *out = terms(size * 100), *in = integers(100), *counts = integers(size);
	MPI_Request request;

	MPI_Ireduce_scatter_block(out, in, 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	finish(&request);
	expect_sums(in, 100, size, rank * 100);
	for (int r = 0; r < size; r++)
		counts[r] = 50;
	MPI_Ireduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	finish(&request);
	expect_sums(in, 50, size, rank * 50);
	free(out);
	free(in);
	free(counts);
}

static void gather_scatter(void)
{
	int *all = integers(size * COUNT), *own = integers(COUNT), root = size / 2;
	MPI_Request request;

	fill(own, COUNT, rank);
	MPI_Igather(own, COUNT, MPI_INT, all, COUNT, MPI_INT, root, MPI_COMM_WORLD, &request);
	finish(&request);
	for (int r = 0; rank == root && r < size; r++) {
		EXPECT_FILLED(all + r * COUNT, COUNT, r);
		fill(all + r * COUNT, COUNT, r + 5);
	}
	MPI_Iscatter(all, COUNT, MPI_INT, own, COUNT, MPI_INT, root, MPI_COMM_WORLD, &request);
	finish(&request);
	EXPECT_FILLED(own, COUNT, rank + 5);
	free(all);
	free(own);
}

static void exchanges(void)
{
	int *out = integers(size * COUNT), *in = integers(size * COUNT);
	MPI_Request request;

	for (int r = 0; r < size; r++)
		fill(out + r * COUNT, COUNT, rank * 100 + r);
	MPI_Ialltoall(out, COUNT, MPI_INT, in, COUNT, MPI_INT, MPI_COMM_WORLD, &request);
	finish(&request);
	for (int r = 0; r < size; r++)
		EXPECT_FILLED(in + r * COUNT, COUNT, r * 100 + rank);
	MPI_Iallgather(out, COUNT, MPI_INT, in, COUNT, MPI_INT, MPI_COMM_WORLD, &request);
	finish(&request);
	for (int r = 0; r < size; r++)
		EXPECT_FILLED(in + r * COUNT, COUNT, r * 100);
	free(out);
	free(in);
}

/* The collectives with a length for each rank. */
static void vectors(void)
{
	int *counts = integers(size), *places = integers(size), *out = integers(size * 100), *in = integers(size * 100);
	MPI_Request request;

	for (int r = 0; r < size; r++) {
		counts[r] = (rank + r) % 4 * 25;
		places[r] = r * 100;
		fill(out + places[r], counts[r], rank * 100 + r);
	}
	MPI_Ialltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD, &request);
	finish(&request);
	for (int r = 0; r < size; r++)
		EXPECT_FILLED(in + places[r], counts[r], r * 100 + rank);
	for (int r = 0; r < size; r++)
		counts[r] = r % 4 * 25;
	fill(out, counts[rank], rank);
	MPI_Iallgatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD, &request);
	finish(&request);
	for (int r = 0; r < size; r++)
		EXPECT_FILLED(in + places[r], counts[r], r);
	MPI_Igatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, 0, MPI_COMM_WORLD, &request);
	finish(&request);
	MPI_Iscatterv(in, counts, places, MPI_INT, out, counts[rank], MPI_INT, 0, MPI_COMM_WORLD, &request);
	finish(&request);
	EXPECT_FILLED(out, counts[rank], rank);
	free(counts);
	free(places);
	free(out);
	free(in);
}

/* Several collectives are under way at once, with messages between them. */
static void together(void)
{
	int *sums = integers(COUNT), *terms_ = terms(COUNT), *data = integers(COUNT), own = rank, other = -1;
	MPI_Request requests[5];

	fill(data, COUNT, rank == 0 ? 1 : 2);
	MPI_Iallreduce(terms_, sums, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
	MPI_Ibcast(data, COUNT, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
	MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
	MPI_Irecv(&other, 1, MPI_INT, previous_rank(), 3, MPI_COMM_WORLD, &requests[3]);
	MPI_Isend(&own, 1, MPI_INT, next_rank(), 3, MPI_COMM_WORLD, &requests[4]);
	MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
	expect_sums(sums, COUNT, size, 0);
	EXPECT_FILLED(data, COUNT, 1);
	EXPECT(other == previous_rank());
	free(sums);
	free(terms_);
	free(data);
}

const struct check NONBLOCKING[] = {
	{"ibarrier", barrier},
	{"ibcast", broadcast},
	{"iallreduce, ireduce, iscan and iexscan", reductions},
	{"ireduce_scatter and ireduce_scatter_block", reduce_scatter},
	{"igather and iscatter", gather_scatter},
	{"ialltoall and iallgather", exchanges},
	{"ialltoallv, iallgatherv, igatherv and iscatterv", vectors},
	{"five operations at once", together},
	{0},
};
