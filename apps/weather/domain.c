/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The decomposition in two dimensions. */
#include "weather.h"

#include <string.h>

/* Mirrors at a wall need three columns beyond the wall's face. */
enum { COLUMNS_MIN = 4 };

/* Numbers of messages are of type int, and sums of fixed-point numbers have 63 bits. */
static const double CELLS_OF_RANK = 1 << 26, CELLS = 1 << 30;

static void choose_parts(const struct options *options, int ranks, int parts[AXES])
{
	int shares[AXES] = {0}, is_wide = options->grid[EAST] > options->grid[NORTH];

	if (options->parts[EAST]) {
		memcpy(parts, options->parts, sizeof shares);
		return;
	}
	MPI_Dims_create(ranks, AXES, shares);
	parts[EAST] = shares[!is_wide];
	parts[NORTH] = shares[is_wide];
}

static void check(const struct options *options, const struct domain *domain)
{
	double cells = (double)options->grid[EAST] * options->grid[NORTH] * options->levels;
	double widest = (options->grid[EAST] / domain->parts[EAST] + 1.0) * (options->grid[NORTH] / domain->parts[NORTH] + 1.0) * options->levels;
	double alone = options->is_verified ? cells : widest;

	for (int axis = EAST; axis < AXES; axis++)
		if (domain->global[axis] / domain->parts[axis] < COLUMNS_MIN)
			refuse(domain->rank, "%d columns for %d ranks %s: each rank needs %d or more\n  give a larger --grid, or another --decomposition",
			       domain->global[axis], domain->parts[axis], axis == EAST ? "from west to east" : "from south to north", COLUMNS_MIN);
	if (cells > CELLS || alone > CELLS_OF_RANK)
		refuse(domain->rank, "the grid has %g cells, %g on a rank: at most %g and %g fit\n  give a smaller --grid, or more ranks%s", cells,
		       alone, CELLS, CELLS_OF_RANK, options->is_verified ? " without --verify" : "");
}

static int partner(const struct domain *domain, int axis, int step)
{
	int place[AXES];

	memcpy(place, domain->place, sizeof place);
	place[axis] += step;
	if (place[axis] < 0 || place[axis] >= domain->parts[axis])
		return MPI_PROC_NULL;
	return place[NORTH] * domain->parts[EAST] + place[EAST];
}

static int start_of(int whole, int parts, int part)
{
	int rest = whole % parts;

	return whole / parts * part + (part < rest ? part : rest);
}

void make_domain(const struct options *options, int rank, int ranks, struct domain *domain)
{
	*domain = (struct domain){.rank = rank, .ranks = ranks, .parts = {1, 1}, .levels = options->levels};
	if (ranks > 1 || options->parts[EAST] == 0)
		choose_parts(options, ranks, domain->parts);
	memcpy(domain->global, options->grid, sizeof domain->global);
	check(options, domain);
	domain->place[EAST] = rank % domain->parts[EAST];
	domain->place[NORTH] = rank / domain->parts[EAST];
	for (int axis = EAST; axis < AXES; axis++) {
		domain->first[axis] = start_of(domain->global[axis], domain->parts[axis], domain->place[axis]);
		domain->count[axis] = start_of(domain->global[axis], domain->parts[axis], domain->place[axis] + 1) - domain->first[axis];
		domain->partners[axis][LOWER] = partner(domain, axis, -1);
		domain->partners[axis][UPPER] = partner(domain, axis, 1);
	}
	domain->row = (size_t)domain->count[EAST] + 2 * HALO;
	domain->plane = domain->row * ((size_t)domain->count[NORTH] + 2 * HALO);
	domain->size = domain->plane * (size_t)domain->levels;
}
