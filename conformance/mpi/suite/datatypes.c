/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Derived datatypes: each constructor, in messages that are packed at one end and plain at the
 * other. */
#include "check.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 21, SIDE = 128 };

/* Sends one element of a type round the ring. `data` begins as the own matrix. `in` has what came. */
static int *passed(const int *data, MPI_Datatype type, int count)
{
	int *in = integers(SIDE * SIDE);

	MPI_Type_commit(&type);
	MPI_Sendrecv(data, count, type, next_rank(), TAG, in, count, type, previous_rank(), TAG, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Type_free(&type);
	return in;
}

static int *matrix(int seed)
{
	int *data = integers(SIDE * SIDE);

	fill(data, SIDE * SIDE, seed);
	return data;
}

/* Compares what came with the matrix of the previous rank. Other elements must stay -1. */
static void expect_part(int *in, int (*belongs)(int row, int column))
{
	int *wanted = matrix(previous_rank());

	for (int i = 0; i < SIDE * SIDE; i++)
		if (!belongs(i / SIDE, i % SIDE))
			wanted[i] = -1;
	EXPECT(memcmp(in, wanted, SIDE * SIDE * sizeof(int)) == 0);
	free(wanted);
	free(in);
}

static int whole(int row, int column) { return row >= 0 && column >= 0; }
static int first_column(int row, int column) { return row >= 0 && column == 0; }
static int three_columns(int row, int column) { return row >= 0 && column < 3; }
static int triangle(int row, int column) { return column <= row; }
static int diagonal_pairs(int row, int column) { return column / 2 == row && row < SIDE / 2; }
static int middle(int row, int column) { return row >= 32 && row < 96 && column >= 16 && column < 80; }

static void contiguous(void)
{
	int *data = matrix(rank);
	MPI_Datatype type;

	MPI_Type_contiguous(SIDE, MPI_INT, &type);
	expect_part(passed(data, type, SIDE), whole);
	free(data);
}

static void vector(void)
{
	int *data = matrix(rank);
	MPI_Datatype type;

	MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &type);
	expect_part(passed(data, type, 1), first_column);
	MPI_Type_create_hvector(SIDE, 3, SIDE * sizeof(int), MPI_INT, &type);
	expect_part(passed(data, type, 1), three_columns);
	free(data);
}

static void indexed(void)
{
	int *data = matrix(rank), lengths[SIDE], places[SIDE];
	MPI_Aint bytes[SIDE];
	MPI_Datatype type;

	for (int i = 0; i < SIDE; i++) {
		lengths[i] = i + 1;
		places[i] = i * SIDE;
		bytes[i] = places[i] * (MPI_Aint)sizeof(int);
	}
	MPI_Type_indexed(SIDE, lengths, places, MPI_INT, &type);
	expect_part(passed(data, type, 1), triangle);
	MPI_Type_create_hindexed(SIDE, lengths, bytes, MPI_INT, &type);
	expect_part(passed(data, type, 1), triangle);
	for (int i = 0; i < SIDE; i++)
		places[i] = i * SIDE + i * 2;
	MPI_Type_create_indexed_block(SIDE / 2, 2, places, MPI_INT, &type);
	expect_part(passed(data, type, 1), diagonal_pairs);
	free(data);
}

static void subarray(void)
{
	int *data = matrix(rank), sizes[] = {SIDE, SIDE}, part[] = {64, 64}, starts[] = {32, 16};
	MPI_Datatype type;

	MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_C, MPI_INT, &type);
	expect_part(passed(data, type, 1), middle);
	free(data);
}

/* Columns as elements: a resized vector sends a matrix transposed. */
static void transposed(void)
{
	int *data = matrix(rank), *in = integers(SIDE * SIDE), *wanted = matrix(previous_rank());
	MPI_Datatype column, resized;

	MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &column);
	MPI_Type_create_resized(column, 0, sizeof(int), &resized);
	MPI_Type_commit(&resized);
	MPI_Sendrecv(data, SIDE, resized, next_rank(), TAG, in, SIDE * SIDE, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 0; i < SIDE * SIDE; i++)
		EXPECT(in[i] == wanted[i % SIDE * SIDE + i / SIDE]);
	MPI_Type_free(&column);
	MPI_Type_free(&resized);
	free(data);
	free(in);
	free(wanted);
}

