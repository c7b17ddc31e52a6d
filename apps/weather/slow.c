/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Tendencies of a long step. Mass and water have flux form, so their sums stay. */
#include "weather.h"

/* At 50 degrees north. */
static const double CORIOLIS = 1.1e-4;

/* Diffusion takes 1/64 of the shortest wave in two long steps. */
static const double DIFFUSION = 1 / (64 * 16 * 2 * STEP);

static const double PER_CELL = 1 / SPACING, PER_TWO = 1 / (2 * SPACING);

/* A row of a variable, and the strides to its neighbours. Walls above and below have no
 * neighbour: the own value. */
struct place {
	ptrdiff_t north, up, down;
	size_t at;
	int count, level;
};

static double flux_of_diffusion(const double *old, ptrdiff_t step)
{
	return old[2 * step] - old[-step] - 3 * (old[step] - old[0]);
}

/* Subtracts the fourth difference of both directions, as difference of fluxes. */
static double diffusion(const double *old, ptrdiff_t north)
{
	double east_west = flux_of_diffusion(old, 1) - flux_of_diffusion(old - 1, 1);
	double north_south = flux_of_diffusion(old, north) - flux_of_diffusion(old - north, north);

	return -DIFFUSION * (east_west + north_south);
}

static double advection(const double *x, const struct place *place, double u, double v, double w)
{
	return -(u * (x[1] - x[-1]) + v * (x[place->north] - x[-place->north])) * PER_TWO -
	       w * (x[place->up] - x[-place->down]) / (2 * DEPTH);
}

static double mean4(const double *x, ptrdiff_t a, ptrdiff_t b)
{
	return 0.25 * ((x[0] + x[a]) + (x[b] + x[a + b]));
}

/* The wind of the faces below: none at the ground. */
static double below(const double *w, const struct place *place)
{
	return place->level ? w[-place->down] : 0;
}

static void winds(struct model *model, const struct place *place, int is_wall_east, int is_wall_north)
{
	const double *u = model->now[U] + place->at, *v = model->now[V] + place->at, *w = model->now[W] + place->at;
	double *slow_u = model->slow[U] + place->at, *slow_v = model->slow[V] + place->at;

	for (int i = 0; i < place->count; i++) {
		const double *x = u + i, *y = v + i, *z = w + i;
		double v_here = mean4(y, 1, -place->north), u_here = mean4(x, -1, place->north);
		double w_u = 0.25 * ((z[0] + z[1]) + (below(z, place) + below(z + 1, place)));
		double w_v = 0.25 * ((z[0] + z[place->north]) + (below(z, place) + below(z + place->north, place)));

		slow_u[i] = advection(x, place, *x, v_here, w_u) + CORIOLIS * v_here + diffusion(model->old[U] + place->at + i, place->north);
		slow_v[i] = advection(y, place, u_here, *y, w_v) - CORIOLIS * u_here + diffusion(model->old[V] + place->at + i, place->north);
	}
	if (is_wall_east)
		slow_u[place->count - 1] = 0;
	for (int i = 0; is_wall_north && i < place->count; i++)
		slow_v[i] = 0;
}

/* Upward wind lies on the upper face: the lid has none. */
static void upward_wind(struct model *model, const struct place *place)
{
	const double *u = model->now[U] + place->at, *v = model->now[V] + place->at, *w = model->now[W] + place->at;
	double *slow = model->slow[W] + place->at;

	for (int i = 0; place->up && i < place->count; i++)
		slow[i] = advection(w + i, place, mean4(u + i, -1, place->up), mean4(v + i, -place->north, place->up), w[i]) +
			  diffusion(model->old[W] + place->at + i, place->north);
}

static void temperature(struct model *model, const struct place *place)
{
	const double *u = model->now[U] + place->at, *v = model->now[V] + place->at, *w = model->now[W] + place->at;
	const double *x = model->now[HEAT] + place->at;
	double *slow = model->slow[HEAT] + place->at;

	for (int i = 0; i < place->count; i++)
		slow[i] = advection(x + i, place, 0.5 * (u[i] + u[i - 1]), 0.5 * (v[i] + v[i - place->north]), 0.5 * (w[i] + below(w + i, place))) +
			  diffusion(model->old[HEAT] + place->at + i, place->north);
}

static double flux(const double *wind, const double *x, ptrdiff_t step)
{
	return *wind * 0.5 * (x[0] + x[step]);
}

static void conserved(struct model *model, const struct place *place, enum variable variable)
{
	const double *u = model->now[U] + place->at, *v = model->now[V] + place->at, *w = model->now[W] + place->at;
	const double *x = model->now[variable] + place->at;
	double *slow = model->slow[variable] + place->at;

	for (int i = 0; i < place->count; i++) {
		double east = flux(u + i, x + i, 1) - flux(u + i - 1, x + i - 1, 1);
		double north = flux(v + i, x + i, place->north) - flux(v + i - place->north, x + i - place->north, place->north);
		double up = (place->up ? flux(w + i, x + i, place->up) : 0) - (place->down ? flux(w + i - place->down, x + i - place->down, place->down) : 0);

		slow[i] = -(east + north) * PER_CELL - up / DEPTH + diffusion(model->old[variable] + place->at + i, place->north);
	}
}

void slow_tendencies(struct model *model)
{
	const struct domain *domain = model->domain;
	int is_east_end = domain->partners[EAST][UPPER] == MPI_PROC_NULL, is_north_end = domain->partners[NORTH][UPPER] == MPI_PROC_NULL;

	for (int level = 0; level < domain->levels; level++)
		for (int north = 0; north < domain->count[NORTH]; north++) {
			struct place place = {.north = (ptrdiff_t)domain->row, .at = cell(domain, level, north, 0), .count = domain->count[EAST], .level = level};

			place.up = level < domain->levels - 1 ? (ptrdiff_t)domain->plane : 0;
			place.down = level > 0 ? (ptrdiff_t)domain->plane : 0;
			winds(model, &place, is_east_end, is_north_end && north == domain->count[NORTH] - 1);
			upward_wind(model, &place);
			temperature(model, &place);
			conserved(model, &place, MASS);
			conserved(model, &place, VAPOUR);
			conserved(model, &place, CLOUD);
		}
}
