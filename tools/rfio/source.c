/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Opens the files of a server. A path never leads out of the root folder: the kernel checks each
 * part of it, symbolic links included. */
#define _GNU_SOURCE
#include "rfio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t MEMORY_BYTES_MAX = 1ull << 40;

/* Renames on the way of a path can interrupt its walk again and again (openat2(2), EAGAIN). */
enum { OPEN_TRIES = 100 };

static const char MEMORY[] = "mem:";

int root_open(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		fail_errno("cannot serve `%s`", path);
	return fd;
}

/* Waits for no writer of a named pipe: O_NONBLOCK. */
static int open_beneath(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = -1;

	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
		if (fd >= 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	return fd;
}

static void open_file(struct source *s, int root, const char *path, int from_disk)
{
	const char *beneath = path + strspn(path, "/");
	struct stat about;

	s->fd = open_beneath(root, *beneath ? beneath : ".", from_disk ? O_DIRECT : 0);
	if (s->fd < 0 && errno == EXDEV)
		fail("`%s` leads out of the server's folder (--root)", path);
	if (s->fd < 0 && errno == ENOSYS)
		fail("the server's kernel has no openat2: it needs Linux 5.6");
	if (s->fd < 0 && errno == EINVAL && from_disk)
		fail("the file system of `%s` cannot read around the page cache (--direct)", path);
	if (s->fd < 0)
		fail_errno("cannot open `%s`", path);
	if (fstat(s->fd, &about))
		fail_errno("cannot look at `%s`", path);
	if (!S_ISREG(about.st_mode))
		fail("`%s` is no regular file", path);
	s->bytes = (uint64_t)about.st_size;
}

void source_open(struct source *s, int root, const char *path, int from_disk)
{
	*s = (struct source){.fd = -1};
	if (strncmp(path, MEMORY, strlen(MEMORY)) != 0) {
		open_file(s, root, path, from_disk);
		return;
	}
	if (parse_size(path + strlen(MEMORY), MEMORY_BYTES_MAX, &s->bytes))
		fail("`%s` is not mem:SIZE, with a size from 1 to 1024G", path);
	if (from_disk)
		fail("`%s` is on no disk (--direct)", path);
}

/* A read from the disk goes for a whole buffer, and ends with the file. */
void source_read(const struct source *s, uint8_t *to, uint64_t offset, uint32_t bytes)
{
	uint32_t room = (bytes + BUFFER_UNIT - 1) / BUFFER_UNIT * BUFFER_UNIT, done = 0;

	if (s->fd < 0)
		return;
	while (done < bytes) {
		ssize_t part = pread(s->fd, to + done, room - done, (off_t)(offset + done));

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			fail_errno("cannot read the file");
		if (part == 0)
			fail("the file has become shorter");
		done += (uint32_t)part;
	}
}
