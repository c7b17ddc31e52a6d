/* SPDX-License-Identifier: MIT OR Apache-2.0
 * usage: mpi_all [GROUP]...     all groups without a word
 * Prints a line for each check, then "all checks hold" or the number of failed ones. Ends with
 * status 1 if a check failed. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct group GROUPS[] = {
	{"point-to-point", POINT_TO_POINT}, {"requests", REQUESTS},   {"collectives", COLLECTIVES},
	{"vectors", VECTORS},               {"nonblocking", NONBLOCKING}, {"datatypes", DATATYPES},
	{"communicators", COMMUNICATORS},   {"windows", WINDOWS},     {"synchronization", SYNCHRONIZATION},
};
enum { GROUP_COUNT = sizeof GROUPS / sizeof *GROUPS };

int rank, size;
const int LENGTHS[] = {1, 100, 4096, LONGEST};

static int faults;

void expect_at(int holds, const char *condition, const char *file, int line)
{
	if (holds)
		return;
	if (faults++ < 3)
		fprintf(stderr, "rank %d: %s:%d: not true: %s\n", rank, file, line, condition);
}

static int value(int seed, int index)
{
	return (int)(((unsigned)seed * 2654435761u ^ (unsigned)index * 40503u) & 0x7fffffff);
}

void fill(int *data, int count, int seed)
{
	for (int i = 0; i < count; i++)
		data[i] = value(seed, i);
}

void expect_filled(const int *data, int count, int seed, const char *file, int line)
{
	char text[120];

	for (int i = 0; i < count; i++)
		if (data[i] != value(seed, i)) {
			snprintf(text, sizeof text, "element %d of %d is %d, not %d", i, count, data[i], value(seed, i));
			expect_at(0, text, file, line);
			return;
		}
}

int *integers(int count)
{
	int *data = malloc((count > 0 ? count : 1) * sizeof *data);

	if (!data) {
		fprintf(stderr, "rank %d: no memory for %d integers\n", rank, count);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int i = 0; i < count; i++)
		data[i] = -1;
	return data;
}

int next_rank(void)
{
	return (rank + 1) % size;
}

int previous_rank(void)
{
	return (rank + size - 1) % size;
}

/* Runs a group. Returns the number of failed checks. */
static int run_group(const struct group *group)
{
	int all, failed = 0;

	for (const struct check *check = group->checks; check->name; check++) {
		faults = 0;
		check->run();
		MPI_Allreduce(&faults, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		if (rank == 0) {
			printf("%s %s: %s\n", all ? "FAILED" : "ok    ", group->name, check->name);
			fflush(stdout);
		}
		failed += all != 0;
	}
	return failed;
}

static const struct group *find(const char *name)
{
	for (int i = 0; i < GROUP_COUNT; i++)
		if (strcmp(GROUPS[i].name, name) == 0)
			return &GROUPS[i];
	return NULL;
}

static void refuse(const char *name)
{
	if (rank == 0) {
		fprintf(stderr, "mpi_all: no group `%s`. Groups:", name);
		for (int i = 0; i < GROUP_COUNT; i++)
			fprintf(stderr, " %s", GROUPS[i].name);
		fprintf(stderr, "\n");
	}
	MPI_Finalize();
	exit(2);
}

int main(int argc, char **argv)
{
	int failed = 0, provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 1; i < argc; i++)
		if (!find(argv[i]))
			refuse(argv[i]);
	for (int i = 1; i < argc; i++)
		failed += run_group(find(argv[i]));
	for (int i = 0; argc == 1 && i < GROUP_COUNT; i++)
		failed += run_group(&GROUPS[i]);
	if (rank == 0 && failed)
		printf("%d checks failed on %d ranks\n", failed, size);
	else if (rank == 0)
		printf("all checks hold on %d ranks\n", size);
	MPI_Finalize();
	return failed != 0;
}
