/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that needs the connection manager, which Softband does not have. The program does not
 * find it and continues. The library explains the absence once.
 *
 *     missing_interfaces rdma_cm|probe  opens the files repeatedly, by several functions
 *     missing_interfaces librdmacm      calls the library, or prints "no library"
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "FAILED %s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno));    \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static void absent(const char *path)
{
	struct dirent **list;

	CHECK(open(path, O_RDWR | O_CLOEXEC) == -1 && errno == ENOENT);
	CHECK(openat(AT_FDCWD, path, O_RDONLY) == -1 && errno == ENOENT);
	CHECK(fopen(path, "r") == NULL && errno == ENOENT);
	CHECK(opendir(path) == NULL && errno == ENOENT);
	CHECK(scandir(path, &list, NULL, NULL) == -1 && errno == ENOENT);
}

/* A program that only probes for a file can do without it. */
static void probe(void)
{
	struct stat about;
	DIR *folder = opendir("/dev/infiniband");
	struct dirent *entry;
	int devices = 0;

	CHECK(stat("/dev/infiniband/rdma_cm", &about) == -1 && errno == ENOENT);
	CHECK(access("/sys/class/infiniband_cm", F_OK) == -1 && errno == ENOENT);
	CHECK(folder != NULL);
	while ((entry = readdir(folder)) != NULL)
		devices += !strncmp(entry->d_name, "uverbs", 6);
	CHECK(devices > 0);
	closedir(folder);
}

static void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);

	CHECK(found != NULL);
	return found;
}

static void *library(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);

	if (!library) {
		puts("no library");
		exit(0);
	}
	return library;
}

static void call_librdmacm(void)
{
	void *cm = library("librdmacm.so.1");
	void *(*create)(void) = function(cm, "rdma_create_event_channel");
	int (*open_socket)(int, int, int) = function(cm, "rsocket");

	CHECK(create() == NULL);
	CHECK(create() == NULL);
	CHECK(open_socket(2, 1, 0) == -1);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	for (int round = 0; round < 2; round++) {
		if (!strcmp(what, "rdma_cm")) {
			absent("/dev/infiniband/rdma_cm");
			absent("/dev/infiniband/ucm0");
			absent("/sys/class/misc/rdma_cm/abi_version");
		} else if (!strcmp(what, "probe")) {
			probe();
		} else {
			CHECK(!strcmp(what, "librdmacm"));
			call_librdmacm();
		}
	}
	puts("goes on");
	return 0;
}
