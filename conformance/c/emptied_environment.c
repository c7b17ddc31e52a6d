/* Starts a command in every way with an empty environment. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int waited(pid_t child) {
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

int main(int count, char **words) {
    if (count != 2) return 2;
    char *argv[] = {"sh", "-c", words[1], NULL}, *none[] = {NULL};
    char line[256];
    pid_t child;
    if (clearenv() != 0) return 3;
    if (system(words[1]) != 0) return 4;
    FILE *stream = popen(words[1], "r");
    if (stream == NULL || fgets(line, sizeof line, stream) == NULL || pclose(stream) != 0) return 5;
    fputs(line, stdout);
    fflush(stdout);
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, none) != 0 || waited(child) != 0) return 6;
    child = fork();
    if (child == 0) {
        execve("/bin/sh", argv, none);
        _exit(1);
    }
    if (waited(child) != 0) return 7;
    child = vfork();
    if (child == 0) {
        execvpe("/bin/sh", argv, none);
        _exit(1);
    }
    if (waited(child) != 0) return 8;
    execle("/bin/sh", "sh", "-c", words[1], NULL, none);
    return 9;
}
