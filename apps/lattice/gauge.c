/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The gauge field: links in SU(3), and the plaquette that tests them. */
#include "lattice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3, ROW = 2 * COLOURS, PLANES = 6, TAG = 100 };

/* Slots of random numbers at a site: four links, a gauge transformation, the source. */
enum { SLOTS_OF_MATRIX = 64, SOURCE_SLOT = (DIMENSIONS + 1) * SLOTS_OF_MATRIX };

/* Two words of 31 bits hold a number, so that a sum does not depend on the order. */
static const double SCALE = 1073741824;

static void multiply(double *to, const double *a, const double *b)
{
	for (int row = 0; row < COLOURS; row++)
		for (int column = 0; column < COLOURS; column++) {
			double re = 0, im = 0;

			for (int i = 0; i < COLOURS; i++) {
				const double *x = a + row * ROW + 2 * i, *y = b + i * ROW + 2 * column;

				re += x[0] * y[0] - x[1] * y[1];
				im += x[0] * y[1] + x[1] * y[0];
			}
			to[row * ROW + 2 * column] = re;
			to[row * ROW + 2 * column + 1] = im;
		}
}

static void adjoint(double *to, const double *from)
{
	for (int row = 0; row < COLOURS; row++)
		for (int column = 0; column < COLOURS; column++) {
			to[row * ROW + 2 * column] = from[column * ROW + 2 * row];
			to[row * ROW + 2 * column + 1] = -from[column * ROW + 2 * row + 1];
		}
}

static void normalize(double *row)
{
	double square = 0;

	for (int i = 0; i < ROW; i++)
		square += row[i] * row[i];
	for (int i = 0; i < ROW; i++)
		row[i] /= sqrt(square);
}

/* Subtracts from the second row its part along the first. */
static void make_orthogonal(const double *first, double *second)
{
	double re = 0, im = 0;

	for (int i = 0; i < ROW; i += 2) {
		re += first[i] * second[i] + first[i + 1] * second[i + 1];
		im += first[i] * second[i + 1] - first[i + 1] * second[i];
	}
	for (int i = 0; i < ROW; i += 2) {
		double x = first[i], y = first[i + 1];

		second[i] -= re * x - im * y;
		second[i + 1] -= re * y + im * x;
	}
}

/* Fills the third row: the conjugate of the cross product of the others, so that the determinant
 * is 1. */
static void complete(double *matrix)
{
	const double *a = matrix, *b = matrix + ROW;

	for (int i = 0; i < COLOURS; i++) {
		int j = 2 * ((i + 1) % COLOURS), k = 2 * ((i + 2) % COLOURS);

		matrix[2 * ROW + 2 * i] = a[j] * b[k] - a[j + 1] * b[k + 1] - (a[k] * b[j] - a[k + 1] * b[j + 1]);
		matrix[2 * ROW + 2 * i + 1] = -(a[j] * b[k + 1] + a[j + 1] * b[k] - (a[k] * b[j + 1] + a[k + 1] * b[j]));
	}
}

/* Sums of four uniform numbers have nearly the normal distribution, whose rows have no preferred
 * direction. */
static void random_matrix(uint64_t seed, uint64_t site, int slot, double *matrix)
{
	uint64_t next = (uint64_t)slot * SLOTS_OF_MATRIX;

	for (int i = 0; i < 2 * ROW; i++) {
		matrix[i] = 0;
		for (int j = 0; j < 4; j++)
			matrix[i] += random_number(seed, site, next++);
	}
	normalize(matrix);
	make_orthogonal(matrix, matrix + ROW);
	normalize(matrix + ROW);
	complete(matrix);
}

static uint64_t site_after(const struct geometry *geometry, uint64_t site, int axis)
{
	uint64_t stride = 1, extent = (uint64_t)geometry->global[axis];

	for (int i = 0; i < axis; i++)
		stride *= (uint64_t)geometry->global[i];
	return site / stride % extent == extent - 1 ? site - (extent - 1) * stride : site + stride;
}

/* U'(x) = g(x) U(x) g(y)^+, with the neighbour y of x. */
static void transform(const struct geometry *geometry, uint64_t seed, uint64_t site, int axis, double *link)
{
	double own[LINK], other[LINK], conjugate[LINK], product[LINK];

	random_matrix(seed, site, DIMENSIONS, own);
	random_matrix(seed, site_after(geometry, site, axis), DIMENSIONS, other);
	adjoint(conjugate, other);
	multiply(product, own, link);
	multiply(link, product, conjugate);
}

static void make_link(const struct geometry *geometry, const struct options *options, enum field field, uint64_t site, int axis,
		      double *link)
{
	if (field == UNIT)
		for (int i = 0; i < LINK; i += ROW + 2)
			link[i] = 1;
	else
		random_matrix(options->seed, site, axis, link);
	if (field == TRANSFORMED)
		transform(geometry, options->seed, site, axis, link);
	if (axis == TIME && options->is_antiperiodic && site_after(geometry, site, axis) < site)
		for (int i = 0; i < LINK; i++)
			link[i] = -link[i];
}

