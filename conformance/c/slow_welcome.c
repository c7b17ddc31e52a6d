// Programs join a fabric while watchers delay the engine in sending them its welcome.
//
// usage: slow_welcome ROUNDS WATCHERS, started on a host of a fabric. Link it statically, so that
// it does not join the fabric itself.
//
// Each round starts `hostname`, stops it after its hello to the engine, and adds watchers to its
// end of the control socket. The kernel wakes every watcher before the engine's send of the welcome
// returns. `hostname` continues as soon as it can receive the welcome. Only the timing changes. The
// program prints the number of good rounds and of rounds ended by SIGKILL. It fails unless all
// rounds are good.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what) {
    perror(what);
    exit(2);
}

static pid_t start(void) {
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1);
        close(nowhere);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execlp("hostname", "hostname", (char *)0);
        _exit(99);
    }
    if (child < 0) die("fork");
    return child;
}

// Returns the child's socket just before it sends its hello, a message of 24 bytes.
// Returns -1 if the child ends without one.
static int at_hello(pid_t child, int *status) {
    for (;;) {
        ptrace(PTRACE_SYSCALL, child, 0, 0);
        waitpid(child, status, 0);
        if (!WIFSTOPPED(*status)) return -1;
        if (WSTOPSIG(*status) != (SIGTRAP | 0x80)) continue;
        struct user_regs_struct registers;
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        if (registers.orig_rax != SYS_sendto || registers.rdx != 24) continue;
        int handle = syscall(SYS_pidfd_open, child, 0);
        int ours = syscall(SYS_pidfd_getfd, handle, (int)registers.rdi, 0);
        close(handle);
        if (ours < 0) die("the program's socket");
        return ours;
    }
}

// Returns whether hostname ended with status 0.
static int one_round(int watchers, int *killed) {
    int status, watch = epoll_create1(EPOLL_CLOEXEC);
    pid_t child = start();
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    int ours = at_hello(child, &status);
    if (ours < 0) {
        fprintf(stderr, "hostname has not joined the fabric\n");
        exit(2);
    }
    for (int count = 0; count < watchers; count++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(watch, EPOLL_CTL_ADD, dup(ours), &event)) die("a watcher");
    }
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    waitpid(child, &status, 0);
    char byte;
    while (recv(ours, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {}
    ptrace(PTRACE_DETACH, child, 0, 0);
    waitpid(child, &status, 0);
    close_range(3, ~0U, 0);
    *killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    int rounds = atoi(words[1]), watchers = atoi(words[2]), well = 0, killed = 0;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < (rlim_t)watchers + 100) {
        limit.rlim_max = watchers + 100; // only root may
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit)) die("so many open files");
    close_range(3, ~0U, 0);
    for (int round = 0; round < rounds; round++) well += one_round(watchers, &killed);
    printf("%d of %d well, %d killed\n", well, rounds, killed);
    return well == rounds ? 0 : 1;
}
