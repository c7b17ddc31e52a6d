/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Writes the destination `copy` of softband-rfio while another copy finishes: the linker replaces
 * flock (--wrap=flock). With the argument `no-locks` the file system has no locks. */
#include "rfio.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_locks = 1, calls;

int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
	(void)fd;
	(void)operation;
	if (!has_locks) {
		errno = ENOLCK;
		return -1;
	}
	if (calls++ == 0 && rename("copy.part", "copy"))
		abort();
	return 0;
}

void before_fail(void (*inform)(const char *text), void (*clean)(void))
{
	(void)inform;
	(void)clean;
}

static void say(const char *format, va_list list, const char *more)
{
	vprintf(format, list);
	printf("%s%s\n", *more ? ": " : "", more);
	exit(1);
}

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say(format, list, "");
	abort();
}

void fail_errno(const char *format, ...)
{
	const char *why = strerror(errno);
	va_list list;

	va_start(list, format);
	say(format, list, why);
	abort();
}

int main(int argc, char **argv)
{
	has_locks = argc < 2 || strcmp(argv[1], "no-locks") != 0;
	target_open("copy");
	target_write((const uint8_t *)"new", 3);
	target_finish();
	printf("%d locks\n", calls);
	return 0;
}
