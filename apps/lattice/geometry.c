/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The division of the lattice: a rank's sites, their neighbours and its partners. */
#include "lattice.h"

#include <stdlib.h>
#include <string.h>

static const char AXES[] = "xyzt";

/* Numbers of messages are of type int, and sums of fixed-point numbers have 63 bits. */
static const double SITES_OF_RANK = 1 << 24, SITES_OF_LATTICE = 1 << 30;

/* Gives the longest axis the largest part of the grid. Of equal axes, the last comes first. */
static void spread(struct options *options, const int parts[DIMENSIONS])
{
	int is_taken[DIMENSIONS] = {0};

	for (int i = 0; i < DIMENSIONS; i++) {
		int longest = -1;

		for (int axis = DIMENSIONS - 1; axis >= 0; axis--)
			if (!is_taken[axis] && (longest < 0 || options->lattice[axis] > options->lattice[longest]))
				longest = axis;
		is_taken[longest] = 1;
		options->grid[longest] = parts[i];
	}
}

static void check_sizes(const struct options *options, int rank, int ranks)
{
	double sites = 1;

	for (int axis = 0; axis < DIMENSIONS; axis++)
		sites *= options->lattice[axis];
	if (sites > SITES_OF_LATTICE || sites / ranks > SITES_OF_RANK)
		refuse(rank, "the lattice has %g sites, %g on each rank: at most %g and %g fit\n  give a smaller --lattice, or more ranks", sites,
		       sites / ranks, SITES_OF_LATTICE, SITES_OF_RANK);
	if (options->is_verified && sites > SITES_OF_RANK)
		refuse(rank, "--verify: the lattice has %g sites, and rank 0 can solve %g alone\n  give a smaller --lattice", sites, SITES_OF_RANK);
}

void choose_grid(struct options *options, int rank, int ranks)
{
	int parts[DIMENSIONS] = {0}, is_given = options->grid[0] != 0;
	long product = 1;

	if (!is_given) {
		MPI_Dims_create(ranks, DIMENSIONS, parts);
		spread(options, parts);
	}
	for (int axis = 0; axis < DIMENSIONS; axis++)
		product *= options->grid[axis];
	if (product != ranks)
		refuse(rank, "--grid has %ld ranks, and the job has %d\n  give a grid whose product is %d", product, ranks, ranks);
	for (int axis = 0; axis < DIMENSIONS; axis++)
		/* A parity must mean the same on each rank. */
		if (options->lattice[axis] % (2 * options->grid[axis]))
			refuse(rank, "%d sites in %c do not fit %d ranks: each rank needs an even number\n  give another %s", options->lattice[axis],
			       AXES[axis], options->grid[axis], is_given ? "--lattice or --grid" : "--lattice, number of ranks, or a --grid");
	check_sizes(options, rank, ranks);
}

static int is_split(const struct geometry *geometry, int axis)
{
	return geometry->grid[axis] > 1;
}

static int rank_at(const struct geometry *geometry, int axis, int step)
{
	int rank = 0;

	for (int i = DIMENSIONS - 1; i >= 0; i--) {
		int parts = geometry->grid[i];

		rank = rank * parts + (geometry->place[i] + (i == axis ? step + parts : 0)) % parts;
	}
	return rank;
}

static void split_number(uint64_t number, const int extents[DIMENSIONS], int place[DIMENSIONS])
{
	for (int axis = 0; axis < DIMENSIONS; axis++) {
		place[axis] = (int)(number % (uint64_t)extents[axis]);
		number /= (uint64_t)extents[axis];
	}
}

static uint64_t join_number(const int extents[DIMENSIONS], const int place[DIMENSIONS])
{
	uint64_t number = 0;

	for (int axis = DIMENSIONS - 1; axis >= 0; axis--)
		number = number * (uint64_t)extents[axis] + (uint64_t)place[axis];
	return number;
}

