/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Communicators: duplicates, parts, groups, two-sided ones, topologies and attributes. */
#include "check.h"

#include <stdlib.h>

static int sum_of_ranks(MPI_Comm comm)
{
	int sum = -1;

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	return sum;
}

/* Messages of a duplicate never meet those of the original. */
static void duplicate(void)
{
	int one = 1, two = 2, in_one = -1, in_two = -1, compared;
	MPI_Request requests[2];
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_compare(copy, MPI_COMM_WORLD, &compared);
	EXPECT(compared == MPI_CONGRUENT);
	MPI_Isend(&one, 1, MPI_INT, next_rank(), 5, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(&two, 1, MPI_INT, next_rank(), 5, copy, &requests[1]);
	MPI_Recv(&in_two, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
	MPI_Recv(&in_one, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	EXPECT(in_one == 1);
	EXPECT(in_two == 2);
	MPI_Comm_free(&copy);
	EXPECT(copy == MPI_COMM_NULL);
}

static void duplicate_nonblocking(void)
{
	MPI_Request request;
	MPI_Comm copy;

	MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	EXPECT(sum_of_ranks(copy) == size * (size - 1) / 2);
	MPI_Comm_free(&copy);
}

/* Halves in reverse order. The last rank of the world stays outside of a second split. */
static void split(void)
{
	int own, wanted = 0, before = 0;
	MPI_Comm half, some;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	for (int r = rank % 2; r < size; r += 2) {
		wanted += r;
		before += r > rank;
	}
	MPI_Comm_rank(half, &own);
	EXPECT(own == before);
	EXPECT(sum_of_ranks(half) == wanted);
	MPI_Comm_free(&half);
	MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1 ? MPI_UNDEFINED : 0, 0, &some);
	EXPECT((some == MPI_COMM_NULL) == (rank == size - 1));
	if (some != MPI_COMM_NULL) {
		EXPECT(sum_of_ranks(some) == (size - 1) * (size - 2) / 2);
		MPI_Comm_free(&some);
	}
}

/* The parts by hosts cover all ranks once. */
static void split_by_host(void)
{
	int own, first, parts = -1;
	MPI_Comm host;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &own);
	MPI_Comm_size(host, &parts);
	first = own == 0 ? parts : 0;
	MPI_Allreduce(&first, &parts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	EXPECT(parts == size);
	MPI_Comm_free(&host);
}

static void groups(void)
{
	int range[1][3] = {{0, size - 1, 2}}, odd, translated = -1, members, place;
	MPI_Group world, even, rest, joined;
	MPI_Comm comm;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_range_incl(world, 1, range, &even);
	MPI_Group_difference(world, even, &rest);
	MPI_Group_union(even, rest, &joined);
	MPI_Group_size(joined, &members);
	EXPECT(members == size);
	MPI_Group_rank(even, &place);
	EXPECT(place == (rank % 2 ? MPI_UNDEFINED : rank / 2));
	odd = size - 1 - size % 2;
	MPI_Group_translate_ranks(world, 1, &odd, rest, &translated);
	EXPECT(translated == odd / 2);
	MPI_Comm_create(MPI_COMM_WORLD, even, &comm);
	EXPECT((comm == MPI_COMM_NULL) == rank % 2);
	if (comm != MPI_COMM_NULL) {
		int half = (size + 1) / 2;

		EXPECT(sum_of_ranks(comm) == half * (half - 1));
		MPI_Comm_free(&comm);
	}
	if (rank % 2 == 0) {
		MPI_Comm_create_group(MPI_COMM_WORLD, even, 4, &comm);
		MPI_Barrier(comm);
		MPI_Comm_free(&comm);
	}
	MPI_Group_free(&world);
	MPI_Group_free(&even);
	MPI_Group_free(&rest);
	MPI_Group_free(&joined);
}

/* Even and odd ranks as the two sides of an intercommunicator. */
static void two_sides(void)
{
	int side = rank % 2, own, remote, sum = -1, partner = -1, is_inter, root_side = 0, data = 0, far = 0;
	MPI_Comm half, inter, merged;

	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 9, &inter);
	MPI_Comm_test_inter(inter, &is_inter);
	EXPECT(is_inter);
	MPI_Comm_remote_size(inter, &remote);
	EXPECT(remote == (side ? (size + 1) / 2 : size / 2));
	MPI_Comm_rank(inter, &own);
	if (own < remote) {
		MPI_Sendrecv(&rank, 1, MPI_INT, own, 1, &partner, 1, MPI_INT, own, 1, inter, MPI_STATUS_IGNORE);
		EXPECT(partner == own * 2 + 1 - side);
	}
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
	for (int r = 1 - side; r < size; r += 2)
		far += r;
	EXPECT(sum == far);
	/* The root of a broadcast is rank 0 of the even side. */
	data = rank == 0 ? 77 : 0;
	root_side = side == 0 ? (own == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
	MPI_Bcast(&data, 1, MPI_INT, root_side, inter);
	EXPECT(data == (side == 1 || rank == 0 ? 77 : 0));
	MPI_Intercomm_merge(inter, side, &merged);
	MPI_Comm_rank(merged, &own);
	EXPECT(own == rank / 2 + side * ((size + 1) / 2));
	EXPECT(sum_of_ranks(merged) == size * (size - 1) / 2);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void grid(void)
{
	int dimensions[2] = {0, 0}, periods[2] = {1, 0}, place[2], source, target, in = -1, own, wanted;
	MPI_Comm comm, row;

	MPI_Dims_create(size, 2, dimensions);
	EXPECT(dimensions[0] * dimensions[1] == size);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periods, 0, &comm);
	MPI_Comm_rank(comm, &own);
	MPI_Cart_coords(comm, own, 2, place);
	EXPECT(own == place[0] * dimensions[1] + place[1]);
	MPI_Cart_shift(comm, 0, 1, &source, &target);
	MPI_Sendrecv(&own, 1, MPI_INT, target, 2, &in, 1, MPI_INT, source, 2, comm, MPI_STATUS_IGNORE);
	wanted = (place[0] + dimensions[0] - 1) % dimensions[0] * dimensions[1] + place[1];
	EXPECT(in == wanted);
	MPI_Cart_shift(comm, 1, 1, &source, &target);
	EXPECT((target == MPI_PROC_NULL) == (place[1] == dimensions[1] - 1));
	MPI_Cart_sub(comm, (int[]){0, 1}, &row);
	MPI_Comm_size(row, &in);
	EXPECT(in == dimensions[1]);
	MPI_Comm_free(&row);
	MPI_Comm_free(&comm);
}

/* A ring as a graph, and collectives with neighbours only. */
static void neighbours(void)
{
	int sources[] = {previous_rank(), next_rank()}, out[2] = {rank * 2, rank * 2 + 1}, in[4] = {-1, -1, -1, -1};
	MPI_Comm comm;

	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, sources, MPI_UNWEIGHTED,
				       MPI_INFO_NULL, 0, &comm);
	MPI_Neighbor_allgather(out, 2, MPI_INT, in, 2, MPI_INT, comm);
	EXPECT(in[0] == previous_rank() * 2 && in[1] == previous_rank() * 2 + 1);
	EXPECT(in[2] == next_rank() * 2 && in[3] == next_rank() * 2 + 1);
	if (size > 2) {
		MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
		EXPECT(in[0] == previous_rank() * 2 + 1);
		EXPECT(in[1] == next_rank() * 2);
	}
	MPI_Comm_free(&comm);
}

static int copies;

static int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm, (void)key, (void)extra;
	copies++;
	*(void **)out = in;
	*flag = 1;
	return MPI_SUCCESS;
}

static void attributes(void)
{
	static int own = 42;
	int key, found, *value = NULL;
	MPI_Comm copy;

	copies = 0;
	MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_set_attr(MPI_COMM_WORLD, key, &own);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_get_attr(copy, key, &value, &found);
	EXPECT(found && value == &own);
	EXPECT(copies == 1);
	MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
	MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &found);
	EXPECT(!found);
	MPI_Comm_free(&copy);
	MPI_Comm_free_keyval(&key);
}

const struct check COMMUNICATORS[] = {
	{"dup", duplicate},
	{"idup", duplicate_nonblocking},
	{"split", split},
	{"split by host", split_by_host},
	{"groups and create", groups},
	{"intercommunicator", two_sides},
	{"grid", grid},
	{"graph and neighbour collectives", neighbours},
	{"attributes", attributes},
	{0},
};
