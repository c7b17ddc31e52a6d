/* SPDX-License-Identifier: MIT OR Apache-2.0
 * FT: a partial differential equation by a three-dimensional FFT (specification, 2.4). Each rank
 * has planes of x and y, then after a transposition lines of z. */
#include "npb.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef double complex number;

enum { ITERATIONS_MAX = 20, COLUMNS = 16, POINTS = 1024 };

static const uint64_t SEED = 314159265;
static const double DIFFUSION = 1e-6, PI = 3.14159265358979323846;

struct size {
	int x, y, z, iterations;
	double sums[ITERATIONS_MAX][2];
};

static const struct size SIZES[CLASSES] = {
	{64, 64, 64, 6,
	 {{5.546087004964e2, 4.845363331978e2}, {5.546385409189e2, 4.865304269511e2}, {5.546148406171e2, 4.883910722336e2},
	  {5.545423607415e2, 4.901273169046e2}, {5.544255039624e2, 4.917475857993e2}, {5.542683411902e2, 4.932597244941e2}}},
	{128, 128, 32, 6,
	 {{5.673612178944e2, 5.293246849175e2}, {5.631436885271e2, 5.282149986629e2}, {5.594024089970e2, 5.270996558037e2},
	  {5.560698047020e2, 5.260027904925e2}, {5.530898991250e2, 5.249400845633e2}, {5.504159734538e2, 5.239212247086e2}}},
	{256, 256, 128, 6,
	 {{5.046735008193e2, 5.114047905510e2}, {5.059412319734e2, 5.098809666433e2}, {5.069376896287e2, 5.098144042213e2},
	  {5.077892868474e2, 5.101336130759e2}, {5.085233095391e2, 5.104914655194e2}, {5.091487099959e2, 5.107917842803e2}}},
	{512, 256, 256, 20,
	 {{5.177643571579e2, 5.077803458597e2}, {5.154521291263e2, 5.088249431599e2}, {5.146409228649e2, 5.096208912659e2},
	  {5.142378756213e2, 5.101023387619e2}, {5.139626667737e2, 5.103976610617e2}, {5.137423460082e2, 5.105948019802e2},
	  {5.135547056878e2, 5.107404165783e2}, {5.133910925466e2, 5.108576573661e2}, {5.132470705390e2, 5.109577278523e2},
	  {5.131197729984e2, 5.110460304483e2}, {5.130070319283e2, 5.111252433800e2}, {5.129070537032e2, 5.111968077718e2},
	  {5.128182883502e2, 5.112616233064e2}, {5.127393733383e2, 5.113203605551e2}, {5.126691062020e2, 5.113735928093e2},
	  {5.126064276004e2, 5.114218460548e2}, {5.125504076570e2, 5.114656139760e2}, {5.125002331720e2, 5.115053595966e2},
	  {5.124551951846e2, 5.115415130407e2}, {5.124146770029e2, 5.115744692211e2}}},
	{512, 512, 512, 20,
	 {{5.195078707457e2, 5.149019699238e2}, {5.155422171134e2, 5.127578201997e2}, {5.144678022222e2, 5.122251847514e2},
	  {5.140150594328e2, 5.121090289018e2}, {5.137550426810e2, 5.121143685824e2}, {5.135811056728e2, 5.121496764568e2},
	  {5.134569343165e2, 5.121870921893e2}, {5.133651975661e2, 5.122193250322e2}, {5.132955192805e2, 5.122454735794e2},
	  {5.132410471738e2, 5.122663649603e2}, {5.131971141679e2, 5.122830879827e2}, {5.131605205716e2, 5.122965869718e2},
	  {5.131290734194e2, 5.123075927445e2}, {5.131012720314e2, 5.123166486553e2}, {5.130760908195e2, 5.123241541685e2},
	  {5.130528295923e2, 5.123304037599e2}, {5.130310107773e2, 5.123356167976e2}, {5.130103090133e2, 5.123399592211e2},
	  {5.129905029333e2, 5.123435588985e2}, {5.129714421109e2, 5.123465164008e2}}},
};

/* State of a rank. Planes are [z][y][x], lines are [y][x][z]. */
struct field {
	const struct job *job;
	const struct size *size;
	size_t plane, points;      /* of x and y; of this rank */
	int depth, width;          /* own values of z, and of y after the transposition */
	number *spectrum, *work, *planes;
	double *decay;             /* of each wave in one step */
	number *roots, *line, *columns;
	int roots_of;              /* the longest line */
};

