/* Calls by a program's own instructions answer as the kernel: bad pointers, lengths, and children. */
#include "raw.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define BY_DESCRIPTOR 3 /* P_PIDFD */

/* Each of these calls gets an address that no program has. */
static void bad_pointers(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages, 4096, PROT_READ) == 0 && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    int ends[2], pair[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    int tcp = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    void *bad[] = {(void *)8, pages + 4096, (void *)(1UL << 62)};
    for (int i = 0; i < 3; i++) {
        void *at = bad[i];
        CHECK(RAW(SYS_rt_sigprocmask, SIG_BLOCK, at, 0, 8) == -EFAULT && RAW(SYS_rt_sigprocmask, ~0L, at, 0, 8) == -EFAULT);
        CHECK(RAW(SYS_rt_sigaction, SIGUSR1, at, 0, 8) == -EFAULT && RAW(SYS_rt_sigaction, SIGUSR1, 0, at, 8) == -EFAULT);
        CHECK(RAW(SYS_nanosleep, at, 0, 0, 0) == -EFAULT && RAW(SYS_clock_gettime, CLOCK_MONOTONIC, at, 0, 0) == -EFAULT);
        CHECK(RAW(SYS_futex, at, FUTEX_WAIT, 0, 0) == -EFAULT && RAW(SYS_poll, at, 1, 0, 0) == -EFAULT);
        CHECK(RAW(SYS_read, ends[0], at, 1, 0) == -EFAULT && RAW(SYS_write, ends[1], at, 1, 0) == -EFAULT);
        CHECK(RAW(SYS_readv, ends[0], at, 1, 0) == -EFAULT && RAW(SYS_writev, ends[1], at, 1, 0) == -EFAULT);
        CHECK(RAW(SYS_openat, AT_FDCWD, at, O_RDONLY, 0) == -EFAULT && RAW(SYS_stat, "/", at, 0, 0) == -EFAULT);
        CHECK(RAW(SYS_connect, tcp, at, 16, 0) == -EFAULT && RAW(SYS_getsockname, tcp, at, at, 0) == -EFAULT);
        CHECK(RAW(SYS_sendmsg, pair[0], at, 0, 0) == -EFAULT && RAW(SYS_recvmsg, pair[0], at, MSG_DONTWAIT, 0) == -EFAULT);
        CHECK(RAW(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, ends[0], at) == -EFAULT && RAW(SYS_uname, at, 0, 0, 0) == -EFAULT);
        CHECK(RAW(SYS_execve, at, 0, 0, 0) == -EFAULT && RAW(SYS_execve, "/bin/true", at, 0, 0) == -EFAULT);
        CHECK(RAW(SYS_getrandom, at, 8, 0, 0) == -EFAULT && RAW(SYS_getcwd, at, 4096, 0, 0) == -EFAULT);
        CHECK(RAW(SYS_rt_sigtimedwait, at, 0, 0, 8) == -EFAULT && RAW(SYS_sigaltstack, at, 0, 0, 0) == -EFAULT);
    }
    /* Memory that can only be read: the kernel writes nothing there, and reads it. */
    struct iovec part = {pages, 1};
    CHECK(RAW(SYS_read, ends[0], pages, 1, 0) == -EFAULT && RAW(SYS_readv, ends[0], &part, 1, 0) == -EFAULT);
    CHECK(RAW(SYS_write, ends[1], pages, 1, 0) == 1 && RAW(SYS_rt_sigprocmask, ~0L, pages, 0, 8) == -EINVAL);
    char both[2];
    CHECK(RAW(SYS_read, ends[0], both, 2, 0) == 2 && both[0] == 'x' && both[1] == 0);
    munmap(pages, 8192);
}

static void lengths(void) {
    char there[4096], name[4096];
    CHECK(getcwd(name, sizeof name) == name);
    CHECK(RAW(SYS_getcwd, there, sizeof there, 0, 0) == (long)strlen(name) + 1 && strcmp(there, name) == 0);
    CHECK(RAW(SYS_getcwd, there, 1, 0, 0) == -ERANGE);
    if (is_simulated()) { /* a folder that only the host of the fabric has */
        CHECK(chdir("/sys/class/infiniband") == 0);
        CHECK(RAW(SYS_getcwd, there, sizeof there, 0, 0) == 22 && strcmp(there, "/sys/class/infiniband") == 0);
    }
    unsigned cpu = 77;
    CHECK(RAW(SYS_getcpu, &cpu, NULL, 0, 0) == 0 && cpu != 77);
}

static void child(long flags, int has_descriptor) {
    int fd = -1, number = -1;
    int64_t start = now_ns(CLOCK_MONOTONIC);
    long pid = RAW(SYS_clone, flags, 0, &fd, &number);
    CHECK(pid >= 0);
    if (pid == 0) {
        int known = !(flags & CLONE_CHILD_SETTID) || number == (int)RAW(SYS_getpid, 0, 0, 0, 0);
        sleep_raw(3);
        RAW(SYS_exit_group, known ? 5 : 6, 0, 0, 0);
    }
    siginfo_t found;
    struct rusage usage;
    memset(&found, 0xff, sizeof found);
    memset(&usage, 0xff, sizeof usage);
    long kind = has_descriptor ? BY_DESCRIPTOR : P_PID, id = has_descriptor ? fd : pid;
    CHECK(!has_descriptor || (fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC));
    CHECK(!(flags & CLONE_PARENT_SETTID) || fd == pid);
    CHECK(raw(SYS_waitid, kind, id, (long)&found, WEXITED | ((flags & 0xff) ? 0 : __WCLONE), (long)&usage, 0) == 0);
    CHECK(found.si_pid == pid && found.si_code == CLD_EXITED && found.si_status == 5);
    CHECK(usage.ru_maxrss >= 0 && usage.ru_utime.tv_usec >= 0 && usage.ru_nivcsw >= 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 3000000));
    if (has_descriptor) close(fd);
}

static void children(void) {
    child(SIGCHLD, 0);
    child(CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0);
    child(CLONE_PARENT_SETTID | SIGCHLD, 0);
    child(CLONE_PIDFD | SIGCHLD, 1);
    child(CLONE_PIDFD, 1);
    long own = RAW(SYS_pidfd_open, getpid(), 0, 0, 0);
    CHECK(own >= 0 && RAW(SYS_pidfd_send_signal, own, 0, 0, 0) == 0);
    CHECK(raw(SYS_waitid, BY_DESCRIPTOR, own, 0, WEXITED, 0, 0) == -ECHILD);
    close((int)own);
}

int main(void) {
    bad_pointers();
    lengths();
    children();
    printf("own_calls_kernel: ok\n");
    return 0;
}
