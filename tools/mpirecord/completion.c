/* Ends of requests: the Wait and Test calls. */
#include "layer.h"

#include <stdlib.h>
#include <string.h>

/* Copies of the handles of a call, because MPI clears those of requests that end, and statuses for
 * callers that want none. */
struct batch {
    MPI_Request *handles;
    MPI_Status *statuses;
    MPI_Status *own;
};

static struct batch batch_of(int count, const MPI_Request requests[], MPI_Status statuses[]) {
    struct batch batch = {malloc(sizeof(MPI_Request) * (size_t)(count + 1)), statuses, NULL};
    if (statuses == MPI_STATUSES_IGNORE) {
        batch.statuses = batch.own = malloc(sizeof(MPI_Status) * (size_t)(count + 1));
    }
    if (!batch.handles || !batch.statuses) {
        refuse("no memory for the requests of a call", "use a machine with more memory");
    }
    if (count > 0) {
        memcpy(batch.handles, requests, sizeof(MPI_Request) * (size_t)count);
    }
    return batch;
}

static void drop(struct batch *batch) {
    free(batch->handles);
    free(batch->own);
}

static void put_all(const struct batch *batch, int count) {
    put_done_begin();
    for (int i = 0; i < count; i++) {
        put_done(batch->handles[i], &batch->statuses[i]);
    }
    put_done_end();
}

static void put_some(const struct batch *batch, int count, const int indices[]) {
    put_done_begin();
    for (int i = 0; i < count; i++) {
        put_done(batch->handles[indices[i]], &batch->statuses[i]);
    }
    put_done_end();
}

static void put_one(MPI_Request handle, MPI_Status *status) {
    put_done_begin();
    put_done(handle, status);
    put_done_end();
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Status own;
    MPI_Request handle = *request;
    struct call call = call_of("MPI_Wait", MPI_COMM_NULL);
    begin(&call);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Wait(request, status);
    put_one(handle, status);
    end();
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    struct call call = call_of("MPI_Waitall", MPI_COMM_NULL);
    begin(&call);
    struct batch batch = batch_of(count, requests, statuses);
    int result = PMPI_Waitall(count, requests, batch.statuses);
    put_all(&batch, count);
    drop(&batch);
    end();
    return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    MPI_Status own;
    struct call call = call_of("MPI_Waitany", MPI_COMM_NULL);
    begin(&call);
    struct batch batch = batch_of(count, requests, MPI_STATUSES_IGNORE);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Waitany(count, requests, index, status);
    if (*index != MPI_UNDEFINED) {
        put_one(batch.handles[*index], status);
    }
    drop(&batch);
    end();
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]) {
    struct call call = call_of("MPI_Waitsome", MPI_COMM_NULL);
    begin(&call);
    struct batch batch = batch_of(count, requests, statuses);
    int result = PMPI_Waitsome(count, requests, done, indices, batch.statuses);
    put_some(&batch, *done == MPI_UNDEFINED ? 0 : *done, indices);
    drop(&batch);
    end();
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Status own;
    MPI_Request handle = *request;
    begin_poll("MPI_Test");
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Test(request, flag, status);
    if (*flag) {
        put_one(handle, status);
    }
    end_poll(*flag);
    return result;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    begin_poll("MPI_Testall");
    struct batch batch = batch_of(count, requests, statuses);
    int result = PMPI_Testall(count, requests, flag, batch.statuses);
    if (*flag) {
        put_all(&batch, count);
    }
    drop(&batch);
    end_poll(*flag);
    return result;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    MPI_Status own;
    begin_poll("MPI_Testany");
    struct batch batch = batch_of(count, requests, MPI_STATUSES_IGNORE);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Testany(count, requests, index, flag, status);
    int done = *flag && *index != MPI_UNDEFINED;
    if (done) {
        put_one(batch.handles[*index], status);
    }
    drop(&batch);
    end_poll(done);
    return result;
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]) {
    begin_poll("MPI_Testsome");
    struct batch batch = batch_of(count, requests, statuses);
    int result = PMPI_Testsome(count, requests, done, indices, batch.statuses);
    int any = *done != MPI_UNDEFINED && *done > 0;
    if (any) {
        put_some(&batch, *done, indices);
    }
    drop(&batch);
    end_poll(any);
    return result;
}
