/* Timers that raise a signal or make a descriptor readable. */
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

static volatile sig_atomic_t rung;
static void on_alarm(int signal) { rung += signal == SIGALRM; }
static void on_usr(int signal) { rung += signal == SIGUSR1 ? 100 : 0; }

/* The system sends SIGCHLD at any time; its handler may call anything that is safe in a handler. */
static volatile sig_atomic_t reaped;
static void on_child(int signal) {
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) reaped++;
}
static void children(void) {
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            usleep(1000 * (unsigned)i);
            _exit(0);
        }
    }
    while (reaped < 5) usleep(500);
    CHECK(signal(SIGCHLD, SIG_DFL) == on_child);
}

int main(void) {
    children();
    struct sigaction action = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    action.sa_handler = on_usr;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);

    int64_t start = now_ns(CLOCK_MONOTONIC);
    CHECK(alarm(1) == 0);
    CHECK(sleep(5) == 4 || !is_simulated());
    CHECK(rung == 1 && about(now_ns(CLOCK_MONOTONIC) - start, 1000000000));

    CHECK(alarm(10) == 0);
    CHECK(alarm(0) == 10);

    /* Every 10 ms: the timer also interrupts a loop that only reads the clock. */
    struct itimerval every = {{0, 10000}, {0, 10000}}, was;
    rung = 0;
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (rung < 5) now_ns(CLOCK_MONOTONIC);
    memset(&every, 0, sizeof every);
    CHECK(setitimer(ITIMER_REAL, &every, &was) == 0);
    CHECK(was.it_interval.tv_usec == 10000);

    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    long in_ns = long_enough(20) * 1000000L;
    struct itimerspec once = {{0, 0}, {0, in_ns}}, left;
    rung = 0;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &once, NULL) == 0);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= in_ns);
    struct timespec long_sleep = {5, 0}, rest;
    CHECK(nanosleep(&long_sleep, &rest) == -1 && errno == EINTR && rung == 100 && rest.tv_sec < 5);
    CHECK(timer_delete(timer) == 0);

    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec thrice = {{0, 5000000}, {0, 10000000}};
    uint64_t count = 0;
    CHECK(fd >= 0 && timerfd_settime(fd, 0, &thrice, NULL) == 0);
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(read(fd, &count, sizeof count) == sizeof count && count >= 1);
    CHECK(about(now_ns(CLOCK_MONOTONIC) - start, 9900000) || !is_simulated());
    usleep(12000);
    CHECK(read(fd, &count, sizeof count) == sizeof count && count >= 2);
    CHECK(close(fd) == 0);
    puts("alarms: ok");
    return 0;
}
