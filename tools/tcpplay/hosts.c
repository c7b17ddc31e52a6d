/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The addresses of the ranks. */
#include "tcpplay.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_MAX = 65535 };

static char *text_of(const char *path)
{
	size_t room = 0, length = 0, got;
	char *text = NULL;
	FILE *file = fopen(path, "r");

	if (!file)
		wrong_use("cannot read --hosts-file %s: %s", path, strerror(errno));
	do {
		/* Room for a part of the file and the end of the text. */
		while (room < length + 4097)
			text = grown(text, room, &room, 1);
		got = fread(text + length, 1, 4096, file);
		length += got;
	} while (got);
	if (ferror(file))
		wrong_use("cannot read --hosts-file %s: %s", path, strerror(errno));
	fclose(file);
	text[length] = 0;
	return text;
}

/* Returns the port in the text, or ends the program. */
static int port_of(const char *text, const char *where)
{
	char *end;
	long port = strtol(text, &end, 10);

	if (end == text || *end || port < 1 || port > PORT_MAX)
		wrong_use("%s: `%s` is not a port from 1 to %d", where, text, PORT_MAX);
	return (int)port;
}

/* Sets the addresses of the ranks of one host. */
static void add_host(struct address *list, uint32_t first, uint32_t ranks, const struct options *o, char *name, const char *where)
{
	char *colon = strchr(name, ':');
	int port = colon ? port_of(colon + 1, where) : o->port + (int)first;
	uint32_t i;

	if (colon)
		*colon = 0;
	if (!*name || strlen(name) >= sizeof list->host)
		wrong_use("%s: `%s` is not a name of a host", where, name);
	for (i = 0; i < o->ranks_per_host && first + i < ranks; i++) {
		if (port + (int)i > PORT_MAX)
			wrong_use("%s: rank %u would have port %d: the last one is %d", where, first + i, port + (int)i, PORT_MAX);
		snprintf(list[first + i].host, sizeof list->host, "%s", name);
		snprintf(list[first + i].port, sizeof list->port, "%u", (unsigned)(port + (int)i) & 0xffff);
	}
}

/* Removes spaces at both ends. */
static char *trimmed(char *text)
{
	size_t length;

	while (isspace((unsigned char)*text))
		text++;
	for (length = strlen(text); length && isspace((unsigned char)text[length - 1]); length--)
		text[length - 1] = 0;
	return text;
}

struct address *addresses_of(const struct options *o, uint32_t ranks)
{
	struct address *list = zeroed(ranks, sizeof *list);
	char *text = o->hosts ? strdup(o->hosts) : text_of(o->hosts_file), *rest = text, *part, where[512];
	uint32_t first = 0, number = 0, hosts = (ranks + o->ranks_per_host - 1) / o->ranks_per_host;

	while (first < ranks && (part = strsep(&rest, o->hosts ? "," : "\n"))) {
		number++;
		part = trimmed(part);
		/* Empty lines and comments of a file. */
		if (!o->hosts && (!*part || *part == '#'))
			continue;
		snprintf(where, sizeof where, "%s:%u", o->hosts ? "--hosts" : o->hosts_file, number);
		add_host(list, first, ranks, o, part, where);
		first += o->ranks_per_host;
	}
	if (first < ranks)
		wrong_use("%s has %u hosts, and the trace's %u ranks need %u (--ranks-per-host %u)", o->hosts ? "--hosts" : o->hosts_file,
			  first / o->ranks_per_host, ranks, hosts, o->ranks_per_host);
	free(text);
	return list;
}
