/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Memory and errors. */
#include "weather.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *memory(size_t count, size_t size)
{
	void *at = calloc(count ? count : 1, size);

	if (!at) {
		fprintf(stderr, "softband-weather: no memory for %zu times %zu bytes\n  choose a smaller grid, or more hosts\n", count, size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return at;
}

void refuse(int rank, const char *form, ...)
{
	va_list values;

	if (rank == 0) {
		va_start(values, form);
		fprintf(stderr, "softband-weather: ");
		vfprintf(stderr, form, values);
		fprintf(stderr, "\n");
		va_end(values);
	}
	MPI_Finalize();
	exit(2);
}
