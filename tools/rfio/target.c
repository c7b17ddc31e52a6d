/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Writes the destination. A file gets its name only when it is whole. Devices such as /dev/null get
 * the data as it comes. */
#define _GNU_SOURCE
#include "rfio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEW_FILE_MODE = 0666 };

static char part[PATH_MAX]; /* empty: no unfinished file */
static const char *name;
static int target = -1;

static void remove_part(void)
{
	if (part[0])
		unlink(part);
	part[0] = 0;
}

static void on_signal(int number)
{
	if (part[0])
		unlink(part);
	signal(number, SIG_DFL);
	raise(number);
}

static void catch_ends(void)
{
	static const int ends[] = {SIGHUP, SIGINT, SIGTERM};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (signal(ends[i], SIG_IGN) != SIG_IGN)
			signal(ends[i], on_signal);
	/* A write beyond the limit of file sizes then fails with EFBIG. */
	signal(SIGXFSZ, SIG_IGN);
}

/* Opens and locks the unfinished file. Returns whether the file still has its name: another copy
 * may have finished it meanwhile. */
static int lock_part(const char *wanted)
{
	struct stat opened, named;

	/* Waits for no reader of a named pipe: O_NONBLOCK. */
	target = open(wanted, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, NEW_FILE_MODE);
	/* A named pipe without a reader, a symbolic link, and a file of another user. */
	if (target < 0 && (errno == ENXIO || errno == ELOOP || errno == EACCES) && lstat(wanted, &named) == 0)
		fail("`%s` is not an unfinished copy of yours: remove it", wanted);
	if (target < 0)
		fail_errno("cannot write `%s`", wanted);
	if (fstat(target, &opened))
		fail_errno("cannot look at `%s`", wanted);
	if (!S_ISREG(opened.st_mode) || opened.st_uid != geteuid() || opened.st_nlink > 1)
		fail("`%s` is not an unfinished copy of yours: remove it", wanted);
	/* The lock keeps a second copy from the same unfinished file. */
	if (flock(target, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			fail("another copy writes `%s`", wanted);
		fail_errno("cannot lock `%s`", wanted);
	}
	if (lstat(wanted, &named) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
		return 1;
	close(target);
	return 0;
}

/* Opens the unfinished file. Its mode is that of the file that it replaces. */
static void open_part(const struct stat *replaced)
{
	char wanted[PATH_MAX];

	if (snprintf(wanted, sizeof wanted, "%s.part", name) >= (int)sizeof wanted)
		fail("the name `%s` is too long", name);
	while (!lock_part(wanted))
		;
	strcpy(part, wanted);
	if (ftruncate(target, 0))
		fail_errno("cannot write `%s`", part);
	if (replaced && fchmod(target, replaced->st_mode & 0777))
		fail_errno("cannot give `%s` the mode of `%s`", part, name);
}

void target_open(const char *path)
{
	struct stat about;
	int exists;

	name = path;
	before_fail(NULL, remove_part);
	catch_ends();
	exists = stat(path, &about) == 0;
	if (exists && S_ISDIR(about.st_mode))
		fail("`%s` is a folder: name a file", path);
	if (exists && !S_ISREG(about.st_mode)) {
		target = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		if (target < 0)
			fail_errno("cannot write `%s`", path);
		return;
	}
	open_part(exists ? &about : NULL);
}

void target_write(const uint8_t *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t written = write(target, data, bytes);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			fail_errno("cannot write `%s`", name);
		data += written;
		bytes -= (size_t)written;
	}
}

void target_finish(void)
{
	/* The close of a copy reports late errors of the file system, and keeps the lock. */
	int copy = dup(target);

	if (copy < 0 || close(copy))
		fail_errno("cannot write `%s`", name);
	if (part[0] && rename(part, name))
		fail_errno("cannot rename `%s` to `%s`", part, name);
	part[0] = 0;
	close(target);
}
