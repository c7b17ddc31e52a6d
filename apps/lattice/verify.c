/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Verification: rank 0 makes the same fields and solves the same system alone. */
#include "lattice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Both solvers round differently, because ranks add in another order. */
static double accuracy(const struct options *options)
{
	return options->is_single ? 1e-3 : 1e-8;
}

double drift_limit(const struct options *options)
{
	return options->is_single ? 1e-5 : 1e-11;
}

void solve(const struct geometry *geometry, const struct options *options, const double *links, struct solution *solution)
{
	if (options->is_single)
		solve_single(geometry, options, links, solution);
	else
		solve_double(geometry, options, links, solution);
}

static int complain(const char *text, double value, double wanted)
{
	fprintf(stderr, "softband-lattice: verification: %s: %.17g instead of %.17g\n", text, value, wanted);
	return 0;
}

/* Checks properties of any plaquette: it is 1 for unit links, and a gauge transformation leaves
 * it alone. */
static int plaquettes_hold(const struct geometry *geometry, const struct options *options)
{
	double *links = memory(PARITIES * geometry->half * LINKS, sizeof *links), values[3];

	for (int field = RANDOM; field <= TRANSFORMED; field++) {
		make_links(geometry, options, (enum field)field, links);
		values[field] = plaquette(geometry, links);
	}
	free(links);
	if (geometry->rank)
		return 1;
	if (values[UNIT] != 1)
		return complain("plaquette of unit links", values[UNIT], 1);
	if (fabs(values[TRANSFORMED] - values[RANDOM]) > 1e-13)
		return complain("plaquette after a gauge transformation", values[TRANSFORMED], values[RANDOM]);
	return 1;
}

/* Puts the spinors of a rank at their sites of the whole lattice. */
static void place_spinors(const struct options *options, int rank, int ranks, const double *from, double *whole)
{
	struct geometry geometry;

	make_geometry(options, rank, ranks, &geometry);
	for (int parity = EVEN; parity < PARITIES; parity++)
		for (size_t site = 0; site < geometry.half; site++, from += SPINOR)
			memcpy(whole + global_site(&geometry, (enum parity)parity, site) * SPINOR, from, SPINOR * sizeof *from);
	free_geometry(&geometry);
}

/* Collects the solution on rank 0, in the order of sites of the whole lattice. */
static double *collect(const struct geometry *geometry, const struct options *options, const double *spinors)
{
	size_t count = PARITIES * geometry->half * SPINOR;
	double *all = memory(geometry->rank ? 1 : count * (size_t)geometry->ranks, sizeof *all), *whole;

	MPI_Gather(spinors, (int)count, MPI_DOUBLE, all, (int)count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	whole = memory(geometry->rank ? 1 : count * (size_t)geometry->ranks, sizeof *whole);
	for (int rank = 0; geometry->rank == 0 && rank < geometry->ranks; rank++)
		place_spinors(options, rank, geometry->ranks, all + (size_t)rank * count, whole);
	free(all);
	return whole;
}

static int solutions_agree(const struct options *options, const double *whole, const double *alone, size_t count)
{
	double *placed = memory(count, sizeof *placed), difference = 0, largest = 0;

	place_spinors(options, 0, 1, alone, placed);
	for (size_t i = 0; i < count; i++) {
		difference = fmax(difference, fabs(placed[i] - whole[i]));
		largest = fmax(largest, fabs(placed[i]));
	}
	free(placed);
	if (!(difference <= accuracy(options) * largest))
		return complain("largest difference to the solution of one rank", difference, 0);
	return 1;
}

/* Results of all ranks together. */
struct findings {
	const double *whole;
	double plaquette, residual;
	uint64_t checksum;
};

static int agrees_alone(const struct options *options, const struct findings *found)
{
	struct geometry geometry;
	struct solution alone = {0};
	double *links, residual;
	int is_right = 1;
	size_t sites;

	make_geometry(options, 0, 1, &geometry);
	sites = PARITIES * geometry.half;
	links = memory(sites * LINKS, sizeof *links);
	alone.spinors = memory(sites * SPINOR, sizeof *alone.spinors);
	make_links(&geometry, options, options->field, links);
	if (links_checksum(&geometry, links) != found->checksum) {
		fprintf(stderr, "softband-lattice: verification: the links differ from those of one rank\n");
		is_right = 0;
	}
	if (plaquette(&geometry, links) != found->plaquette)
		is_right = complain("plaquette", found->plaquette, plaquette(&geometry, links));
	residual = reference_residual(&geometry, options, links, found->whole);
	if (!(fabs(residual - found->residual) <= drift_limit(options)))
		is_right = complain("residual by the operator's definition", residual, found->residual);
	solve(&geometry, options, links, &alone);
	is_right = solutions_agree(options, found->whole, alone.spinors, sites * SPINOR) && is_right;
	free(alone.spinors);
	free(links);
	free_geometry(&geometry);
	return is_right;
}

int agrees_with_one_rank(const struct geometry *geometry, const struct options *options, const double *links,
			 const struct solution *solution)
{
	int is_right = plaquettes_hold(geometry, options);
	double *whole = collect(geometry, options, solution->spinors);
	struct findings found = {whole, plaquette(geometry, links), solution->residual, links_checksum(geometry, links)};

	if (geometry->rank == 0)
		is_right = agrees_alone(options, &found) && is_right;
	free(whole);
	MPI_Bcast(&is_right, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return is_right;
}
