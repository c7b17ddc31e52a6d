/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mpibench.h"

#include <stdlib.h>
#include <string.h>

/* An iteration of PingPong is a round trip. Half of it is printed. */
const struct benchmark BENCHMARKS[] = {
	{"PingPong", PAIR, 2, 1, 0.5, 0, 0, pingpong},
	{"PingPing", PAIR, 2, 1, 1, 0, 0, pingping},
	{"Sendrecv", PARALLEL, 2, 2, 1, 0, 0, sendrecv},
	{"Exchange", PARALLEL, 2, 4, 1, 0, 0, exchange},
	{"Bandwidth", STREAM, 2, WINDOW, 1, 0, 0, bandwidth},
	{"Bidirectional", STREAM, 2, 2 * WINDOW, 1, 0, 0, bidirectional},
	{"MessageRate", RATE, 2, WINDOW, 1, 0, 0, message_rate},
	{"Barrier", COLLECTIVE, 1, 0, 1, 0, 1, barrier},
	{"Bcast", COLLECTIVE, 1, 0, 1, 0, 0, bcast},
	{"Reduce", COLLECTIVE, 1, 0, 1, 0, 0, reduce},
	{"Allreduce", COLLECTIVE, 1, 0, 1, 0, 0, allreduce},
	{"Reduce_scatter", COLLECTIVE, 1, 0, 1, 0, 0, reduce_scatter},
	{"Gather", COLLECTIVE, 1, 0, 1, 1, 0, gather},
	{"Gatherv", COLLECTIVE, 1, 0, 1, 1, 0, gatherv},
	{"Scatter", COLLECTIVE, 1, 0, 1, 1, 0, scatter},
	{"Scatterv", COLLECTIVE, 1, 0, 1, 1, 0, scatterv},
	{"Allgather", COLLECTIVE, 1, 0, 1, 1, 0, allgather},
	{"Allgatherv", COLLECTIVE, 1, 0, 1, 1, 0, allgatherv},
	{"Alltoall", COLLECTIVE, 1, 0, 1, 1, 0, alltoall},
	{"Alltoallv", COLLECTIVE, 1, 0, 1, 1, 0, alltoallv},
};
const int BENCHMARK_COUNT = sizeof BENCHMARKS / sizeof *BENCHMARKS;

/* IMB's limits: 1000 iterations, and fewer once they carry more than 32 MiB. */
static int iterations_of(const struct options *options, size_t bytes)
{
	size_t by_volume = bytes ? ((size_t)32 << 20) / bytes : 1000;

	if (options->iterations)
		return options->iterations;
	return by_volume > 1000 ? 1000 : by_volume < 10 ? 10 : (int)by_volume;
}

/* Tells whether the own rank takes part. The others wait at the next barrier. */
static int takes_part(const struct benchmark *benchmark, const struct work *work)
{
	if (benchmark->kind == PAIR || benchmark->kind == STREAM)
		return work->rank < 2;
	return benchmark->kind != RATE || work->partner >= 0;
}

static double measure(const struct benchmark *benchmark, const struct options *options, struct work *work)
{
	double start;

	for (work->iteration = 0; work->iteration < options->warmup; work->iteration++)
		benchmark->run(work);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (work->iteration = 0; work->iteration < work->iterations; work->iteration++)
		benchmark->run(work);
	return (MPI_Wtime() - start) / work->iterations * benchmark->share * 1e6;
}

/* Collects the least, the greatest and the mean time of the ranks that take part. */
static void collect(double own, int part, double times[3])
{
	double least = part ? own : 1e300, most = part ? own : 0, sum[2] = {part ? own : 0, part}, all[2];

	MPI_Reduce(&least, &times[0], 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&most, &times[1], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(sum, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	times[2] = all[0] / all[1];
}

static void run_size(const struct benchmark *benchmark, const struct options *options, struct work *work)
{
	double own = 0, times[3];
	long all;

	for (int r = 0; r < work->ranks; r++) {
		work->counts[r] = (int)work->bytes;
		work->places[r] = (int)work->bytes * r;
	}
	if (takes_part(benchmark, work))
		own = measure(benchmark, options, work);
	else
		MPI_Barrier(MPI_COMM_WORLD);
	collect(own, takes_part(benchmark, work), times);
	if (work->rank == 0)
		print_line(benchmark, options, work, times);
	MPI_Allreduce(&work->faults, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (all)
		finish_with(1, work->rank, "%s: %ld messages of %zu bytes arrived with other contents", benchmark->name, all,
			    work->bytes);
}

/* Allocates both buffers. All ranks must learn of a failure, so they agree on it. */
static void allocate(struct work *work, size_t bytes, const char *name)
{
	int failed, any;

	work->out = calloc(bytes + sizeof(float), 1);
	work->in = calloc(bytes + sizeof(float), 1);
	failed = !work->out || !work->in;
	MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (any)
		finish_with(1, work->rank, "%s: a rank has no memory for two buffers of %zu bytes\n  give smaller --sizes", name,
			    bytes);
}

static void run_benchmark(const struct benchmark *benchmark, const struct options *options, struct work *work)
{
	if (work->rank == 0)
		print_title(benchmark, options, work->ranks);
	for (int i = 0; i < (benchmark->without_bytes ? 1 : options->size_count); i++) {
		work->bytes = benchmark->without_bytes ? 0 : options->sizes[i];
		work->iterations = iterations_of(options, work->bytes);
		if (benchmark->per_rank && work->bytes * work->ranks > 0x7fffffff)
			finish_with(2, work->rank, "%s: %zu bytes for each of %d ranks exceed 2^31\n  give smaller --sizes",
				    benchmark->name, work->bytes, work->ranks);
		allocate(work, work->bytes * (benchmark->per_rank ? work->ranks : 1), benchmark->name);
		run_size(benchmark, options, work);
		free(work->out);
		free(work->in);
	}
}

static void prepare(struct work *work, const struct options *options)
{
	int half;

	MPI_Comm_rank(MPI_COMM_WORLD, &work->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &work->ranks);
	half = work->ranks / 2;
	work->partner = work->rank < half ? work->rank + half : work->rank < 2 * half ? work->rank - half : -1;
	work->check = options->check;
	work->counts = malloc(work->ranks * sizeof(int));
	work->places = malloc(work->ranks * sizeof(int));
	if (!work->counts || !work->places)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
	struct options options;
	struct work work = {0};
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	parse_options(argc, argv, &options, rank);
	prepare(&work, &options);
	for (int i = 0; i < BENCHMARK_COUNT; i++) {
		if (options.chosen && !(options.chosen & 1ul << i))
			continue;
		if (work.ranks >= BENCHMARKS[i].least_ranks)
			run_benchmark(&BENCHMARKS[i], &options, &work);
		else if (options.chosen)
			finish_with(2, rank, "%s: needs %d ranks, and there is %d\n  start more ranks", BENCHMARKS[i].name,
				    BENCHMARKS[i].least_ranks, work.ranks);
	}
	finish_with(0, rank, NULL);
}