void make_links(const struct geometry *geometry, const struct options *options, enum field field, double *links)
{
	memset(links, 0, PARITIES * geometry->half * LINKS * sizeof *links);
	for (int parity = EVEN; parity < PARITIES; parity++)
		for (size_t site = 0; site < geometry->half; site++, links += LINKS)
			for (int axis = 0; axis < DIMENSIONS; axis++)
				make_link(geometry, options, field, global_site(geometry, (enum parity)parity, site), axis, links + axis * LINK);
}

void make_source(const struct geometry *geometry, const struct options *options, double *spinors)
{
	for (int parity = EVEN; parity < PARITIES; parity++)
		for (size_t site = 0; site < geometry->half; site++) {
			uint64_t global = global_site(geometry, (enum parity)parity, site);

			for (uint64_t i = 0; i < SPINOR; i++)
				*spinors++ = random_number(options->seed, global, SOURCE_SLOT + i);
		}
}

uint64_t links_checksum(const struct geometry *geometry, const double *links)
{
	int64_t sum = 0;

	for (int parity = EVEN; parity < PARITIES; parity++)
		for (size_t site = 0; site < geometry->half; site++, links += LINKS) {
			uint64_t state = global_site(geometry, (enum parity)parity, site);

			for (int i = 0; i < LINKS; i++) {
				uint64_t bits;

				memcpy(&bits, links + i, sizeof bits);
				state = mix(state ^ bits);
			}
			/* 30 bits leave room for the sum. */
			sum += (int64_t)(state >> 34);
		}
	add_over_ranks(geometry, &sum, 1);
	return (uint64_t)sum;
}

/* Fetches the links of the sites beyond the upper end of an axis, for each parity of the sites
 * before it. */
static void fetch_border(const struct geometry *geometry, const double *links, int axis, double *beyond)
{
	size_t count = geometry->faces[axis];
	double *own = memory(PARITIES * count * LINKS, sizeof *own);

	for (int parity = EVEN; parity < PARITIES; parity++)
		for (size_t i = 0; i < count; i++) {
			size_t site = (size_t)geometry->borders[!parity][axis][LOWER][i] + (size_t)!parity * geometry->half;

			memcpy(own + ((size_t)parity * count + i) * LINKS, links + site * LINKS, LINKS * sizeof *own);
		}
	MPI_Sendrecv(own, (int)(PARITIES * count * LINKS), MPI_DOUBLE, geometry->partners[axis][LOWER], TAG + axis, beyond,
		     (int)(PARITIES * count * LINKS), MPI_DOUBLE, geometry->partners[axis][UPPER], TAG + axis, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	free(own);
}

/* Returns a third of the real trace of U_a(x) U_b(x + a) U_a(x + b)^+ U_b(x)^+. */
static double plane(const double *const links, const double *const after[DIMENSIONS], int a, int b)
{
	double there[LINK], back[LINK], trace = 0;

	multiply(there, links + a * LINK, after[a] + b * LINK);
	multiply(back, links + b * LINK, after[b] + a * LINK);
	for (int i = 0; i < LINK; i++)
		trace += there[i] * back[i];
	return trace / COLOURS;
}

static void add_fixed(int64_t sum[2], double value)
{
	int64_t high = llrint(value * SCALE);

	sum[0] += high;
	sum[1] += llrint((value * SCALE - (double)high) * SCALE);
}

static void add_planes(const double *links, const double *const after[DIMENSIONS], int64_t sum[2])
{
	for (int a = 0; a < DIMENSIONS; a++)
		for (int b = a + 1; b < DIMENSIONS; b++)
			add_fixed(sum, plane(links, after, a, b));
}

double plaquette(const struct geometry *geometry, const double *links)
{
	double *beyond[DIMENSIONS];
	int64_t sum[2] = {0, 0};
	double planes = PLANES;

	for (int axis = 0; axis < DIMENSIONS; axis++) {
		planes *= geometry->global[axis];
		beyond[axis] = memory(PARITIES * geometry->faces[axis] * LINKS, sizeof **beyond);
		if (geometry->faces[axis])
			fetch_border(geometry, links, axis, beyond[axis]);
	}
	for (int parity = EVEN; parity < PARITIES; parity++) {
		size_t passed[DIMENSIONS] = {0};

		for (size_t site = 0; site < geometry->half; site++) {
			const double *after[DIMENSIONS];

			for (int axis = 0; axis < DIMENSIONS; axis++) {
				int32_t next = geometry->neighbours[parity][(site * DIMENSIONS + (size_t)axis) * ENDS + UPPER];

				after[axis] = next >= 0 ? links + ((size_t)!parity * geometry->half + (size_t)next) * LINKS
							: beyond[axis] + ((size_t)parity * geometry->faces[axis] + passed[axis]++) * LINKS;
			}
			add_planes(links + ((size_t)parity * geometry->half + site) * LINKS, after, sum);
		}
	}
	for (int axis = 0; axis < DIMENSIONS; axis++)
		free(beyond[axis]);
	add_over_ranks(geometry, sum, 2);
	return ((double)sum[0] + (double)sum[1] / SCALE) / SCALE / planes;
}
