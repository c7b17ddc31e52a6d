/* Signals that come during calls by a program's own instructions, on all stacks. */
#include "raw.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

static char signal_stack[128 << 10];
static pthread_t first_thread;
static int inner, outer;

static void set(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static void alarm_in(int ms) {
    struct itimerval timer = {.it_value = {0, ms * 1000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* Uses much of the stack, and returns whether it stays as it was during a wait. */
static int stays(size_t bytes, int ms) {
    volatile char data[bytes];
    memset((char *)data, 7, bytes);
    struct timespec span = {0, ms * 1000000L};
    /* A signal may end a wait. */
    RAW(SYS_nanosleep, &span, NULL, 0, 0);
    RAW(SYS_nanosleep, &span, NULL, 0, 0);
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != 7) return 0;
    return 1;
}

static void on_inner(int number) {
    (void)number;
    inner += stays(8192, 1);
}

static void on_outer(int number) {
    (void)number;
    outer += stays(16384, 10);
}

static void *interrupt(void *nothing) {
    sleep_raw(5);
    CHECK(pthread_kill(first_thread, SIGUSR2) == 0);
    sleep_raw(1);
    return nothing;
}

/* A handler on the signal stack calls, and a second signal comes meanwhile. */
static void nested_handlers(int flags) {
    pthread_t other;
    inner = outer = 0;
    first_thread = pthread_self();
    set(SIGUSR1, on_outer, flags);
    set(SIGUSR2, on_inner, flags);
    CHECK(pthread_create(&other, NULL, interrupt, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && pthread_join(other, NULL) == 0);
    CHECK(outer == 1 && inner == 1);
}

static int large;

static void on_large(int number) {
    (void)number;
    large += stays(400 << 10, 1);
}

/* A handler with large variables interrupts a call, and calls. */
static void large_handler(int flags) {
    large = 0;
    set(SIGALRM, on_large, flags);
    alarm_in((int)long_enough(2));
    struct timespec span = {3, 0};
    CHECK(RAW(SYS_nanosleep, &span, NULL, 0, 0) == -EINTR && large == 1);
}

static sigjmp_buf away;

static void on_jump(int number) {
    (void)number;
    siglongjmp(away, 1);
}

/* Handlers leave calls by jumps, more often than a stack has room for calls. */
static void jumps(int flags) {
    set(SIGALRM, on_jump, flags);
    for (volatile int i = 0; i < 40; i++) {
        if (sigsetjmp(away, 1) == 0) {
            alarm_in(1);
            sleep_raw(100);
            CHECK(!"the call is left");
        }
    }
    int state;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0 && state == PTHREAD_CANCEL_ENABLE);
}

static void *with_all_blocked(void *nothing) {
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    sleep_raw(1);
    CHECK(RAW(SYS_getppid, 0, 0, 0, 0) == getppid());
    return nothing;
}

static void on_usr1(int number) {
    (void)number;
    sleep_raw(1);
    outer++;
}

/* No call may find SIGSYS blocked: neither in a thread that blocks all, nor in a handler of a wait. */
static void blocked_signals(void) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, with_all_blocked, NULL) == 0 && pthread_join(other, NULL) == 0);
    struct sigaction action = {.sa_handler = on_usr1};
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    outer = 0;
    sigset_t all, none, but_alarm;
    sigfillset(&all);
    sigemptyset(&none);
    sigfillset(&but_alarm);
    sigdelset(&but_alarm, SIGALRM);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    alarm_in(1);
    CHECK(sigsuspend(&but_alarm) == -1 && errno == EINTR && outer == 1);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
}

static void *signal_the_process(void *nothing) {
    CHECK(RAW(SYS_kill, getpid(), SIGUSR1, 0, 0) == 0);
    for (int i = 0; i < 1000 && __atomic_load_n(&outer, __ATOMIC_SEQ_CST) == 0; i++) sleep_raw(1);
    CHECK(outer == 1);
    return nothing;
}

static void on_own_signal(int number) {
    (void)number;
    outer++;
}

/* A signal to the process needs no thread that runs by itself. */
static void signals_to_the_process(void) {
    pthread_t other;
    outer = 0;
    set(SIGUSR1, on_own_signal, SA_RESTART);
    CHECK(pthread_create(&other, NULL, signal_the_process, NULL) == 0 && pthread_join(other, NULL) == 0);
}

static void *end_by_call(void *nothing) {
    CHECK(RAW(SYS_getppid, 0, 0, 0, 0) > 0);
    RAW(SYS_exit, 0, 0, 0, 0);
    return nothing;
}

static long mapped_kilobytes(void) {
    long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return pages * 4;
}

/* Threads that end by a call give their memory back. */
static void ending_threads(void) {
    long before = 0;
    for (int i = 0; i < 60; i++) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, end_by_call, NULL) == 0 && pthread_join(other, NULL) == 0);
        if (i == 9) before = mapped_kilobytes();
    }
    CHECK(mapped_kilobytes() - before < 10 << 10);
}

static int trapped;

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)context;
    trapped += number == SIGSYS && info->si_code == 1 && info->si_syscall == SYS_getpriority;
}

static void forbid(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

/* A forbidden call reaches the program's handler. Without one, it ends the program. */
static void forbidden_calls(int has_handler) {
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
        if (has_handler) CHECK(sigaction(SIGSYS, &action, NULL) == 0);
        forbid();
        RAW(SYS_getpriority, 0, 0, 0, 0);
        _exit(trapped == 1 ? 7 : 8);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(has_handler ? WIFEXITED(status) && WEXITSTATUS(status) == 7 : WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void on_stack(int number) {
    (void)number;
    stack_t present, other = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    CHECK(RAW(SYS_sigaltstack, NULL, &present, 0, 0) == 0 && present.ss_flags == SS_ONSTACK);
    CHECK(RAW(SYS_sigaltstack, &other, NULL, 0, 0) == -EPERM);
    outer++;
}

int main(void) {
    CHECK(RAW(SYS_getppid, 0, 0, 0, 0) == getppid());
    for (int flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
        if (flags) {
            stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
            CHECK(sigaltstack(&stack, NULL) == 0);
        }
        nested_handlers(flags);
        large_handler(0);
        jumps(flags);
    }
    outer = 0;
    set(SIGUSR1, on_stack, SA_ONSTACK);
    CHECK(raise(SIGUSR1) == 0 && outer == 1);
    blocked_signals();
    signals_to_the_process();
    ending_threads();
    forbidden_calls(0);
    forbidden_calls(1);
    printf("own_calls_signals: ok\n");
    return 0;
}
