/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Benchmarks of messages between two ranks, and between neighbours in a chain of all ranks. */
#include "mpibench.h"

enum { TAG = 1, ACK = 2 };

static void send_to(struct work *work, int to)
{
	MPI_Send(work->out, (int)work->bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

static void receive_from(struct work *work, int from)
{
	MPI_Recv(work->in, (int)work->bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check_part(work, 0, from);
}

/* Rank 0 sends and waits for the answer of rank 1. */
void pingpong(struct work *work)
{
	fill_part(work, 0, work->rank);
	if (work->rank == 0) {
		send_to(work, 1);
		receive_from(work, 1);
	} else {
		receive_from(work, 0);
		send_to(work, 0);
	}
}

/* Both ranks send at once, so each message meets one of the other direction. */
void pingping(struct work *work)
{
	MPI_Request request;

	fill_part(work, 0, work->rank);
	MPI_Isend(work->out, (int)work->bytes, MPI_BYTE, 1 - work->rank, TAG, MPI_COMM_WORLD, &request);
	receive_from(work, 1 - work->rank);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A periodic chain: each rank sends to the right and receives from the left. */
void sendrecv(struct work *work)
{
	int right = (work->rank + 1) % work->ranks, left = (work->rank + work->ranks - 1) % work->ranks;

	fill_part(work, 0, work->rank);
	MPI_Sendrecv(work->out, (int)work->bytes, MPI_BYTE, right, TAG, work->in, (int)work->bytes, MPI_BYTE, left, TAG,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check_part(work, 0, left);
}

/* Each rank exchanges messages with both neighbours of the chain. */
void exchange(struct work *work)
{
	int right = (work->rank + 1) % work->ranks, left = (work->rank + work->ranks - 1) % work->ranks;
	MPI_Request requests[2];

	fill_part(work, 0, work->rank);
	MPI_Isend(work->out, (int)work->bytes, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(work->out, (int)work->bytes, MPI_BYTE, left, ACK, MPI_COMM_WORLD, &requests[1]);
	receive_from(work, left);
	MPI_Recv(work->in, (int)work->bytes, MPI_BYTE, right, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check_part(work, 0, right);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void post_sends(struct work *work, int to, MPI_Request *requests)
{
	fill_part(work, 0, work->rank);
	for (int i = 0; i < WINDOW; i++)
		MPI_Isend(work->out, (int)work->bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[i]);
}

/* All messages of a window go to the same place, as OSU's benchmarks have it. */
static void post_receives(struct work *work, int from, MPI_Request *requests)
{
	for (int i = 0; i < WINDOW; i++)
		MPI_Irecv(work->in, (int)work->bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &requests[i]);
}

/* One side sends a window of messages and waits for the other's short answer. */
static void stream(struct work *work, int sends, int partner)
{
	MPI_Request requests[WINDOW];
	char answer = 0;

	if (sends) {
		post_sends(work, partner, requests);
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		MPI_Recv(&answer, 1, MPI_BYTE, partner, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		post_receives(work, partner, requests);
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		check_part(work, 0, partner);
		MPI_Send(&answer, 1, MPI_BYTE, partner, ACK, MPI_COMM_WORLD);
	}
}

void bandwidth(struct work *work)
{
	stream(work, work->rank == 0, 1 - work->rank);
}

/* Both sides send a window, and receive one. */
void bidirectional(struct work *work)
{
	MPI_Request requests[2 * WINDOW];
	int partner = 1 - work->rank;

	post_receives(work, partner, requests);
	post_sends(work, partner, requests + WINDOW);
	MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
	check_part(work, 0, partner);
}

/* The first half of the ranks streams to the second half, rank by rank. */
void message_rate(struct work *work)
{
	if (work->partner >= 0)
		stream(work, work->rank < work->partner, work->partner);
}
