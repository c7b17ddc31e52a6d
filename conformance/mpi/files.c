/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * files PATH: each rank writes its part of a file and reads the next rank's part, without blocking.
 * It prints "all numbers came", or how many are wrong. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 50000 };

int main(int argc, char **argv)
{
	static int out[COUNT], in[COUNT];
	int rank, size, next, read, wrong = 0;
	MPI_Request request;
	MPI_Status status;
	MPI_File file;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	next = (rank + 1) % size;
	for (int i = 0; i < COUNT; i++)
		out[i] = rank * COUNT + i + 1;
	MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
	MPI_File_iwrite_at(file, (MPI_Offset)rank * sizeof out, out, COUNT, MPI_INT, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(file);
	MPI_File_iread_at(file, (MPI_Offset)next * sizeof in, in, COUNT, MPI_INT, &request);
	MPI_Wait(&request, &status);
	MPI_Get_count(&status, MPI_INT, &read);
	for (int i = 0; i < COUNT; i++)
		wrong += in[i] != next * COUNT + i + 1;
	if (read == COUNT && !wrong)
		printf("all numbers came\n");
	else
		printf("%d numbers came, %d are wrong\n", read, wrong);
	MPI_File_close(&file);
	MPI_Finalize();
	return read != COUNT || wrong;
}
