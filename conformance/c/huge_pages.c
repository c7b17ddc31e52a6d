/* Asks for huge pages by each call, uses the memory, and prints the outcomes. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define MIB (1UL << 20)
/* The size of a page by its binary logarithm (asm-generic/hugetlb_encode.h). */
#define SIZE(log2) ((log2) << 26)

static void use(const char *name, char *at, size_t len, size_t page) {
    if (at == MAP_FAILED) {
        perror(name);
        return;
    }
    memset(at, 7, len);
    printf("%s: %s, ends with %d\n", name, (uintptr_t)at % page == 0 ? "aligned" : "not aligned", at[len - 1]);
}

int main(void) {
    int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
    char *at = mmap(NULL, 4 * MIB, rights, flags, -1, 0);
    use("mapping", at, 4 * MIB, 2 * MIB);
    printf("munmap: %d\n", munmap(at, 4 * MIB));
    use("2 MiB", mmap(NULL, MIB, rights, flags | SIZE(21), -1, 0), 2 * MIB, 2 * MIB);
    use("shared", mmap(NULL, 2 * MIB, rights, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0), 2 * MIB, 2 * MIB);
    int segment = shmget(IPC_PRIVATE, 3 * MIB, IPC_CREAT | SHM_HUGETLB | 0600);
    if (segment < 0) {
        perror("shmget");
    } else {
        use("segment", shmat(segment, NULL, 0), 3 * MIB, 4096);
        shmctl(segment, IPC_RMID, NULL);
    }
    int file = memfd_create("pages", MFD_HUGETLB | (unsigned)SIZE(21));
    if (file < 0 || ftruncate(file, 2 * MIB) < 0)
        perror("memfd_create");
    else
        use("file", mmap(NULL, 2 * MIB, rights, MAP_SHARED, file, 0), 2 * MIB, 4096);
    at = mmap(NULL, 4 * MIB, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("advice: %d\n", madvise(at, 4 * MIB, MADV_HUGEPAGE));
    printf("bad advice: %d\n", madvise(at + 1, 4 * MIB, MADV_HUGEPAGE));
    return 0;
}
