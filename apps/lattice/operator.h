/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The hopping term of the Wilson operator, for the precision of the file that includes this.
 *
 * H psi(x) = sum over axes of (1 - g) U(x) psi(x + axis) + (1 + g) U(x - axis)^+ psi(x - axis),
 * with the axis's Dirac matrix g. D = 1 - kappa H. The basis is chiral: in each row, g has one
 * entry, beyond the own half. So (1 -+ g) psi has two independent spins of four. */
#include "lattice.h"

#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

enum { COLOUR = 6 }; /* real numbers of a spin */

/* Entries of the Dirac matrices in rows 0 and 1: powers of i, and columns. */
static const int POWERS[DIMENSIONS][2] = {{1, 1}, {2, 0}, {1, 3}, {0, 0}};
static const int COLUMNS[DIMENSIONS][2] = {{3, 2}, {3, 2}, {2, 3}, {2, 3}};

struct problem {
	const struct geometry *geometry;
	int is_overlapped;
	REAL kappa, *links;
	REAL *out[DIMENSIONS][ENDS], *in[DIMENSIONS][ENDS];
	double halo_seconds;
};

/* Adds i^power times three colours. */
INLINE void add_turned(REAL *to, const REAL *from, int power)
{
	for (int i = 0; i < COLOUR; i += 2) {
		switch (power & 3) {
		case 0:
			to[i] += from[i];
			to[i + 1] += from[i + 1];
			break;
		case 1:
			to[i] -= from[i + 1];
			to[i + 1] += from[i];
			break;
		case 2:
			to[i] -= from[i];
			to[i + 1] -= from[i + 1];
			break;
		default:
			to[i] += from[i + 1];
			to[i + 1] -= from[i];
		}
	}
}

/* Fills the first two spins of (1 + sign g) psi. */
INLINE void project(REAL *half, const REAL *from, int axis, int sign)
{
	for (int i = 0; i < HALF_SPINOR; i++)
		half[i] = from[i];
	add_turned(half, from + COLUMNS[axis][0] * COLOUR, POWERS[axis][0] + 1 - sign);
	add_turned(half + COLOUR, from + COLUMNS[axis][1] * COLOUR, POWERS[axis][1] + 1 - sign);
}

/* Adds a projected spinor: its other two spins follow from the first two. */
INLINE void add_projected(REAL *to, const REAL *half, int axis, int sign)
{
	for (int i = 0; i < HALF_SPINOR; i++)
		to[i] += half[i];
	add_turned(to + COLUMNS[axis][0] * COLOUR, half, 1 - sign - POWERS[axis][0]);
	add_turned(to + COLUMNS[axis][1] * COLOUR, half + COLOUR, 1 - sign - POWERS[axis][1]);
}

INLINE void turn_by_link(REAL *to, const REAL *link, const REAL *half)
{
	for (const REAL *in = half; in < half + HALF_SPINOR; in += COLOUR)
		for (const REAL *u = link; u < link + LINK; u += COLOUR) {
			*to++ = u[0] * in[0] - u[1] * in[1] + u[2] * in[2] - u[3] * in[3] + u[4] * in[4] - u[5] * in[5];
			*to++ = u[0] * in[1] + u[1] * in[0] + u[2] * in[3] + u[3] * in[2] + u[4] * in[5] + u[5] * in[4];
		}
}

INLINE void turn_back_by_link(REAL *to, const REAL *link, const REAL *half)
{
	for (const REAL *in = half; in < half + HALF_SPINOR; in += COLOUR)
		for (const REAL *u = link; u < link + COLOUR; u += 2) {
			*to++ = u[0] * in[0] + u[1] * in[1] + u[6] * in[2] + u[7] * in[3] + u[12] * in[4] + u[13] * in[5];
			*to++ = u[0] * in[1] - u[1] * in[0] + u[6] * in[3] - u[7] * in[2] + u[12] * in[5] - u[13] * in[4];
		}
}

/* Adds both neighbours along an axis, if the own rank has them. */
INLINE void add_neighbours(const struct problem *problem, REAL *to, const REAL *from, enum parity parity, size_t site, int axis, int sign)
{
	const struct geometry *geometry = problem->geometry;
	const int32_t *neighbours = geometry->neighbours[parity] + (site * DIMENSIONS + (size_t)axis) * ENDS;
	const REAL *links = problem->links + (size_t)axis * LINK;
	REAL half[HALF_SPINOR], turned[HALF_SPINOR];

	if (neighbours[UPPER] >= 0) {
		project(half, from + (size_t)neighbours[UPPER] * SPINOR, axis, -sign);
		turn_by_link(turned, links + ((size_t)parity * geometry->half + site) * LINKS, half);
		add_projected(to, turned, axis, -sign);
	}
	if (neighbours[LOWER] >= 0) {
		project(half, from + (size_t)neighbours[LOWER] * SPINOR, axis, sign);
		turn_back_by_link(turned, links + ((size_t)!parity * geometry->half + (size_t)neighbours[LOWER]) * LINKS, half);
		add_projected(to, turned, axis, sign);
	}
}

INLINE void hop_inside(const struct problem *problem, REAL *to, const REAL *from, enum parity parity, int sign)
{
	for (size_t site = 0; site < problem->geometry->half; site++, to += SPINOR) {
		REAL sum[SPINOR] = {0};

		add_neighbours(problem, sum, from, parity, site, 0, sign);
		add_neighbours(problem, sum, from, parity, site, 1, sign);
		add_neighbours(problem, sum, from, parity, site, 2, sign);
		add_neighbours(problem, sum, from, parity, site, 3, sign);
		for (int i = 0; i < SPINOR; i++)
			to[i] = sum[i];
	}
}

