/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The arguments of the command. */
#include "weather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTENT_MAX = 10000, LEVELS_MIN = 3, LEVELS_MAX = 200, STEPS_MAX = 100000 };

static const double HOURS_MAX = 240;

static const char USAGE[] =
	"usage: softband-weather [--grid EASTxNORTH] [--levels N] [--hours H | --steps N]\n"
	"           [--decomposition EASTxNORTH] [--diagnostics N] [--verify]\n"
	"  --grid           columns; default: 241x261\n"
	"  --levels         of each column; default: 35\n"
	"  --hours          of weather; default: 1, which is 225 steps of 16 s\n"
	"  --steps          instead of hours\n"
	"  --decomposition  ranks; default: chosen by MPI_Dims_create\n"
	"  --diagnostics    steps between global sums; default: 10\n"
	"  --verify         computes the same weather on rank 0 alone, and compares all bits";

static void read_pair(const char *name, const char *text, int rank, int pair[AXES])
{
	const char *at = text;

	for (int axis = EAST; axis < AXES; axis++) {
		char *end;
		long number = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;

		if (number < 1 || number > EXTENT_MAX || *end != (axis == NORTH ? '\0' : 'x'))
			refuse(rank, "%s %s: give two numbers from 1 to %d, such as 241x261", name, text, EXTENT_MAX);
		pair[axis] = (int)number;
		at = end + 1;
	}
}

static int read_whole(const char *name, const char *text, int rank, int least, int most)
{
	char *end = NULL;
	long number = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;

	if (!end || *end || number < least || number > most)
		refuse(rank, "%s %s: give a whole number from %d to %d", name, text, least, most);
	return (int)number;
}

static double read_hours(const char *text, int rank)
{
	char *end;
	double hours = strtod(text, &end);

	/* No comparison holds for a NaN. */
	if (*end || end == text || !(hours * 3600 >= STEP && hours <= HOURS_MAX))
		refuse(rank, "--hours %s: give a number up to %g, of one step (%g s) at least", text, HOURS_MAX, STEP);
	return hours;
}

static void set_value(struct options *options, const char *name, const char *text, int rank)
{
	if (!strcmp(name, "--grid"))
		read_pair(name, text, rank, options->grid);
	else if (!strcmp(name, "--decomposition"))
		read_pair(name, text, rank, options->parts);
	else if (!strcmp(name, "--levels"))
		options->levels = read_whole(name, text, rank, LEVELS_MIN, LEVELS_MAX);
	else if (!strcmp(name, "--steps"))
		options->steps = read_whole(name, text, rank, 1, STEPS_MAX);
	else if (!strcmp(name, "--diagnostics"))
		options->diagnostics = read_whole(name, text, rank, 1, STEPS_MAX);
	else
		options->hours = read_hours(text, rank);
}

static int has_value(const char *name)
{
	static const char *const NAMES[] = {"--grid", "--decomposition", "--levels", "--steps", "--diagnostics", "--hours"};

	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
		if (!strcmp(NAMES[i], name))
			return 1;
	return 0;
}

static void read_arguments(int argc, char **argv, int rank, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			if (rank == 0)
				puts(USAGE);
			MPI_Finalize();
			exit(0);
		}
		if (!strcmp(argv[i], "--verify")) {
			options->is_verified = 1;
			continue;
		}
		if (!has_value(argv[i]))
			refuse(rank, "%s: unknown argument\n%s", argv[i], USAGE);
		if (i + 1 == argc)
			refuse(rank, "%s: a value is missing\n%s", argv[i], USAGE);
		set_value(options, argv[i], argv[i + 1], rank);
		i++;
	}
}

void parse(int argc, char **argv, int rank, struct options *options)
{
	int ranks;

	*options = (struct options){.grid = {241, 261}, .levels = 35, .diagnostics = 10};
	read_arguments(argc, argv, rank, options);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (options->steps && options->hours > 0)
		refuse(rank, "--hours and --steps exclude each other\n  give one of them");
	if (!options->steps)
		options->steps = (int)lround((options->hours > 0 ? options->hours : 1) * 3600 / STEP);
	if (options->parts[EAST] && options->parts[EAST] * options->parts[NORTH] != ranks)
		refuse(rank, "--decomposition %dx%d has %d ranks, and the job has %d\n  give numbers whose product is %d", options->parts[EAST],
		       options->parts[NORTH], options->parts[EAST] * options->parts[NORTH], ranks, ranks);
}
