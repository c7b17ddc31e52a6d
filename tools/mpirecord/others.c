/* Calls that a record names and times, and that no trace can express. */
#include "layer.h"

#define OTHER(NAME, COMM, PARAMETERS, ARGUMENTS)                                                                     \
    int MPI_##NAME PARAMETERS {                                                                                      \
        struct call call = call_of("MPI_" #NAME, COMM);                                                              \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME ARGUMENTS;                                                                          \
        end();                                                                                                       \
        return result;                                                                                               \
    }

#define DATA const void *data, int count, MPI_Datatype type
#define ROOM void *room, int room_count, MPI_Datatype room_type

OTHER(Cancel, MPI_COMM_NULL, (MPI_Request *request), (request))
OTHER(Mprobe, comm, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status), (from, tag, comm, message, status))
OTHER(Mrecv, MPI_COMM_NULL, (ROOM, MPI_Message *message, MPI_Status *status), (room, room_count, room_type, message, status))
OTHER(Imrecv, MPI_COMM_NULL, (ROOM, MPI_Message *message, MPI_Request *request), (room, room_count, room_type, message, request))
OTHER(Intercomm_create, comm, (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *made), (comm, leader, peer, remote, tag, made))
OTHER(Intercomm_merge, comm, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))
OTHER(Comm_idup, comm, (MPI_Comm comm, MPI_Comm *made, MPI_Request *request), (comm, made, request))

OTHER(Ibarrier, comm, (MPI_Comm comm, MPI_Request *request), (comm, request))
OTHER(Ibcast, comm, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request), (data, count, type, root, comm, request))
OTHER(Ireduce, comm, (const void *data, void *room, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm, MPI_Request *request),
      (data, room, count, type, op, root, comm, request))
OTHER(Iallreduce, comm, (const void *data, void *room, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),
      (data, room, count, type, op, comm, request))
OTHER(Igather, comm, (DATA, ROOM, int root, MPI_Comm comm, MPI_Request *request), (data, count, type, room, room_count, room_type, root, comm, request))
OTHER(Iscatter, comm, (DATA, ROOM, int root, MPI_Comm comm, MPI_Request *request), (data, count, type, room, room_count, room_type, root, comm, request))
OTHER(Iallgather, comm, (DATA, ROOM, MPI_Comm comm, MPI_Request *request), (data, count, type, room, room_count, room_type, comm, request))
OTHER(Ialltoall, comm, (DATA, ROOM, MPI_Comm comm, MPI_Request *request), (data, count, type, room, room_count, room_type, comm, request))
OTHER(Ialltoallv, comm,
      (const void *data, const int counts[], const int places[], MPI_Datatype type, void *room, const int room_counts[], const int room_places[],
       MPI_Datatype room_type, MPI_Comm comm, MPI_Request *request),
      (data, counts, places, type, room, room_counts, room_places, room_type, comm, request))

OTHER(Win_create, comm, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *window), (base, size, unit, info, comm, window))
OTHER(Win_allocate, comm, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window), (size, unit, info, comm, base, window))
OTHER(Win_allocate_shared, comm, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),
      (size, unit, info, comm, base, window))
OTHER(Win_free, MPI_COMM_NULL, (MPI_Win *window), (window))
OTHER(Win_fence, MPI_COMM_NULL, (int assert, MPI_Win window), (assert, window))
OTHER(Win_lock, MPI_COMM_NULL, (int kind, int rank, int assert, MPI_Win window), (kind, rank, assert, window))
OTHER(Win_unlock, MPI_COMM_NULL, (int rank, MPI_Win window), (rank, window))
OTHER(Win_lock_all, MPI_COMM_NULL, (int assert, MPI_Win window), (assert, window))
OTHER(Win_unlock_all, MPI_COMM_NULL, (MPI_Win window), (window))
OTHER(Win_flush, MPI_COMM_NULL, (int rank, MPI_Win window), (rank, window))
OTHER(Win_flush_all, MPI_COMM_NULL, (MPI_Win window), (window))
OTHER(Win_post, MPI_COMM_NULL, (MPI_Group group, int assert, MPI_Win window), (group, assert, window))
OTHER(Win_start, MPI_COMM_NULL, (MPI_Group group, int assert, MPI_Win window), (group, assert, window))
OTHER(Win_complete, MPI_COMM_NULL, (MPI_Win window), (window))
OTHER(Win_wait, MPI_COMM_NULL, (MPI_Win window), (window))
OTHER(Put, MPI_COMM_NULL, (DATA, int to, MPI_Aint place, int there_count, MPI_Datatype there, MPI_Win window),
      (data, count, type, to, place, there_count, there, window))
OTHER(Get, MPI_COMM_NULL, (ROOM, int from, MPI_Aint place, int there_count, MPI_Datatype there, MPI_Win window),
      (room, room_count, room_type, from, place, there_count, there, window))
OTHER(Accumulate, MPI_COMM_NULL, (DATA, int to, MPI_Aint place, int there_count, MPI_Datatype there, MPI_Op op, MPI_Win window),
      (data, count, type, to, place, there_count, there, op, window))
