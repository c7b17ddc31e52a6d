/* Processes end each other by signals while peers watch: a child by SIGKILL, SIGTERM and SIGABRT, a
 * group, and a process that reads a named pipe. Each line has the time at which the end was seen. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void say(const char *what, int value) {
    printf("%s: %d at %ld\n", what, value, now());
    fflush(stdout);
}

static void by(int signal) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (;;) pause();
    }
    close(ends[1]);
    usleep(300);
    int status, sent = kill(pid, signal);
    say("sent", sent);
    char byte;
    say("the socket", (int)read(ends[0], &byte, 1));
    pid_t found = waitpid(pid, &status, WNOHANG);
    say("waited", found == pid ? WTERMSIG(status) : -1);
    if (found != pid) waitpid(pid, &status, 0);
    close(ends[0]);
}

static void group(void) {
    pid_t first = fork();
    if (first == 0) {
        setpgid(0, 0);
        for (int i = 0; i < 3; i++)
            if (fork() == 0) break;
        for (;;) pause();
    }
    setpgid(first, first);
    usleep(1000);
    say("group", kill(-first, SIGTERM));
    int status;
    waitpid(first, &status, 0);
    say("leader", WTERMSIG(status));
    usleep(100);
}

static void pipes(void) {
    char folder[] = "/tmp/ended-XXXXXX", path[64];
    if (!mkdtemp(folder)) exit(1);
    snprintf(path, sizeof path, "%s/pipe", folder);
    mkfifo(path, 0600);
    for (int round = 0; round < 3; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            char line[16] = {0};
            int from = open(path, O_RDONLY);
            long opened = now();
            ssize_t count = read(from, line, sizeof line - 1);
            printf("reader: %zd bytes at %ld, open at %ld\n", count, now(), opened);
            fflush(stdout);
            _exit(0);
        }
        usleep(700);
        int to = open(path, O_WRONLY);
        say("writer", to >= 0);
        usleep(200);
        if (write(to, "hello", 5) != 5) exit(1);
        close(to);
        waitpid(pid, NULL, 0);
        say("reader ended", round);
    }
    unlink(path);
    rmdir(folder);
}

int main(void) {
    by(SIGKILL);
    by(SIGTERM);
    by(SIGABRT);
    group();
    pipes();
    return 0;
}
