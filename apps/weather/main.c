/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "weather.h"

#include <math.h>
#include <stdio.h>

/* Rounding of sums over millions of cells and hundreds of steps stays below this part. */
static const double DRIFT_LIMIT = 1e-12;

struct outcome {
	double reference; /* mass of the reference state, kg */
	struct diagnosis first, last;
	uint64_t checksum;
	double seconds, halo_seconds;
	int is_stable, is_right;
};

static double drift(double before, double after)
{
	return (after - before) / before;
}

static int is_successful(const struct outcome *outcome)
{
	/* No comparison holds for a NaN. */
	return outcome->is_stable && outcome->is_right && fabs(drift(outcome->first.mass, outcome->last.mass)) <= DRIFT_LIMIT &&
	       fabs(drift(outcome->first.water, outcome->last.water)) <= DRIFT_LIMIT;
}

static void print_text(const char *name, const char *form, int a, int b, int c)
{
	char text[64];

	snprintf(text, sizeof text, form, a, b, c);
	printf(" %-15s = %24s\n", name, text);
}

static void report(const struct domain *domain, const struct options *options, const struct outcome *outcome)
{
	double seconds = outcome->seconds;

	printf("\n softband-weather: stencils of a weather model, split-explicit\n");
	print_text("Grid", "%dx%dx%d", domain->global[EAST], domain->global[NORTH], domain->levels);
	print_text("Decomposition", "%dx%d", domain->parts[EAST], domain->parts[NORTH], 0);
	print_text("Steps", "%d", options->steps, 0, 0);
	print_text("Small steps", "%d", options->steps * SMALL_STEPS - SMALL_STEPS / 2, 0, 0);
	printf(" Weather (s)     = %24.0f\n", options->steps * STEP);
	printf(" Wind (m/s)      = %24.17g\n", outcome->last.wind);
	printf(" Mass (kg)       = %24.17g\n", outcome->reference + outcome->last.mass);
	printf(" Drift of mass   = %24.3e\n", drift(outcome->first.mass, outcome->last.mass));
	printf(" Drift of water  = %24.3e\n", drift(outcome->first.water, outcome->last.water));
	printf(" Checksum        =         %016llx\n", (unsigned long long)outcome->checksum);
	printf(" Run time (s)    = %24.9f\n", seconds);
	printf(" Step time (ms)  = %24.6f\n", 1e3 * seconds / options->steps);
	printf(" Halo time (s)   = %24.9f\n", outcome->halo_seconds);
	printf(" Halo time (%%)   = %24.1f\n", seconds > 0 ? 100 * outcome->halo_seconds / seconds : 0);
	printf(" One rank agrees = %24s\n", !options->is_verified ? "NOT CHECKED" : outcome->is_right ? "YES" : "NO");
	printf(" Verification    = %24s\n", is_successful(outcome) ? "SUCCESSFUL" : "UNSUCCESSFUL");
}

static double reference_mass(const struct model *model)
{
	const struct domain *domain = model->domain;
	double sum = 0;

	for (int level = 0; level < domain->levels; level++)
		sum += model->levels[level].density;
	return sum * domain->global[EAST] * domain->global[NORTH] * SPACING * SPACING * DEPTH;
}

static void measure(struct model *model, const struct options *options, struct outcome *outcome)
{
	double own[2], slowest[2], start;

	outcome->reference = reference_mass(model);
	outcome->first = diagnose(model);
	model->halo_seconds = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	outcome->is_stable = run(model, options, &outcome->last);
	own[0] = MPI_Wtime() - start;
	own[1] = model->halo_seconds;
	MPI_Allreduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	outcome->seconds = slowest[0];
	outcome->halo_seconds = slowest[1];
	outcome->checksum = checksum(model);
	outcome->is_right = !options->is_verified || agrees_with_one_rank(model, options);
}

int main(int argc, char **argv)
{
	struct options options;
	struct domain domain;
	struct model model;
	struct outcome outcome;
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	parse(argc, argv, rank, &options);
	make_domain(&options, rank, ranks, &domain);
	open_model(&model, &domain);
	measure(&model, &options, &outcome);
	if (rank == 0)
		report(&domain, &options, &outcome);
	close_model(&model);
	MPI_Finalize();
	return !is_successful(&outcome);
}
