/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Verification: rank 0 computes the same weather alone. */
#include "weather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 100 };

/* Copies the cells of a rank between its fields and a message. */
static size_t pack(const struct model *model, double *buffer)
{
	const struct domain *domain = model->domain;
	double *at = buffer;

	for (int i = 0; i < VARIABLES; i++)
		for (int level = 0; level < domain->levels; level++)
			for (int north = 0; north < domain->count[NORTH]; north++) {
				memcpy(at, model->now[i] + cell(domain, level, north, 0), (size_t)domain->count[EAST] * sizeof *at);
				at += domain->count[EAST];
			}
	return (size_t)(at - buffer);
}

static size_t cells_of(const struct domain *domain)
{
	return (size_t)domain->count[EAST] * (size_t)domain->count[NORTH] * (size_t)domain->levels * VARIABLES;
}

/* Returns the number of values that differ in a bit from those of one rank. */
static size_t differences(const struct model *alone, const struct domain *part, const double *values)
{
	size_t count = 0, row = (size_t)part->count[EAST];

	for (int i = 0; i < VARIABLES; i++)
		for (int level = 0; level < part->levels; level++)
			for (int north = 0; north < part->count[NORTH]; north++, values += row) {
				const double *own = alone->now[i] + cell(alone->domain, level, part->first[NORTH] + north, part->first[EAST]);

				for (size_t at = 0; at < row; at++)
					count += memcmp(own + at, values + at, sizeof *own) != 0;
			}
	return count;
}

static int compare(const struct model *model, const struct model *alone, const struct options *options)
{
	size_t wrong = 0;

	for (int rank = 0; rank < model->domain->ranks; rank++) {
		struct domain part;
		double *values;

		make_domain(options, rank, model->domain->ranks, &part);
		values = memory(cells_of(&part), sizeof *values);
		if (rank)
			MPI_Recv(values, (int)cells_of(&part), MPI_DOUBLE, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			pack(model, values);
		wrong += differences(alone, &part, values);
		free(values);
	}
	if (wrong)
		fprintf(stderr, "softband-weather: verification: %zu values differ from those of one rank\n", wrong);
	return wrong == 0;
}

static int agrees_alone(const struct model *model, const struct options *options)
{
	struct domain domain;
	struct model alone;
	struct diagnosis last;
	int is_right;

	make_domain(options, 0, 1, &domain);
	open_model(&alone, &domain);
	run(&alone, options, &last);
	is_right = compare(model, &alone, options);
	close_model(&alone);
	return is_right;
}

int agrees_with_one_rank(const struct model *model, const struct options *options)
{
	int is_right = 1;

	if (model->domain->rank == 0) {
		is_right = agrees_alone(model, options);
	} else {
		size_t count = cells_of(model->domain);
		double *values = memory(count, sizeof *values);

		pack(model, values);
		MPI_Send(values, (int)count, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
		free(values);
	}
	MPI_Bcast(&is_right, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return is_right;
}
