/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Rank 0 sends 2,048 numbers in a row, and rank 1 receives them into a vector with gaps. Rank 1
 * prints "all numbers came", or the error and how many are missing. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 2048 };

int main(int argc, char **argv)
{
	static double out[COUNT], in[2 * COUNT];
	char text[MPI_MAX_ERROR_STRING] = "";
	int rank, length, missing = 0, status;
	MPI_Datatype vector;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Type_vector(COUNT, 1, 2, MPI_DOUBLE, &vector);
	MPI_Type_commit(&vector);
	for (int i = 0; i < COUNT; i++)
		out[i] = i + 1;
	if (rank == 0)
		MPI_Send(out, COUNT, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
	if (rank == 1) {
		status = MPI_Recv(in, 1, vector, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < COUNT; i++)
			missing += in[2 * i] != out[i];
		if (status != MPI_SUCCESS)
			MPI_Error_string(status, text, &length);
		if (missing)
			printf("%d numbers are missing: %s\n", missing, text);
		else
			printf("all numbers came\n");
	}
	MPI_Type_free(&vector);
	MPI_Finalize();
	return 0;
}
