/* The stretches of computation and the lines of a rank's record. */
#define _GNU_SOURCE
#include "layer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, BUFFER = 1 << 20, LINE_MAX_BYTES = 1 << 12, CLOCK_READS = 1000 };

/* Shorter stretches between two unsuccessful looks belong to the loop that looks. */
enum { LOOP_NANOS = 1000 };

static enum { OFF, RECORD, REPLAY } mode = OFF;
static int record_file = -1;
static char buffer[BUFFER];
static size_t filled;
static pid_t owner;
static pthread_t owner_thread;
static int rank, ranks;

/* The stretch since the last call, and what a read of the clock adds to it. */
static long long left_at, clock_cost;
/* Computation before looks that found nothing. The next line has it. */
static long long carried;
static long long poll_stretch;
/* Whether the last call was a look that found nothing. */
static int looked_in_vain;
/* Whether the program has looked since the last line. */
static int has_looked;
static const char *poll_name;
static int is_open, is_first_done;

/* Softband's library exports the machine's own clock; in simulated time clock_gettime is not it. */
uint64_t softband_thread_cpu_ns(void) __attribute__((weak));

static long long cpu_nanos(void) {
    if (softband_thread_cpu_ns) {
        return (long long)softband_thread_cpu_ns();
    }
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

_Noreturn void refuse(const char *what, const char *help) {
    fprintf(stderr, "softband: rank %d: %s\n  help: %s\n", rank, what, help);
    fflush(stderr);
    /* The launcher ends the other ranks. MPI_Abort may wait for them. */
    _exit(2);
}

static void flush_record(void) {
    for (size_t done = 0; done < filled;) {
        ssize_t wrote = write(record_file, buffer + done, filled - done);
        if (wrote < 0 && errno != EINTR) {
            refuse("cannot write the record of this rank", "is the disk full?");
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    filled = 0;
}

void put(const char *format, ...) {
    if (mode != RECORD) {
        return;
    }
    if (filled + LINE_MAX_BYTES > BUFFER) {
        flush_record();
    }
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer + filled, BUFFER - filled, format, arguments);
    va_end(arguments);
    filled += length > 0 && length < LINE_MAX_BYTES ? (size_t)length : 0;
}

int is_active(void) {
    return mode != OFF;
}

long long bytes_of(long long count, MPI_Datatype type) {
    int size = 0;
    if (mode == OFF || count <= 0 || PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0) {
        return 0;
    }
    return count * size;
}

void put_sizes(const char *field, const int counts[], const MPI_Datatype types[], MPI_Datatype type, int length) {
    put(",\"%s\":[", field);
    for (int i = 0; i < length && counts; i++) {
        put("%s%lld", i ? "," : "", bytes_of(counts[i], types ? types[i] : type));
    }
    put("]");
}

struct call call_of(const char *name, MPI_Comm comm) {
    struct call call = {name, NO_FIELD, NO_FIELD, NO_FIELD, NO_FIELD, NO_FIELD, NO_FIELD, NO_FIELD, NO_FIELD};
    if (mode != OFF && comm != MPI_COMM_NULL) {
        call.comm = comm_number(comm);
    }
    return call;
}

static void put_field(const char *field, long long value) {
    if (value != NO_FIELD) {
        put(",\"%s\":%lld", field, value);
    }
}

static void check_thread(const char *name) {
    if (!pthread_equal(owner_thread, pthread_self())) {
        char what[160];
        snprintf(what, sizeof what, "a second thread calls %s, and a record follows one thread of each rank", name);
        refuse(what, "call MPI from the thread that called MPI_Init");
    }
}

/* Ends the stretch before a call. */
static long long stretch(void) {
    long long nanos = cpu_nanos() - left_at - clock_cost;
    return nanos > 0 ? nanos : 0;
}

void begin(const struct call *call) {
    if (mode == OFF) {
        return;
    }
    long long nanos = mode == RECORD ? stretch() + carried : 0;
    check_thread(call->name);
    carried = looked_in_vain = 0;
    is_open = 1;
    if (mode == REPLAY) {
        replay_call(call);
        return;
    }
    put("{\"c\":\"%s\",\"t\":%lld", call->name, nanos);
    if (has_looked) {
        put(",\"looked\":1");
        has_looked = 0;
    }
    put_field("comm", call->comm);
    put_field("to", call->to);
    put_field("tag", call->tag);
    put_field("b", call->bytes);
    put_field("from", call->from);
    put_field("rtag", call->receive_tag);
    put_field("rb", call->receive_bytes);
    put_field("root", call->root);
}

void end(void) {
    if (mode == REPLAY) {
        announce_computation();
    }
    if (mode != RECORD || !is_open) {
        return;
    }
    is_open = 0;
    put("}\n");
    left_at = cpu_nanos();
}

/* Begins a call that looks whether something is done. Only a successful look gets a line. */
void begin_poll(const char *name) {
    if (mode != RECORD) {
        return;
    }
    check_thread(name);
    long long nanos = stretch();
    poll_stretch = looked_in_vain && nanos < LOOP_NANOS ? 0 : nanos;
    poll_name = name;
}

void end_poll(int done) {
    if (mode != RECORD) {
        return;
    }
    if (done) {
        put("}\n");
        carried = 0;
    } else {
        carried += poll_stretch;
    }
    looked_in_vain = !done;
    has_looked |= !done;
    poll_name = NULL;
    left_at = cpu_nanos();
}

/* Writes the beginning of the line of a successful look. */
void put_done_begin(void) {
    if (poll_name) {
        put("{\"c\":\"%s\",\"poll\":1,\"t\":%lld", poll_name, poll_stretch + carried);
        poll_name = NULL;
    }
    put(",\"done\":[");
    is_first_done = 1;
}

void put_separator(void) {
    if (!is_first_done) {
        put(",");
    }
    is_first_done = 0;
}

/* Takes the layer's own work since the end of a call out of the next stretch. */
void resume(void) {
    if (mode == RECORD) {
        left_at = cpu_nanos();
    }
}

void put_done_end(void) {
    put("]");
}

/* Refuses to work between a program and another MPI than this layer was compiled for. */
static void check_library(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    PMPI_Get_library_version(text, &length);
#if defined(OPEN_MPI)
    const char *own = "Open MPI";
#else
    const char *own = "MPICH";
#endif
    int other = !strstr(text, own) && (strstr(text, "MPICH") || strstr(text, "Open MPI"));
    text[strcspn(text, "\n,:\t")] = 0;
    if (other) {
        fprintf(stderr, "softband: this program uses another MPI (%.40s) than the layer was compiled for (%s)\n  help: name the mpicc of the program's MPI with --mpicc\n",
                text, own);
        _exit(2);
    }
}

static void put_header(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    PMPI_Get_library_version(text, &length);
    text[strcspn(text, "\n,")] = 0;
    for (char *letter = text; *letter; letter++) {
        *letter = *letter == '"' || *letter == '\\' || (unsigned char)*letter < ' ' ? ' ' : *letter;
    }
    put("{\"format\":\"softband-mpi-rank\",\"version\":%d,\"rank\":%d,\"ranks\":%d,\"library\":\"%.200s\"}\n", VERSION, rank, ranks, text);
}

/* Writes the first call. Its end on a clock that all ranks share tells which rank begins when. */
static void put_start(const char *name) {
    put("{\"c\":\"%s\",\"t\":0", name);
    if (getenv("SOFTBAND_MPI_STARTS")) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        put(",\"at\":%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    }
    put("}\n");
}

static void open_record(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/rank-%d.jsonl", folder, rank);
    record_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (record_file < 0) {
        char what[4200];
        snprintf(what, sizeof what, "cannot write %s: %s", path, strerror(errno));
        refuse(what, "the folder must exist on every host of the program");
    }
}

static void calibrate(void) {
    clock_cost = 1LL << 40;
    for (int i = 0; i < CLOCK_READS; i++) {
        long long before = cpu_nanos(), cost = cpu_nanos() - before;
        clock_cost = cost < clock_cost ? cost : clock_cost;
    }
}

void start_layer(const char *name) {
    const char *folder = getenv("SOFTBAND_MPI_RECORD"), *times = getenv("SOFTBAND_MPI_REPLAY");
    check_library();
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    owner = getpid();
    owner_thread = pthread_self();
    if (folder) {
        mode = RECORD;
        open_record(folder);
        calibrate();
        put_header();
        comm_number(MPI_COMM_WORLD);
        put_start(name);
    } else if (times && open_replay(times, rank, ranks)) {
        mode = REPLAY;
        comm_number(MPI_COMM_WORLD);
        struct call call = call_of(name, MPI_COMM_NULL);
        replay_call(&call);
        announce_computation();
    }
    left_at = cpu_nanos();
}

void finish_layer(void) {
    if (mode == RECORD) {
        put("{\"end\":1}\n");
        flush_record();
        close(record_file);
    }
    mode = OFF;
}

/* Reports a program whose calls bypassed this layer. */
__attribute__((destructor)) static void report_bypass(void) {
    if (owner == 0 && (getenv("SOFTBAND_MPI_RECORD") || getenv("SOFTBAND_MPI_REPLAY"))) {
        if (is_initialized()) {
            fprintf(stderr, "softband: MPI calls of this program bypass the profiling interface, as Fortran calls of Open MPI do; nothing was recorded\n"
                            "  help: build the program with MPICH\n");
        }
    }
}
