/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The random matrix of CG: a sum of outer products of sparse vectors, whose weights fall from 1 to
 * the reciprocal of the condition number (specification, 2.3.2). */
#include "npb.h"

#include <math.h>
#include <stdlib.h>

enum { NONZEROS_MAX = 16 };

static const double RECIPROCAL_CONDITION = 0.1;

struct vector {
	int count, places[NONZEROS_MAX];
	double values[NONZEROS_MAX];
};

struct entry {
	int column;
	double value;
};

/* Draws random values at random places. The place `own` gets the value 0.5. */
static void draw(const struct matrix_form *form, int own, int range, uint64_t *seed, struct vector *vector)
{
	int at;

	vector->count = 0;
	while (vector->count < form->nonzeros) {
		double value = next_random(seed);
		int place = (int)(range * next_random(seed));

		if (place >= form->order)
			continue;
		for (at = 0; at < vector->count && vector->places[at] != place; at++)
			;
		if (at < vector->count)
			continue;
		vector->places[at] = place;
		vector->values[at] = value;
		vector->count++;
	}
	for (at = 0; at < vector->count && vector->places[at] != own; at++)
		;
	vector->places[at] = own;
	vector->values[at] = 0.5;
	vector->count += at == vector->count;
}

static int is_within(int at, int first, int count)
{
	return at >= first && at < first + count;
}

/* Goes over the block's part of all outer products. Counts the entries of each row, or stores them. */
static void add_products(const struct matrix_form *form, uint64_t seed, const struct matrix *matrix, size_t *ends, struct entry *entries)
{
	double weight = 1, ratio = pow(RECIPROCAL_CONDITION, 1.0 / form->order);
	struct vector vector;
	int range = 1;

	while (range < form->order)
		range *= 2;
	for (int own = 0; own < form->order; own++, weight *= ratio) {
		draw(form, own, range, &seed, &vector);
		for (int i = 0; i < vector.count; i++) {
			int row = vector.places[i] - matrix->first_row;

			if (!is_within(row, 0, matrix->rows))
				continue;
			for (int j = 0; j < vector.count; j++) {
				int column = vector.places[j] - matrix->first_column;
				double value = vector.values[j] * (weight * vector.values[i]);

				if (!is_within(column, 0, matrix->columns))
					continue;
				if (entries)
					entries[ends[row]] = (struct entry){column, value};
				ends[row]++;
			}
		}
		if (is_within(own, matrix->first_row, matrix->rows) && is_within(own, matrix->first_column, matrix->columns)) {
			int row = own - matrix->first_row;

			if (entries)
				entries[ends[row]] = (struct entry){own - matrix->first_column, RECIPROCAL_CONDITION - form->shift};
			ends[row]++;
		}
	}
}

static int by_column(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	return (left->column > right->column) - (left->column < right->column);
}

void make_matrix(const struct matrix_form *form, uint64_t seed, struct matrix *matrix)
{
	size_t *ends = memory((size_t)matrix->rows + 1, sizeof *ends), *starts = memory((size_t)matrix->rows + 1, sizeof *starts), kept = 0;
	struct entry *entries;

	add_products(form, seed, matrix, ends, NULL);
	for (int row = 0; row < matrix->rows; row++) {
		starts[row + 1] = starts[row] + ends[row];
		ends[row] = starts[row];
	}
	entries = memory(starts[matrix->rows], sizeof *entries);
	add_products(form, seed, matrix, ends, entries);
	matrix->starts = memory((size_t)matrix->rows + 1, sizeof *matrix->starts);
	matrix->places = memory(starts[matrix->rows], sizeof *matrix->places);
	matrix->values = memory(starts[matrix->rows], sizeof *matrix->values);
	for (int row = 0; row < matrix->rows; row++) {
		qsort(entries + starts[row], starts[row + 1] - starts[row], sizeof *entries, by_column);
		matrix->starts[row] = kept;
		for (size_t i = starts[row]; i < starts[row + 1]; i++) {
			if (kept > matrix->starts[row] && matrix->places[kept - 1] == entries[i].column) {
				matrix->values[kept - 1] += entries[i].value;
				continue;
			}
			matrix->places[kept] = entries[i].column;
			matrix->values[kept++] = entries[i].value;
		}
	}
	matrix->starts[matrix->rows] = kept;
	free(entries);
	free(starts);
	free(ends);
}
