/* The machine that programs see: one processor, simulated times, names by address, and outside
 * calls that return at once. */
#include "check.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/wait.h>

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec * 1e-6; }

static void usage(void) {
    struct rusage before, after, child;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    usleep(20000);
    CHECK(getrusage(RUSAGE_SELF, &after) == 0 && getrusage(RUSAGE_CHILDREN, &child) == 0);
    if (is_simulated()) CHECK(seconds(after.ru_utime) - seconds(before.ru_utime) >= 0.02 && seconds(child.ru_utime) == 0);
    CHECK(getrusage(99, &after) == -1);
    pid_t pid = fork();
    if (pid == 0) _exit(3);
    int status;
    CHECK(wait4(pid, &status, 0, &child) == pid && WEXITSTATUS(status) == 3);
    if (is_simulated()) CHECK(seconds(child.ru_stime) == 0);
}

/* Each call fails at once, outside simulated time; no call may be lost. */
static void fails_at_once(void) {
    for (int round = 0; round < 20; round++) {
        usleep(5000);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un nobody = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
        CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&nobody, sizeof nobody) == -1);
        close(fd);
    }
}

static void names(void) {
    char own[64], buffer[1024];
    CHECK(gethostname(own, sizeof own) == 0);
    struct hostent *forward = gethostbyname(own);
    CHECK(forward != NULL);
    struct in_addr address;
    memcpy(&address, forward->h_addr_list[0], sizeof address);
    struct hostent back, *found = NULL;
    int error;
    int status = gethostbyaddr_r(&address, sizeof address, AF_INET, &back, buffer, sizeof buffer, &found, &error);
    if (is_simulated()) CHECK(status == 0 && found == &back && strcmp(back.h_name, own) == 0);
}

int main(void) {
    if (is_simulated()) CHECK(get_nprocs() == 1 && sysconf(_SC_NPROCESSORS_ONLN) == 1 && get_nprocs_conf() == 1);
    CHECK(sysconf(_SC_PAGESIZE) == 4096);
    usage();
    fails_at_once();
    names();
    puts("machine: ok");
    return 0;
}
