/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Sends and receives: each mode, blocking and not, probes, wildcards and order. */
#include "check.h"

#include <stdlib.h>

typedef int send_function(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int isend_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

enum { TAG = 7 };

static void expect_status(const MPI_Status *status, int source, int tag, int count)
{
	int found;

	MPI_Get_count(status, MPI_INT, &found);
	EXPECT(status->MPI_SOURCE == source);
	EXPECT(status->MPI_TAG == tag);
	EXPECT(found == count);
}

/* Sends to the next rank by a blocking function, while a receive is posted. */
static void ring(send_function *send)
{
	int *out = integers(LONGEST), *in = integers(LONGEST);

	for (int i = 0; i < LENGTH_COUNT; i++) {
		MPI_Request receive;
		MPI_Status status;

		fill(out, LENGTHS[i], rank + i);
		MPI_Irecv(in, LONGEST, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, &receive);
		/* A ready send needs its receive to be posted. */
		MPI_Barrier(MPI_COMM_WORLD);
		send(out, LENGTHS[i], MPI_INT, next_rank(), TAG, MPI_COMM_WORLD);
		MPI_Wait(&receive, &status);
		expect_status(&status, previous_rank(), TAG, LENGTHS[i]);
		EXPECT_FILLED(in, LENGTHS[i], previous_rank() + i);
	}
	free(out);
	free(in);
}

static void nonblocking_ring(isend_function *send)
{
	int *out = integers(LONGEST), *in = integers(LONGEST);

	for (int i = 0; i < LENGTH_COUNT; i++) {
		MPI_Request requests[2];
		MPI_Status statuses[2];

		fill(out, LENGTHS[i], rank + i);
		MPI_Irecv(in, LONGEST, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, &requests[0]);
		MPI_Barrier(MPI_COMM_WORLD);
		send(out, LENGTHS[i], MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, statuses);
		expect_status(&statuses[0], previous_rank(), TAG, LENGTHS[i]);
		EXPECT_FILLED(in, LENGTHS[i], previous_rank() + i);
	}
	free(out);
	free(in);
}

static void standard(void) { ring(MPI_Send); }
static void synchronous(void) { ring(MPI_Ssend); }
static void ready(void) { ring(MPI_Rsend); }
static void standard_nonblocking(void) { nonblocking_ring(MPI_Isend); }
static void synchronous_nonblocking(void) { nonblocking_ring(MPI_Issend); }
static void ready_nonblocking(void) { nonblocking_ring(MPI_Irsend); }

static void with_buffer(void (*work)(void))
{
	int bytes = LONGEST * (int)sizeof(int) * 2 + MPI_BSEND_OVERHEAD, detached;
	void *buffer = malloc(bytes), *found;

	MPI_Buffer_attach(buffer, bytes);
	work();
	MPI_Buffer_detach(&found, &detached);
	EXPECT(found == buffer);
	EXPECT(detached == bytes);
	free(buffer);
}

static void buffered_ring(void) { ring(MPI_Bsend); }
static void buffered_nonblocking_ring(void) { nonblocking_ring(MPI_Ibsend); }
static void buffered(void) { with_buffer(buffered_ring); }
static void buffered_nonblocking(void) { with_buffer(buffered_nonblocking_ring); }

/* Sends before the receive is posted: eager messages are unexpected, long ones wait. */
static void unexpected(void)
{
	int *out = integers(LONGEST), *in = integers(LONGEST);

	for (int i = 0; i < LENGTH_COUNT; i++) {
		MPI_Request send;
		MPI_Status status;

		fill(out, LENGTHS[i], rank);
		MPI_Isend(out, LENGTHS[i], MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &send);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Recv(in, LONGEST, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD, &status);
		MPI_Wait(&send, MPI_STATUS_IGNORE);
		expect_status(&status, previous_rank(), TAG, LENGTHS[i]);
		EXPECT_FILLED(in, LENGTHS[i], previous_rank());
	}
	free(out);
	free(in);
}

static void sendrecv(void)
{
	int *out = integers(LONGEST), *in = integers(LONGEST);

	for (int i = 0; i < LENGTH_COUNT; i++) {
		MPI_Status status;

		fill(out, LENGTHS[i], rank);
		MPI_Sendrecv(out, LENGTHS[i], MPI_INT, next_rank(), TAG, in, LONGEST, MPI_INT, previous_rank(), TAG,
			     MPI_COMM_WORLD, &status);
		EXPECT_FILLED(in, LENGTHS[i], previous_rank());
		MPI_Sendrecv_replace(out, LENGTHS[i], MPI_INT, next_rank(), TAG, previous_rank(), TAG, MPI_COMM_WORLD,
				     &status);
		expect_status(&status, previous_rank(), TAG, LENGTHS[i]);
		EXPECT_FILLED(out, LENGTHS[i], previous_rank());
	}
	free(out);
	free(in);
}

/* Rank 0 takes one message of each other rank, in their order of arrival. */
static void any_source_and_tag(void)
{
	int data[3], seen = 0;
	MPI_Status status;

	if (rank > 0) {
		fill(data, 3, rank);
		MPI_Send(data, 3, MPI_INT, 0, 100 + rank, MPI_COMM_WORLD);
		return;
	}
	for (int i = 1; i < size; i++) {
		MPI_Recv(data, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
		expect_status(&status, status.MPI_TAG - 100, status.MPI_TAG, 3);
		EXPECT_FILLED(data, 3, status.MPI_SOURCE);
		EXPECT(!(seen & 1 << status.MPI_SOURCE));
		seen |= 1 << status.MPI_SOURCE;
	}
	EXPECT(seen == (1 << size) - 2);
}

/* Messages of one pair of ranks and one tag keep their order, whatever their size. */
static void order(void)
{
	enum { COUNT = 40 };
	int *out = integers(COUNT * 4096), *in = integers(4096);
	MPI_Request requests[COUNT];

	for (int i = 0; i < COUNT; i++) {
		fill(out + i * 4096, i % 2 ? 4096 : 2, i);
		MPI_Isend(out + i * 4096, i % 2 ? 4096 : 2, MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &requests[i]);
	}
	for (int i = 0; i < COUNT; i++) {
		MPI_Status status;

		MPI_Recv(in, 4096, MPI_INT, previous_rank(), MPI_ANY_TAG, MPI_COMM_WORLD, &status);
		expect_status(&status, previous_rank(), TAG, i % 2 ? 4096 : 2);
		EXPECT_FILLED(in, i % 2 ? 4096 : 2, i);
	}
	MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
	free(out);
	free(in);
}

/* Receives by tag against the order of sending. */
static void tags_choose(void)
{
	int out[8], in = -1;
	MPI_Request requests[8];

	for (int i = 0; i < 8; i++) {
		out[i] = rank * 8 + i;
		MPI_Isend(&out[i], 1, MPI_INT, next_rank(), i, MPI_COMM_WORLD, &requests[i]);
	}
	for (int i = 7; i >= 0; i--) {
		MPI_Recv(&in, 1, MPI_INT, previous_rank(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		EXPECT(in == previous_rank() * 8 + i);
	}
	MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
}

static void probe(void)
{
	int *out = integers(LONGEST), *in, count, there = 0;
	MPI_Request send;
	MPI_Status status;

	for (int i = 0; i < LENGTH_COUNT; i++) {
		fill(out, LENGTHS[i], rank + i);
		MPI_Isend(out, LENGTHS[i], MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &send);
		if (i % 2)
			MPI_Probe(previous_rank(), TAG, MPI_COMM_WORLD, &status);
		else
			for (there = 0; !there;)
				MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &status);
		MPI_Get_count(&status, MPI_INT, &count);
		EXPECT(count == LENGTHS[i]);
		in = integers(count);
		MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		EXPECT_FILLED(in, count, previous_rank() + i);
		MPI_Wait(&send, MPI_STATUS_IGNORE);
		free(in);
	}
	free(out);
}

static void matched_probe(void)
{
	int *out = integers(LONGEST), *in = integers(LONGEST);

	for (int i = 0; i < LENGTH_COUNT; i++) {
		MPI_Request send, receive;
		MPI_Message message;
		MPI_Status status;
		int there = 0;

		fill(out, LENGTHS[i], rank + i);
		MPI_Isend(out, LENGTHS[i], MPI_INT, next_rank(), TAG, MPI_COMM_WORLD, &send);
		if (i % 2) {
			MPI_Mprobe(previous_rank(), TAG, MPI_COMM_WORLD, &message, &status);
			MPI_Mrecv(in, LENGTHS[i], MPI_INT, &message, &status);
		} else {
			while (!there)
				MPI_Improbe(previous_rank(), MPI_ANY_TAG, MPI_COMM_WORLD, &there, &message, &status);
			MPI_Imrecv(in, LENGTHS[i], MPI_INT, &message, &receive);
			MPI_Wait(&receive, &status);
		}
		expect_status(&status, previous_rank(), TAG, LENGTHS[i]);
		EXPECT(message == MPI_MESSAGE_NULL);
		EXPECT_FILLED(in, LENGTHS[i], previous_rank() + i);
		MPI_Wait(&send, MPI_STATUS_IGNORE);
	}
	free(out);
	free(in);
}

static void no_partner(void)
{
	int data = 5;
	MPI_Status status;

	MPI_Send(&data, 1, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD);
	MPI_Recv(&data, 1, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &status);
	expect_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
	EXPECT(data == 5);
}

static void to_itself(void)
{
	int *out = integers(LONGEST), *in = integers(LONGEST);
	MPI_Request send;

	fill(out, LONGEST, rank);
	MPI_Isend(out, LONGEST, MPI_INT, rank, TAG, MPI_COMM_WORLD, &send);
	MPI_Recv(in, LONGEST, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	EXPECT_FILLED(in, LONGEST, rank);
	free(out);
	free(in);
}

/* A receive that is too small reports an error and changes nothing behind its buffer. */
static void truncation(void)
{
	int out[100], in[100], error, class = MPI_SUCCESS;

	fill(out, 100, rank);
	fill(in, 100, 1);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	error = MPI_Sendrecv(out, 100, MPI_INT, next_rank(), TAG, in, 10, MPI_INT, previous_rank(), TAG, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Error_class(error, &class);
	EXPECT(class == MPI_ERR_TRUNCATE);
	for (int i = 10; i < 100; i++) {
		int wanted[100];

		fill(wanted, 100, 1);
		EXPECT(in[i] == wanted[i]);
	}
}

const struct check POINT_TO_POINT[] = {
	{"standard send", standard},
	{"synchronous send", synchronous},
	{"ready send", ready},
	{"buffered send", buffered},
	{"standard send, nonblocking", standard_nonblocking},
	{"synchronous send, nonblocking", synchronous_nonblocking},
	{"ready send, nonblocking", ready_nonblocking},
	{"buffered send, nonblocking", buffered_nonblocking},
	{"unexpected messages", unexpected},
	{"sendrecv and sendrecv_replace", sendrecv},
	{"any source and any tag", any_source_and_tag},
	{"order of messages", order},
	{"tags choose", tags_choose},
	{"probe and iprobe", probe},
	{"mprobe and improbe", matched_probe},
	{"no partner", no_partner},
	{"a rank to itself", to_itself},
	{"truncation", truncation},
	{0},
};
