/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The halo exchange. A message has the lines of all variables. Lines go east and west first.
 * Those to north and south then contain the corners. */
#include "weather.h"

#include <string.h>

/* A box of columns. */
struct box {
	int first[AXES], count[AXES];
};

static struct box lines(const struct domain *domain, int axis, int first)
{
	struct box box = {{0, 0}, {domain->count[EAST], domain->count[NORTH]}};

	box.first[axis] = first;
	box.count[axis] = HALO;
	if (axis == NORTH) {
		box.first[EAST] = -HALO;
		box.count[EAST] += 2 * HALO;
	}
	return box;
}

static size_t copy(const struct domain *domain, double *field, struct box box, double *buffer, int is_out)
{
	double *at = buffer;

	for (int level = 0; level < domain->levels; level++)
		for (int north = box.first[NORTH]; north < box.first[NORTH] + box.count[NORTH]; north++) {
			double *row = field + cell(domain, level, north, box.first[EAST]);
			size_t bytes = (size_t)box.count[EAST] * sizeof *row;

			if (is_out)
				memcpy(at, row, bytes);
			else
				memcpy(row, at, bytes);
			at += box.count[EAST];
		}
	return (size_t)(at - buffer);
}

static int copy_all(const struct model *model, fields_t fields, const enum variable *variables, int count, struct box box, double *buffer,
		    int is_out)
{
	size_t done = 0;

	for (int i = 0; i < count; i++)
		done += copy(model->domain, fields[variables[i]], box, buffer + done, is_out);
	return (int)done;
}

static void exchange_axis(struct model *model, fields_t fields, const enum variable *variables, int count, int axis)
{
	const struct domain *domain = model->domain;
	const int *partners = domain->partners[axis];
	struct box outer = lines(domain, axis, 0);
	MPI_Request requests[2 * ENDS];
	MPI_Status ends[2 * ENDS];
	int number = 0, size = outer.count[EAST] * outer.count[NORTH] * domain->levels * count;

	for (int end = LOWER; end < ENDS; end++)
		if (partners[end] != MPI_PROC_NULL)
			MPI_Irecv(model->in[end], size, MPI_DOUBLE, partners[end], axis * ENDS + !end, MPI_COMM_WORLD, requests + number++);
	for (int end = LOWER; end < ENDS; end++)
		if (partners[end] != MPI_PROC_NULL) {
			struct box own = lines(domain, axis, end == LOWER ? 0 : domain->count[axis] - HALO);

			copy_all(model, fields, variables, count, own, model->out[end], 1);
			MPI_Isend(model->out[end], size, MPI_DOUBLE, partners[end], axis * ENDS + end, MPI_COMM_WORLD, requests + number++);
		}
	if (number)
		MPI_Waitall(number, requests, ends);
	for (int end = LOWER; end < ENDS; end++)
		if (partners[end] != MPI_PROC_NULL)
			copy_all(model, fields, variables, count, lines(domain, axis, end == LOWER ? -HALO : domain->count[axis]), model->in[end], 0);
}

static void copy_line(const struct domain *domain, double *field, int axis, int to, int from, double sign)
{
	ptrdiff_t step = (ptrdiff_t)(from - to) * (axis == EAST ? 1 : (ptrdiff_t)domain->row);
	struct box line = lines(domain, axis, to);

	line.count[axis] = 1;
	for (int level = 0; level < domain->levels; level++)
		for (int north = line.first[NORTH]; north < line.first[NORTH] + line.count[NORTH]; north++) {
			double *row = field + cell(domain, level, north, line.first[EAST]);

			for (int i = 0; i < line.count[EAST]; i++)
				row[i] = sign * row[i + step];
		}
}

/* No wind goes through a wall. Its mirror image blows the other way; all else is even. */
static void mirror(const struct domain *domain, double *field, enum variable variable, int axis)
{
	int is_wind = variable == (axis == EAST ? U : V), count = domain->count[axis];
	double sign = is_wind ? -1 : 1;

	if (domain->partners[axis][LOWER] == MPI_PROC_NULL) {
		copy_line(domain, field, axis, -1, 0, is_wind ? 0 : 1);
		copy_line(domain, field, axis, -2, is_wind ? 0 : 1, sign);
	}
	if (domain->partners[axis][UPPER] == MPI_PROC_NULL) {
		copy_line(domain, field, axis, count, is_wind ? count - 2 : count - 1, sign);
		copy_line(domain, field, axis, count + 1, is_wind ? count - 3 : count - 2, sign);
	}
}

void exchange(struct model *model, fields_t fields, const enum variable *variables, int count)
{
	int is_alone = model->domain->ranks == 1;
	double start = is_alone ? 0 : MPI_Wtime();

	for (int axis = EAST; axis < AXES; axis++) {
		exchange_axis(model, fields, variables, count, axis);
		for (int i = 0; i < count; i++)
			mirror(model->domain, fields[variables[i]], variables[i], axis);
	}
	model->halo_seconds += is_alone ? 0 : MPI_Wtime() - start;
}