/* Fills the messages. The upper partner gets spinors that the own links turned already. */
static void fill_messages(const struct problem *problem, const REAL *from, enum parity parity, int axis, int sign)
{
	const struct geometry *geometry = problem->geometry;
	const REAL *links = problem->links + (size_t)parity * geometry->half * LINKS + (size_t)axis * LINK;
	REAL half[HALF_SPINOR];

	for (size_t i = 0; i < geometry->faces[axis]; i++) {
		size_t low = (size_t)geometry->borders[parity][axis][LOWER][i], high = (size_t)geometry->borders[parity][axis][UPPER][i];

		project(problem->out[axis][LOWER] + i * HALF_SPINOR, from + low * SPINOR, axis, -sign);
		project(half, from + high * SPINOR, axis, sign);
		turn_back_by_link(problem->out[axis][UPPER] + i * HALF_SPINOR, links + high * LINKS, half);
	}
}

static void add_messages(const struct problem *problem, REAL *to, enum parity parity, int axis, int sign)
{
	const struct geometry *geometry = problem->geometry;
	const REAL *links = problem->links + (size_t)parity * geometry->half * LINKS + (size_t)axis * LINK;
	REAL turned[HALF_SPINOR];

	for (size_t i = 0; i < geometry->faces[axis]; i++) {
		size_t low = (size_t)geometry->borders[parity][axis][LOWER][i], high = (size_t)geometry->borders[parity][axis][UPPER][i];

		turn_by_link(turned, links + high * LINKS, problem->in[axis][UPPER] + i * HALF_SPINOR);
		add_projected(to + high * SPINOR, turned, axis, -sign);
		add_projected(to + low * SPINOR, problem->in[axis][LOWER] + i * HALF_SPINOR, axis, sign);
	}
}

/* Starts the messages of all split axes, and returns their number. A message has the tag of its
 * way. */
static int start_messages(const struct problem *problem, MPI_Request *requests)
{
	const struct geometry *geometry = problem->geometry;
	int count = 0;

	for (int axis = 0; axis < DIMENSIONS; axis++)
		for (int end = LOWER; geometry->faces[axis] && end < ENDS; end++)
			MPI_Irecv(problem->in[axis][end], (int)(geometry->faces[axis] * HALF_SPINOR), REAL_MPI, geometry->partners[axis][end],
				  axis * ENDS + !end, MPI_COMM_WORLD, requests + count++);
	for (int axis = 0; axis < DIMENSIONS; axis++)
		for (int end = LOWER; geometry->faces[axis] && end < ENDS; end++)
			MPI_Isend(problem->out[axis][end], (int)(geometry->faces[axis] * HALF_SPINOR), REAL_MPI, geometry->partners[axis][end],
				  axis * ENDS + end, MPI_COMM_WORLD, requests + count++);
	return count;
}

static void hop_on_site(const struct problem *problem, REAL *to, const REAL *from, enum parity parity, int sign)
{
	/* Each copy has a constant sign, which its compiler resolves. */
	if (sign > 0)
		hop_inside(problem, to, from, parity, 1);
	else
		hop_inside(problem, to, from, parity, -1);
}

/* Computes H at the sites of a parity from those of the other. A sign of -1 makes its adjoint. */
static void hop(struct problem *problem, REAL *to, const REAL *from, enum parity parity, int sign)
{
	MPI_Request requests[2 * DIMENSIONS * ENDS];
	MPI_Status ends[2 * DIMENSIONS * ENDS];
	int count, is_alone = problem->geometry->ranks == 1;
	double start;

	for (int axis = 0; axis < DIMENSIONS; axis++)
		fill_messages(problem, from, (enum parity)!parity, axis, sign);
	start = is_alone ? 0 : MPI_Wtime();
	count = start_messages(problem, requests);
	if (problem->is_overlapped && !is_alone) {
		problem->halo_seconds += MPI_Wtime() - start;
		hop_on_site(problem, to, from, parity, sign);
		start = MPI_Wtime();
	}
	MPI_Waitall(count, requests, ends);
	problem->halo_seconds += is_alone ? 0 : MPI_Wtime() - start;
	if (!problem->is_overlapped || is_alone)
		hop_on_site(problem, to, from, parity, sign);
	for (int axis = 0; axis < DIMENSIONS; axis++)
		add_messages(problem, to, parity, axis, sign);
}

static void open_problem(struct problem *problem, const struct geometry *geometry, const struct options *options, const double *links)
{
	size_t count = PARITIES * geometry->half * LINKS;

	*problem = (struct problem){.geometry = geometry, .is_overlapped = options->is_overlapped, .kappa = (REAL)options->kappa};
	problem->links = memory(count, sizeof(REAL));
	for (size_t i = 0; i < count; i++)
		problem->links[i] = (REAL)links[i];
	for (int axis = 0; axis < DIMENSIONS; axis++)
		for (int end = LOWER; end < ENDS; end++) {
			problem->out[axis][end] = memory(geometry->faces[axis] * HALF_SPINOR, sizeof(REAL));
			problem->in[axis][end] = memory(geometry->faces[axis] * HALF_SPINOR, sizeof(REAL));
		}
}

static void close_problem(struct problem *problem)
{
	for (int axis = 0; axis < DIMENSIONS; axis++)
		for (int end = LOWER; end < ENDS; end++) {
			free(problem->out[axis][end]);
			free(problem->in[axis][end]);
		}
	free(problem->links);
}
