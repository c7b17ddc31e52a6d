/* Reads and writes of regular files. Under the kernel they do what they should. With the argument
 * `times` the program prints the nanoseconds of each, on a host whose files take time. */
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>

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
    of_no_file();
    CHECK(close(fd) == 0 && unlink(path) == 0);
    puts("file_costs: ok");
    return 0;
}
