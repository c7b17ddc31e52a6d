/* The MPI of the process, which the layer finds when the program begins MPI. */
#define _GNU_SOURCE
#include "layer.h"

#include <dlfcn.h>
#include <link.h>

#if defined(OPEN_MPI)
void *known_comm_world, *known_comm_null, *known_request_null, *known_byte;
#endif

/* Makes the functions of a library visible to the layer, if it brings an MPI. A program may have
 * loaded it for itself alone, as Python does. */
static int show(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size, (void)unused;
    if (!object->dlpi_name || !*object->dlpi_name) {
        return 0;
    }
    void *handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) {
        return 0;
    }
    int found = dlsym(handle, "PMPI_Init") != NULL && dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
    dlclose(handle);
    return found;
}

void find_mpi(void) {
    if (!dlsym(RTLD_DEFAULT, "PMPI_Init")) {
        dl_iterate_phdr(show, NULL);
    }
#if defined(OPEN_MPI)
    known_comm_world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    known_comm_null = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null");
    known_request_null = dlsym(RTLD_DEFAULT, "ompi_request_null");
    known_byte = dlsym(RTLD_DEFAULT, "ompi_mpi_byte");
#endif
}

int is_initialized(void) {
    int initialized = 0;
    int (*ask)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "PMPI_Initialized");
    return ask && ask(&initialized) == MPI_SUCCESS && initialized;
}
