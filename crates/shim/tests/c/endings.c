/* The signal of a child's end, as shells and `timeout` wait for it. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t ended;

static void on_child(int signal) {
    (void)signal;
    ended++;
}

static void on_alarm(int signal) { (void)signal; }

static pid_t child(unsigned millis) {
    pid_t pid = fork();
    if (pid == 0) {
        usleep(millis * 1000);
        _exit(3);
    }
    CHECK(pid > 0);
    return pid;
}

static void reap(pid_t pid) {
    int status = 0;
    CHECK(waitpid(pid, &status, WNOHANG) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static sigset_t without_children(void) {
    sigset_t mask, old;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &mask, &old) == 0);
    return old;
}

/* With an alarm that would come later, and without an alarm. */
static void suspended(unsigned alarm_seconds) {
    sigset_t old = without_children();
    alarm(alarm_seconds);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    pid_t pid = child(20);
    ended = 0;
    while (!ended) CHECK(sigsuspend(&old) == -1 && errno == EINTR);
    alarm(0);
    CHECK(now_ns(CLOCK_MONOTONIC) - start < (is_simulated() ? 22000000 : 4000000000));
    reap(pid);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
}

/* The signal is pending when the wait begins. */
static void pending(void) {
    sigset_t old = without_children();
    pid_t pid = child(5);
    usleep(100000);
    ended = 0;
    CHECK(sigsuspend(&old) == -1 && errno == EINTR && ended == 1);
    reap(pid);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
}

/* A child whose end a signal has reported, and that no wait has collected, does not end another
 * wait. */
static void told_once(void) {
    sigset_t old = without_children();
    pid_t pid = child(5);
    ended = 0;
    CHECK(sigsuspend(&old) == -1 && ended == 1);
    alarm(1);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(sigsuspend(&old) == -1 && errno == EINTR && ended == 1);
    CHECK(now_ns(CLOCK_MONOTONIC) - start > 900000000);
    reap(pid);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
}

/* Without a handler, the signal ends no wait. */
static void unheard(void) {
    CHECK(signal(SIGCHLD, SIG_DFL) == on_child);
    alarm(1);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    pid_t pid = child(20);
    CHECK(pause() == -1 && errno == EINTR);
    CHECK(now_ns(CLOCK_MONOTONIC) - start > 900000000);
    reap(pid);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_child};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    suspended(5);
    suspended(0);
    pending();
    told_once();
    unheard();
    puts("endings: ok");
    return 0;
}
