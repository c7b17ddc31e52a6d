/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The words of a trace, with their lines. A comment follows `//` or `#` on a line, or stands between
 * two marks as in C. */
#include "tcpplay.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char CUT[] = "it may have been cut off: write it out again";

void wrong_trace(const char *path, uint32_t line, const char *help, const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	fprintf(stderr, "%s:%u: error: %s\n  help: %s\n", path, line, text, help);
	exit(2);
}

void reader_open(struct reader *r, const char *path)
{
	struct stat about;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &about))
		wrong_use("cannot read the trace %s: %s", path, strerror(errno));
	if (!S_ISREG(about.st_mode))
		wrong_use("the trace %s is not a regular file", path);
	if (!about.st_size)
		wrong_trace(path, 1, CUT, "the trace is empty");
	r->begin = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (r->begin == MAP_FAILED)
		wrong_use("cannot map the trace %s: %s", path, strerror(errno));
	close(fd);
	r->path = path;
	r->at = r->begin;
	r->end = r->begin + about.st_size;
	r->line = 1;
	if (about.st_size >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0)
		r->at += 3;
}

static int is_mark(char c)
{
	return c == '{' || c == '}' || c == ':' || c == ';';
}

static int begins(const struct reader *r, const char *two)
{
	return r->end - r->at >= 2 && r->at[0] == two[0] && r->at[1] == two[1];
}

static int is_comment(const struct reader *r)
{
	return *r->at == '#' || begins(r, "//") || begins(r, "/*");
}

static void skip_comment(struct reader *r)
{
	int is_long = begins(r, "/*");

	if (is_long)
		r->at += 2;
	while (r->at < r->end && (is_long ? !begins(r, "*/") : *r->at != '\n'))
		r->line += *r->at++ == '\n';
	if (is_long)
		r->at += r->at < r->end ? 2 : 0;
}

static void skip_space(struct reader *r)
{
	while (r->at < r->end) {
		if (isspace((unsigned char)*r->at))
			r->line += *r->at++ == '\n';
		else if (is_comment(r))
			skip_comment(r);
		else
			break;
	}
}

struct word next_word(struct reader *r)
{
	struct word w;

	if (r->is_ahead) {
		r->is_ahead = 0;
		return r->ahead;
	}
	skip_space(r);
	w = (struct word){.text = r->at, .line = r->line};
	while (r->at < r->end && !isspace((unsigned char)*r->at) && !is_mark(*r->at) && !is_comment(r)) {
		if ((unsigned char)*r->at < ' ' || *r->at == 0x7f)
			wrong_trace(r->path, r->line, "`softband record goal` writes traces as text",
				    "the file is not text: only GOAL traces in text form are read");
		r->at++;
	}
	if (r->at == w.text && r->at < r->end)
		r->at++;
	w.length = (size_t)(r->at - w.text);
	return w;
}

int is_word(const struct word *w, const char *text)
{
	return w->length == strlen(text) && memcmp(w->text, text, w->length) == 0;
}

int skip_word(struct reader *r, const char *text)
{
	if (!r->is_ahead)
		r->ahead = next_word(r);
	r->is_ahead = !is_word(&r->ahead, text);
	return !r->is_ahead;
}

static struct word needed(struct reader *r, const char *what)
{
	struct word w = next_word(r);

	if (!w.length)
		wrong_trace(r->path, w.line, CUT, "the trace ends before %s", what);
	return w;
}

void expect_word(struct reader *r, const char *text)
{
	struct word w = needed(r, text);

	if (!is_word(&w, text))
		wrong_trace(r->path, w.line, "a line is `l1: send 8b to 1 tag 5`, `l2: recv 8b from 1 tag 5` or `l3: calc 1000`",
			    "expected `%s`, found `%.*s`", text, (int)(w.length < 80 ? w.length : 80), w.text);
}

uint64_t next_number(struct reader *r, const char *what, uint64_t most)
{
	struct word w = needed(r, what);
	/* The unit of a size. */
	int has_unit = w.length > 1 && (w.text[w.length - 1] | 0x20) == 'b' && strcmp(what, "a size") == 0;
	size_t i, digits = w.length - (has_unit ? 1 : 0);
	uint64_t value = 0;

	for (i = 0; i < digits && isdigit((unsigned char)w.text[i]) && value <= UINT64_MAX / 10 - 1; i++)
		value = 10 * value + (uint64_t)(w.text[i] - '0');
	if (i < digits || value > most)
		wrong_trace(r->path, w.line, "write a whole number", "`%.*s` is not %s: a number from 0 to %llu",
			    (int)(w.length < 80 ? w.length : 80), w.text, what, (unsigned long long)most);
	if (!has_unit && strcmp(what, "a size") == 0 && !skip_word(r, "b"))
		skip_word(r, "B");
	return value;
}
