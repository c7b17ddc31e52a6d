/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mpibench.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const size_t BYTES_MAX = (size_t)1 << 30;

static const char HELP[] =
	"usage: softband-mpibench [OPTIONS]      every rank of an MPI job runs it\n"
	"\n"
	"Benchmarks of MPI by the methods of IMB and OSU. Each has a table; times are of one iteration.\n"
	"\n"
	"  -b, --benchmarks=LIST  comma-separated names (default: all that the number of ranks allows)\n"
	"  -s, --sizes=LIST       message sizes in bytes, comma-separated, or FROM:TO for the powers of two in between\n"
	"                         (default 0 and 1:4194304)\n"
	"  -n, --iterations=N     iterations (default: 1000, fewer above 32768 bytes, so that 32 MiB go at most, 10 at least)\n"
	"  -w, --warmup=N         iterations before, untimed (default 10)\n"
	"  -c, --check            fill all messages and check what arrives; ends with status 1 after a fault. Costs time\n"
	"      --csv              comma-separated values: one head, one line for each size of each benchmark\n"
	"  -l, --list             the names of the benchmarks\n"
	"  -h, --help             this text\n"
	"\n"
	"t_min, t_max and t_avg are those of the ranks, in microseconds (us). PingPong and PingPing print half a round trip\n"
	"and one message. A Mbyte has 10^6 bytes. Bandwidth counts 64 messages an iteration, in one direction; Bidirectional\n"
	"and Sendrecv count both directions, Exchange four messages. MessageRate counts all pairs.\n";

void finish_with(int status, int rank, const char *format, ...)
{
	va_list list;

	if (rank == 0 && format) {
		va_start(list, format);
		fprintf(stderr, "softband-mpibench: ");
		vfprintf(stderr, format, list);
		fprintf(stderr, "\n");
		va_end(list);
	}
	MPI_Finalize();
	exit(status);
}

static void refuse(int rank, const char *option, const char *given, const char *wanted)
{
	finish_with(2, rank, "%s: `%s` is not %s\n  try: softband-mpibench --help", option, given, wanted);
}

static size_t number(int rank, const char *option, const char *text, size_t least, size_t most)
{
	char *end, wanted[80];
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || value < least || value > most) {
		snprintf(wanted, sizeof wanted, "a number from %zu to %zu", least, most);
		refuse(rank, option, text, wanted);
	}
	return value;
}

static void add_size(struct options *options, int rank, size_t bytes)
{
	if (options->size_count == SIZES_MAX)
		finish_with(2, rank, "--sizes: more than %d sizes\n  give fewer", SIZES_MAX);
	options->sizes[options->size_count++] = bytes;
}

static void parse_sizes(struct options *options, int rank, char *text)
{
	char *rest, *part, *colon;

	options->size_count = 0;
	for (part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
		colon = strchr(part, ':');
		if (!colon) {
			add_size(options, rank, number(rank, "--sizes", part, 0, BYTES_MAX));
			continue;
		}
		*colon = 0;
		size_t from = number(rank, "--sizes", part, 1, BYTES_MAX), to = number(rank, "--sizes", colon + 1, from, BYTES_MAX);

		for (; from <= to; from *= 2)
			add_size(options, rank, from);
	}
	if (!options->size_count)
		refuse(rank, "--sizes", text, "a list of sizes, such as 8,1024 or 1:4096");
}

static void list_names(int rank)
{
	for (int i = 0; rank == 0 && i < BENCHMARK_COUNT; i++)
		printf("%s\n", BENCHMARKS[i].name);
	finish_with(0, rank, NULL);
}

static void parse_benchmarks(struct options *options, int rank, char *text)
{
	char *rest, *part;

	options->chosen = 0;
	for (part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
		int found = 0;

		for (int i = 0; i < BENCHMARK_COUNT; i++)
			if (strcasecmp(BENCHMARKS[i].name, part) == 0) {
				options->chosen |= 1ul << i;
				found = 1;
			}
		if (!found)
			finish_with(2, rank, "--benchmarks: no benchmark `%s`\n  try: softband-mpibench --list", part);
	}
	if (!options->chosen)
		refuse(rank, "--benchmarks", text, "a list of names, such as PingPong,Alltoall");
}

static const struct option LONG[] = {
	{"benchmarks", required_argument, NULL, 'b'}, {"sizes", required_argument, NULL, 's'},
	{"iterations", required_argument, NULL, 'n'}, {"warmup", required_argument, NULL, 'w'},
	{"check", no_argument, NULL, 'c'},            {"csv", no_argument, NULL, 'v'},
	{"list", no_argument, NULL, 'l'},             {"help", no_argument, NULL, 'h'},
	{0},
};

void parse_options(int argc, char **argv, struct options *options, int rank)
{
	char sizes[] = "0,1:4194304";
	int letter;

	*options = (struct options){.warmup = 10};
	parse_sizes(options, rank, sizes);
	opterr = 0;
	while ((letter = getopt_long(argc, argv, ":b:s:n:w:clh", LONG, NULL)) != -1) {
		const char *word = argv[optind - 1];

		switch (letter) {
		case 'b': parse_benchmarks(options, rank, optarg); break;
		case 's': parse_sizes(options, rank, optarg); break;
		case 'n': options->iterations = (int)number(rank, "--iterations", optarg, 1, 100000000); break;
		case 'w': options->warmup = (int)number(rank, "--warmup", optarg, 0, 1000000); break;
		case 'c': options->check = 1; break;
		case 'v': options->csv = 1; break;
		case 'l': list_names(rank); break;
		case 'h':
			if (rank == 0)
				fputs(HELP, stdout);
			finish_with(0, rank, NULL);
		case ':': finish_with(2, rank, "%s: a value is missing\n  try: softband-mpibench --help", word);
		default: finish_with(2, rank, "%s: no such option\n  try: softband-mpibench --help", word);
		}
	}
	if (optind < argc)
		finish_with(2, rank, "`%s` is not an option\n  try: softband-mpibench --help", argv[optind]);
}