struct particle {
	char kind;
	double place[3];
	short charge;
	float mass;
};

static struct particle particle(int seed, int i)
{
	struct particle p = {(char)(seed + i), {seed, i, seed * 0.5 + i}, (short)(seed - i), (float)i / 4};

	return p;
}

static int same(const struct particle *a, const struct particle *b)
{
	return a->kind == b->kind && !memcmp(a->place, b->place, sizeof a->place) && a->charge == b->charge &&
	       a->mass == b->mass;
}

static void structure(void)
{
	enum { COUNT = 500 };
	struct particle *out = calloc(COUNT, sizeof *out), *in = calloc(COUNT, sizeof *in);
	int lengths[] = {1, 3, 1, 1}, bytes;
	MPI_Aint places[] = {offsetof(struct particle, kind), offsetof(struct particle, place),
			     offsetof(struct particle, charge), offsetof(struct particle, mass)};
	MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_FLOAT}, packed, type;

	MPI_Type_create_struct(4, lengths, places, types, &packed);
	MPI_Type_create_resized(packed, 0, sizeof *out, &type);
	MPI_Type_commit(&type);
	MPI_Type_size(type, &bytes);
	EXPECT(bytes == 1 + 24 + 2 + 4);
	for (int i = 0; i < COUNT; i++)
		out[i] = particle(rank, i);
	MPI_Sendrecv(out, COUNT, type, next_rank(), TAG, in, COUNT, type, previous_rank(), TAG, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 0; i < COUNT; i++) {
		struct particle wanted = particle(previous_rank(), i);

		EXPECT(same(&in[i], &wanted));
	}
	MPI_Type_free(&packed);
	MPI_Type_free(&type);
	free(out);
	free(in);
}

static void packed(void)
{
	char buffer[1000];
	int place = 0, bytes, number = rank;
	double real = rank * 0.25;

	MPI_Pack(&number, 1, MPI_INT, buffer, sizeof buffer, &place, MPI_COMM_WORLD);
	MPI_Pack(&real, 1, MPI_DOUBLE, buffer, sizeof buffer, &place, MPI_COMM_WORLD);
	bytes = place;
	MPI_Sendrecv_replace(buffer, bytes, MPI_PACKED, next_rank(), TAG, previous_rank(), TAG, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	place = 0;
	MPI_Unpack(buffer, bytes, &place, &number, 1, MPI_INT, MPI_COMM_WORLD);
	MPI_Unpack(buffer, bytes, &place, &real, 1, MPI_DOUBLE, MPI_COMM_WORLD);
	EXPECT(number == previous_rank());
	EXPECT(real == previous_rank() * 0.25);
}

/* A column goes from the root to a row at each rank. */
static void in_a_collective(void)
{
	int *data = matrix(rank), *wanted = matrix(0), row[SIDE];
	MPI_Datatype column, resized;

	MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &column);
	MPI_Type_create_resized(column, 0, sizeof(int), &resized);
	MPI_Type_commit(&resized);
	MPI_Scatter(data, 1, resized, row, SIDE, MPI_INT, 0, MPI_COMM_WORLD);
	for (int i = 0; i < SIDE; i++)
		EXPECT(row[i] == wanted[i * SIDE + rank]);
	MPI_Type_free(&column);
	MPI_Type_free(&resized);
	free(data);
	free(wanted);
}

const struct check DATATYPES[] = {
	{"contiguous", contiguous},
	{"vector and hvector", vector},
	{"indexed, hindexed and indexed_block", indexed},
	{"subarray", subarray},
	{"resized columns to plain rows", transposed},
	{"struct", structure},
	{"pack and unpack", packed},
	{"columns in a scatter", in_a_collective},
	{0},
};
