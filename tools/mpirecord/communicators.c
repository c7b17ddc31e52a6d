/* Communicators by number, and their members as ranks of MPI_COMM_WORLD. */
#include "layer.h"

#include <stdlib.h>

struct comm {
    MPI_Comm handle;
    int used;
    int length;
    int *members;
};

static struct comm *comms;
static int count, last;

/* Lists the members of a communicator; of an intercommunicator the remote ones. */
static void list_members(struct comm *comm) {
    int inter = 0;
    MPI_Group group, world;
    PMPI_Comm_test_inter(comm->handle, &inter);
    if (inter) {
        PMPI_Comm_remote_group(comm->handle, &group);
    } else {
        PMPI_Comm_group(comm->handle, &group);
    }
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, &comm->length);
    comm->members = malloc(sizeof(int) * (size_t)(comm->length + 1));
    int *own = malloc(sizeof(int) * (size_t)(comm->length + 1));
    if (!comm->members || !own) {
        refuse("no memory for the members of a communicator", "use a machine with more memory");
    }
    for (int i = 0; i < comm->length; i++) {
        own[i] = i;
    }
    PMPI_Group_translate_ranks(group, comm->length, own, world, comm->members);
    free(own);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    put("{\"comm\":%d,\"inter\":%d,\"members\":[", (int)(comm - comms), inter);
    for (int i = 0; i < comm->length; i++) {
        put("%s%d", i ? "," : "", comm->members[i]);
    }
    put("]}\n");
}

/* Returns the number of a communicator. Its first use writes a line with its members, which must
 * not interrupt another line. */
int comm_number(MPI_Comm handle) {
    if (last < count && comms[last].used && comms[last].handle == handle) {
        return last;
    }
    for (int i = 0; i < count; i++) {
        if (comms[i].used && comms[i].handle == handle) {
            return last = i;
        }
    }
    struct comm *more = realloc(comms, sizeof *comms * (size_t)(count + 1));
    if (!more) {
        refuse("no memory for another communicator", "use a machine with more memory");
    }
    comms = more;
    comms[count] = (struct comm){.handle = handle, .used = 1};
    list_members(&comms[count]);
    return last = count++;
}

int world_rank(int comm, int rank) {
    if (rank == MPI_ANY_SOURCE) {
        return ANY_RANK;
    }
    return comm < 0 || rank < 0 || rank >= comms[comm].length ? NO_RANK : comms[comm].members[rank];
}

int comm_size(int comm) {
    return comm < 0 ? 0 : comms[comm].length;
}

void put_new_comm(MPI_Comm comm) {
    if (comm != MPI_COMM_NULL) {
        comm_number(comm);
        resume();
    }
}

void forget_comm(MPI_Comm comm) {
    for (int i = 0; i < count; i++) {
        if (comms[i].used && comms[i].handle == comm) {
            comms[i].used = 0;
        }
    }
}
