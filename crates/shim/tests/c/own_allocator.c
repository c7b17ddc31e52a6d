/* A program's own allocator, which asks for locks, time and processors during its
 * initialization, as jemalloc does. The code behind those calls must not allocate with it. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HEAP_BYTES (16u << 20)

static _Alignas(16) unsigned char heap[HEAP_BYTES];
static size_t used;
static int is_ready, is_inside;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void refuse_to_come_again(void) {
    static const char text[] = "the allocator was asked while it made itself ready\n";
    if (is_inside && write(2, text, sizeof text - 1) >= 0) _exit(1);
}

static void make_ready(void) {
    struct timespec now;
    refuse_to_come_again();
    is_inside = 1;
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) close((int)fd);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    sysconf(_SC_NPROCESSORS_ONLN);
    getpid();
    is_inside = 0;
    is_ready = 1;
}

static void *take(size_t bytes) {
    pthread_mutex_lock(&lock);
    if (!is_ready) make_ready();
    size_t *place = (size_t *)(heap + used);
    used += (bytes + 31) / 16 * 16;
    pthread_mutex_unlock(&lock);
    if (used > HEAP_BYTES) _exit(2);
    *place = bytes;
    return place + 2;
}

void *malloc(size_t bytes) { return take(bytes); }
void free(void *place) { (void)place; }
void *calloc(size_t count, size_t bytes) { return take(count * bytes); }
void *memalign(size_t alignment, size_t bytes) { return (void *)(((size_t)take(bytes + alignment) + alignment - 1) / alignment * alignment); }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void **out, size_t alignment, size_t bytes) { return (*out = memalign(alignment, bytes)) == NULL; }
void *realloc(void *place, size_t bytes) {
    size_t had = place ? ((size_t *)place)[-2] : 0;
    void *other = take(bytes);
    if (had) memcpy(other, place, had < bytes ? had : bytes);
    return other;
}

/* Runs before any other library is ready. */
__attribute__((constructor(101))) static void early(void) { free(malloc(10)); }

int main(void) {
    char *text = malloc(100);
    CHECK(text != NULL);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    usleep(2000);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 2000000));
    pid_t child = fork();
    if (child == 0) _exit(strlen(strcpy(malloc(8), "seven")) == 5 ? 7 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    puts("own_allocator: ok");
    return 0;
}