/* Transforms a line of `count` points in place, by steps that sort themselves (Stockham). */
static void transform_line(struct field *field, number *line, int count, int sign)
{
	number *from = line, *to = field->line;

	for (int half = count / 2, stride = 1; half >= 1; half /= 2, stride *= 2) {
		for (int p = 0; p < half; p++) {
			number root = field->roots[(size_t)p * stride * (field->roots_of / count)];

			if (sign > 0)
				root = conj(root);
			for (int q = 0; q < stride; q++) {
				number a = from[q + stride * p], b = from[q + stride * (p + half)];

				to[q + stride * 2 * p] = a + b;
				to[q + stride * (2 * p + 1)] = (a - b) * root;
			}
		}
		number *swap = from;
		from = to;
		to = swap;
	}
	if (from != line)
		for (int i = 0; i < count; i++)
			line[i] = from[i];
}

/* Transforms each plane in y, some columns at a time. */
static void transform_columns(struct field *field, number *plane, int sign)
{
	int x = field->size->x, y = field->size->y;

	for (int first = 0; first < x; first += COLUMNS) {
		for (int j = 0; j < y; j++)
			for (int i = 0; i < COLUMNS; i++)
				field->columns[i * y + j] = plane[(size_t)j * x + first + i];
		for (int i = 0; i < COLUMNS; i++)
			transform_line(field, field->columns + i * y, y, sign);
		for (int j = 0; j < y; j++)
			for (int i = 0; i < COLUMNS; i++)
				plane[(size_t)j * x + first + i] = field->columns[i * y + j];
	}
}

static void transform_planes(struct field *field, number *planes, int sign)
{
	for (int k = 0; k < field->depth; k++) {
		number *plane = planes + k * field->plane;

		for (int j = 0; j < field->size->y; j++)
			transform_line(field, plane + (size_t)j * field->size->x, field->size->x, sign);
		transform_columns(field, plane, sign);
	}
}

