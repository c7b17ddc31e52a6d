/* Messages between two ranks. */
#include "layer.h"

static struct call send_call(const char *name, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    struct call call = call_of(name, comm);
    call.to = world_rank(call.comm, to);
    call.tag = tag;
    call.bytes = bytes_of(count, type);
    return call;
}

/* A receive of any tag has tag -1 in a record, in each MPI. */
static struct call receive_call(const char *name, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm) {
    struct call call = call_of(name, comm);
    call.from = world_rank(call.comm, from);
    call.receive_tag = tag == MPI_ANY_TAG ? -1 : tag;
    call.receive_bytes = bytes_of(count, type);
    return call;
}

#define BLOCKING_SEND(NAME)                                                                                          \
    int MPI_##NAME(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {                 \
        struct call call = send_call("MPI_" #NAME, count, type, to, tag, comm);                                      \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME(data, count, type, to, tag, comm);                                                  \
        end();                                                                                                       \
        return result;                                                                                               \
    }

#define NONBLOCKING_SEND(NAME, PERSISTENT)                                                                           \
    int MPI_##NAME(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) { \
        struct call call = send_call("MPI_" #NAME, count, type, to, tag, comm);                                      \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME(data, count, type, to, tag, comm, request);                                         \
        put_request(*request, &call, 0, PERSISTENT);                                                                 \
        end();                                                                                                       \
        return result;                                                                                               \
    }

BLOCKING_SEND(Send)
BLOCKING_SEND(Ssend)
BLOCKING_SEND(Bsend)
BLOCKING_SEND(Rsend)
NONBLOCKING_SEND(Isend, 0)
NONBLOCKING_SEND(Issend, 0)
NONBLOCKING_SEND(Ibsend, 0)
NONBLOCKING_SEND(Irsend, 0)
NONBLOCKING_SEND(Send_init, 1)
NONBLOCKING_SEND(Ssend_init, 1)
NONBLOCKING_SEND(Bsend_init, 1)
NONBLOCKING_SEND(Rsend_init, 1)

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    struct call call = receive_call("MPI_Recv", count, type, from, tag, comm);
    begin(&call);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Recv(data, count, type, from, tag, comm, status);
    put_got(call.comm, status);
    end();
    return result;
}

#define NONBLOCKING_RECEIVE(NAME, PERSISTENT)                                                                        \
    int MPI_##NAME(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) { \
        struct call call = receive_call("MPI_" #NAME, count, type, from, tag, comm);                                 \
        begin(&call);                                                                                                \
        int result = PMPI_##NAME(data, count, type, from, tag, comm, request);                                       \
        put_request(*request, &call, 1, PERSISTENT);                                                                 \
        end();                                                                                                       \
        return result;                                                                                               \
    }

NONBLOCKING_RECEIVE(Irecv, 0)
NONBLOCKING_RECEIVE(Recv_init, 1)

static struct call exchange_call(const char *name, struct call send, const struct call receive) {
    send.name = name;
    send.from = receive.from;
    send.receive_tag = receive.receive_tag;
    send.receive_bytes = receive.receive_bytes;
    return send;
}

int MPI_Sendrecv(const void *data, int count, MPI_Datatype type, int to, int tag, void *room, int room_count, MPI_Datatype room_type, int from,
                 int room_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    struct call call = exchange_call("MPI_Sendrecv", send_call("", count, type, to, tag, comm), receive_call("", room_count, room_type, from, room_tag, comm));
    begin(&call);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Sendrecv(data, count, type, to, tag, room, room_count, room_type, from, room_tag, comm, status);
    put_got(call.comm, status);
    end();
    return result;
}

int MPI_Sendrecv_replace(void *data, int count, MPI_Datatype type, int to, int tag, int from, int room_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    struct call call = exchange_call("MPI_Sendrecv_replace", send_call("", count, type, to, tag, comm), receive_call("", count, type, from, room_tag, comm));
    begin(&call);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Sendrecv_replace(data, count, type, to, tag, from, room_tag, comm, status);
    put_got(call.comm, status);
    end();
    return result;
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    struct call call = receive_call("MPI_Probe", 0, MPI_BYTE, from, tag, comm);
    begin(&call);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Probe(from, tag, comm, status);
    put_got(call.comm, status);
    end();
    return result;
}

/* A successful look for a message has no effect of its own: the receive follows. */
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    begin_poll("MPI_Iprobe");
    int result = PMPI_Iprobe(from, tag, comm, flag, status);
    end_poll(0);
    return result;
}

int MPI_Start(MPI_Request *request) {
    struct request *known = find_request(*request);
    struct call call = known ? known->start : call_of("MPI_Start", MPI_COMM_NULL);
    call.name = "MPI_Start";
    begin(&call);
    int result = PMPI_Start(request);
    put_started(*request);
    end();
    return result;
}

/* A record has a line for each request that starts. */
int MPI_Startall(int count, MPI_Request requests[]) {
    int result = MPI_SUCCESS;
    for (int i = 0; i < count && result == MPI_SUCCESS; i++) {
        result = MPI_Start(&requests[i]);
    }
    return result;
}

int MPI_Request_free(MPI_Request *request) {
    struct call call = call_of("MPI_Request_free", MPI_COMM_NULL);
    begin(&call);
    forget_request(*request);
    int result = PMPI_Request_free(request);
    end();
    return result;
}
