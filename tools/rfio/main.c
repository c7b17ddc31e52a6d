/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rfio.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void (*inform)(const char *text), (*clean)(void);

void before_fail(void (*with_text)(const char *text), void (*without)(void))
{
	inform = with_text;
	clean = without;
}

/* Replaces bytes that would control a terminal: messages name paths of other users. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void end_with(char *text) __attribute__((noreturn));
static void end_with(char *text)
{
	void (*last_words)(const char *text) = inform;

	make_printable(text);
	if (clean)
		clean();
	inform = NULL;
	if (last_words)
		last_words(text);
	fprintf(stderr, "softband-rfio: %s\n", text);
	exit(1);
}

void fail(const char *format, ...)
{
	char text[TEXT_BYTES_MAX + 1];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	end_with(text);
}

void fail_errno(const char *format, ...)
{
	char text[TEXT_BYTES_MAX + 1];
	int error = errno;
	size_t len;
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	len = strlen(text);
	snprintf(text + len, sizeof text - len, ": %s", strerror(error));
	end_with(text);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	static struct options options;

	parse_options(argc, argv, &options);
	if (options.serves)
		return run_server(&options);
	run_copy(&options);
	return 0;
}
