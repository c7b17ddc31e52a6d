/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Random numbers of the specification, memory and errors. */
#include "npb.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t MASK = (UINT64_C(1) << 46) - 1;

double next_random(uint64_t *seed)
{
	/* The low 46 bits of a product need no wider arithmetic. */
	*seed = *seed * MULTIPLIER & MASK;
	return (double)*seed / (double)(MASK + 1);
}

uint64_t seed_after(uint64_t seed, uint64_t count)
{
	uint64_t factor = MULTIPLIER;

	for (; count; count >>= 1) {
		if (count & 1)
			seed = seed * factor & MASK;
		factor = factor * factor & MASK;
	}
	return seed;
}

void *memory(size_t count, size_t size)
{
	void *at = calloc(count ? count : 1, size);

	if (!at) {
		fprintf(stderr, "softband-npb: no memory for %zu times %zu bytes\n  choose a smaller class, or more hosts\n", count, size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return at;
}

void refuse(const struct job *job, const char *form, ...)
{
	va_list values;

	if (job->rank == 0) {
		va_start(values, form);
		fprintf(stderr, "softband-npb: ");
		vfprintf(stderr, form, values);
		fprintf(stderr, "\n");
		va_end(values);
	}
	MPI_Finalize();
	exit(2);
}

int agree(double value, double reference, double error)
{
	return fabs((value - reference) / reference) <= error;
}
