/* Prints the processors that a program sees, by every way that asks for them, and checks that setters
 * answer by the same set. The lines are the same on every machine. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define SET_BYTES 128

static void print_set(const char *way, long status, const void *set) {
    printf("%s: %ld, processors", way, status);
    for (int number = 0; number < SET_BYTES * 8; number++)
        if (CPU_ISSET_S(number, SET_BYTES, (const cpu_set_t *)set)) printf(" %d", number);
    puts("");
}

static void print_lines(const char *path, const char *beginning) {
    char line[4096];
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    while (fgets(line, sizeof line, file))
        if (strncmp(line, beginning, strlen(beginning)) == 0) printf("%s: %s", path, line);
    fclose(file);
}

static void print_folders(const char *path, const char *beginning) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    int count = 0;
    while (folder && (entry = readdir(folder))) {
        char after = entry->d_name[strlen(beginning) < strlen(entry->d_name) ? strlen(beginning) : 0];
        count += strncmp(entry->d_name, beginning, strlen(beginning)) == 0 && after >= '0' && after <= '9';
    }
    if (folder) closedir(folder);
    printf("%s: %d of %s\n", path, count, beginning);
}

static void *look(void *name) {
    unsigned char set[SET_BYTES] = {0};
    int status = pthread_getaffinity_np(pthread_self(), sizeof set, (cpu_set_t *)set);
    print_set(name, status, set);
    return NULL;
}

static int create(const pthread_attr_t *attributes, char *name) {
    pthread_t thread;
    int status = pthread_create(&thread, attributes, look, name);
    if (status == 0) pthread_join(thread, NULL);
    return status;
}

static void asks(void) {
    unsigned char set[SET_BYTES] = {0};
    pthread_attr_t attributes;
    unsigned processor = 99, node = 99;
    print_set("sched_getaffinity", sched_getaffinity(0, sizeof set, (cpu_set_t *)set), set);
    print_set("of its own number", sched_getaffinity(getpid(), sizeof set, (cpu_set_t *)set), set);
    memset(set, 0, sizeof set);
    print_set("system call", syscall(SYS_sched_getaffinity, 0, sizeof set, set), set);
    printf("too short: %d\n", sched_getaffinity(0, 0, (cpu_set_t *)set) == -1 ? errno : 0);
    printf("no such process: %d\n", sched_getaffinity(1 << 22, sizeof set, (cpu_set_t *)set) == -1 ? errno : 0);
    look("first thread");
    pthread_getattr_np(pthread_self(), &attributes);
    memset(set, 0, sizeof set);
    print_set("pthread_getattr_np", pthread_attr_getaffinity_np(&attributes, sizeof set, (cpu_set_t *)set), set);
    pthread_attr_destroy(&attributes);
    printf("sysconf: %ld of %ld, get_nprocs: %d of %d\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF), get_nprocs(),
           get_nprocs_conf());
    printf("sched_getcpu: %d\n", sched_getcpu());
    int status = getcpu(&processor, &node);
    printf("getcpu: %d, %u on node %u\n", status, processor, node);
    processor = node = 99;
    status = syscall(SYS_getcpu, &processor, &node, NULL);
    printf("system call: %d, %u on node %u\n", status, processor, node);
}

static void sets(void) {
    unsigned char first[SET_BYTES] = {1}, second[SET_BYTES] = {2}, both[SET_BYTES] = {3};
    pthread_attr_t attributes;
    printf("set the first: %d\n", sched_setaffinity(0, sizeof first, (cpu_set_t *)first));
    printf("set both: %d\n", sched_setaffinity(0, sizeof both, (cpu_set_t *)both));
    printf("set the second: %d\n", sched_setaffinity(0, sizeof second, (cpu_set_t *)second) == -1 ? errno : 0);
    printf("by system call: %ld\n", syscall(SYS_sched_setaffinity, 0, sizeof both, both));
    printf("of a thread: %d, %d\n", pthread_setaffinity_np(pthread_self(), sizeof first, (cpu_set_t *)first),
           pthread_setaffinity_np(pthread_self(), sizeof second, (cpu_set_t *)second));
    pthread_attr_init(&attributes);
    printf("new thread: %d\n", create(&attributes, "in a new thread"));
    pthread_attr_setaffinity_np(&attributes, sizeof first, (cpu_set_t *)first);
    printf("new thread on the first: %d\n", create(&attributes, "in a thread on the first"));
    printf("and another: %d\n", create(&attributes, "in another thread on the first"));
    pthread_attr_setaffinity_np(&attributes, sizeof second, (cpu_set_t *)second);
    printf("new thread on the second: %d\n", create(&attributes, "in a thread on the second"));
    pthread_attr_destroy(&attributes);
}

static void files(void) {
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/status", (int)getpid());
    for (int round = 0; round < 2; round++) {
        print_lines(round ? own : "/proc/self/status", "Cpus_allowed");
        print_lines(round ? own : "/proc/self/status", "Pid:");
    }
    print_lines("/proc/cpuinfo", "processor");
    print_lines("/proc/stat", "cpu0 x");
    for (const char *const *name = (const char *const[]){"online", "possible", "present", "offline", NULL}; *name; name++) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/%s", *name);
        print_lines(path, "");
    }
    print_lines("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "");
    print_lines("/sys/devices/system/node/node0/cpulist", "");
    print_folders("/sys/devices/system/cpu", "cpu");
    print_folders("/sys/devices/system/node", "node");
    printf("cpu1: %d\n", access("/sys/devices/system/cpu/cpu1", F_OK));
}

int main(void) {
    asks();
    sets();
    files();
    return 0;
}
