/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Turbulence and condensation, within columns. */
#include "weather.h"

#include <math.h>

/* m^2/s, m: mixing without wind shear, and the length of eddies (assumed). */
static const double MIXING = 1, EDDY = 30;

/* Latent heat over heat capacity in K, and the growth of saturation with temperature in 1/K. */
static const double LATENT = 2490, GROWTH = 0.06;

/* Fills the exchange over the upper faces of a row, in units of a cell for `span` seconds. */
static void exchange_coefficients(struct model *model, int level, int north, double span, double *to)
{
	size_t at = cell(model->domain, level, north, 0), plane = model->domain->plane;
	const double *u = model->now[U] + at, *v = model->now[V] + at;

	for (int i = 0; i < model->domain->count[EAST]; i++) {
		double du = u[(size_t)i + plane] - u[i], dv = v[(size_t)i + plane] - v[i];

		to[i] = span * (MIXING + EDDY * EDDY * sqrt(du * du + dv * dv) / DEPTH) / (DEPTH * DEPTH);
	}
}

/* Solves a row of columns: x - difference of (c times difference of x) = known. No flux goes
 * through ground and lid. */
static void mix_row(struct model *model, double *field, int north)
{
	const struct domain *domain = model->domain;
	size_t width = (size_t)domain->count[EAST], plane = domain->plane;

	for (int level = 0; level < domain->levels; level++) {
		int has_up = level < domain->levels - 1;
		const double *up = model->columns[0] + (size_t)level * width;
		double *ratio = model->columns[1] + (size_t)level * width, *x = field + cell(domain, level, north, 0);

		for (size_t i = 0; i < width; i++) {
			double down = level ? up[i - width] : 0, above = has_up ? up[i] : 0;
			double pivot = 1 + above + down + (level ? down * ratio[i - width] : 0);

			ratio[i] = -above / pivot;
			x[i] = (x[i] + (level ? down * x[i - plane] : 0)) / pivot;
		}
	}
	for (int level = domain->levels - 2; level >= 0; level--) {
		const double *ratio = model->columns[1] + (size_t)level * width;
		double *x = field + cell(domain, level, north, 0);

		for (size_t i = 0; i < width; i++)
			x[i] -= ratio[i] * x[i + plane];
	}
}

void mix_columns(struct model *model, double span)
{
	static const enum variable MIXED[] = {U, V, HEAT, VAPOUR, CLOUD};
	const struct domain *domain = model->domain;

	for (int north = 0; north < domain->count[NORTH]; north++) {
		for (int level = 0; level < domain->levels - 1; level++)
			exchange_coefficients(model, level, north, span, model->columns[0] + (size_t)level * (size_t)domain->count[EAST]);
		for (size_t i = 0; i < sizeof MIXED / sizeof *MIXED; i++)
			mix_row(model, model->next[MIXED[i]], north);
	}
}

static void adjust_row(struct model *model, int level, int north)
{
	const struct level *state = model->levels + level;
	size_t at = cell(model->domain, level, north, 0);
	double *vapour = model->next[VAPOUR] + at, *cloud = model->next[CLOUD] + at, *heat = model->next[HEAT] + at;
	double warming = LATENT / state->density;

	for (int i = 0; i < model->domain->count[EAST]; i++) {
		double excess = vapour[i] - state->saturation * (1 + GROWTH * heat[i]);
		/* Condensation warms the air, and warm air holds more. */
		double change = excess / (1 + warming * GROWTH * state->saturation);

		if (change < -cloud[i])
			change = -cloud[i];
		vapour[i] -= change;
		cloud[i] += change;
		heat[i] += warming * change;
	}
}

void adjust_saturation(struct model *model)
{
	for (int level = 0; level < model->domain->levels; level++)
		for (int north = 0; north < model->domain->count[NORTH]; north++)
			adjust_row(model, level, north);
}
