/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "npb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CLASS_NAMES[] = "SWABC";

static const struct kernel {
	const char *name, *title;
	void (*run)(const struct job *job, struct outcome *outcome);
} KERNELS[] = {
	{"ep", "EP (embarrassingly parallel)", run_ep},
	{"is", "IS (integer sort)", run_is},
	{"ft", "FT (three-dimensional FFT)", run_ft},
	{"cg", "CG (conjugate gradient)", run_cg},
};

static const char USAGE[] = "usage: softband-npb [--class S|W|A|B|C] [--iterations N] ep|is|ft|cg\n"
			    "  --class       size of the problem; default: S\n"
			    "  --iterations  instead of the class's number; the result is then not verified, except by is";

static const struct kernel *kernel_of(const char *name)
{
	for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
		if (!strcmp(KERNELS[i].name, name))
			return &KERNELS[i];
	return NULL;
}

static void set_class(struct job *job, const char *text)
{
	const char *place = strlen(text) == 1 ? strchr(CLASS_NAMES, *text) : NULL;

	if (!place)
		refuse(job, "--class %s: give one of S, W, A, B and C", text);
	job->name = *text;
	job->class = (int)(place - CLASS_NAMES);
}

static void set_iterations(struct job *job, const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*end || end == text || number < 1 || number > 1000)
		refuse(job, "--iterations %s: give a number from 1 to 1000", text);
	job->iterations = (int)number;
}

static const struct kernel *parse(int argc, char **argv, struct job *job)
{
	const struct kernel *kernel = NULL;

	for (int i = 1; i < argc; i++) {
		int has_value = !strcmp(argv[i], "--class") || !strcmp(argv[i], "--iterations");

		if (!strcmp(argv[i], "--help")) {
			if (job->rank == 0)
				puts(USAGE);
			MPI_Finalize();
			exit(0);
		}
		if (has_value && i + 1 == argc)
			refuse(job, "%s: a value is missing\n%s", argv[i], USAGE);
		if (!strcmp(argv[i], "--class"))
			set_class(job, argv[++i]);
		else if (has_value)
			set_iterations(job, argv[++i]);
		else if (kernel || !(kernel = kernel_of(argv[i])))
			refuse(job, "%s: unknown or second kernel\n%s", argv[i], USAGE);
	}
	if (!kernel)
		refuse(job, "no kernel\n%s", USAGE);
	return kernel;
}

/* Prints the lines that scripts know from the original benchmarks. */
static void report(const struct kernel *kernel, const struct job *job, const struct outcome *outcome, double seconds)
{
	static const char *const VERDICTS[] = {"NOT PERFORMED", "SUCCESSFUL", "UNSUCCESSFUL"};
	double rate = seconds > 0 ? outcome->operations / seconds / 1e6 : 0;

	printf("\n %s Benchmark Completed.\n", kernel->title);
	printf(" Class           = %24c\n", job->name);
	printf(" Size            = %24s\n", outcome->size);
	printf(" Iterations      = %24d\n", outcome->iterations);
	printf(" Time in seconds = %24.6f\n", seconds);
	printf(" Total processes = %24d\n", job->ranks);
	printf(" Mop/s total     = %24.2f\n", rate);
	printf(" Mop/s/process   = %24.2f\n", rate / job->ranks);
	printf(" Verification    = %24s\n", VERDICTS[outcome->verdict]);
}

int main(int argc, char **argv)
{
	struct job job = {.name = 'S'};
	struct outcome outcome = {0};
	const struct kernel *kernel;
	double seconds;
	int failed;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	kernel = parse(argc, argv, &job);
	kernel->run(&job, &outcome);
	MPI_Reduce(&outcome.seconds, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	failed = outcome.verdict == UNSUCCESSFUL;
	MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (job.rank == 0)
		report(kernel, &job, &outcome, seconds);
	MPI_Finalize();
	return failed;
}
