/* SPDX-License-Identifier: MIT OR Apache-2.0
 * IS: ranks of integer keys by buckets, each of whose parts goes to one rank (specification, 2.6). */
#include "npb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TESTS = 5, ITERATIONS = 10 };

static const uint64_t SEED = 314159265;

static const struct size {
	int keys_log, values_log, buckets_log;
	int tests[TESTS]; /* keys whose ranks are known */
	int ranks[TESTS];
} SIZES[CLASSES] = {
	{16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}},
	{20, 16, 10, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}},
	{23, 19, 10, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}},
	{25, 21, 10, {41869, 812306, 5102857, 18232239, 26860214}, {33422937, 10244, 59149, 33135281, 99}},
	{27, 23, 10, {44172927, 72999161, 74326391, 129606274, 21736814}, {61147, 882988, 266290, 133997595, 133525895}},
};

/* State of a rank. */
struct sort {
	const struct job *job;
	const struct size *size;
	int keys_per_rank, buckets, shift;
	int *keys, *sent, *received, received_room;
	int *own_sizes, *all_sizes;   /* of the buckets, then the values of the tests */
	int *send_counts, *send_places, *receive_counts, *receive_places;
	int first_value, values;      /* that this rank orders */
	int *below, below_room;       /* number of received keys up to each value */
	int keys_before, key_count;   /* in lower ranks, and here */
	int passed;
};

/* The specification's ranks of the tests, which change with each iteration. */
static int expected_rank(const struct sort *sort, int test, int iteration)
{
	static const int FIRSTS[CLASSES] = {3, 2, 3, 0, 3}, ADDENDS[CLASSES] = {0, -2, -1, 0, 0};
	int class = sort->job->class, rank = sort->size->ranks[test];
	int rises = class == 3 ? test == 1 || test == 2 || test == 4 : test < FIRSTS[class];

	if (class == 1)
		return rises ? rank + iteration - 2 : rank - iteration;
	return rises ? rank + iteration + ADDENDS[class] : rank - iteration - ADDENDS[class];
}

static void make_keys(struct sort *sort)
{
	uint64_t seed = seed_after(SEED, (uint64_t)4 * sort->keys_per_rank * sort->job->rank);
	double scale = (double)(1 << sort->size->values_log) / 4;

	for (int i = 0; i < sort->keys_per_rank; i++) {
		double sum = next_random(&seed);

		for (int j = 1; j < 4; j++)
			sum += next_random(&seed);
		sort->keys[i] = (int)(scale * sum);
	}
}

/* Counts the buckets, and orders the keys by them. */
static void fill_buckets(struct sort *sort)
{
	int *places = memory(sort->buckets, sizeof *places);

	memset(sort->own_sizes, 0, (sort->buckets + TESTS) * sizeof *sort->own_sizes);
	for (int i = 0; i < TESTS; i++)
		if (sort->size->tests[i] / sort->keys_per_rank == sort->job->rank)
			sort->own_sizes[sort->buckets + i] = sort->keys[sort->size->tests[i] % sort->keys_per_rank];
	for (int i = 0; i < sort->keys_per_rank; i++)
		sort->own_sizes[sort->keys[i] >> sort->shift]++;
	for (int i = 1; i < sort->buckets; i++)
		places[i] = places[i - 1] + sort->own_sizes[i - 1];
	for (int i = 0; i < sort->keys_per_rank; i++)
		sort->sent[places[sort->keys[i] >> sort->shift]++] = sort->keys[i];
	free(places);
}

/* Gives each rank buckets in turn, until it has its share of the keys. */
static void share_buckets(struct sort *sort)
{
	int ranks = sort->job->ranks, rank = 0, first = 0;
	long keys = 0;

	memset(sort->send_counts, 0, ranks * sizeof *sort->send_counts);
	sort->keys_before = sort->values = 0;
	for (int bucket = 0; bucket < sort->buckets; bucket++) {
		keys += sort->all_sizes[bucket];
		sort->send_counts[rank] += sort->own_sizes[bucket];
		if (rank < sort->job->rank)
			sort->keys_before = (int)keys;
		if (rank == sort->job->rank) {
			sort->first_value = first << sort->shift;
			sort->values = (bucket + 1 - first) << sort->shift;
		}
		if (keys >= (long)(rank + 1) * sort->keys_per_rank && rank + 1 < ranks) {
			rank++;
			first = bucket + 1;
		}
	}
}

