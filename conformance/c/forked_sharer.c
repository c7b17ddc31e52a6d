/* Parents fork, then write memory that they share with their children, before their next call. Each
 * child prints the time of its first instruction, and of its next look at the memory. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORK_BYTES = 2 << 20 };

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Takes the machine's time, and no simulated time. */
static void compute(void) {
    char *room = malloc(WORK_BYTES);
    memset(room, 1, WORK_BYTES);
    free(room);
}

static void child(const char *name, volatile int *shared) {
    long begun = now();
    int first = *shared;
    usleep(50);
    printf("%s: begins at %ld, finds %s, ends at %ld\n", name, begun, first ? "the write" : "nothing", now());
    fflush(stdout);
    _exit(0);
}

static void parent(const char *name, volatile int *shared) {
    for (int round = 0; round < 3; round++) {
        *shared = 0;
        pid_t pid = fork();
        if (pid == 0) child(name, shared);
        compute();
        *shared = 1;
        usleep(100);
        waitpid(pid, NULL, 0);
        printf("%s: the parent goes on at %ld\n", name, now());
        fflush(stdout);
    }
}

int main(void) {
    parent("anonymous", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    int file = memfd_create("shared", 0);
    if (ftruncate(file, 4096) != 0) return 1;
    parent("file", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    parent("segment", shmat(segment, NULL, 0));
    shmctl(segment, IPC_RMID, NULL);
    return 0;
}
