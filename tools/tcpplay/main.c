/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tcpplay.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t own_rank = NONE;

static void end_with(int status, const char *format, va_list list, const char *reason) __attribute__((noreturn));
static void end_with(int status, const char *format, va_list list, const char *reason)
{
	char text[1024], rank[32] = "";

	vsnprintf(text, sizeof text, format, list);
	if (own_rank != NONE)
		snprintf(rank, sizeof rank, "rank %u: ", own_rank);
	fprintf(stderr, "softband-tcpplay: %s%s%s%s\n", rank, text, reason ? ": " : "", reason ? reason : "");
	exit(status);
}

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	end_with(1, format, list, NULL);
}

void fail_errno(const char *format, ...)
{
	const char *reason = strerror(errno);
	va_list list;

	va_start(list, format);
	end_with(1, format, list, reason);
}

void wrong_use(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	end_with(2, format, list, NULL);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		fail("no memory for %zu x %zu bytes", count, size);
	return memory;
}

/* Returns an array with room for one more element. */
void *grown(void *memory, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return memory;
	*room = *room ? 2 * *room : 64;
	memory = realloc(memory, *room * size);
	if (!memory)
		fail("no memory for %zu x %zu bytes", *room, size);
	return memory;
}

int main(int argc, char **argv)
{
	static struct options options;
	static struct trace trace;
	static struct mesh mesh;

	parse_options(argc, argv, &options);
	own_rank = options.rank;
	read_trace(&trace, options.trace, options.rank);
	mesh_connect(&mesh, &options, &trace);
	play(&trace, &mesh, &options);
	return 0;
}
