/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The arguments of the command. */
#include "lattice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTENT_MAX = 1024, ITERATIONS_LIMIT = 1000000 };

static const char USAGE[] =
	"usage: softband-lattice [--lattice LXxLYxLZxLT] [--grid PXxPYxPZxPT] [--kappa K]\n"
	"           [--precision double|single] [--field random|unit|transformed] [--seed N] [--antiperiodic]\n"
	"           [--tolerance T | --iterations N] [--overlap] [--verify]\n"
	"  --lattice       sites of the whole lattice; default: 8x8x8x16\n"
	"  --grid          ranks along each axis; default: chosen by MPI_Dims_create\n"
	"  --kappa         hopping parameter, from 0 to 1; default: 0.12\n"
	"  --precision     of the solver; default: double\n"
	"  --field         links; transformed: the random links after a gauge transformation; default: random\n"
	"  --seed          of links and source; default: 1\n"
	"  --antiperiodic  turns the sign of the fermions at the boundary in time\n"
	"  --tolerance     relative residual at the end; default: 1e-10, in single precision 1e-5\n"
	"  --iterations    fixed number, for timing; the residual then has no limit\n"
	"  --overlap       computes inner sites during the halo exchange\n"
	"  --verify        solves the same system on rank 0 alone, and compares";

/* Reads four extents, such as 8x8x8x16. */
static void read_extents(const char *name, const char *text, int rank, int extents[DIMENSIONS])
{
	const char *at = text;

	for (int axis = 0; axis < DIMENSIONS; axis++) {
		char *end;
		long extent = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;

		if (extent < 1 || extent > EXTENT_MAX || *end != (axis == DIMENSIONS - 1 ? '\0' : 'x'))
			refuse(rank, "%s %s: give four numbers from 1 to %d, such as 8x8x8x16", name, text, EXTENT_MAX);
		extents[axis] = (int)extent;
		at = end + 1;
	}
}

static double read_number(const char *name, const char *text, int rank, double least, double most)
{
	char *end;
	double number = strtod(text, &end);

	/* No comparison holds for a NaN. */
	if (*end || end == text || !(number >= least && number <= most))
		refuse(rank, "%s %s: give a number from %g to %g", name, text, least, most);
	return number;
}

static uint64_t read_whole(const char *name, const char *text, int rank, uint64_t least, uint64_t most)
{
	char *end = NULL;
	unsigned long long number = *text >= '0' && *text <= '9' ? (errno = 0, strtoull(text, &end, 10)) : 0;

	if (!end || *end || errno || number < least || number > most)
		refuse(rank, "%s %s: give a whole number from %llu to %llu", name, text, (unsigned long long)least, (unsigned long long)most);
	return number;
}

static int read_word(const char *name, const char *text, int rank, const char *const *words, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(words[i], text))
			return i;
	refuse(rank, "%s %s: unknown value\n%s", name, text, USAGE);
}

static int set_switch(struct options *options, const char *name)
{
	int *place = !strcmp(name, "--antiperiodic") ? &options->is_antiperiodic
		     : !strcmp(name, "--overlap")    ? &options->is_overlapped
		     : !strcmp(name, "--verify")     ? &options->is_verified
						     : NULL;

	if (place)
		*place = 1;
	return place != NULL;
}

static void set_value(struct options *options, const char *name, const char *text, int rank)
{
	static const char *const PRECISIONS[] = {"double", "single"}, *const FIELDS[] = {"random", "unit", "transformed"};

	if (!strcmp(name, "--lattice"))
		read_extents(name, text, rank, options->lattice);
	else if (!strcmp(name, "--grid"))
		read_extents(name, text, rank, options->grid);
	else if (!strcmp(name, "--kappa"))
		options->kappa = read_number(name, text, rank, 0, 1);
	else if (!strcmp(name, "--tolerance"))
		options->tolerance = read_number(name, text, rank, 1e-14, 0.5);
	else if (!strcmp(name, "--iterations"))
		options->iterations = (int)read_whole(name, text, rank, 1, ITERATIONS_LIMIT);
	else if (!strcmp(name, "--seed"))
		options->seed = read_whole(name, text, rank, 0, UINT64_MAX);
	else if (!strcmp(name, "--precision"))
		options->is_single = read_word(name, text, rank, PRECISIONS, 2);
	else
		options->field = (enum field)read_word(name, text, rank, FIELDS, 3);
}

static int has_value(const char *name)
{
	static const char *const NAMES[] = {"--lattice", "--grid", "--kappa", "--tolerance", "--iterations", "--seed", "--precision", "--field"};

	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
		if (!strcmp(NAMES[i], name))
			return 1;
	return 0;
}

static void check(const struct options *options, int rank)
{
	if (options->iterations && options->tolerance != 0)
		refuse(rank, "--iterations and --tolerance exclude each other\n  give one of them");
	if (options->is_single && options->tolerance != 0 && options->tolerance < 1e-6)
		refuse(rank, "--tolerance %g: single precision reaches 1e-6\n  give a larger number, or --precision double", options->tolerance);
}

void parse(int argc, char **argv, int rank, struct options *options)
{
	*options = (struct options){.lattice = {8, 8, 8, 16}, .seed = 1, .kappa = 0.12};
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			if (rank == 0)
				puts(USAGE);
			MPI_Finalize();
			exit(0);
		}
		if (set_switch(options, argv[i]))
			continue;
		if (!has_value(argv[i]))
			refuse(rank, "%s: unknown argument\n%s", argv[i], USAGE);
		if (i + 1 == argc)
			refuse(rank, "%s: a value is missing\n%s", argv[i], USAGE);
		set_value(options, argv[i], argv[i + 1], rank);
		i++;
	}
	check(options, rank);
	if (options->tolerance == 0)
		options->tolerance = options->is_single ? 1e-5 : 1e-10;
}
