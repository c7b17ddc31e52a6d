/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Collectives with a length for each rank, some of them 0, and with gaps between the parts. */
#include "check.h"

#include <stdlib.h>

enum { STEP = 700 };

/* The part of rank `r`: 0 elements for rank 0, then more and more. */
static int part(int r)
{
	return r * 40;
}

/* Fills counts and places. The parts lie in reverse order. */
static int places(int *counts, int *displacements)
{
	for (int r = 0; r < size; r++) {
		counts[r] = part(r);
		displacements[r] = (size - 1 - r) * STEP;
	}
	return size * STEP;
}

static void gatherv_scatterv(void)
{
	int *counts = integers(size), *displacements = integers(size);
	int length = places(counts, displacements), *all = integers(length), *own = integers(STEP);

	for (int root = 0; root < size; root++) {
		fill(own, part(rank), rank + root);
		MPI_Gatherv(own, part(rank), MPI_INT, all, counts, displacements, MPI_INT, root, MPI_COMM_WORLD);
		for (int r = 0; rank == root && r < size; r++) {
			EXPECT_FILLED(all + displacements[r], counts[r], r + root);
			EXPECT(all[displacements[r] + counts[r]] == -1);
			fill(all + displacements[r], counts[r], r + 3);
		}
		MPI_Scatterv(all, counts, displacements, MPI_INT, own, part(rank), MPI_INT, root, MPI_COMM_WORLD);
		EXPECT_FILLED(own, part(rank), rank + 3);
	}
	free(counts);
	free(displacements);
	free(all);
	free(own);
}

static void allgatherv(void)
{
	int *counts = integers(size), *displacements = integers(size);
	int length = places(counts, displacements), *all = integers(length), *own = integers(STEP);

	fill(own, part(rank), rank);
	MPI_Allgatherv(own, part(rank), MPI_INT, all, counts, displacements, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++) {
		EXPECT_FILLED(all + displacements[r], counts[r], r);
		EXPECT(all[displacements[r] + counts[r]] == -1);
	}
	free(counts);
	free(displacements);
	free(all);
	free(own);
}

/* Rank a sends (a + b) % 5 * 60 elements to rank b. */
static int share(int from, int to)
{
	return (from + to) % 5 * 60;
}

static void alltoallv(void)
{
	int *counts = integers(size), *displacements = integers(size);
	int *out = integers(size * STEP), *in = integers(size * STEP);

	for (int r = 0; r < size; r++) {
		counts[r] = share(rank, r);
		displacements[r] = r * STEP;
		fill(out + displacements[r], counts[r], rank * 100 + r);
	}
	MPI_Alltoallv(out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++) {
		EXPECT_FILLED(in + displacements[r], counts[r], r * 100 + rank);
		EXPECT(in[displacements[r] + counts[r]] == -1);
	}
	free(counts);
	free(displacements);
	free(out);
	free(in);
}

static void alltoallw(void)
{
	int *counts = integers(size), *displacements = integers(size);
	int *out = integers(size * STEP), *in = integers(size * STEP);
	MPI_Datatype *types = malloc(size * sizeof *types), pair;

	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	for (int r = 0; r < size; r++) {
		types[r] = (rank + r) % 2 ? pair : MPI_INT;
		counts[r] = share(rank, r) / ((rank + r) % 2 ? 2 : 1);
		displacements[r] = r * STEP * (int)sizeof(int);
		fill(out + r * STEP, share(rank, r), rank * 100 + r);
	}
	MPI_Alltoallw(out, counts, displacements, types, in, counts, displacements, types, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++)
		EXPECT_FILLED(in + r * STEP, share(rank, r), r * 100 + rank);
	MPI_Type_free(&pair);
	free(types);
	free(counts);
	free(displacements);
	free(out);
	free(in);
}

const struct check VECTORS[] = {
	{"gatherv and scatterv", gatherv_scatterv},
	{"allgatherv", allgatherv},
	{"alltoallv", alltoallv},
	{"alltoallw", alltoallw},
	{0},
};
