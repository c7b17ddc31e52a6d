/* SPDX-License-Identifier: MIT OR Apache-2.0
 * softband-lattice: a solver for Wilson fermions in SU(3) fields on a lattice of four
 * dimensions. */
#ifndef LATTICE_H
#define LATTICE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum { DIMENSIONS = 4, TIME = 3 };

/* Real numbers of a spinor, of a spinor after its projection, and of a link. */
enum { SPINOR = 24, HALF_SPINOR = 12, LINK = 18, LINKS = DIMENSIONS * LINK };

enum parity { EVEN, ODD, PARITIES };
enum end { LOWER, UPPER, ENDS };
enum field { RANDOM, UNIT, TRANSFORMED };

struct options {
	int lattice[DIMENSIONS], grid[DIMENSIONS]; /* a grid of 0 is not chosen yet */
	int is_single, is_antiperiodic, is_overlapped, is_verified;
	int iterations; /* 0: as many as the tolerance needs */
	enum field field;
	uint64_t seed;
	double kappa, tolerance; /* a tolerance of 0 is not chosen yet */
};

/* The sites of a rank. Even sites come first, and each parity has the order of x, y, z, t. */
struct geometry {
	int rank, ranks;
	int grid[DIMENSIONS], place[DIMENSIONS];
	int global[DIMENSIONS], local[DIMENSIONS];
	int partners[DIMENSIONS][ENDS];
	size_t half;              /* sites of one parity */
	size_t faces[DIMENSIONS]; /* sites of one parity at an end that another rank continues */
	int32_t *neighbours[PARITIES]; /* of each site, in each direction forward and backward; -1: elsewhere */
	int32_t *borders[PARITIES][DIMENSIONS][ENDS];
};

/* The outcome of a solver. The solution has both parities. */
struct solution {
	int iterations, is_converged;
	double recursive, residual; /* relative to the source */
	double seconds, halo_seconds;
	double *spinors;
};

/* Divides the lattice. Ends the job with status 2 if the grid does not fit. */
void choose_grid(struct options *options, int rank, int ranks);
void make_geometry(const struct options *options, int rank, int ranks, struct geometry *geometry);
void free_geometry(struct geometry *geometry);

/* Returns the number of a site in the whole lattice. */
uint64_t global_site(const struct geometry *geometry, enum parity parity, size_t site);

/* Fills the links of the rank's sites, by numbers that depend on the global site only. */
void make_links(const struct geometry *geometry, const struct options *options, enum field field, double *links);

/* Returns the mean plaquette, the same bits for each number of ranks. */
double plaquette(const struct geometry *geometry, const double *links);

/* Returns a sum over the bits of all links, the same for each number of ranks. */
uint64_t links_checksum(const struct geometry *geometry, const double *links);

/* Fills the source: numbers in [-1, 1) that depend on the global site only. */
void make_source(const struct geometry *geometry, const struct options *options, double *spinors);

/* Solve D x = b. */
void solve_double(const struct geometry *geometry, const struct options *options, const double *links, struct solution *solution);
void solve_single(const struct geometry *geometry, const struct options *options, const double *links, struct solution *solution);
void solve(const struct geometry *geometry, const struct options *options, const double *links, struct solution *solution);

/* Returns |b - D x| / |b| of a solution of the whole lattice, by the operator's definition. */
double reference_residual(const struct geometry *geometry, const struct options *options, const double *links, const double *psi);

/* Returns the largest difference of two residuals that rounding explains. */
double drift_limit(const struct options *options);

/* Tells each rank whether the results agree with those of one rank. Rank 0 prints the
 * differences. */
int agrees_with_one_rank(const struct geometry *geometry, const struct options *options, const double *links,
			 const struct solution *solution);

/* Reads the arguments. Ends the job after --help, and with status 2 after a wrong argument. */
void parse(int argc, char **argv, int rank, struct options *options);

/* Adds numbers of all ranks. One rank calls no MPI, so that rank 0 can work alone. */
void sum_over_ranks(const struct geometry *geometry, double *numbers, int count);
void add_over_ranks(const struct geometry *geometry, int64_t *numbers, int count);

/* Returns a mixture of 64 bits, for checksums and random numbers. */
uint64_t mix(uint64_t bits);

/* Returns the random number of a slot at a global site, in [-1, 1). */
double random_number(uint64_t seed, uint64_t site, uint64_t slot);

/* Returns zeroed memory. Ends the job if there is none. */
void *memory(size_t count, size_t size);

/* Ends the job with status 2 and an error of all ranks, which rank 0 prints. */
void refuse(int rank, const char *form, ...) __attribute__((format(printf, 2, 3), noreturn));

#endif
