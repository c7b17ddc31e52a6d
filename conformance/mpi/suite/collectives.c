/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Blocking collectives, with each root and several lengths. */
#include "check.h"

#include <stdlib.h>

enum { COUNT = 3000 };

static const int COUNTS[] = {1, 50, COUNT};

static void barrier(void)
{
	int data = -1;

	/* A rank that has left the barrier may rely on what others did before it. */
	for (int root = 0; root < size; root++) {
		MPI_Request request;
		int there = 0;

		if (rank == root)
			for (int i = 0; i < size; i++)
				if (i != root)
					MPI_Send(&rank, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
		if (rank != root) {
			MPI_Irecv(&data, 1, MPI_INT, root, 1, MPI_COMM_WORLD, &request);
			while (!there)
				MPI_Test(&request, &there, MPI_STATUS_IGNORE);
			EXPECT(data == root);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

static void broadcast(void)
{
	int *data = integers(LONGEST);

	for (int i = 0; i < LENGTH_COUNT; i++)
		for (int root = 0; root < size; root++) {
			fill(data, LENGTHS[i], rank == root ? root + i : -1);
			MPI_Bcast(data, LENGTHS[i], MPI_INT, root, MPI_COMM_WORLD);
			EXPECT_FILLED(data, LENGTHS[i], root + i);
		}
	free(data);
}

/* Returns what element `i` is after a reduction of `rank + i` by an operation. */
static long long reduced(MPI_Op op, int ranks, int i)
{
	long long result = i;

	for (int r = 1; r < ranks; r++) {
		long long v = r + i;

		if (op == MPI_SUM)
			result += v;
		else if (op == MPI_PROD)
			result = (long long)((unsigned long long)result * (unsigned long long)v);
		else if (op == MPI_MAX)
			result = v > result ? v : result;
		else if (op == MPI_MIN)
			result = v < result ? v : result;
		else if (op == MPI_BAND)
			result &= v;
		else if (op == MPI_BOR)
			result |= v;
		else if (op == MPI_BXOR)
			result ^= v;
		else if (op == MPI_LAND)
			result = result && v;
		else if (op == MPI_LOR)
			result = result || v;
		else
			result = !result != !v;
	}
	return result;
}

static void expect_reduced(const long long *in, int count, MPI_Op op, int ranks, int first)
{
	for (int i = 0; i < count; i++)
		EXPECT(in[i] == reduced(op, ranks, first + i));
}

static long long *terms(int count)
{
	long long *out = malloc(count * sizeof *out);

	for (int i = 0; i < count; i++)
		out[i] = rank + i;
	return out;
}

static void reduce(void)
{
	long long *out = terms(COUNT), *in = malloc(COUNT * sizeof *in);

	for (int c = 0; c < 3; c++)
		for (int root = 0; root < size; root++) {
			MPI_Reduce(out, in, COUNTS[c], MPI_LONG_LONG, MPI_SUM, root, MPI_COMM_WORLD);
			if (rank == root)
				expect_reduced(in, COUNTS[c], MPI_SUM, size, 0);
		}
	MPI_Reduce(rank ? out : MPI_IN_PLACE, rank ? NULL : out, COUNT, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		expect_reduced(out, COUNT, MPI_MAX, size, 0);
	free(out);
	free(in);
}

static void allreduce(void)
{
	const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
	long long *out = terms(COUNT), *in = malloc(COUNT * sizeof *in);

	for (int op = 0; op < 10; op++)
		for (int c = 0; c < 3; c++) {
			MPI_Allreduce(out, in, COUNTS[c], MPI_LONG_LONG, ops[op], MPI_COMM_WORLD);
			/* Logical operations of one rank leave the value, so only two or more have a result of 0 or 1. */
			if (op < 7 || size > 1)
				expect_reduced(in, COUNTS[c], ops[op], size, 0);
		}
	MPI_Allreduce(MPI_IN_PLACE, out, COUNT, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	expect_reduced(out, COUNT, MPI_SUM, size, 0);
	free(out);
	free(in);
}

/* Composes maps x -> ax + b modulo 2^32: associative, not commutative. */
static void compose(void *first, void *second, int *count, MPI_Datatype *type)
{
	unsigned *a = first, *b = second;

	(void)type;
	for (int i = 0; i < *count; i++, a += 2, b += 2) {
		b[1] += b[0] * a[1];
		b[0] *= a[0];
	}
}

static void own_operation(void)
{
	unsigned own[2] = {2 * (unsigned)rank + 3, (unsigned)rank + 1}, all[2], wanted[2] = {3, 1};
	MPI_Datatype pair;
	MPI_Op op;
	int one = 1;

	MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
	MPI_Type_commit(&pair);
	MPI_Op_create(compose, 0, &op);
	MPI_Allreduce(own, all, 1, pair, op, MPI_COMM_WORLD);
	for (int r = 1; r < size; r++) {
		unsigned next[2] = {2 * (unsigned)r + 3, (unsigned)r + 1};

		compose(wanted, next, &one, NULL);
		wanted[0] = next[0];
		wanted[1] = next[1];
	}
	EXPECT(all[0] == wanted[0]);
	EXPECT(all[1] == wanted[1]);
	MPI_Op_free(&op);
	MPI_Type_free(&pair);
}

static void locations(void)
{
	struct { double value; int where; } own = {(rank * 7) % size, rank}, most, least;
	int wanted_most = 0, wanted_least = 0;

	MPI_Allreduce(&own, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	MPI_Allreduce(&own, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++) {
		if (r * 7 % size > wanted_most * 7 % size)
			wanted_most = r;
		if (r * 7 % size < wanted_least * 7 % size)
			wanted_least = r;
	}
	EXPECT(most.where == wanted_most && most.value == wanted_most * 7 % size);
	EXPECT(least.where == wanted_least && least.value == wanted_least * 7 % size);
}

static void scans(void)
{
	long long *out = terms(COUNT), *in = malloc(COUNT * sizeof *in);

	for (int c = 0; c < 3; c++) {
		MPI_Scan(out, in, COUNTS[c], MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
		expect_reduced(in, COUNTS[c], MPI_SUM, rank + 1, 0);
		MPI_Exscan(out, in, COUNTS[c], MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
		if (rank > 0)
			expect_reduced(in, COUNTS[c], MPI_SUM, rank, 0);
	}
	free(out);
	free(in);
}

static void reduce_scatter(void)
{
	long long *out = terms(size * COUNT), *in = malloc(size * COUNT * sizeof *in);
	int *counts = integers(size), first = 0, total = 0;

	for (int c = 0; c < 3; c++) {
		MPI_Reduce_scatter_block(out, in, COUNTS[c], MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
		expect_reduced(in, COUNTS[c], MPI_SUM, size, rank * COUNTS[c]);
	}
	for (int r = 0; r < size; total += counts[r++]) {
		counts[r] = r % 3 * 100;
		first += r < rank ? counts[r] : 0;
	}
	MPI_Reduce_scatter(out, in, counts, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
	expect_reduced(in, counts[rank], MPI_MAX, size, first);
	EXPECT(total <= size * COUNT);
	free(counts);
	free(out);
	free(in);
}

static void gather_scatter(void)
{
	int *all = integers(size * COUNT), *own = integers(COUNT);

	for (int c = 0; c < 3; c++)
		for (int root = 0; root < size; root++) {
			int count = COUNTS[c];

			fill(own, count, rank + root);
			MPI_Gather(own, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
			for (int r = 0; rank == root && r < size; r++) {
				EXPECT_FILLED(all + r * count, count, r + root);
				fill(all + r * count, count, r + 5);
			}
			MPI_Scatter(all, count, MPI_INT, own, count, MPI_INT, root, MPI_COMM_WORLD);
			EXPECT_FILLED(own, count, rank + 5);
		}
	free(all);
	free(own);
}

static void allgather(void)
{
	int *all = integers(size * COUNT), *own = integers(COUNT);

	for (int c = 0; c < 3; c++) {
		fill(own, COUNTS[c], rank);
		MPI_Allgather(own, COUNTS[c], MPI_INT, all, COUNTS[c], MPI_INT, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			EXPECT_FILLED(all + r * COUNTS[c], COUNTS[c], r);
	}
	fill(all + rank * COUNT, COUNT, rank + 9);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, COUNT, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++)
		EXPECT_FILLED(all + r * COUNT, COUNT, r + 9);
	free(all);
	free(own);
}

static void alltoall(void)
{
	int *out = integers(size * COUNT), *in = integers(size * COUNT);

	for (int c = 0; c < 3; c++) {
		int count = COUNTS[c];

		for (int r = 0; r < size; r++)
			fill(out + r * count, count, rank * 100 + r);
		MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			EXPECT_FILLED(in + r * count, count, r * 100 + rank);
		MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, MPI_INT, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			EXPECT_FILLED(out + r * count, count, r * 100 + rank);
	}
	free(out);
	free(in);
}

const struct check COLLECTIVES[] = {
	{"barrier", barrier},
	{"bcast", broadcast},
	{"reduce", reduce},
	{"allreduce, 10 operations", allreduce},
	{"allreduce, own operation in order", own_operation},
	{"maxloc and minloc", locations},
	{"scan and exscan", scans},
	{"reduce_scatter and reduce_scatter_block", reduce_scatter},
	{"gather and scatter", gather_scatter},
	{"allgather", allgather},
	{"alltoall", alltoall},
	{0},
};