static void exchange(struct field *field, number *out, number *in)
{
	int count = (int)(field->points / field->job->ranks);

	MPI_Alltoall(out, count, MPI_C_DOUBLE_COMPLEX, in, count, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
}

/* Turns planes into lines of z. The planes are lost. */
static void to_lines(struct field *field, number *planes, number *lines)
{
	size_t part = field->plane / field->job->ranks;

	for (size_t first = 0; first < field->plane; first += COLUMNS)
		for (int k = 0; k < field->depth; k++)
			for (size_t i = first; i < first + COLUMNS; i++)
				lines[i * field->depth + k] = planes[k * field->plane + i];
	exchange(field, lines, planes);
	for (int from = 0; from < field->job->ranks; from++)
		for (size_t i = 0; i < part; i++)
			for (int k = 0; k < field->depth; k++)
				lines[i * field->size->z + (size_t)from * field->depth + k] = planes[(from * part + i) * field->depth + k];
}

/* Turns lines of z into planes. The lines are lost. */
static void to_planes(struct field *field, number *lines, number *planes)
{
	size_t part = field->plane / field->job->ranks;

	for (int to = 0; to < field->job->ranks; to++)
		for (size_t i = 0; i < part; i++)
			for (int k = 0; k < field->depth; k++)
				planes[(to * part + i) * field->depth + k] = lines[i * field->size->z + (size_t)to * field->depth + k];
	exchange(field, planes, lines);
	for (size_t first = 0; first < field->plane; first += COLUMNS)
		for (int k = 0; k < field->depth; k++)
			for (size_t i = first; i < first + COLUMNS; i++)
				planes[k * field->plane + i] = lines[i * field->depth + k];
}

static void transform_lines(struct field *field, number *lines, int sign)
{
	for (size_t i = 0; i < field->points; i += field->size->z)
		transform_line(field, lines + i, field->size->z, sign);
}

/* Fills the planes with random numbers, and computes the decays. */
static void fill(struct field *field)
{
	const struct size *size = field->size;
	uint64_t seed = seed_after(SEED, 2 * field->points * field->job->rank);
	number *planes = field->planes;
	size_t at = 0;

	for (size_t i = 0; i < field->points; i++) {
		double real = next_random(&seed);

		planes[i] = real + I * next_random(&seed);
	}
	for (int j = 0; j < field->width; j++)
		for (int i = 0; i < size->x; i++)
			for (int k = 0; k < size->z; k++) {
				int y = j + field->width * field->job->rank;
				int waves[3] = {i - (i >= size->x / 2) * size->x, y - (y >= size->y / 2) * size->y,
						k - (k >= size->z / 2) * size->z};
				double square = waves[0] * waves[0] + waves[1] * waves[1] + waves[2] * waves[2];

				field->decay[at++] = exp(-4 * DIFFUSION * PI * PI * square);
			}
}

/* Computes the spectrum of the random field. */
static void begin(struct field *field)
{
	fill(field);
	transform_planes(field, field->planes, -1);
	to_lines(field, field->planes, field->spectrum);
	transform_lines(field, field->spectrum, -1);
}

/* Goes one step in time, and returns the sum over the points of the specification at rank 0. */
static number step(struct field *field)
{
	const struct size *size = field->size;
	number own = 0, all = 0;

	for (size_t i = 0; i < field->points; i++) {
		field->spectrum[i] *= field->decay[i];
		field->work[i] = field->spectrum[i];
	}
	transform_lines(field, field->work, 1);
	to_planes(field, field->work, field->planes);
	transform_planes(field, field->planes, 1);
	for (int j = 1; j <= POINTS; j++) {
		int z = 5 * j % size->z - field->depth * field->job->rank;

		if (z >= 0 && z < field->depth)
			own += field->planes[z * field->plane + (size_t)(3 * j % size->y) * size->x + j % size->x];
	}
	own /= (double)size->x * size->y * size->z;
	MPI_Reduce(&own, &all, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, 0, MPI_COMM_WORLD);
	return all;
}

static void prepare(struct field *field, const struct job *job)
{
	const struct size *size = &SIZES[job->class];
	int longest = size->x > size->y ? size->x : size->y;

	if (job->ranks & (job->ranks - 1) || job->ranks > size->z || job->ranks > size->y)
		refuse(job, "ft: class %c takes no %d ranks\n  start a power of two up to %d", job->name, job->ranks,
		       size->z < size->y ? size->z : size->y);
	*field = (struct field){.job = job, .size = size, .roots_of = longest > size->z ? longest : size->z};
	field->plane = (size_t)size->x * size->y;
	field->depth = size->z / job->ranks;
	field->width = size->y / job->ranks;
	field->points = field->plane * field->depth;
	field->spectrum = memory(field->points, sizeof *field->spectrum);
	field->work = memory(field->points, sizeof *field->work);
	field->planes = memory(field->points, sizeof *field->planes);
	field->decay = memory(field->points, sizeof *field->decay);
	field->line = memory(field->roots_of, sizeof *field->line);
	field->columns = memory((size_t)COLUMNS * size->y, sizeof *field->columns);
	field->roots = memory(field->roots_of / 2, sizeof *field->roots);
	for (int i = 0; i < field->roots_of / 2; i++)
		field->roots[i] = cos(2 * PI * i / field->roots_of) - I * sin(2 * PI * i / field->roots_of);
}

static int is_right(number sum, const double reference[2])
{
	return agree(creal(sum), reference[0], 1e-12) && agree(cimag(sum), reference[1], 1e-12);
}

void run_ft(const struct job *job, struct outcome *outcome)
{
	const struct size *size = &SIZES[job->class];
	struct field field;
	double points = (double)size->x * size->y * size->z, start;
	int iterations = job->iterations ? job->iterations : size->iterations, right = 0;

	prepare(&field, job);
	begin(&field);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	begin(&field);
	for (int i = 0; i < iterations; i++) {
		number sum = step(&field);

		if (job->rank)
			continue;
		printf(" T = %4d  checksum = %18.12e %18.12e\n", i + 1, creal(sum), cimag(sum));
		right += i < size->iterations && is_right(sum, size->sums[i]);
	}
	outcome->seconds = MPI_Wtime() - start;
	outcome->iterations = iterations;
	outcome->operations = points * (14.8157 + 7.19641 * log(points) + (5.23518 + 7.21113 * log(points)) * iterations);
	snprintf(outcome->size, sizeof outcome->size, "%dx%dx%d", size->x, size->y, size->z);
	if (iterations != size->iterations)
		outcome->verdict = NOT_VERIFIED;
	else
		outcome->verdict = job->rank || right == iterations ? SUCCESSFUL : UNSUCCESSFUL;
}
