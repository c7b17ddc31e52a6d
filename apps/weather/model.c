/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The state, and its long steps by the leapfrog scheme. */
#include "weather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* Robert and Asselin's filter, against the two independent solutions of a leapfrog. */
static const double FILTER = 0.1;

/* m, kg/m^3: scales of height of air and water, and densities at the ground. */
static const double AIR_SCALE = 8000, WATER_SCALE = 2500, AIR = 1.2, WATER = 0.003;

/* Limit of the scheme for the wind, in cells a long step. */
static const double COURANT = 0.7;

static const enum variable ALL[] = {U, V, W, MASS, HEAT, VAPOUR, CLOUD};

static void open_fields(fields_t fields, size_t size)
{
	for (int i = 0; i < VARIABLES; i++)
		fields[i] = memory(size, sizeof *fields[i]);
}

static void close_fields(fields_t fields)
{
	for (int i = 0; i < VARIABLES; i++)
		free(fields[i]);
}

static void open_buffers(struct model *model)
{
	const struct domain *domain = model->domain;
	size_t longest = domain->row > domain->plane / domain->row ? domain->row : domain->plane / domain->row;

	for (int end = LOWER; end < ENDS; end++) {
		model->out[end] = memory(VARIABLES * HALO * longest * (size_t)domain->levels, sizeof(double));
		model->in[end] = memory(VARIABLES * HALO * longest * (size_t)domain->levels, sizeof(double));
	}
	for (int i = 0; i < 3; i++)
		model->columns[i] = memory((size_t)domain->levels * (size_t)domain->count[EAST], sizeof(double));
}

/* Horizontal wind of a gyre along the walls: differences of a stream function at the corners of
 * cells. */
static double stream(const struct domain *domain, int east, int north)
{
	double height = 10 * domain->global[NORTH] * SPACING / PI;

	return height * sin(PI * (east + 1) / domain->global[EAST]) * sin(PI * (north + 1) / domain->global[NORTH]);
}

/* A warm, moist and dense bubble, whose edge is smooth. */
static double bubble(const struct domain *domain, int level, int east, int north)
{
	double x = (east + 0.5) / domain->global[EAST] - 0.4, y = (north + 0.5) / domain->global[NORTH] - 0.5;
	double z = (level + 0.5) / domain->levels - 0.25, distance = sqrt(x * x + y * y + z * z) / 0.2;

	return distance < 1 ? 0.5 + 0.5 * cos(PI * distance) : 0;
}

static void fill_cell(struct model *model, int level, int north, int east)
{
	const struct domain *domain = model->domain;
	size_t at = cell(domain, level, north, east);
	int x = domain->first[EAST] + east, y = domain->first[NORTH] + north;
	double shape = bubble(domain, level, x, y), shear = 0.5 + (level + 0.5) / domain->levels;

	/* The sine of a rounded pi is not 0, but walls have no wind. */
	if (x < domain->global[EAST] - 1)
		model->now[U][at] = shear * (stream(domain, x, y) - stream(domain, x, y - 1)) / SPACING;
	if (y < domain->global[NORTH] - 1)
		model->now[V][at] = -shear * (stream(domain, x, y) - stream(domain, x - 1, y)) / SPACING;
	model->now[MASS][at] = 2e-3 * shape;
	model->now[HEAT][at] = 2 * shape;
	model->now[VAPOUR][at] = model->levels[level].saturation * (0.7 + 0.5 * shape);
}

void open_model(struct model *model, const struct domain *domain)
{
	*model = (struct model){.domain = domain};
	model->levels = memory((size_t)domain->levels, sizeof *model->levels);
	for (int level = 0; level < domain->levels; level++)
		model->levels[level] = (struct level){.density = AIR * exp(-(level + 0.5) * DEPTH / AIR_SCALE),
						      .face_density = AIR * exp(-(level + 1.0) * DEPTH / AIR_SCALE),
						      .saturation = WATER * exp(-(level + 0.5) * DEPTH / WATER_SCALE)};
	open_fields(model->old, domain->size);
	open_fields(model->now, domain->size);
	open_fields(model->next, domain->size);
	open_fields(model->slow, domain->size);
	model->damped = memory(domain->size, sizeof(double));
	open_buffers(model);
	for (int level = 0; level < domain->levels; level++)
		for (int north = 0; north < domain->count[NORTH]; north++)
			for (int east = 0; east < domain->count[EAST]; east++)
				fill_cell(model, level, north, east);
	exchange(model, model->now, ALL, VARIABLES);
	for (int i = 0; i < VARIABLES; i++)
		memcpy(model->old[i], model->now[i], domain->size * sizeof(double));
}

void close_model(struct model *model)
{
	close_fields(model->old);
	close_fields(model->now);
	close_fields(model->next);
	close_fields(model->slow);
	for (int end = LOWER; end < ENDS; end++) {
		free(model->out[end]);
		free(model->in[end]);
	}
	for (int i = 0; i < 3; i++)
		free(model->columns[i]);
	free(model->damped);
	free(model->levels);
}

/* Filters the middle time, and makes the new time the middle one. */
static void turn(struct model *model)
{
	size_t size = model->domain->size;

	for (int i = 0; i < VARIABLES; i++) {
		double *old = model->old[i], *now = model->now[i], *next = model->next[i];

		for (size_t at = 0; at < size; at++)
			now[at] += FILTER * ((old[at] + next[at]) - 2 * now[at]);
		model->old[i] = now;
		model->now[i] = next;
		model->next[i] = old;
	}
}

/* Makes a long step from the old time over the middle one. The first has only the length of one
 * step. */
static void step(struct model *model, int is_first)
{
	static const enum variable WATERS[] = {VAPOUR, CLOUD};
	size_t size = model->domain->size;
	double span = is_first ? STEP : 2 * STEP;

	slow_tendencies(model);
	for (int i = 0; i < VARIABLES; i++)
		memcpy(model->next[i], model->old[i], size * sizeof(double));
	small_steps(model, is_first ? SMALL_STEPS / 2 : SMALL_STEPS);
	for (int i = 0; i < 2; i++)
		for (size_t at = 0; at < size; at++)
			model->next[WATERS[i]][at] += span * model->slow[WATERS[i]][at];
	mix_columns(model, span);
	adjust_saturation(model);
	exchange(model, model->next, ALL, VARIABLES);
	turn(model);
}

int run(struct model *model, const struct options *options, struct diagnosis *last)
{
	int is_stable = 1;

	for (int i = 1; i <= options->steps; i++) {
		step(model, i == 1);
		if (i % options->diagnostics == 0 || i == options->steps) {
			*last = diagnose(model);
			/* No comparison holds for a NaN. */
			is_stable = is_stable && last->wind * STEP / SPACING <= COURANT;
		}
	}
	return is_stable;
}
