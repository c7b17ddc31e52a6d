/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Small steps of sound and gravity waves: explicit in both horizontal directions, implicit in
 * the vertical, where a cell is small (Klemp and Wilhelmson, The Simulation of Three-Dimensional
 * Convective Storm Dynamics, 1978). */
#include "weather.h"

#include <string.h>

static const double SOUND_SQUARED = 340.0 * 340.0, TEMPERATURE = 300, GRAVITY = 9.81;

/* K/m, for a buoyancy frequency of 0.01 Hz. */
static const double STRATIFICATION = 1e-4 * 300 / 9.81;

/* Weight of the new values in the vertical, and of the damping of divergence. */
static const double IMPLICIT = 0.6, DAMPING = 0.1;

static void push_winds(struct model *model)
{
	const struct domain *domain = model->domain;
	int is_east_end = domain->partners[EAST][UPPER] == MPI_PROC_NULL, is_north_end = domain->partners[NORTH][UPPER] == MPI_PROC_NULL;
	int width = domain->count[EAST] - is_east_end, height = domain->count[NORTH] - is_north_end;

	for (int level = 0; level < domain->levels; level++) {
		double push = SOUND_SQUARED / (model->levels[level].density * SPACING);

		for (int north = 0; north < domain->count[NORTH]; north++) {
			size_t at = cell(domain, level, north, 0);
			const double *mass = model->damped + at, *slow_u = model->slow[U] + at, *slow_v = model->slow[V] + at;
			double *u = model->next[U] + at, *v = model->next[V] + at;

			for (int i = 0; i < width; i++)
				u[i] += SMALL * (slow_u[i] - push * (mass[i + 1] - mass[i]));
			for (int i = 0; north < height && i < domain->count[EAST]; i++)
				v[i] += SMALL * (slow_v[i] - push * (mass[i + (ptrdiff_t)domain->row] - mass[i]));
		}
	}
}

/* Adds to the mass of a row: slow changes, horizontal fluxes, and the known part of the vertical
 * ones. */
static void add_known_mass(struct model *model, int level, int north)
{
	const struct domain *domain = model->domain;
	size_t at = cell(domain, level, north, 0);
	const double *u = model->next[U] + at, *v = model->next[V] + at, *w = model->next[W] + at, *v_south = v - domain->row;
	const double *w_below = level ? w - domain->plane : NULL, *slow = model->slow[MASS] + at;
	double density = model->levels[level].density / SPACING, above = (1 - IMPLICIT) * model->levels[level].face_density / DEPTH;
	double under = level ? (1 - IMPLICIT) * model->levels[level - 1].face_density / DEPTH : 0;
	double *mass = model->next[MASS] + at;

	for (int i = 0; i < domain->count[EAST]; i++) {
		double out = density * ((u[i] - u[i - 1]) + (v[i] - v_south[i])) + above * w[i] - (w_below ? under * w_below[i] : 0);

		mass[i] += SMALL * (slow[i] - out);
	}
}

/* Prepares the equations of a row of upper faces: w - g (d_up w_up - 2 d w + d_down w_down) =
 * known. Sound is faster in warm air, so each column has its own g. */
static void prepare(struct model *model, int level, int north, const double *before)
{
	const struct domain *domain = model->domain;
	size_t at = cell(domain, level, north, 0), width = (size_t)domain->count[EAST], plane = domain->plane;
	const double *heat = model->next[HEAT] + at, *mass = model->next[MASS] + at, *warm = model->now[HEAT] + at;
	const double *slow = model->slow[W] + at, *known_w = model->next[W] + at;
	double *g = model->columns[0] + (size_t)level * width, *known = model->columns[1] + (size_t)level * width;
	double face = model->levels[level].face_density;

	for (size_t i = 0; i < width; i++) {
		double sound = SOUND_SQUARED * (1 + 0.5 * (warm[i] + warm[i + plane]) / TEMPERATURE) / (face * DEPTH);
		double buoyancy = GRAVITY / TEMPERATURE * 0.5 * (heat[i] + heat[i + plane]);
		double difference = (1 - IMPLICIT) * (before[i + plane] - before[i]) + IMPLICIT * (mass[i + plane] - mass[i]);

		g[i] = SMALL * SMALL * IMPLICIT * IMPLICIT * sound / DEPTH;
		known[i] = known_w[i] + SMALL * (slow[i] + buoyancy - sound * difference);
	}
}

