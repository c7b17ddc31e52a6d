/* A program's own SIGSEGV and SIGTRAP handlers work with ours, and a crash remains a crash. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static sigjmp_buf back;
static volatile sig_atomic_t traps;
static char *page;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(signal == SIGSEGV && info->si_addr == page);
    siglongjmp(back, 1);
}
static void on_trap(int signal) { traps += signal == SIGTRAP; }

int main(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    CHECK(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == on_fault);
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)page = 1;
        CHECK(0);
    }
    CHECK(signal(SIGTRAP, on_trap) == SIG_DFL);
    raise(SIGTRAP);
    __asm__ volatile("int3");
    CHECK(traps == 2);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)page = 1;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    puts("faults: ok");
    return 0;
}
