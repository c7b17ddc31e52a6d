/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Random numbers, sums over ranks, memory and errors. */
#include "lattice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014. */
uint64_t mix(uint64_t bits)
{
	bits += UINT64_C(0x9e3779b97f4a7c15);
	bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
	return bits ^ bits >> 31;
}

double random_number(uint64_t seed, uint64_t site, uint64_t slot)
{
	uint64_t bits = mix(mix(mix(seed) + site) + slot);

	return (double)(bits >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

void sum_over_ranks(const struct geometry *geometry, double *numbers, int count)
{
	if (geometry->ranks > 1)
		MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void add_over_ranks(const struct geometry *geometry, int64_t *numbers, int count)
{
	if (geometry->ranks > 1)
		MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

void *memory(size_t count, size_t size)
{
	void *at = calloc(count ? count : 1, size);

	if (!at) {
		fprintf(stderr, "softband-lattice: no memory for %zu times %zu bytes\n  choose a smaller lattice, or more hosts\n", count, size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return at;
}

void refuse(int rank, const char *form, ...)
{
	va_list values;

	if (rank == 0) {
		va_start(values, form);
		fprintf(stderr, "softband-lattice: ");
		vfprintf(stderr, form, values);
		fprintf(stderr, "\n");
		va_end(values);
	}
	MPI_Finalize();
	exit(2);
}
