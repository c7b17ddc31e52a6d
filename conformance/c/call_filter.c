/* Forbids all system calls but a few, as sandboxes do, then uses verbs, clocks and sleeps. The filter
 * must still forbid the program's own calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PERMIT(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    PERMIT(read), PERMIT(write), PERMIT(exit_group), PERMIT(futex), PERMIT(clock_gettime), PERMIT(clock_nanosleep), PERMIT(nanosleep),
    PERMIT(poll), PERMIT(brk), PERMIT(munmap), PERMIT(rt_sigprocmask), PERMIT(newfstatat),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_getppid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static long own_call(long number) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
}

static void need(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s fails\n", what);
    exit(1);
}

int main(int count, char **arguments) {
    (void)arguments;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    need(context != NULL, "ibv_open_device");
    struct ibv_cq *queue = ibv_create_cq(context, 16, NULL, NULL, 0);
    need(queue != NULL, "ibv_create_cq");
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    if (count > 1) need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0, "seccomp");
    else need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "PR_SET_SECCOMP");

    struct ibv_wc completion;
    struct timespec before, after;
    need(clock_gettime(CLOCK_MONOTONIC, &before) == 0, "clock_gettime");
    unsigned long long first = __rdtsc();
    for (int round = 0; round < 100; round++) need(ibv_poll_cq(queue, 1, &completion) == 0, "ibv_poll_cq");
    usleep(20000);
    need(__rdtsc() > first, "the time stamp counter");
    need(clock_gettime(CLOCK_MONOTONIC, &after) == 0, "clock_gettime");
    need((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec >= 20000000, "usleep");
    need(own_call(__NR_getppid) == -ENOTTY, "the filter of an instruction");
    errno = 0;
    need(syscall(__NR_getppid) == -1 && errno == ENOTTY, "the filter of the function syscall");
    printf("the filter holds\n");
    fflush(stdout);
    _exit(0);
}
