/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Tables, and the contents of messages. */
#include "mpibench.h"

#include <stdio.h>
#include <string.h>

static void print_column_heads(const struct benchmark *benchmark)
{
	printf("%12s %12s %12s %12s %12s", "bytes", "repetitions", "t_min[us]", "t_max[us]", "t_avg[us]");
	if (benchmark->messages)
		printf(" %12s", "Mbytes/s");
	if (benchmark->kind == RATE)
		printf(" %12s", "messages/s");
	printf("\n");
}

void print_title(const struct benchmark *benchmark, const struct options *options, int ranks)
{
	static int heads;
	int pair = benchmark->kind == PAIR || benchmark->kind == STREAM;
	int used = pair ? 2 : benchmark->kind == RATE ? ranks / 2 * 2 : ranks;

	if (options->csv) {
		if (!heads++)
			printf("benchmark,ranks,bytes,repetitions,t_min_us,t_max_us,t_avg_us,mbytes_per_s,messages_per_s\n");
	} else {
		printf("%s# %s, %d of %d ranks\n", heads++ ? "\n" : "", benchmark->name, used, ranks);
		print_column_heads(benchmark);
	}
	fflush(stdout);
}

/* Bytes per microsecond are Mbytes/s. The slowest rank decides. */
void print_line(const struct benchmark *benchmark, const struct options *options, const struct work *work,
		const double times[3])
{
	int pairs = benchmark->kind == RATE ? work->ranks / 2 : 1;
	double messages = times[1] > 0 ? benchmark->messages * pairs / times[1] : 0;

	if (options->csv) {
		printf("%s,%d,%zu,%d,%.3f,%.3f,%.3f,", benchmark->name, work->ranks, work->bytes, work->iterations, times[0],
		       times[1], times[2]);
		if (benchmark->messages)
			printf("%.3f", messages * work->bytes);
		printf(",");
		if (benchmark->kind == RATE)
			printf("%.0f", messages * 1e6);
	} else {
		printf("%12zu %12d %12.3f %12.3f %12.3f", work->bytes, work->iterations, times[0], times[1], times[2]);
		if (benchmark->messages)
			printf(" %12.3f", messages * work->bytes);
		if (benchmark->kind == RATE)
			printf(" %12.0f", messages * 1e6);
	}
	printf("\n");
	fflush(stdout);
}

/* The bytes of a message change with its sender and receiver, and from iteration to iteration. */
static unsigned char byte_of(const struct work *work, int seed, size_t place)
{
	return (unsigned char)(seed * 37 + work->iteration * 11 + place * 7 + (place >> 8) + 1);
}

void fill_part(struct work *work, size_t part, int seed)
{
	for (size_t i = 0; work->check && i < work->bytes; i++)
		work->out[part * work->bytes + i] = (char)byte_of(work, seed, i);
}

void check_part(struct work *work, size_t part, int seed)
{
	for (size_t i = 0; work->check && i < work->bytes; i++)
		if ((unsigned char)work->in[part * work->bytes + i] != byte_of(work, seed, i)) {
			work->faults++;
			return;
		}
}

/* The terms are small whole numbers, so floats add them exactly in any order. */
void fill_terms(struct work *work, size_t count)
{
	float *terms = (float *)work->out;

	for (size_t i = 0; work->check && i < count; i++)
		terms[i] = (float)(work->rank + i % 64 + work->iteration % 16);
}

void check_sum(struct work *work, size_t count, size_t first)
{
	const float *sums = (const float *)work->in;
	int ranks = work->ranks;

	for (size_t i = 0; work->check && i < count; i++) {
		size_t each = (first + i) % 64 + work->iteration % 16;

		if (sums[i] != (float)(ranks * (ranks - 1) / 2 + ranks * each)) {
			work->faults++;
			return;
		}
	}
}
