/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Global sums. They have integers, so their order does not matter. */
#include "weather.h"

#include <math.h>
#include <string.h>

static const double SCALE = 1073741824;

/* An unstable run ends with a wrong sum, but no word overflows. Densities are below 2 kg/m^3. */
static const double VALUE_MAX = 7;

/* Two words of a fixed-point number. */
static void add_fixed(int64_t sum[2], double value)
{
	int64_t high;

	if (!(fabs(value) <= VALUE_MAX))
		value = VALUE_MAX;
	high = llrint(value * SCALE);
	sum[0] += high;
	sum[1] += llrint((value * SCALE - (double)high) * SCALE);
}

static double of_fixed(const int64_t sum[2])
{
	return ((double)sum[0] + (double)sum[1] / SCALE) / SCALE;
}

static void add_cell(const struct model *model, size_t at, int64_t sums[4], double winds[AXES + 1])
{
	add_fixed(sums, model->now[MASS][at]);
	add_fixed(sums + 2, model->now[VAPOUR][at] + model->now[CLOUD][at]);
	for (int axis = U; axis <= W; axis++)
		/* A wind that is not a number stays. */
		if (!(fabs(model->now[axis][at]) <= winds[axis]))
			winds[axis] = isfinite(model->now[axis][at]) ? fabs(model->now[axis][at]) : HUGE_VAL;
}

struct diagnosis diagnose(const struct model *model)
{
	const struct domain *domain = model->domain;
	const double volume = SPACING * SPACING * DEPTH;
	int64_t sums[4] = {0};
	double winds[AXES + 1] = {0};

	for (int level = 0; level < domain->levels; level++)
		for (int north = 0; north < domain->count[NORTH]; north++)
			for (int east = 0; east < domain->count[EAST]; east++)
				add_cell(model, cell(domain, level, north, east), sums, winds);
	if (domain->ranks > 1) {
		MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		MPI_Allreduce(MPI_IN_PLACE, winds, AXES + 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	}
	return (struct diagnosis){of_fixed(sums) * volume, of_fixed(sums + 2) * volume, fmax(winds[U], fmax(winds[V], winds[W]))};
}

/* Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014. */
static uint64_t mix(uint64_t bits)
{
	bits += UINT64_C(0x9e3779b97f4a7c15);
	bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
	return bits ^ bits >> 31;
}

static uint64_t cell_checksum(const struct model *model, int level, int north, int east)
{
	const struct domain *domain = model->domain;
	size_t at = cell(domain, level, north, east);
	uint64_t x = (uint64_t)(domain->first[EAST] + east), y = (uint64_t)(domain->first[NORTH] + north);
	uint64_t state = (((uint64_t)level * (uint64_t)domain->global[NORTH]) + y) * (uint64_t)domain->global[EAST] + x;

	for (int i = 0; i < VARIABLES; i++) {
		uint64_t bits;

		memcpy(&bits, model->now[i] + at, sizeof bits);
		state = mix(state ^ bits);
	}
	/* 30 bits leave room for the sum. */
	return state >> 34;
}

uint64_t checksum(const struct model *model)
{
	const struct domain *domain = model->domain;
	int64_t sum = 0;

	for (int level = 0; level < domain->levels; level++)
		for (int north = 0; north < domain->count[NORTH]; north++)
			for (int east = 0; east < domain->count[EAST]; east++)
				sum += (int64_t)cell_checksum(model, level, north, east);
	if (domain->ranks > 1)
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	return (uint64_t)sum;
}
