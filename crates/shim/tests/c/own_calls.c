/* System calls by instructions of this program, as runtimes of other languages make them. */
#include "raw.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static void sleeps_and_clocks(void) {
    int64_t start = now_ns(CLOCK_MONOTONIC);
    sleep_raw(3);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 3000000));
    struct timespec until, mine, theirs;
    CHECK(RAW(SYS_clock_gettime, CLOCK_MONOTONIC, &until, 0, 0) == 0);
    start = until.tv_sec * 1000000000 + until.tv_nsec;
    until.tv_sec += 1;
    CHECK(RAW(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 1000000000));
    CHECK(RAW(SYS_clock_gettime, CLOCK_REALTIME, &mine, 0, 0) == 0 && clock_gettime(CLOCK_REALTIME, &theirs) == 0);
    CHECK(theirs.tv_sec - mine.tv_sec <= long_enough(1));
    until.tv_nsec = -1;
    CHECK(RAW(SYS_nanosleep, &until, NULL, 0, 0) == -EINVAL && RAW(SYS_read, -1, &until, 1, 0) == -EBADF);
    CHECK(RAW(SYS_getpid, 0, 0, 0, 0) == getpid());
}

static int word, ends[2];

static void *wake_later(void *nothing) {
    sleep_raw(5);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    CHECK(RAW(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0) <= 1);
    sleep_raw(5);
    CHECK(RAW(SYS_write, ends[1], "x", 1, 0) == 1);
    sleep_raw(5);
    CHECK(RAW(SYS_write, ends[1], "y", 1, 0) == 1);
    RAW(SYS_exit, 0, 0, 0, 0);
    return nothing;
}

static void threads(void) {
    pthread_t other;
    char byte;
    CHECK(pipe(ends) == 0);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(pthread_create(&other, NULL, wake_later, NULL) == 0);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) RAW(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 5000000));
    struct timespec span = {0, 2000000};
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(RAW(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &span) == -ETIMEDOUT);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 2000000));
    CHECK(RAW(SYS_read, ends[0], &byte, 1, 0) == 1 && byte == 'x');
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = 7}};
    CHECK(epoll >= 0 && RAW(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    event.data.fd = 0;
    CHECK(raw(SYS_epoll_pwait, epoll, (long)&event, 1, -1, 0, 8) == 1 && event.data.fd == 7);
    CHECK(RAW(SYS_read, ends[0], &byte, 1, 0) == 1 && byte == 'y');
    CHECK(pthread_join(other, NULL) == 0);
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(RAW(SYS_poll, &ready, 1, 4, 0) == 0);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 4000000));
    close(epoll);
}

/* The kernel's form of an action, and the return of a handler that a runtime brings along. */
struct action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
void come_back(void);
__asm__(".text\ncome_back:\n mov $15, %eax\n syscall\n");

static char signal_stack[64 << 10];
static int signals, was_on_stack;

static void on_signal(int number, siginfo_t *info, void *context) {
    char here;
    (void)info, (void)context;
    signals += number == SIGALRM;
    was_on_stack = &here > signal_stack && &here < signal_stack + sizeof signal_stack;
    sleep_raw(1); /* a call in a handler that has interrupted a call */
}

static void handlers(void) {
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack}, present;
    CHECK(RAW(SYS_sigaltstack, &stack, NULL, 0, 0) == 0 && sigaltstack(NULL, &present) == 0);
    CHECK(present.ss_sp == signal_stack && present.ss_flags == 0);
    struct action action = {on_signal, SA_SIGINFO | SA_ONSTACK | 0x04000000, come_back, ~0UL}, former;
    CHECK(RAW(SYS_rt_sigaction, SIGALRM, &action, NULL, 8) == 0);
    CHECK(RAW(SYS_rt_sigaction, SIGALRM, NULL, &former, 8) == 0 && former.handler == on_signal);
    struct itimerval timer = {.it_value = {0, 2000}};
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(RAW(SYS_setitimer, ITIMER_REAL, &timer, NULL, 0) == 0);
    struct timespec span = {3, 0};
    CHECK(RAW(SYS_nanosleep, &span, NULL, 0, 0) == -EINTR);
    CHECK(signals == 1 && was_on_stack && about(now_ns(CLOCK_MONOTONIC) - start, 3000000));
    /* All signals blocked: calls still work, and the signal comes afterwards. */
    uint64_t all = ~0UL, before = 1, blocked;
    CHECK(RAW(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8) == 0 && before == 0);
    CHECK(RAW(SYS_tgkill, getpid(), RAW(SYS_gettid, 0, 0, 0, 0), SIGALRM, 0) == 0);
    sleep_raw(2);
    CHECK(RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, &blocked, 8) == 0);
    CHECK(blocked & 1UL << (SIGALRM - 1) && signals == 2);
}

static ucontext_t here, there;
static int came_back;

static void in_small_room(void) {
    sleep_raw(2);
    came_back = 1;
    sleep_raw(2);
}

/* A routine with two kilobytes of stack, as those of Go. */
static void small_stacks(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages, 4096, PROT_NONE) == 0);
    CHECK(getcontext(&there) == 0);
    there.uc_stack.ss_sp = pages + 4096;
    there.uc_stack.ss_size = 2048;
    there.uc_link = &here;
    makecontext(&there, in_small_room, 0);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(swapcontext(&here, &there) == 0 && came_back);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 4000000));
    munmap(pages, 8192);
}

/* A call changes no vector register. The widest registers of the processor take part. */
static void registers(void) {
    _Alignas(64) uint64_t given[8] = {1, 2, 3, 4, 5, 6, 7, 8}, found[8];
    struct timespec span = {0, 1000000};
    size_t bytes = 16;
    long result = SYS_nanosleep;
#define KEPT(move, wide, other)                                                                      \
    __asm__ volatile(move " (%2), %%" wide "7\n " move " (%2), %%" wide other "\n syscall\n " move " %%" wide "7, (%3)\n" \
                     : "+a"(result) : "D"(&span), "r"(given), "r"(found), "S"(0) : "rcx", "r11", "memory", "xmm7", "xmm15")
    if (__builtin_cpu_supports("avx512f")) {
        bytes = 64;
        KEPT("vmovdqu64", "zmm", "15");
    } else if (__builtin_cpu_supports("avx")) {
        bytes = 32;
        KEPT("vmovdqu", "ymm", "15");
    } else {
        KEPT("movdqu", "xmm", "15");
    }
    CHECK(result == 0 && memcmp(given, found, bytes) == 0);
}

static void children(void) {
    int status;
    long child = RAW(SYS_fork, 0, 0, 0, 0);
    CHECK(child >= 0);
    if (child == 0) {
        sleep_raw(4);
        RAW(SYS_exit_group, 3, 0, 0, 0);
    }
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(RAW(SYS_wait4, child, &status, 0, NULL) == child && WEXITSTATUS(status) == 3);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 4000000));
    child = RAW(SYS_clone, SIGCHLD, 0, 0, 0);
    CHECK(child >= 0);
    if (child == 0) RAW(SYS_exit_group, 4, 0, 0, 0);
    CHECK(waitpid((pid_t)child, &status, 0) == child && WEXITSTATUS(status) == 4);
    start = now_ns(CLOCK_MONOTONIC);
    sleep_raw(3);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 3000000));
}

int main(void) {
    sleeps_and_clocks();
    threads();
    handlers();
    small_stacks();
    registers();
    for (int i = 0; i < 1000; i++) CHECK(RAW(SYS_getppid, 0, 0, 0, 0) == getppid());
    children();
    printf("own_calls: ok\n");
    return 0;
}
