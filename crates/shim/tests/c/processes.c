/* fork, all forms of exec, spawn, system, popen, and waits for all of them. `processes child N`
 * sleeps and exits with N. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static char self[4096];

static int status_of(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int exec_form(int form) {
    char *arguments[] = {self, "child", "21", NULL}, *empty[] = {NULL};
    switch (form) {
    case 0: return execv(self, arguments);
    case 1: return execve(self, arguments, empty);
    case 2: return execvp(self, arguments);
    case 3: return execl(self, self, "child", "21", (char *)NULL);
    case 4: return execlp(self, self, "child", "21", (char *)NULL);
    case 5: return execle(self, self, "child", "21", (char *)NULL, environ);
    case 6: return fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, environ);
    default: return execvpe(self, arguments, environ);
    }
}

int main(int count, char **arguments) {
    if (count == 3) {
        usleep(3000);
        return atoi(arguments[2]);
    }
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(len > 0);
    CHECK(getpid() == getpid() && getpid() > 0);

    int64_t start = now_ns(CLOCK_MONOTONIC);
    pid_t child = fork();
    if (child == 0) {
        usleep(1000 * long_enough(50));
        _exit(3);
    }
    int status = 0;
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(status_of(child) == 3);
    int64_t took = now_ns(CLOCK_MONOTONIC) - start;
    CHECK(took >= 50000000 && (!is_simulated() || took < 53000000));
    CHECK(waitpid(child, &status, 0) == -1 && errno == ECHILD);

    for (int form = 0; form < 8; form++) {
        child = fork();
        if (child == 0) {
            exec_form(form);
            _exit(99);
        }
        CHECK(status_of(child) == 21);
    }
    child = vfork();
    if (child == 0) {
        execl("/nonexistent", "x", (char *)NULL);
        usleep(1000); /* time continues after a failed exec */
        _exit(errno == ENOENT ? 5 : 6);
    }
    CHECK(status_of(child) == 5);

    char *words[] = {self, "child", "33", NULL};
    CHECK(posix_spawn(&child, self, NULL, NULL, words, environ) == 0 && status_of(child) == 33);
    CHECK(posix_spawnp(&child, "/nonexistent", NULL, NULL, words, environ) == ENOENT);
    CHECK(WEXITSTATUS(system("exit 9")) == 9 && system(NULL) != 0);
    start = now_ns(CLOCK_MONOTONIC);
    CHECK(system("sleep 0.05") == 0);
    took = now_ns(CLOCK_MONOTONIC) - start;
    CHECK(took >= 50000000 && (!is_simulated() || took < 60000000));

    char line[64];
    FILE *stream = popen("echo one; sleep 0.01; echo two", "r");
    CHECK(stream && fgets(line, sizeof line, stream) && strcmp(line, "one\n") == 0);
    CHECK(fgets(line, sizeof line, stream) && strcmp(line, "two\n") == 0 && !fgets(line, sizeof line, stream));
    CHECK(WEXITSTATUS(pclose(stream)) == 0);
    stream = popen("read word; test $word = right", "w");
    CHECK(stream && fputs("right\n", stream) > 0 && WEXITSTATUS(pclose(stream)) == 0);

    /* A pipe between parent and child, and a child that is killed. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        usleep(2000);
        CHECK(write(ends[1], "!", 1) == 1);
        pause();
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == '!');
    CHECK(kill(child, SIGKILL) == 0);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_pid == child && info.si_code == CLD_KILLED && info.si_status == SIGKILL);
    puts("processes: ok");
    return 0;
}
