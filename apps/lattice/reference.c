/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The Wilson operator from its definition, with whole Dirac matrices. It shares no code with the
 * solver. */
#include "lattice.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

enum { SPINS = 4, COLOURS = 3 };

typedef double complex spinor_t[SPINS][COLOURS];

static const double complex DIRAC[DIMENSIONS][SPINS][SPINS] = {
	{{0, 0, 0, I}, {0, 0, I, 0}, {0, -I, 0, 0}, {-I, 0, 0, 0}},
	{{0, 0, 0, -1}, {0, 0, 1, 0}, {0, 1, 0, 0}, {-1, 0, 0, 0}},
	{{0, 0, I, 0}, {0, 0, 0, -I}, {-I, 0, 0, 0}, {0, I, 0, 0}},
	{{0, 0, 1, 0}, {0, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 0}},
};

/* Sites have their number in the whole lattice here. */
static size_t neighbour_of(const int extents[DIMENSIONS], size_t site, int axis, int step)
{
	size_t stride = 1, extent = (size_t)extents[axis], own;

	for (int i = 0; i < axis; i++)
		stride *= (size_t)extents[i];
	own = site / stride % extent;
	return site + stride * ((own + (size_t)(step + (int)extent)) % extent) - stride * own;
}

static size_t parity_number(const int extents[DIMENSIONS], size_t site)
{
	size_t rest = site, sum = 0, sites = 1;

	for (int i = 0; i < DIMENSIONS; i++) {
		sum += rest % (size_t)extents[i];
		rest /= (size_t)extents[i];
		sites *= (size_t)extents[i];
	}
	return site / 2 + sum % 2 * (sites / 2);
}

static const double *link_of(const int extents[DIMENSIONS], const double *links, size_t site, int axis)
{
	return links + parity_number(extents, site) * LINKS + (size_t)axis * LINK;
}

/* Adds kappa (1 + sign g) U psi, or U's adjoint for a positive sign. */
static void add_neighbour(spinor_t sum, double kappa, const double *link, const double *psi, int axis, int sign)
{
	spinor_t turned = {{0}};

	for (int spin = 0; spin < SPINS; spin++)
		for (int row = 0; row < COLOURS; row++)
			for (int column = 0; column < COLOURS; column++) {
				int at = sign > 0 ? column * COLOURS + row : row * COLOURS + column;
				double complex u = link[2 * at] + I * (sign > 0 ? -link[2 * at + 1] : link[2 * at + 1]);

				turned[spin][row] += u * (psi[2 * (spin * COLOURS + column)] + I * psi[2 * (spin * COLOURS + column) + 1]);
			}
	for (int spin = 0; spin < SPINS; spin++)
		for (int other = 0; other < SPINS; other++)
			for (int colour = 0; colour < COLOURS; colour++)
				sum[spin][colour] += kappa * ((spin == other) + sign * DIRAC[axis][spin][other]) * turned[other][colour];
}

static double square_of_difference(const struct options *options, const double *links, const double *psi, size_t site, const double *source)
{
	const int *extents = options->lattice;
	spinor_t sum;
	double square = 0;

	for (int i = 0; i < SPINOR; i += 2)
		sum[i / 2 / COLOURS][i / 2 % COLOURS] = source[i] - psi[site * SPINOR + (size_t)i] +
							I * (source[i + 1] - psi[site * SPINOR + (size_t)i + 1]);
	for (int axis = 0; axis < DIMENSIONS; axis++) {
		size_t before = neighbour_of(extents, site, axis, -1), after = neighbour_of(extents, site, axis, 1);

		add_neighbour(sum, options->kappa, link_of(extents, links, site, axis), psi + after * SPINOR, axis, -1);
		add_neighbour(sum, options->kappa, link_of(extents, links, before, axis), psi + before * SPINOR, axis, 1);
	}
	for (int spin = 0; spin < SPINS; spin++)
		for (int colour = 0; colour < COLOURS; colour++)
			square += creal(sum[spin][colour] * conj(sum[spin][colour]));
	return square;
}

double reference_residual(const struct geometry *geometry, const struct options *options, const double *links, const double *psi)
{
	size_t sites = PARITIES * geometry->half;
	double *source = memory(sites * SPINOR, sizeof *source), difference = 0, whole = 0;

	make_source(geometry, options, source);
	for (size_t i = 0; i < sites * SPINOR; i++)
		whole += source[i] * source[i];
	for (size_t site = 0; site < sites; site++)
		difference += square_of_difference(options, links, psi, site, source + parity_number(options->lattice, site) * SPINOR);
	free(source);
	return sqrt(difference / whole);
}
