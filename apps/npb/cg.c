/* SPDX-License-Identifier: MIT OR Apache-2.0
 * CG: the least eigenvalue of a sparse matrix by conjugate gradients (specification, 2.3). Ranks
 * form a grid, and each has a block of the matrix. Sums go along the rows of the grid, by
 * exchanges of whole vectors with partners at distances 1, 2, 4 and so on. */
#include "npb.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 25, STAGES_MAX = 16 };

static const uint64_t SEED = 314159265;

static const struct size {
	struct matrix_form form;
	int iterations;
	double zeta;
} SIZES[CLASSES] = {
	{{1400, 7, 10}, 15, 8.5971775078648},     {{7000, 8, 12}, 15, 10.362595087124},   {{14000, 11, 20}, 15, 17.130235054029},
	{{75000, 13, 60}, 75, 22.712745482631},   {{150000, 15, 110}, 75, 28.973605592845},
};

/* Place of a rank in the grid, and its partners. */
struct grid {
	int rows, columns, row, column;
	int stages, partners[STAGES_MAX]; /* in the own row, the farthest last */
	int opposite;                     /* has the own columns as its rows */
	int first, count;                 /* part of a row's vector that goes to the opposite rank */
	int given_first, given_count; /* part that the neighbour sums, with twice as many columns as rows */
};

struct solver {
	const struct size *size;
	struct grid grid;
	struct matrix matrix;
	double *x, *z, *p, *q, *r, *w;
};

static int part_start(int order, int parts, int part)
{
	int rest = order % parts;

	return order / parts * part + (part < rest ? part : rest);
}

/* Places the rank: as many columns as rows, or twice as many. */
static void place(struct grid *grid, const struct job *job)
{
	for (grid->rows = 1; grid->rows * grid->rows * 4 <= job->ranks; grid->rows *= 2)
		;
	grid->columns = job->ranks / grid->rows;
	grid->row = job->rank / grid->columns;
	grid->column = job->rank % grid->columns;
	for (int distance = 1; distance < grid->columns; distance *= 2)
		grid->partners[grid->stages++] = grid->row * grid->columns + (grid->column ^ distance);
	if (grid->rows == grid->columns) {
		grid->opposite = grid->column * grid->columns + grid->row;
	} else {
		int pair = job->rank / 2;

		grid->opposite = 2 * (pair % grid->rows * grid->rows + pair / grid->rows) + job->rank % 2;
	}
}

/* Divides rows and columns. With twice as many columns as rows, two ranks share the columns of a row. */
static void divide(struct solver *solver)
{
	struct grid *grid = &solver->grid;
	struct matrix *matrix = &solver->matrix;
	int order = solver->size->form.order, half;

	matrix->first_row = part_start(order, grid->rows, grid->row);
	matrix->rows = part_start(order, grid->rows, grid->row + 1) - matrix->first_row;
	if (grid->rows == grid->columns) {
		matrix->first_column = part_start(order, grid->columns, grid->column);
		matrix->columns = part_start(order, grid->columns, grid->column + 1) - matrix->first_column;
		grid->first = 0;
		grid->count = matrix->rows;
		return;
	}
	/* Halves of the parts that the rows have, so that the opposite rank has the same numbers. */
	matrix->first_column = part_start(order, grid->rows, grid->column / 2);
	matrix->columns = part_start(order, grid->rows, grid->column / 2 + 1) - matrix->first_column;
	half = (matrix->columns + 1) / 2;
	if (grid->column % 2) {
		matrix->first_column += half;
		matrix->columns -= half;
	} else {
		matrix->columns = half;
	}
	half = (matrix->rows + 1) / 2;
	grid->first = grid->column % 2 ? half : 0;
	grid->count = grid->column % 2 ? matrix->rows - half : half;
	grid->given_first = grid->column % 2 ? 0 : half;
	grid->given_count = matrix->rows - grid->count;
}

