/* Reads and writes of regular files. Under the kernel they do what they should. With the argument
 * `times` the program prints the nanoseconds of each, on a host whose files take time. */
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { BYTES = 1 << 20, HALF = BYTES / 2 };

static char *buffer;
static int prints;

static int64_t now(void) { return now_ns(CLOCK_MONOTONIC); }

#define TIMED(name, wanted, call)                                                \
    do {                                                                         \
        int64_t before = now();                                                     \
        CHECK((call) == (wanted));                                               \
        if (prints) printf("%s %lld\n", name, (long long)(now() - before));                    \
    } while (0)

static void of_the_page_cache(int fd) {
    struct iovec halves[2] = {{buffer, HALF}, {buffer + HALF, HALF}};
    TIMED("write", BYTES, write(fd, buffer, BYTES));
    TIMED("fsync", 0, fsync(fd));
    TIMED("fsync-again", 0, fsync(fd));
    TIMED("pwrite", BYTES, pwrite(fd, buffer, BYTES, 0));
    TIMED("fdatasync", 0, fdatasync(fd));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    TIMED("writev", BYTES, writev(fd, halves, 2));
    TIMED("pwritev", BYTES, pwritev(fd, halves, 2, 0));
    TIMED("pread", BYTES, pread(fd, buffer, BYTES, 0));
    TIMED("preadv", BYTES, preadv(fd, halves, 2, 0));
    TIMED("pread-end", 0, pread(fd, buffer, BYTES, BYTES));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    TIMED("read", BYTES, read(fd, buffer, BYTES));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    TIMED("readv", BYTES, readv(fd, halves, 2));
    TIMED("pread-small", 1000, pread(fd, buffer, 1000, 0));
}

static void of_the_disk(const char *path) {
    int fd = open(path, O_RDWR | O_DIRECT);
    if (fd < 0) {
        if (prints) printf("no-direct 0\n");
        return;
    }
    TIMED("direct-seek", HALF, pread(fd, buffer, HALF, 0));
    TIMED("direct-next", HALF, pread(fd, buffer + HALF, HALF, HALF));
    TIMED("direct-write", HALF, pwrite(fd, buffer, HALF, HALF));
    CHECK(close(fd) == 0);
    fd = open(path, O_RDWR | O_DSYNC);
    CHECK(fd >= 0);
    TIMED("synchronous-write", HALF, write(fd, buffer, HALF));
    CHECK(close(fd) == 0);
}

/* Appends go to the end, at any offset. */
static void of_appends(const char *path) {
    int fd = open(path, O_RDWR | O_DSYNC | O_APPEND);
    CHECK(fd >= 0);
    TIMED("append-seek", HALF, pwrite(fd, buffer, HALF, 0));
    TIMED("append-next", HALF, pwrite(fd, buffer, HALF, 0));
    CHECK(close(fd) == 0);
}

/* A file that was cut has fewer bytes to write. */
static void of_a_cut_file(const char *path) {
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, buffer, BYTES, 0) == BYTES && ftruncate(fd, HALF) == 0);
    TIMED("fsync-cut", 0, fsync(fd));
    CHECK(pwrite(fd, buffer, BYTES, 0) == BYTES && ftruncate(fd, 0) == 0);
    TIMED("fsync-empty", 0, fsync(fd));
    CHECK(pwrite(fd, buffer, HALF, 0) == HALF);
    CHECK(close(fd) == 0);
    CHECK(unlink(path) == 0);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
    TIMED("fsync-other", 0, fsync(fd));
    CHECK(close(fd) == 0);
}

/* A child has written nothing yet. Its parent pays for its own bytes. */
static void of_a_child(const char *path) {
    int status, fd = open(path, O_RDWR);
    pid_t child;
    CHECK(fd >= 0 && pwrite(fd, buffer, BYTES, 0) == BYTES && fflush(stdout) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        TIMED("fsync-child", 0, fsync(fd));
        CHECK(fflush(stdout) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    TIMED("fsync-parent", 0, fsync(fd));
    CHECK(close(fd) == 0);
}

static void of_no_file(void) {
    int zero = open("/dev/zero", O_RDWR), own = open("/proc/self/maps", O_RDONLY);
    CHECK(zero >= 0 && own >= 0);
    TIMED("device", BYTES, read(zero, buffer, BYTES));
    int64_t before = now();
    CHECK(read(own, buffer, BYTES) > 0);
    if (prints) printf("proc %lld\n", (long long)(now() - before));
    CHECK(close(zero) == 0 && close(own) == 0);
}

int main(int argc, char **argv) {
    char path[] = "file-costs-XXXXXX";
    int fd = mkstemp(path);
    void *memory;
    (void)argv;
    prints = argc > 1;
    CHECK(fd >= 0 && posix_memalign(&memory, 4096, BYTES) == 0);
    buffer = memory;
    memset(buffer, 'x', BYTES);
    of_the_page_cache(fd);
    of_the_disk(path);
    of_appends(path);
    of_a_cut_file(path);
    of_a_child(path);
    of_no_file();
    CHECK(close(fd) == 0 && unlink(path) == 0);
    puts("file_costs: ok");
    return 0;
}
