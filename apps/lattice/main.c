/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "lattice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Standard count for the hopping term of a site, with the sum of its eight parts. */
enum { OPERATIONS = 1320 };

static int residual_holds(const struct options *options, const struct solution *solution)
{
	/* No comparison holds for a NaN. */
	return fabs(solution->residual - solution->recursive) <= drift_limit(options) && (options->iterations || solution->is_converged);
}

static void print_extents(const char *name, const int extents[DIMENSIONS])
{
	char text[64];

	snprintf(text, sizeof text, "%dx%dx%dx%d", extents[0], extents[1], extents[2], extents[3]);
	printf(" %-15s = %24s\n", name, text);
}

static void report_problem(const struct geometry *geometry, const struct options *options, const double *links)
{
	static const char *const FIELDS[] = {"random", "unit", "gauge-transformed"};
	double mean = plaquette(geometry, links);
	uint64_t checksum = links_checksum(geometry, links);

	if (geometry->rank)
		return;
	printf("\n softband-lattice: Wilson fermions, even-odd preconditioned conjugate gradients\n");
	print_extents("Lattice", geometry->global);
	print_extents("Grid of ranks", geometry->grid);
	printf(" Precision       = %24s\n", options->is_single ? "single" : "double");
	printf(" Kappa           = %24g\n", options->kappa);
	printf(" Boundary        = %24s\n", options->is_antiperiodic ? "antiperiodic in time" : "periodic");
	printf(" Links           = %24s\n", FIELDS[options->field]);
	printf(" Checksum        =         %016llx\n", (unsigned long long)checksum);
	printf(" Plaquette       = %24.17g\n", mean);
}

/* Returns floating-point operations of the hopping terms: each iteration has two operators of
 * two halves. */
static double operations(const struct geometry *geometry, const struct solution *solution)
{
	double halves = 4.0 * solution->iterations + 4;

	return halves * OPERATIONS * (double)geometry->half * geometry->ranks;
}

static void report(const struct geometry *geometry, const struct options *options, const struct solution *solution, const double times[2],
		   int is_right)
{
	double seconds = times[0];

	printf(" Iterations      = %24d\n", solution->iterations);
	printf(" Convergence     = %24s\n", options->iterations ? "NOT CHECKED" : solution->is_converged ? "REACHED" : "NOT REACHED");
	printf(" Residual        = %24.6e\n", solution->residual);
	printf(" Solver time (s) = %24.9f\n", seconds);
	printf(" Halo time (%%)   = %24.1f\n", seconds > 0 ? 100 * times[1] / seconds : 0);
	printf(" GFlop/s         = %24.3f\n", seconds > 0 ? operations(geometry, solution) / seconds / 1e9 : 0);
	printf(" One rank agrees = %24s\n", options->is_verified ? (is_right ? "YES" : "NO") : "NOT CHECKED");
	printf(" Verification    = %24s\n", is_right && residual_holds(options, solution) ? "SUCCESSFUL" : "UNSUCCESSFUL");
}

int main(int argc, char **argv)
{
	struct options options;
	struct geometry geometry;
	struct solution solution = {0};
	int rank, ranks, is_right = 1;
	double *links, own[2], slowest[2];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	parse(argc, argv, rank, &options);
	choose_grid(&options, rank, ranks);
	make_geometry(&options, rank, ranks, &geometry);
	links = memory(PARITIES * geometry.half * LINKS, sizeof *links);
	solution.spinors = memory(PARITIES * geometry.half * SPINOR, sizeof *solution.spinors);
	make_links(&geometry, &options, options.field, links);
	report_problem(&geometry, &options, links);
	solve(&geometry, &options, links, &solution);
	own[0] = solution.seconds;
	own[1] = solution.halo_seconds;
	MPI_Reduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (options.is_verified)
		is_right = agrees_with_one_rank(&geometry, &options, links, &solution);
	if (rank == 0)
		report(&geometry, &options, &solution, slowest, is_right);
	free(solution.spinors);
	free(links);
	free_geometry(&geometry);
	MPI_Finalize();
	return !(is_right && residual_holds(&options, &solution));
}
