/* Begin and end of MPI, and communicators. */
#include "layer.h"

int MPI_Init(int *argc, char ***argv) {
    find_mpi();
    int result = PMPI_Init(argc, argv);
    if (result == MPI_SUCCESS) {
        start_layer("MPI_Init");
    }
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    find_mpi();
    int result = PMPI_Init_thread(argc, argv, required, provided);
    if (result == MPI_SUCCESS) {
        start_layer("MPI_Init");
    }
    return result;
}

int MPI_Finalize(void) {
    struct call call = call_of("MPI_Finalize", MPI_COMM_NULL);
    begin(&call);
    end();
    finish_layer();
    return PMPI_Finalize();
}

/* A program that times itself must see its computation. */
double MPI_Wtime(void) {
    struct call call = call_of("MPI_Wtime", MPI_COMM_NULL);
    begin(&call);
    double now = PMPI_Wtime();
    end();
    return now;
}

/* A function that makes a communicator from another one. Its line says only that the ranks meet. */
#define NEW_COMM(NAME, PARAMETERS, ARGUMENTS)                                                                        \
    int MPI_##NAME PARAMETERS {                                                                                      \
        struct call call = call_of("MPI_" #NAME, comm);                                                              \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME ARGUMENTS;                                                                          \
        end();                                                                                                       \
        if (result == MPI_SUCCESS) {                                                                                 \
            put_new_comm(*made);                                                                                     \
        }                                                                                                            \
        return result;                                                                                               \
    }

NEW_COMM(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
NEW_COMM(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
NEW_COMM(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
NEW_COMM(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made))
NEW_COMM(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
NEW_COMM(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made))
NEW_COMM(Cart_create, (MPI_Comm comm, int axes, const int lengths[], const int periods[], int reorder, MPI_Comm *made),
         (comm, axes, lengths, periods, reorder, made))
NEW_COMM(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made))
NEW_COMM(Graph_create, (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *made),
         (comm, nodes, index, edges, reorder, made))
NEW_COMM(Dist_graph_create_adjacent,
         (MPI_Comm comm, int in, const int sources[], const int in_weights[], int out, const int targets[], const int out_weights[], MPI_Info info,
          int reorder, MPI_Comm *made),
         (comm, in, sources, in_weights, out, targets, out_weights, info, reorder, made))

int MPI_Comm_free(MPI_Comm *comm) {
    struct call call = call_of("MPI_Comm_free", *comm);
    begin(&call);
    forget_comm(*comm);
    int result = PMPI_Comm_free(comm);
    end();
    return result;
}
