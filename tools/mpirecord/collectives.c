/* Blocking collectives. Bytes are those of one block: what a rank sends to one other. */
#include "layer.h"

static struct call collective(const char *name, long long bytes, int root, MPI_Comm comm) {
    struct call call = call_of(name, comm);
    call.bytes = bytes;
    call.root = root < 0 ? NO_FIELD : world_rank(call.comm, root);
    return call;
}

enum { NO_ROOT = -100 };

int MPI_Barrier(MPI_Comm comm) {
    struct call call = collective("MPI_Barrier", 0, NO_ROOT, comm);
    begin(&call);
    int result = PMPI_Barrier(comm);
    end();
    return result;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    struct call call = collective("MPI_Bcast", bytes_of(count, type), root, comm);
    begin(&call);
    int result = PMPI_Bcast(data, count, type, root, comm);
    end();
    return result;
}

int MPI_Reduce(const void *data, void *room, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    struct call call = collective("MPI_Reduce", bytes_of(count, type), root, comm);
    begin(&call);
    int result = PMPI_Reduce(data, room, count, type, op, root, comm);
    end();
    return result;
}

#define REDUCE_ALL(NAME)                                                                                             \
    int MPI_##NAME(const void *data, void *room, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {           \
        struct call call = collective("MPI_" #NAME, bytes_of(count, type), NO_ROOT, comm);                           \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME(data, room, count, type, op, comm);                                                 \
        end();                                                                                                       \
        return result;                                                                                               \
    }

REDUCE_ALL(Allreduce)
REDUCE_ALL(Scan)
REDUCE_ALL(Exscan)
REDUCE_ALL(Reduce_scatter_block)

int MPI_Reduce_scatter(const void *data, void *room, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    struct call call = collective("MPI_Reduce_scatter", NO_FIELD, NO_ROOT, comm);
    begin(&call);
    put_sizes("sizes", counts, NULL, type, comm_size(call.comm));
    int result = PMPI_Reduce_scatter(data, room, counts, type, op, comm);
    end();
    return result;
}

/* Bytes of a block. At the root of a gather, and wherever MPI_IN_PLACE stands, the room tells them. */
static long long block(const void *data, int count, MPI_Datatype type, int room_count, MPI_Datatype room_type) {
    return data == MPI_IN_PLACE ? bytes_of(room_count, room_type) : bytes_of(count, type);
}

int MPI_Gather(const void *data, int count, MPI_Datatype type, void *room, int room_count, MPI_Datatype room_type, int root, MPI_Comm comm) {
    struct call call = collective("MPI_Gather", block(data, count, type, room_count, room_type), root, comm);
    begin(&call);
    int result = PMPI_Gather(data, count, type, room, room_count, room_type, root, comm);
    end();
    return result;
}

int MPI_Scatter(const void *data, int count, MPI_Datatype type, void *room, int room_count, MPI_Datatype room_type, int root, MPI_Comm comm) {
    struct call call = collective("MPI_Scatter", block(room, room_count, room_type, count, type), root, comm);
    begin(&call);
    int result = PMPI_Scatter(data, count, type, room, room_count, room_type, root, comm);
    end();
    return result;
}

#define ALL_TO(NAME)                                                                                                 \
    int MPI_##NAME(const void *data, int count, MPI_Datatype type, void *room, int room_count, MPI_Datatype room_type, MPI_Comm comm) { \
        struct call call = collective("MPI_" #NAME, block(data, count, type, room_count, room_type), NO_ROOT, comm); \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME(data, count, type, room, room_count, room_type, comm);                              \
        end();                                                                                                       \
        return result;                                                                                               \
    }

ALL_TO(Allgather)
ALL_TO(Alltoall)

static int is_root(int root, MPI_Comm comm) {
    int self = -1;
    PMPI_Comm_rank(comm, &self);
    return self == root;
}

int MPI_Gatherv(const void *data, int count, MPI_Datatype type, void *room, const int counts[], const int places[], MPI_Datatype room_type, int root,
                MPI_Comm comm) {
    int at_root = is_root(root, comm);
    struct call call = collective("MPI_Gatherv", at_root ? NO_FIELD : bytes_of(count, type), root, comm);
    begin(&call);
    put_sizes("rsizes", at_root ? counts : NULL, NULL, room_type, comm_size(call.comm));
    int result = PMPI_Gatherv(data, count, type, room, counts, places, room_type, root, comm);
    end();
    return result;
}

int MPI_Scatterv(const void *data, const int counts[], const int places[], MPI_Datatype type, void *room, int room_count, MPI_Datatype room_type, int root,
                 MPI_Comm comm) {
    int at_root = is_root(root, comm);
    struct call call = collective("MPI_Scatterv", at_root ? NO_FIELD : bytes_of(room_count, room_type), root, comm);
    begin(&call);
    put_sizes("sizes", at_root ? counts : NULL, NULL, type, comm_size(call.comm));
    int result = PMPI_Scatterv(data, counts, places, type, room, room_count, room_type, root, comm);
    end();
    return result;
}

int MPI_Allgatherv(const void *data, int count, MPI_Datatype type, void *room, const int counts[], const int places[], MPI_Datatype room_type,
                   MPI_Comm comm) {
    struct call call = collective("MPI_Allgatherv", NO_FIELD, NO_ROOT, comm);
    begin(&call);
    put_sizes("rsizes", counts, NULL, room_type, comm_size(call.comm));
    int result = PMPI_Allgatherv(data, count, type, room, counts, places, room_type, comm);
    end();
    return result;
}

int MPI_Alltoallv(const void *data, const int counts[], const int places[], MPI_Datatype type, void *room, const int room_counts[],
                  const int room_places[], MPI_Datatype room_type, MPI_Comm comm) {
    struct call call = collective("MPI_Alltoallv", NO_FIELD, NO_ROOT, comm);
    int length = comm_size(call.comm);
    begin(&call);
    put_sizes("sizes", data == MPI_IN_PLACE ? room_counts : counts, NULL, data == MPI_IN_PLACE ? room_type : type, length);
    put_sizes("rsizes", room_counts, NULL, room_type, length);
    int result = PMPI_Alltoallv(data, counts, places, type, room, room_counts, room_places, room_type, comm);
    end();
    return result;
}

int MPI_Alltoallw(const void *data, const int counts[], const int places[], const MPI_Datatype types[], void *room, const int room_counts[],
                  const int room_places[], const MPI_Datatype room_types[], MPI_Comm comm) {
    struct call call = collective("MPI_Alltoallw", NO_FIELD, NO_ROOT, comm);
    int length = comm_size(call.comm);
    begin(&call);
    put_sizes("sizes", data == MPI_IN_PLACE ? room_counts : counts, data == MPI_IN_PLACE ? room_types : types, MPI_BYTE, length);
    put_sizes("rsizes", room_counts, room_types, MPI_BYTE, length);
    int result = PMPI_Alltoallw(data, counts, places, types, room, room_counts, room_places, room_types, comm);
    end();
    return result;
}
