/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Requests: persistent ones, tests and waits of each kind, cancelled ones. */
#include "check.h"

#include <stdlib.h>

typedef int init_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

enum { TAG = 11, ROUNDS = 3 };

/* Starts the same pair of requests several times. The receive starts first, as ready sends need. */
static void persistent(init_function *init, int count)
{
	int *out = integers(count), *in = integers(count);
	MPI_Request send, receive;

	init(out, count, MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &send);
	MPI_Recv_init(in, count, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, &receive);
	for (int i = 0; i < ROUNDS; i++) {
		fill(out, count, rank + i);
		MPI_Start(&receive);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Start(&send);
		MPI_Wait(&receive, MPI_STATUS_IGNORE);
		MPI_Wait(&send, MPI_STATUS_IGNORE);
		EXPECT(send != MPI_REQUEST_NULL);
		EXPECT_FILLED(in, count, previous_rank() + i);
	}
	MPI_Request_free(&send);
	MPI_Request_free(&receive);
	EXPECT(send == MPI_REQUEST_NULL);
	free(out);
	free(in);
}

static void each_length(init_function *init)
{
	for (int i = 0; i < LENGTH_COUNT; i++)
		persistent(init, LENGTHS[i]);
}

static void persistent_standard(void) { each_length(MPI_Send_init); }
static void persistent_synchronous(void) { each_length(MPI_Ssend_init); }
static void persistent_ready(void) { each_length(MPI_Rsend_init); }

static void persistent_buffered(void)
{
	int bytes = LONGEST * (int)sizeof(int) * 2 + MPI_BSEND_OVERHEAD;
	void *buffer = malloc(bytes);

	MPI_Buffer_attach(buffer, bytes);
	each_length(MPI_Bsend_init);
	MPI_Buffer_detach(&buffer, &bytes);
	free(buffer);
}

/* Starts a receive from every rank and a send to every rank at once. */
static void start_all(void)
{
	int *out = integers(size), *in = integers(size);
	MPI_Request *requests = malloc(2 * size * sizeof *requests);

	for (int i = 0; i < size; i++) {
		MPI_Recv_init(&in[i], 1, MPI_INT, i, TAG, MPI_COMM_WORLD, &requests[i]);
		MPI_Send_init(&out[i], 1, MPI_INT, i, TAG, MPI_COMM_WORLD, &requests[size + i]);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < size; i++)
			out[i] = rank * 1000 + i * 10 + round;
		MPI_Startall(2 * size, requests);
		MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < size; i++)
			EXPECT(in[i] == i * 1000 + rank * 10 + round);
	}
	for (int i = 0; i < 2 * size; i++)
		MPI_Request_free(&requests[i]);
	free(requests);
	free(out);
	free(in);
}

/* Posts a receive from every rank and a send to every rank. */
static void post_all(MPI_Request *requests, int *out, int *in)
{
	for (int i = 0; i < size; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, i, TAG, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < size; i++) {
		out[i] = rank * 100 + i;
		MPI_Isend(&out[i], 1, MPI_INT, i, TAG, MPI_COMM_WORLD, &requests[size + i]);
	}
}

enum way { ANY, SOME, TEST, TEST_ALL, TEST_ANY, TEST_SOME };

/* Ends all requests in one way. Each must end exactly once. */
static void finish(enum way way, int count, MPI_Request *requests)
{
	int *indices = integers(count), *seen = integers(count), ended = 0;

	while (ended < count) {
		int done = 0, index = MPI_UNDEFINED;

		if (way == ANY) {
			MPI_Waitany(count, requests, &indices[0], MPI_STATUS_IGNORE);
			done = 1;
		} else if (way == SOME) {
			MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
		} else if (way == TEST_SOME) {
			MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
		} else if (way == TEST_ANY) {
			MPI_Testany(count, requests, &index, &done, MPI_STATUS_IGNORE);
			indices[0] = index;
		} else if (way == TEST_ALL) {
			MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
			for (int i = 0; done && i < count; i++)
				indices[i] = i;
			done *= count;
		} else {
			MPI_Test(&requests[ended], &done, MPI_STATUS_IGNORE);
			indices[0] = ended;
		}
		for (int i = 0; i < done; i++)
			EXPECT(indices[i] >= 0 && indices[i] < count && ++seen[indices[i]] == 0);
		ended += done;
	}
	for (int i = 0; i < count; i++)
		EXPECT(requests[i] == MPI_REQUEST_NULL);
	free(indices);
	free(seen);
}

