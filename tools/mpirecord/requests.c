/* Requests under way by handle. An MPI may give the same handle to several finished sends, so the
 * oldest entry of a handle is the one that ends. */
#include "layer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

static struct request *buckets[BUCKETS];
static long long numbers;

static struct request **bucket_of(MPI_Request handle) {
    uint64_t bits = 0;
    memcpy(&bits, &handle, sizeof handle);
    return &buckets[(bits * 0x9E3779B97F4A7C15ULL) >> 52];
}

struct request *find_request(MPI_Request handle) {
    struct request *request = *bucket_of(handle);
    while (request && request->handle != handle) {
        request = request->next;
    }
    return request;
}

/* Keeps a request that the present call starts or initializes. */
void put_request(MPI_Request handle, const struct call *call, int receives, int persistent) {
    if (handle == MPI_REQUEST_NULL || !is_active()) {
        return;
    }
    struct request *request = calloc(1, sizeof *request);
    if (!request) {
        refuse("no memory for another request", "use a machine with more memory");
    }
    *request = (struct request){handle, numbers++, call->comm, receives, persistent, *call, NULL};
    struct request **place = bucket_of(handle);
    while (*place) {
        place = &(*place)->next;
    }
    *place = request;
    put(",\"rq\":%lld", request->id);
}

void forget_request(MPI_Request handle) {
    for (struct request **place = bucket_of(handle); *place; place = &(*place)->next) {
        if ((*place)->handle == handle) {
            struct request *gone = *place;
            *place = gone->next;
            free(gone);
            return;
        }
    }
}

/* Gives a persistent request that starts a new number. */
void put_started(MPI_Request handle) {
    struct request *request = find_request(handle);
    if (request) {
        request->id = numbers++;
        put(",\"rq\":%lld", request->id);
    }
}

void put_got(int comm, const MPI_Status *status) {
    int bytes = 0;
    PMPI_Get_count(status, MPI_BYTE, &bytes);
    int source = status->MPI_SOURCE == MPI_PROC_NULL ? NO_RANK : world_rank(comm, status->MPI_SOURCE);
    put(",\"got\":[%d,%d,%d]", source, source == NO_RANK ? 0 : status->MPI_TAG, bytes < 0 ? 0 : bytes);
}

/* Writes the end of a request: its number, and of a receive source, tag and bytes. */
void put_done(MPI_Request handle, MPI_Status *status) {
    struct request *request = find_request(handle);
    if (!request) {
        return;
    }
    put_separator();
    if (!request->receives) {
        put("[%lld]", request->id);
    } else {
        int bytes = 0, cancelled = 0;
        PMPI_Test_cancelled(status, &cancelled);
        PMPI_Get_count(status, MPI_BYTE, &bytes);
        int source = cancelled || status->MPI_SOURCE == MPI_PROC_NULL ? NO_RANK : world_rank(request->comm, status->MPI_SOURCE);
        put("[%lld,%d,%d,%d]", request->id, source, source == NO_RANK ? 0 : status->MPI_TAG, bytes < 0 ? 0 : bytes);
    }
    if (!request->persistent) {
        forget_request(handle);
    }
}
