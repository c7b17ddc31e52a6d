/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Conjugate gradients on the normal equations of the even-odd preconditioned Wilson operator,
 * for the precision of the file that includes this. */
#include "operator.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS_MAX = 10000 };

/* The vectors have even sites only, but the source, the solution and the space. */
struct vectors {
	REAL *source, *solution, *space, *r, *z, *p, *q;
};

static void adding(REAL *to, double factor, const REAL *from, size_t count)
{
	REAL scale = (REAL)factor;

	for (size_t i = 0; i < count; i++)
		to[i] += scale * from[i];
}

static double square(const REAL *vector, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)vector[i] * (double)vector[i];
	return sum;
}

/* Computes A = 1 - kappa^2 H H on the even sites, or its adjoint. */
static void apply(struct problem *problem, REAL *to, const REAL *from, REAL *space, int sign)
{
	size_t count = problem->geometry->half * SPINOR;
	REAL factor = problem->kappa * problem->kappa;

	hop(problem, space, from, ODD, sign);
	hop(problem, to, space, EVEN, sign);
	for (size_t i = 0; i < count; i++)
		to[i] = from[i] - factor * to[i];
}

/* Solves A x = r, from x = 0. Keeps r, the residual of A x = r, beside that of the normal
 * equations. */
static void iterate(struct problem *problem, const struct options *options, struct vectors *vectors, double source, struct solution *solution)
{
	const struct geometry *geometry = problem->geometry;
	size_t count = geometry->half * SPINOR;
	double limit = options->tolerance * options->tolerance * source, sums[2], last;
	int steps = options->iterations ? options->iterations : ITERATIONS_MAX;

	apply(problem, vectors->z, vectors->r, vectors->space, -1);
	memcpy(vectors->p, vectors->z, count * sizeof(REAL));
	sums[0] = square(vectors->z, count);
	sums[1] = square(vectors->r, count);
	sum_over_ranks(geometry, sums, 2);
	for (int step = 0; step < steps && (options->iterations || sums[1] > limit); step++) {
		double product, alpha, beta;

		apply(problem, vectors->q, vectors->p, vectors->space, 1);
		product = square(vectors->q, count);
		sum_over_ranks(geometry, &product, 1);
		/* A fixed number of iterations may go on after an exact solution. */
		alpha = product > 0 ? sums[0] / product : 0;
		adding(vectors->solution, alpha, vectors->p, count);
		adding(vectors->r, -alpha, vectors->q, count);
		apply(problem, vectors->z, vectors->r, vectors->space, -1);
		last = sums[0];
		sums[0] = square(vectors->z, count);
		sums[1] = square(vectors->r, count);
		sum_over_ranks(geometry, sums, 2);
		beta = last > 0 ? sums[0] / last : 0;
		for (size_t i = 0; i < count; i++)
			vectors->p[i] = vectors->z[i] + (REAL)beta * vectors->p[i];
		solution->iterations = step + 1;
	}
	solution->is_converged = sums[1] <= limit;
	solution->recursive = sqrt(sums[1] / source);
}

/* Returns |b - D x| / |b|, by the operator without preconditioning. */
static double true_residual(struct problem *problem, const struct vectors *vectors, double source)
{
	size_t count = problem->geometry->half * SPINOR;
	double sum = 0;

	for (int parity = EVEN; parity < PARITIES; parity++) {
		size_t own = (size_t)parity * count, other = (size_t)!parity * count;

		hop(problem, vectors->space, vectors->solution + other, (enum parity)parity, 1);
		for (size_t i = 0; i < count; i++) {
			double difference = (double)vectors->source[own + i] - (double)vectors->solution[own + i] +
					    (double)problem->kappa * (double)vectors->space[i];

			sum += difference * difference;
		}
	}
	sum_over_ranks(problem->geometry, &sum, 1);
	return sqrt(sum / source);
}

static void open_vectors(struct vectors *vectors, size_t count)
{
	REAL **parts[] = {&vectors->source, &vectors->solution, &vectors->space, &vectors->r, &vectors->z, &vectors->p, &vectors->q};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		*parts[i] = memory((i < 2 ? PARITIES : 1) * count, sizeof(REAL));
}

static void close_vectors(struct vectors *vectors)
{
	REAL *parts[] = {vectors->source, vectors->solution, vectors->space, vectors->r, vectors->z, vectors->p, vectors->q};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		free(parts[i]);
}

/* Moves the odd sites to the right side, solves for the even ones, and computes the odd ones
 * from these. */
static void precondition_and_solve(struct problem *problem, const struct options *options, struct vectors *vectors, double source,
				   struct solution *solution)
{
	size_t count = problem->geometry->half * SPINOR;

	hop(problem, vectors->r, vectors->source + count, EVEN, 1);
	for (size_t i = 0; i < count; i++)
		vectors->r[i] = vectors->source[i] + problem->kappa * vectors->r[i];
	iterate(problem, options, vectors, source, solution);
	hop(problem, vectors->space, vectors->solution, ODD, 1);
	for (size_t i = 0; i < count; i++)
		vectors->solution[count + i] = vectors->source[count + i] + problem->kappa * vectors->space[i];
}

void SOLVE(const struct geometry *geometry, const struct options *options, const double *links, struct solution *solution)
{
	size_t count = geometry->half * SPINOR;
	struct problem problem;
	struct vectors vectors;
	double source, start;

	open_problem(&problem, geometry, options, links);
	open_vectors(&vectors, count);
	/* The solution's memory holds the source in double precision until the solver is done. */
	make_source(geometry, options, solution->spinors);
	for (size_t i = 0; i < PARITIES * count; i++)
		vectors.source[i] = (REAL)solution->spinors[i];
	source = square(vectors.source, PARITIES * count);
	sum_over_ranks(geometry, &source, 1);
	start = geometry->ranks > 1 ? (MPI_Barrier(MPI_COMM_WORLD), MPI_Wtime()) : MPI_Wtime();
	precondition_and_solve(&problem, options, &vectors, source, solution);
	solution->seconds = MPI_Wtime() - start;
	solution->halo_seconds = problem.halo_seconds;
	solution->residual = true_residual(&problem, &vectors, source);
	for (size_t i = 0; i < PARITIES * count; i++)
		solution->spinors[i] = (double)vectors.solution[i];
	close_vectors(&vectors);
	close_problem(&problem);
}