/* Solves the equations of a row of columns from the ground to the lid and back. */
static void solve_row(struct model *model, int north)
{
	const struct domain *domain = model->domain;
	size_t width = (size_t)domain->count[EAST];
	int faces = domain->levels - 1;

	for (int level = 0; level < faces; level++) {
		const double *g = model->columns[0] + (size_t)level * width;
		double *known = model->columns[1] + (size_t)level * width, *ratio = model->columns[2] + (size_t)level * width;
		double own = model->levels[level].face_density, down = level ? model->levels[level - 1].face_density : 0;
		double up = model->levels[level + 1].face_density;

		for (size_t i = 0; i < width; i++) {
			double lower = level ? -g[i] * down : 0;
			double pivot = 1 + 2 * g[i] * own - (level ? lower * ratio[i - width] : 0);

			ratio[i] = -g[i] * up / pivot;
			known[i] = (known[i] - (level ? lower * known[i - width] : 0)) / pivot;
		}
	}
	for (int level = faces - 1; level >= 0; level--) {
		const double *known = model->columns[1] + (size_t)level * width, *ratio = model->columns[2] + (size_t)level * width;
		double *w = model->next[W] + cell(domain, level, north, 0);

		/* The lid's wind is 0. */
		for (size_t i = 0; i < width; i++)
			w[i] = known[i] - ratio[i] * w[i + domain->plane];
	}
}

/* Adds the vertical fluxes of the new wind, and moves air along the stratification. */
static void add_new_fluxes(struct model *model, int level, int north)
{
	const struct domain *domain = model->domain;
	size_t at = cell(domain, level, north, 0);
	const double *w = model->next[W] + at, *w_below = level ? w - domain->plane : NULL, *slow = model->slow[HEAT] + at;
	double above = IMPLICIT * model->levels[level].face_density / DEPTH;
	double under = level ? IMPLICIT * model->levels[level - 1].face_density / DEPTH : 0;
	double *mass = model->next[MASS] + at, *heat = model->next[HEAT] + at;

	for (int i = 0; i < domain->count[EAST]; i++) {
		double low = w_below ? w_below[i] : 0;

		mass[i] -= SMALL * (above * w[i] - under * low);
		heat[i] += SMALL * (slow[i] - STRATIFICATION * 0.5 * (w[i] + low));
	}
}

/* Moves mass and upward wind. `damped` has the mass before the step, in all lines. */
static void move_columns(struct model *model, const double *before)
{
	const struct domain *domain = model->domain;

	for (int north = 0; north < domain->count[NORTH]; north++) {
		for (int level = 0; level < domain->levels; level++)
			add_known_mass(model, level, north);
		for (int level = 0; level < domain->levels - 1; level++)
			prepare(model, level, north, before + cell(domain, level, north, 0));
		solve_row(model, north);
		for (int level = 0; level < domain->levels; level++)
			add_new_fluxes(model, level, north);
	}
}

void small_steps(struct model *model, int count)
{
	static const enum variable WINDS[] = {U, V}, AIR[] = {MASS};
	size_t size = model->domain->size;
	double *mass = model->next[MASS];

	memcpy(model->damped, mass, size * sizeof *mass);
	for (int step = 0; step < count; step++) {
		push_winds(model);
		exchange(model, model->next, WINDS, 2);
		memcpy(model->damped, mass, size * sizeof *mass);
		move_columns(model, model->damped);
		exchange(model, model->next, AIR, 1);
		for (size_t i = 0; i < size; i++)
			model->damped[i] = mass[i] + DAMPING * (mass[i] - model->damped[i]);
	}
}
