/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Benchmarks of collectives. Roots change from iteration to iteration, as in IMB. */
#include "mpibench.h"

static int root_of(const struct work *work)
{
	return work->iteration % work->ranks;
}

/* Reductions work on floats, so the bytes are rounded down to whole ones. */
static int floats(const struct work *work)
{
	return (int)(work->bytes / sizeof(float));
}

static void check_all_parts(struct work *work, int own)
{
	for (int r = 0; r < work->ranks; r++)
		check_part(work, r, r * work->ranks + own);
}

static void fill_all_parts(struct work *work)
{
	for (int r = 0; r < work->ranks; r++)
		fill_part(work, r, work->rank * work->ranks + r);
}

void barrier(struct work *work)
{
	(void)work;
	MPI_Barrier(MPI_COMM_WORLD);
}

void bcast(struct work *work)
{
	int root = root_of(work);

	fill_part(work, 0, work->rank);
	MPI_Bcast(work->rank == root ? work->out : work->in, (int)work->bytes, MPI_BYTE, root, MPI_COMM_WORLD);
	if (work->rank != root)
		check_part(work, 0, root);
}

void reduce(struct work *work)
{
	fill_terms(work, floats(work));
	MPI_Reduce(work->out, work->in, floats(work), MPI_FLOAT, MPI_SUM, root_of(work), MPI_COMM_WORLD);
	if (work->rank == root_of(work))
		check_sum(work, floats(work), 0);
}

void allreduce(struct work *work)
{
	fill_terms(work, floats(work));
	MPI_Allreduce(work->out, work->in, floats(work), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	check_sum(work, floats(work), 0);
}

/* The bytes are those of the whole vector, as in IMB. The first ranks take the rest. */
void reduce_scatter(struct work *work)
{
	int each = floats(work) / work->ranks, rest = floats(work) % work->ranks, first = 0;

	for (int r = 0; r < work->ranks; r++) {
		work->counts[r] = each + (r < rest);
		first += r < work->rank ? work->counts[r] : 0;
	}
	fill_terms(work, floats(work));
	MPI_Reduce_scatter(work->out, work->in, work->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	check_sum(work, work->counts[work->rank], first);
}

void gather(struct work *work)
{
	fill_part(work, 0, work->rank * work->ranks);
	MPI_Gather(work->out, (int)work->bytes, MPI_BYTE, work->in, (int)work->bytes, MPI_BYTE, root_of(work),
		   MPI_COMM_WORLD);
	if (work->rank == root_of(work))
		check_all_parts(work, 0);
}

void gatherv(struct work *work)
{
	fill_part(work, 0, work->rank * work->ranks);
	MPI_Gatherv(work->out, (int)work->bytes, MPI_BYTE, work->in, work->counts, work->places, MPI_BYTE, root_of(work),
		    MPI_COMM_WORLD);
	if (work->rank == root_of(work))
		check_all_parts(work, 0);
}

void scatter(struct work *work)
{
	fill_all_parts(work);
	MPI_Scatter(work->out, (int)work->bytes, MPI_BYTE, work->in, (int)work->bytes, MPI_BYTE, root_of(work),
		    MPI_COMM_WORLD);
	check_part(work, 0, root_of(work) * work->ranks + work->rank);
}

void scatterv(struct work *work)
{
	fill_all_parts(work);
	MPI_Scatterv(work->out, work->counts, work->places, MPI_BYTE, work->in, (int)work->bytes, MPI_BYTE, root_of(work),
		     MPI_COMM_WORLD);
	check_part(work, 0, root_of(work) * work->ranks + work->rank);
}

void allgather(struct work *work)
{
	fill_part(work, 0, work->rank * work->ranks);
	MPI_Allgather(work->out, (int)work->bytes, MPI_BYTE, work->in, (int)work->bytes, MPI_BYTE, MPI_COMM_WORLD);
	check_all_parts(work, 0);
}

void allgatherv(struct work *work)
{
	fill_part(work, 0, work->rank * work->ranks);
	MPI_Allgatherv(work->out, (int)work->bytes, MPI_BYTE, work->in, work->counts, work->places, MPI_BYTE,
		       MPI_COMM_WORLD);
	check_all_parts(work, 0);
}

void alltoall(struct work *work)
{
	fill_all_parts(work);
	MPI_Alltoall(work->out, (int)work->bytes, MPI_BYTE, work->in, (int)work->bytes, MPI_BYTE, MPI_COMM_WORLD);
	check_all_parts(work, work->rank);
}

void alltoallv(struct work *work)
{
	fill_all_parts(work);
	MPI_Alltoallv(work->out, work->counts, work->places, MPI_BYTE, work->in, work->counts, work->places, MPI_BYTE,
		      MPI_COMM_WORLD);
	check_all_parts(work, work->rank);
}
