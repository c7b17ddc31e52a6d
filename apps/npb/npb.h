/* SPDX-License-Identifier: MIT OR Apache-2.0
 * softband-npb: kernels of the NAS Parallel Benchmarks, written from their specification
 * (D. Bailey and others, The NAS Parallel Benchmarks, RNR-94-007, 1994). */
#ifndef NPB_H
#define NPB_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum { CLASSES = 5 };

/* Multiplier of the random numbers: 5^13. Their modulus is 2^46. */
#define MULTIPLIER UINT64_C(1220703125)

/* The job of a run. */
struct job {
	char name;      /* of the class */
	int class;      /* its place in "SWABC" */
	int rank, ranks;
	int iterations; /* 0: as many as the class has */
};

enum verdict { NOT_VERIFIED, SUCCESSFUL, UNSUCCESSFUL };

/* The outcome of a kernel. Rank 0 prints it. */
struct outcome {
	char size[40];
	int iterations;
	double seconds; /* of this rank; the report has the slowest rank's */
	double operations;
	enum verdict verdict;
};

/* The kernels. Each rank calls them, and rank 0 has the verdict. */
void run_ep(const struct job *job, struct outcome *outcome);
void run_is(const struct job *job, struct outcome *outcome);
void run_ft(const struct job *job, struct outcome *outcome);
void run_cg(const struct job *job, struct outcome *outcome);

/* Returns the next random number in (0, 1), and moves the seed. */
double next_random(uint64_t *seed);

/* Returns the seed after `count` numbers. */
uint64_t seed_after(uint64_t seed, uint64_t count);

/* Returns zeroed memory. Ends the job if there is none. */
void *memory(size_t count, size_t size);

/* Ends the job with an error of all ranks, which rank 0 prints. */
void refuse(const struct job *job, const char *form, ...) __attribute__((format(printf, 2, 3), noreturn));

/* Tells whether both numbers agree within a relative error. */
int agree(double value, double reference, double error);

/* Sparse matrix of CG in rows, for a block of the whole matrix. */
struct matrix {
	int first_row, rows, first_column, columns;
	size_t *starts; /* of each row, and the end */
	int *places;    /* column within the block */
	double *values;
};

/* Order of the matrix and form of its values (specification, 2.3.2). */
struct matrix_form {
	int order, nonzeros;
	double shift;
};

/* Fills a block of the matrix. The seed stands before the first vector. */
void make_matrix(const struct matrix_form *form, uint64_t seed, struct matrix *matrix);

#endif