/* Finds the place of a site: each pair of numbers in x has one site of each parity. */
static void place_of(const struct geometry *geometry, enum parity parity, size_t site, int place[DIMENSIONS])
{
	split_number(2 * site, geometry->local, place);
	place[0] += (place[1] + place[2] + place[TIME] + (int)parity) % 2;
}

static void find_neighbours(struct geometry *geometry, enum parity parity, size_t site)
{
	size_t ends[ENDS];
	int place[DIMENSIONS];

	place_of(geometry, parity, site, place);
	for (int axis = 0; axis < DIMENSIONS; axis++) {
		int own = place[axis], extent = geometry->local[axis];

		for (int end = LOWER; end < ENDS; end++) {
			int32_t *neighbour = geometry->neighbours[parity] + (site * DIMENSIONS + (size_t)axis) * ENDS + end;

			place[axis] = (own + (end == UPPER ? 1 : extent - 1)) % extent;
			ends[end] = (size_t)join_number(geometry->local, place) / 2;
			*neighbour = is_split(geometry, axis) && own == (end == UPPER ? extent - 1 : 0) ? -1 : (int32_t)ends[end];
		}
		place[axis] = own;
	}
}

static void find_borders(struct geometry *geometry, enum parity parity, int axis)
{
	size_t counts[ENDS] = {0};
	int place[DIMENSIONS];

	for (int end = LOWER; end < ENDS; end++)
		geometry->borders[parity][axis][end] = memory(geometry->faces[axis], sizeof(int32_t));
	if (!is_split(geometry, axis))
		return;
	for (size_t site = 0; site < geometry->half; site++) {
		place_of(geometry, parity, site, place);
		if (place[axis] == 0)
			geometry->borders[parity][axis][LOWER][counts[LOWER]++] = (int32_t)site;
		if (place[axis] == geometry->local[axis] - 1)
			geometry->borders[parity][axis][UPPER][counts[UPPER]++] = (int32_t)site;
	}
}

void make_geometry(const struct options *options, int rank, int ranks, struct geometry *geometry)
{
	memset(geometry, 0, sizeof *geometry);
	geometry->rank = rank;
	geometry->ranks = ranks;
	geometry->half = 1;
	for (int axis = 0; axis < DIMENSIONS; axis++) {
		geometry->grid[axis] = ranks == 1 ? 1 : options->grid[axis];
		geometry->global[axis] = options->lattice[axis];
		geometry->local[axis] = options->lattice[axis] / geometry->grid[axis];
		geometry->half *= (size_t)geometry->local[axis];
	}
	geometry->half /= 2;
	split_number((uint64_t)rank, geometry->grid, geometry->place);
	for (int axis = 0; axis < DIMENSIONS; axis++) {
		geometry->partners[axis][LOWER] = rank_at(geometry, axis, -1);
		geometry->partners[axis][UPPER] = rank_at(geometry, axis, 1);
		geometry->faces[axis] = is_split(geometry, axis) ? geometry->half / (size_t)geometry->local[axis] : 0;
	}
	for (int parity = EVEN; parity < PARITIES; parity++) {
		geometry->neighbours[parity] = memory(geometry->half * DIMENSIONS * ENDS, sizeof(int32_t));
		for (size_t site = 0; site < geometry->half; site++)
			find_neighbours(geometry, (enum parity)parity, site);
		for (int axis = 0; axis < DIMENSIONS; axis++)
			find_borders(geometry, (enum parity)parity, axis);
	}
}

void free_geometry(struct geometry *geometry)
{
	for (int parity = EVEN; parity < PARITIES; parity++) {
		free(geometry->neighbours[parity]);
		for (int axis = 0; axis < DIMENSIONS; axis++)
			for (int end = LOWER; end < ENDS; end++)
				free(geometry->borders[parity][axis][end]);
	}
}

uint64_t global_site(const struct geometry *geometry, enum parity parity, size_t site)
{
	int place[DIMENSIONS];

	place_of(geometry, parity, site, place);
	for (int axis = 0; axis < DIMENSIONS; axis++)
		place[axis] += geometry->place[axis] * geometry->local[axis];
	return join_number(geometry->global, place);
}
