/* Asks for changes of the machine by each kind of call, and prints the outcomes. No request would do
 * harm if it succeeded. An argument names a process outside the fabric. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, long status) {
    const char *error = errno == EPERM ? "EPERM" : errno == EACCES ? "EACCES" : errno == ENOENT ? "ENOENT" : "another error";
    printf("%s: %s\n", name, status < 0 ? error : "done");
}

static void change_kernel(void) {
    struct timeval day = {1, 2000000};
    struct timespec moment = {1, -1};
    struct timex clock = {0};
    struct ifreq up = {.ifr_name = "lo"};

    say("mount", mount("none", "/nowhere", "tmpfs", 0, NULL));
    say("mount by number", syscall(SYS_mount, "none", "/nowhere", "tmpfs", 0, NULL));
    say("umount", umount("/nowhere"));
    say("umount2", umount2("/nowhere", 0));
    say("swapon", swapon("/nowhere", 0));
    say("init_module", syscall(SYS_init_module, "", 0, ""));
    say("finit_module", syscall(SYS_finit_module, -1, "", 0));
    say("delete_module", syscall(SYS_delete_module, "no_such_module", 0));
    say("settimeofday", settimeofday(&day, NULL));
    say("clock_settime", clock_settime(CLOCK_REALTIME, &moment));
    say("adjtimex that reads", adjtimex(&clock));
    clock.modes = ADJ_FREQUENCY;
    say("adjtimex", adjtimex(&clock));
    say("klogctl", klogctl(8, NULL, 99));
    say("bpf", syscall(SYS_bpf, 0, NULL, 0));
    up.ifr_flags = IFF_UP;
    say("SIOCSIFFLAGS", ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &up));
}

static void change_process(pid_t outside) {
    struct rlimit limit;
    cpu_set_t processors;
    char path[64];

    say("question", kill(outside, 0));
    say("kill", kill(outside, SIGCONT));
    say("kill by number", syscall(SYS_kill, outside, SIGCONT));
    say("killpg", killpg(getpgid(outside), SIGCONT));
    say("sigqueue", sigqueue(outside, SIGCONT, (union sigval){0}));
    say("kill of all", kill(-1, SIGCONT));
    say("setpriority", setpriority(PRIO_PROCESS, outside, getpriority(PRIO_PROCESS, outside)));
    sched_getaffinity(outside, sizeof processors, &processors);
    say("sched_setaffinity", sched_setaffinity(outside, sizeof processors, &processors));
    prlimit(outside, RLIMIT_CORE, NULL, &limit);
    say("prlimit", prlimit(outside, RLIMIT_CORE, &limit, NULL));
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", outside);
    say("oom_score_adj", open(path, O_WRONLY));
}

static void change_own(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    usleep(1000);
    say("own child", kill(child, SIGTERM));
    say("own group", kill(0, SIGCONT));
    say("own file", open("/proc/self/comm", O_WRONLY));
    say("own priority", setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)));
    say("/dev/null", open("/dev/null", O_WRONLY));
}

int main(int count, char **words) {
    change_kernel();
    if (count > 1) change_process(atoi(words[1]));
    change_own();
    for (int i = 2; i < count; i++) say(words[i], open(words[i], O_WRONLY));
    return 0;
}
