/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that needs the connection manager or management datagrams, which Softband does not
 * have. The program finds neither and continues. The library explains the absence of each once.
 *
 *     missing_interfaces rdma_cm|umad|probe   opens the files repeatedly, by several functions
 *     missing_interfaces librdmacm|libibumad  calls the library, or prints "no library"
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
	CHECK(access("/sys/class/infiniband_mad", F_OK) == -1 && errno == ENOENT);
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

static void call_libibumad(void)
{
	void *umad = library("libibumad.so.3");
	int (*init)(void) = function(umad, "umad_init");
	int (*open_port)(const char *, int) = function(umad, "umad_open_port");
	int (*names)(char[][20], int) = function(umad, "umad_get_cas_names");
	char list[8][20];

	init();
	CHECK(names(list, 8) == 1);
	CHECK(open_port(NULL, 0) < 0);
	CHECK(open_port(list[0], 1) < 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	for (int round = 0; round < 2; round++) {
		if (!strcmp(what, "rdma_cm")) {
			absent("/dev/infiniband/rdma_cm");
			absent("/dev/infiniband/ucm0");
			absent("/sys/class/misc/rdma_cm/abi_version");
		} else if (!strcmp(what, "umad")) {
			absent("/dev/infiniband/umad0");
			absent("/dev/infiniband/issm0");
			absent("/sys/class/infiniband_mad");
			absent("/sys/class/infiniband_mad/abi_version");
		} else if (!strcmp(what, "probe")) {
			probe();
		} else if (!strcmp(what, "librdmacm")) {
			call_librdmacm();
		} else {
			CHECK(!strcmp(what, "libibumad"));
			call_libibumad();
		}
	}
	puts("goes on");
	return 0;
}