static void exchange_keys(struct sort *sort)
{
	int ranks = sort->job->ranks;

	MPI_Alltoall(sort->send_counts, 1, MPI_INT, sort->receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
	sort->send_places[0] = sort->receive_places[0] = 0;
	for (int i = 1; i < ranks; i++) {
		sort->send_places[i] = sort->send_places[i - 1] + sort->send_counts[i - 1];
		sort->receive_places[i] = sort->receive_places[i - 1] + sort->receive_counts[i - 1];
	}
	sort->key_count = sort->receive_places[ranks - 1] + sort->receive_counts[ranks - 1];
	if (sort->key_count > sort->received_room) {
		free(sort->received);
		sort->received_room = sort->key_count;
		sort->received = memory(sort->received_room, sizeof *sort->received);
	}
	MPI_Alltoallv(sort->sent, sort->send_counts, sort->send_places, MPI_INT, sort->received, sort->receive_counts,
		      sort->receive_places, MPI_INT, MPI_COMM_WORLD);
}

/* Counts the received keys up to each value of this rank. */
static void rank_keys(struct sort *sort)
{
	if (sort->values > sort->below_room) {
		free(sort->below);
		sort->below_room = sort->values;
		sort->below = memory(sort->below_room, sizeof *sort->below);
	}
	memset(sort->below, 0, sort->values * sizeof *sort->below);
	for (int i = 0; i < sort->key_count; i++)
		sort->below[sort->received[i] - sort->first_value]++;
	for (int i = 1; i < sort->values; i++)
		sort->below[i] += sort->below[i - 1];
}

static void check_tests(struct sort *sort, int iteration)
{
	for (int i = 0; i < TESTS; i++) {
		int value = sort->all_sizes[sort->buckets + i] - sort->first_value, rank = sort->keys_before;

		if (value < 0 || value >= sort->values)
			continue;
		rank += value ? sort->below[value - 1] : 0;
		sort->passed += rank == expected_rank(sort, i, iteration);
	}
}

static void run_iteration(struct sort *sort, int iteration)
{
	if (sort->job->rank == 0) {
		sort->keys[iteration] = iteration;
		sort->keys[iteration + ITERATIONS] = (1 << sort->size->values_log) - iteration;
	}
	fill_buckets(sort);
	MPI_Allreduce(sort->own_sizes, sort->all_sizes, sort->buckets + TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	share_buckets(sort);
	exchange_keys(sort);
	rank_keys(sort);
	check_tests(sort, iteration);
}

/* Tells whether the keys of all ranks, put in order here, are in order from rank to rank as well. */
static int is_sorted(struct sort *sort)
{
	int rank = sort->job->rank, below = -1, last = -1, faults = 0, all;
	int *sorted = memory(sort->key_count, sizeof *sorted);

	for (int i = 0; i < sort->key_count; i++)
		sorted[--sort->below[sort->received[i] - sort->first_value]] = sort->received[i];
	for (int i = 1; i < sort->key_count; i++)
		faults += sorted[i - 1] > sorted[i];
	/* A rank without keys passes on the last key below it. */
	if (rank > 0)
		MPI_Recv(&below, 1, MPI_INT, rank - 1, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	last = sort->key_count ? sorted[sort->key_count - 1] : below;
	if (rank + 1 < sort->job->ranks)
		MPI_Send(&last, 1, MPI_INT, rank + 1, 1000, MPI_COMM_WORLD);
	faults += sort->key_count && below > sorted[0];
	free(sorted);
	MPI_Allreduce(&faults, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return all == 0;
}

static void prepare(struct sort *sort, const struct job *job)
{
	const struct size *size = &SIZES[job->class];
	int ranks = job->ranks;

	sort->job = job;
	sort->size = size;
	sort->buckets = 1 << size->buckets_log;
	sort->shift = size->values_log - size->buckets_log;
	sort->keys_per_rank = (1 << size->keys_log) / ranks;
	sort->keys = memory(sort->keys_per_rank, sizeof *sort->keys);
	sort->sent = memory(sort->keys_per_rank, sizeof *sort->sent);
	sort->received_room = sort->keys_per_rank / 2 * 3;
	sort->received = memory(sort->received_room, sizeof *sort->received);
	sort->own_sizes = memory(sort->buckets + TESTS, sizeof *sort->own_sizes);
	sort->all_sizes = memory(sort->buckets + TESTS, sizeof *sort->all_sizes);
	sort->send_counts = memory(ranks, sizeof *sort->send_counts);
	sort->send_places = memory(ranks, sizeof *sort->send_places);
	sort->receive_counts = memory(ranks, sizeof *sort->receive_counts);
	sort->receive_places = memory(ranks, sizeof *sort->receive_places);
	sort->below = memory(1, sizeof *sort->below);
	make_keys(sort);
}

void run_is(const struct job *job, struct outcome *outcome)
{
	struct sort sort = {0};
	int iterations = job->iterations ? job->iterations : ITERATIONS, passed, sorted;
	double start;

	if (job->ranks & (job->ranks - 1) || job->ranks > 512)
		refuse(job, "is: %d ranks\n  start a power of two up to 512", job->ranks);
	if (iterations > ITERATIONS)
		refuse(job, "is: %d iterations\n  give at most %d: the specification changes two keys of the first rank in each", iterations,
		       ITERATIONS);
	prepare(&sort, job);
	run_iteration(&sort, 1);
	sort.passed = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 1; i <= iterations; i++)
		run_iteration(&sort, i);
	outcome->seconds = MPI_Wtime() - start;
	sorted = is_sorted(&sort);
	MPI_Reduce(&sort.passed, &passed, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	outcome->operations = (double)iterations * (1 << sort.size->keys_log);
	outcome->iterations = iterations;
	snprintf(outcome->size, sizeof outcome->size, "%d", 1 << sort.size->keys_log);
	outcome->verdict = sorted && passed == TESTS * iterations ? SUCCESSFUL : UNSUCCESSFUL;
}
