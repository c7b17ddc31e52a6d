/* SPDX-License-Identifier: MIT OR Apache-2.0
 * softband-mpibench: benchmarks of MPI by the methods of IMB and OSU, in plain MPI. */
#ifndef MPIBENCH_H
#define MPIBENCH_H

#include <mpi.h>
#include <stddef.h>

enum { SIZES_MAX = 64, WINDOW = 64 };

struct options {
	size_t sizes[SIZES_MAX];
	int size_count;
	int iterations; /* 0: by size, as IMB does */
	int warmup;
	int csv;
	int check;
	unsigned long chosen; /* a bit for each benchmark of BENCHMARKS */
};

/* What a benchmark works on. `count` messages of `bytes` bytes go from `out` to `in`. */
struct work {
	size_t bytes;
	int iterations;
	int iteration;
	int check;
	int rank, ranks;
	int partner; /* of pairs: the rank in the other half, or -1 */
	char *out, *in;
	int *counts, *places; /* equal parts, for the collectives with a length for each rank */
	long faults;
};

enum kind { PAIR, STREAM, RATE, PARALLEL, COLLECTIVE };

struct benchmark {
	const char *name;
	enum kind kind;
	int least_ranks;
	double messages;    /* in one iteration, for Mbytes/s; 0: no such column */
	double share;       /* of an iteration's time that is printed: 0.5 for a half round trip */
	int per_rank;       /* the buffers have a part for each rank */
	int without_bytes;  /* has one line only */
	void (*run)(struct work *work);
};

extern const struct benchmark BENCHMARKS[];
extern const int BENCHMARK_COUNT;

/* The functions of the benchmarks: one iteration each. */
void pingpong(struct work *work);
void pingping(struct work *work);
void sendrecv(struct work *work);
void exchange(struct work *work);
void bandwidth(struct work *work);
void bidirectional(struct work *work);
void message_rate(struct work *work);
void barrier(struct work *work);
void bcast(struct work *work);
void reduce(struct work *work);
void allreduce(struct work *work);
void reduce_scatter(struct work *work);
void gather(struct work *work);
void gatherv(struct work *work);
void scatter(struct work *work);
void scatterv(struct work *work);
void allgather(struct work *work);
void allgatherv(struct work *work);
void alltoall(struct work *work);
void alltoallv(struct work *work);

/* Fills a part of `out` with bytes that depend on the sender and the receiver's part, and counts a
 * fault if a part of `in` has others. Both do nothing without --check. */
void fill_part(struct work *work, size_t part, int seed);
void check_part(struct work *work, size_t part, int seed);
void check_sum(struct work *work, size_t count, size_t first);
void fill_terms(struct work *work, size_t count);

void parse_options(int argc, char **argv, struct options *options, int rank);
void print_title(const struct benchmark *benchmark, const struct options *options, int ranks);
void print_line(const struct benchmark *benchmark, const struct options *options, const struct work *work,
		const double times[3]);

/* Prints a message at rank 0 and ends all ranks with a status. */
void finish_with(int status, int rank, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));

#endif
