/* Softband's layer between a program and its MPI. It sees each MPI call by the profiling interface
 * (MPI 4.0, chapter 15), and keeps a line for each call, or replays the computation of a record.
 * docs/mpi-recording.md describes the format. */
#ifndef SOFTBAND_MPI_LAYER_H
#define SOFTBAND_MPI_LAYER_H

#include <mpi.h>
#include <stddef.h>

/* The layer is not linked with the MPI, because other programs of a run load the layer too. The
 * constants of Open MPI are addresses in its library, which find_mpi looks up. */
#if defined(OPEN_MPI)
extern void *known_comm_world, *known_comm_null, *known_request_null, *known_byte;
#undef MPI_COMM_WORLD
#undef MPI_COMM_NULL
#undef MPI_REQUEST_NULL
#undef MPI_BYTE
#define MPI_COMM_WORLD ((MPI_Comm)known_comm_world)
#define MPI_COMM_NULL ((MPI_Comm)known_comm_null)
#define MPI_REQUEST_NULL ((MPI_Request)known_request_null)
#define MPI_BYTE ((MPI_Datatype)known_byte)
#endif

/* Peers that are no rank. */
enum { ANY_RANK = -1, NO_RANK = -2, NO_FIELD = -9 };

/* A call as its arguments describe it. A field that the call does not have is NO_FIELD. */
struct call {
    const char *name;
    int comm;
    int to, tag;
    long long bytes;
    int from, receive_tag;
    long long receive_bytes;
    int root;
};

struct request {
    MPI_Request handle;
    long long id;
    int comm;
    int receives;
    int persistent;
    struct call start;
    struct request *next;
};

/* trace.c */
struct call call_of(const char *name, MPI_Comm comm);
void begin(const struct call *call);
void begin_poll(const char *name);
void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
void put_sizes(const char *field, const int counts[], const MPI_Datatype types[], MPI_Datatype type, int length);
void end(void);
void resume(void);
int is_active(void);
void end_poll(int done);
long long bytes_of(long long count, MPI_Datatype type);
void start_layer(const char *name);
void finish_layer(void);
_Noreturn void refuse(const char *what, const char *help);

/* library.c */
void find_mpi(void);
int is_initialized(void);

/* communicators.c */
int comm_number(MPI_Comm comm);
int world_rank(int comm, int rank);
int comm_size(int comm);
void put_new_comm(MPI_Comm comm);
void forget_comm(MPI_Comm comm);

/* requests.c */
void put_request(MPI_Request handle, const struct call *call, int receives, int persistent);
void forget_request(MPI_Request handle);
struct request *find_request(MPI_Request handle);
void put_started(MPI_Request handle);
void put_done_begin(void);
void put_separator(void);
void put_done(MPI_Request handle, MPI_Status *status);
void put_done_end(void);
void put_got(int comm, const MPI_Status *status);

/* replay.c */
int open_replay(const char *folder, int rank, int ranks);
void replay_call(const struct call *call);
void announce_computation(void);
void signature_of(const struct call *call, char *text, size_t room);

#endif
