/* SPDX-License-Identifier: MIT OR Apache-2.0
 * EP: Gaussian pairs of random numbers, counted in squares (specification, 2.2). */
#include "npb.h"

#include <math.h>
#include <stdio.h>

enum { BLOCK_LOG = 16, RINGS = 10 };

static const struct size {
	int pairs_log;
	double x, y; /* sums of the Gaussian numbers */
} SIZES[CLASSES] = {
	{24, -3.247834652034740e3, -6.958407078382297e3}, {25, -2.863319731645753e3, -6.320053679109499e3},
	{28, -4.295875165629892e3, -1.580732573678431e4}, {30, 4.033815542441498e4, -2.660669192809235e4},
	{32, 4.764367927995374e4, -8.084072988043731e4},
};

static const uint64_t SEED = 271828183;

/* Sums of a rank: x, y, and the number of pairs in each square ring. */
struct sums {
	double x, y, rings[RINGS];
};

/* Adds a block of 2^16 pairs. The polar method turns a pair in the circle into two Gaussian numbers. */
static void add_block(uint64_t block, struct sums *sums)
{
	uint64_t seed = seed_after(SEED, block << (BLOCK_LOG + 1));

	for (int i = 0; i < 1 << BLOCK_LOG; i++) {
		double x = 2 * next_random(&seed) - 1, y = 2 * next_random(&seed) - 1, square = x * x + y * y, factor;

		if (square > 1)
			continue;
		factor = sqrt(-2 * log(square) / square);
		x *= factor;
		y *= factor;
		sums->x += x;
		sums->y += y;
		sums->rings[(int)fmax(fabs(x), fabs(y))]++;
	}
}

void run_ep(const struct job *job, struct outcome *outcome)
{
	const struct size *size = &SIZES[job->class];
	uint64_t blocks = UINT64_C(1) << (size->pairs_log - BLOCK_LOG);
	uint64_t first = blocks * job->rank / job->ranks, end = blocks * (job->rank + 1) / job->ranks;
	struct sums own = {0}, all;
	double start;

	if (blocks < (uint64_t)job->ranks)
		refuse(job, "ep: class %c has %d blocks for %d ranks\n  start fewer ranks", job->name, (int)blocks, job->ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (uint64_t block = first; block < end; block++)
		add_block(block, &own);
	MPI_Allreduce(&own.x, &all.x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&own.y, &all.y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(own.rings, all.rings, RINGS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	outcome->seconds = MPI_Wtime() - start;
	outcome->operations = ldexp(1, size->pairs_log + 1);
	snprintf(outcome->size, sizeof outcome->size, "2^%d", size->pairs_log + 1);
	outcome->verdict = agree(all.x, size->x, 1e-8) && agree(all.y, size->y, 1e-8) ? SUCCESSFUL : UNSUCCESSFUL;
	if (job->rank == 0)
		printf(" sums %.15e %.15e\n", all.x, all.y);
}
