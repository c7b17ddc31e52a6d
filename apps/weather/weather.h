/* SPDX-License-Identifier: MIT OR Apache-2.0
 * softband-weather: a weather model of stencils, split-explicit as the Local Model of Deutscher
 * Wetterdienst. */
#ifndef WEATHER_H
#define WEATHER_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* The leapfrog scheme of the COSMO-Model has two lines (www.cosmo-model.org, Model Code and
 * Parallelization). */
enum { HALO = 2 };

enum axis { EAST, NORTH, AXES };
enum end { LOWER, UPPER, ENDS };

/* Prognostic variables: wind along each axis, mass and temperature off the reference state,
 * water vapour and cloud water in kg/m^3. Winds lie on the upper faces of a cell. */
enum variable { U, V, W, MASS, HEAT, VAPOUR, CLOUD, VARIABLES };

struct options {
	int grid[AXES], levels;
	int parts[AXES]; /* 0: not chosen yet */
	int steps, diagnostics, is_verified;
	double hours; /* 0: not given */
};

/* The columns of a rank, within walls. */
struct domain {
	int rank, ranks;
	int parts[AXES], place[AXES];
	int partners[AXES][ENDS]; /* MPI_PROC_NULL: a wall */
	int global[AXES], first[AXES], count[AXES];
	int levels;
	size_t row, plane, size; /* with halos */
};

typedef double *fields_t[VARIABLES];

/* Reference state of a level, and of its upper face. */
struct level {
	double density, face_density, saturation;
};

struct model {
	const struct domain *domain;
	struct level *levels;
	fields_t old, now, next, slow; /* `slow` has the tendencies of a long step */
	double *damped;                /* mass of small steps, with the damping of divergence */
	double *columns[3];            /* a row of columns, for the vertical equations */
	double *out[ENDS], *in[ENDS];
	double halo_seconds;
};

/* Global sums and extremes, the same for each number of ranks. The mass is that beyond the
 * reference state. */
struct diagnosis {
	double mass, water, wind; /* kg, kg, m/s */
};

/* m: columns as in the measurements of the Local Model over Chile; levels up to 21 km (assumed). */
#define SPACING 2800.0
#define DEPTH 600.0

/* s: the Local Model's 40 s at 7 km, at the same Courant number. */
#define STEP 16.0

/* Small steps in two long ones. With 6, sound passes the limit of the scheme with its damping. */
enum { SMALL_STEPS = 8 };

#define SMALL (2 * STEP / SMALL_STEPS)

/* Divides the columns. Ends the job with status 2 if the decomposition does not fit. */
void make_domain(const struct options *options, int rank, int ranks, struct domain *domain);

/* Returns the place of a cell in a field. */
static inline size_t cell(const struct domain *domain, int level, int north, int east)
{
	return (size_t)level * domain->plane + (size_t)(north + HALO) * domain->row + (size_t)(east + HALO);
}

void open_model(struct model *model, const struct domain *domain);
void close_model(struct model *model);

/* Makes all steps, and diagnoses every few of them. Returns whether the wind stayed within the
 * scheme's limit. */
int run(struct model *model, const struct options *options, struct diagnosis *last);

/* Exchanges both lines of the variables with all neighbours, and mirrors them at walls. */
void exchange(struct model *model, fields_t fields, const enum variable *variables, int count);

/* Fill the tendencies of a long step: advection, Coriolis force and horizontal diffusion. */
void slow_tendencies(struct model *model);

/* Make the small steps of sound and gravity waves, from `next`. */
void small_steps(struct model *model, int count);

/* Mixes the columns of a variable, by an implicit step of `span` seconds. */
void mix_columns(struct model *model, double span);

/* Condenses or evaporates water, with its latent heat. */
void adjust_saturation(struct model *model);

struct diagnosis diagnose(const struct model *model);

/* Returns a sum over the bits of all variables, the same for each number of ranks. */
uint64_t checksum(const struct model *model);

/* Tells each rank whether one rank computes the same bits. Rank 0 prints the differences. */
int agrees_with_one_rank(const struct model *model, const struct options *options);

/* Reads the arguments. Ends the job after --help, and with status 2 after a wrong argument. */
void parse(int argc, char **argv, int rank, struct options *options);

void *memory(size_t count, size_t size);
void refuse(int rank, const char *form, ...) __attribute__((format(printf, 2, 3), noreturn));

#endif
