/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Checks of MPI that judge themselves. All ranks run each check; rank 0 prints one line for it. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>

struct check {
	const char *name;
	void (*run)(void);
};

struct group {
	const char *name;
	const struct check *checks; /* the last one has no name */
};

extern const struct check POINT_TO_POINT[], REQUESTS[], COLLECTIVES[], VECTORS[], NONBLOCKING[], DATATYPES[],
	COMMUNICATORS[], WINDOWS[], SYNCHRONIZATION[];

/* The own rank in MPI_COMM_WORLD, and its size. */
extern int rank, size;

/* Sizes that pass the inline, eager and rendezvous protocols, in integers. */
extern const int LENGTHS[];
enum { LENGTH_COUNT = 4, LONGEST = 65536 };

/* Counts a fault and prints where it is, unless the condition holds. */
void expect_at(int holds, const char *condition, const char *file, int line);
#define EXPECT(condition) expect_at((condition) != 0, #condition, __FILE__, __LINE__)

/* Fills a buffer with values that depend on a seed, and counts a fault if a buffer has others. */
void fill(int *data, int count, int seed);
void expect_filled(const int *data, int count, int seed, const char *file, int line);
#define EXPECT_FILLED(data, count, seed) expect_filled(data, count, seed, __FILE__, __LINE__)

/* Returns `count` integers that are -1. */
int *integers(int count);

/* Returns the ranks beside the own one in a ring. */
int next_rank(void);
int previous_rank(void);

#endif