static void swap_with(int partner, const double *out, int out_count, double *in, int in_count)
{
	MPI_Request request;

	MPI_Irecv(in, in_count, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD, &request);
	MPI_Send(out, out_count, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Adds numbers of each rank in the own row of the grid, up to two. The original starts with the farthest. */
static void sum(const struct grid *grid, double *own, int count)
{
	double others[2];

	for (int i = grid->stages - 1; i >= 0; i--) {
		swap_with(grid->partners[i], own, count, others, count);
		for (int j = 0; j < count; j++)
			own[j] += others[j];
	}
}

/* Adds the vectors `w` of the own row of the grid, and gives the ranks of a column their part in `to`. */
static void sum_vectors(struct solver *solver, double *to)
{
	struct grid *grid = &solver->grid;
	int is_square = grid->rows == grid->columns;

	for (int i = 0; i < grid->stages; i++) {
		/* Neighbours first share the work of a row: each keeps its half. */
		int is_sharing = !is_square && i == 0;
		const double *out = solver->w + (is_sharing ? grid->given_first : grid->first);

		swap_with(grid->partners[i], out, is_sharing ? grid->given_count : grid->count, to, grid->count);
		for (int j = 0; j < grid->count; j++)
			solver->w[grid->first + j] += to[j];
	}
	if (grid->stages)
		swap_with(grid->opposite, solver->w + grid->first, grid->count, to, solver->matrix.columns);
	else
		for (int i = 0; i < solver->matrix.columns; i++)
			to[i] = solver->w[i];
}

/* Multiplies the own block with a vector of its columns. */
static void multiply(struct solver *solver, const double *vector, double *to)
{
	const struct matrix *matrix = &solver->matrix;

	for (int row = 0; row < matrix->rows; row++) {
		double value = 0;

		for (size_t i = matrix->starts[row]; i < matrix->starts[row + 1]; i++)
			value += matrix->values[i] * vector[matrix->places[i]];
		solver->w[row] = value;
	}
	sum_vectors(solver, to);
}

static double product(const struct solver *solver, const double *a, const double *b)
{
	double own = 0;

	for (int i = 0; i < solver->matrix.columns; i++)
		own += a[i] * b[i];
	sum(&solver->grid, &own, 1);
	return own;
}

/* Solves A z = x by 25 steps, and returns the norm of the residual. */
static double solve(struct solver *solver)
{
	int count = solver->matrix.columns;
	double rho, own = 0;

	for (int i = 0; i < count; i++) {
		solver->z[i] = 0;
		solver->p[i] = solver->r[i] = solver->x[i];
	}
	rho = product(solver, solver->r, solver->r);
	for (int step = 0; step < STEPS; step++) {
		double alpha, beta, last = rho;

		multiply(solver, solver->p, solver->q);
		alpha = rho / product(solver, solver->p, solver->q);
		for (int i = 0; i < count; i++) {
			solver->z[i] += alpha * solver->p[i];
			solver->r[i] -= alpha * solver->q[i];
		}
		rho = product(solver, solver->r, solver->r);
		beta = rho / last;
		for (int i = 0; i < count; i++)
			solver->p[i] = solver->r[i] + beta * solver->p[i];
	}
	multiply(solver, solver->z, solver->r);
	for (int i = 0; i < count; i++)
		own += (solver->x[i] - solver->r[i]) * (solver->x[i] - solver->r[i]);
	sum(&solver->grid, &own, 1);
	return sqrt(own);
}

/* Makes one step of the inverse power method, and returns the estimate of the eigenvalue. */
static double iterate(struct solver *solver, double *residual)
{
	double products[2] = {0, 0};

	*residual = solve(solver);
	for (int i = 0; i < solver->matrix.columns; i++) {
		products[0] += solver->x[i] * solver->z[i];
		products[1] += solver->z[i] * solver->z[i];
	}
	sum(&solver->grid, products, 2);
	for (int i = 0; i < solver->matrix.columns; i++)
		solver->x[i] = solver->z[i] / sqrt(products[1]);
	return solver->size->form.shift + 1 / products[0];
}

static void restart(struct solver *solver)
{
	for (int i = 0; i < solver->matrix.columns; i++)
		solver->x[i] = 1;
}

static void prepare(struct solver *solver, const struct job *job)
{
	size_t room;

	if (job->ranks & (job->ranks - 1) || job->ranks > 1024)
		refuse(job, "cg: %d ranks\n  start a power of two up to 1024", job->ranks);
	solver->size = &SIZES[job->class];
	place(&solver->grid, job);
	divide(solver);
	make_matrix(&solver->size->form, seed_after(SEED, 1), &solver->matrix);
	room = (size_t)solver->size->form.order / solver->grid.rows + 2;
	solver->x = memory(room, sizeof(double));
	solver->z = memory(room, sizeof(double));
	solver->p = memory(room, sizeof(double));
	solver->q = memory(room, sizeof(double));
	solver->r = memory(room, sizeof(double));
	solver->w = memory(room, sizeof(double));
}

void run_cg(const struct job *job, struct outcome *outcome)
{
	struct solver solver = {0};
	const struct size *size = &SIZES[job->class];
	int iterations = job->iterations ? job->iterations : size->iterations;
	double zeta = 0, residual, start, nonzeros = size->form.nonzeros * (size->form.nonzeros + 1.0);

	prepare(&solver, job);
	restart(&solver);
	iterate(&solver, &residual);
	restart(&solver);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 1; i <= iterations; i++) {
		zeta = iterate(&solver, &residual);
		if (job->rank == 0)
			printf(" %4d  residual %.6e  zeta %.13f\n", i, residual, zeta);
	}
	outcome->seconds = MPI_Wtime() - start;
	outcome->iterations = iterations;
	outcome->operations = 2.0 * iterations * size->form.order * (3 + nonzeros + STEPS * (5 + nonzeros) + 3);
	snprintf(outcome->size, sizeof outcome->size, "%d", size->form.order);
	if (iterations != size->iterations)
		outcome->verdict = NOT_VERIFIED;
	else
		outcome->verdict = agree(zeta, size->zeta, 1e-10) ? SUCCESSFUL : UNSUCCESSFUL;
}