static void ways_to_end(void)
{
	int *out = integers(size), *in = integers(size);
	MPI_Request *requests = malloc(2 * size * sizeof *requests);

	for (enum way way = ANY; way <= TEST_SOME; way++) {
		post_all(requests, out, in);
		finish(way, 2 * size, requests);
		for (int i = 0; i < size; i++)
			EXPECT(in[i] == i * 100 + rank);
	}
	free(requests);
	free(out);
	free(in);
}

/* A look at a request that says nothing about its end must leave it. */
static void get_status(void)
{
	int out = rank, in = -1, done = 0;
	MPI_Request receive, send;

	MPI_Irecv(&in, 1, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, &receive);
	MPI_Request_get_status(receive, &done, MPI_STATUS_IGNORE);
	MPI_Isend(&out, 1, MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &send);
	while (!done)
		MPI_Request_get_status(receive, &done, MPI_STATUS_IGNORE);
	EXPECT(receive != MPI_REQUEST_NULL);
	EXPECT(in == previous_rank());
	MPI_Wait(&receive, MPI_STATUS_IGNORE);
	MPI_Wait(&send, MPI_STATUS_IGNORE);
}

static void cancelled_receive(void)
{
	int in = -1, out = rank, cancelled = 0;
	MPI_Request receive;
	MPI_Status status;

	MPI_Irecv(&in, 1, MPI_INT, previous_rank(), TAG + 1, MPI_COMM_WORLD, &receive);
	MPI_Cancel(&receive);
	MPI_Wait(&receive, &status);
	MPI_Test_cancelled(&status, &cancelled);
	EXPECT(cancelled);
	/* A cancelled receive takes no later message. The barrier makes sure that none was there before. */
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Sendrecv(&out, 1, MPI_INT, next_rank(), TAG + 1, &in, 1, MPI_INT, previous_rank(), TAG + 1, MPI_COMM_WORLD,
		     &status);
	EXPECT(in == previous_rank());
}

/* A freed send still arrives. */
static void freed_send(void)
{
	int out = rank, in = -1;
	MPI_Request send;

	MPI_Isend(&out, 1, MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &send);
	MPI_Request_free(&send);
	MPI_Recv(&in, 1, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	EXPECT(in == previous_rank());
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Many requests are under way between each pair of ranks. */
static void many(void)
{
	enum { COUNT = 500 };
	int *out = integers(COUNT), *in = integers(COUNT);
	MPI_Request requests[2 * COUNT];

	fill(out, COUNT, rank);
	for (int i = 0; i < COUNT; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < COUNT; i++)
		MPI_Isend(&out[i], 1, MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &requests[COUNT + i]);
	MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
	EXPECT_FILLED(in, COUNT, previous_rank());
	free(out);
	free(in);
}

const struct check REQUESTS[] = {
	{"persistent standard send", persistent_standard},
	{"persistent synchronous send", persistent_synchronous},
	{"persistent ready send", persistent_ready},
	{"persistent buffered send", persistent_buffered},
	{"startall", start_all},
	{"waitany, waitsome, test, testall, testany, testsome", ways_to_end},
	{"request_get_status", get_status},
	{"cancelled receive", cancelled_receive},
	{"freed send", freed_send},
	{"500 requests at once", many},
	{0},
};
