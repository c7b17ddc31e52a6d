/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tcpplay.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
	"usage: softband-tcpplay --rank=R --hosts=HOST[:PORT],... [OPTIONS] TRACE\n"
	"       softband-tcpplay --rank=R --hosts-file=FILE [OPTIONS] TRACE\n"
	"\n"
	"Plays one rank of a trace (GOAL, text form) over TCP. Start it once for each rank. Rank 0 prints the\n"
	"seconds until the last rank has ended, as a table of one line: ranks,seconds.\n"
	"\n"
	"      --rank=R               the rank that this process plays\n"
	"      --hosts=HOSTS          names or IPv4 addresses, separated by commas\n"
	"      --hosts-file=FILE      the same, one a line\n"
	"      --ranks-per-host=N     rank R is on host R / N (default 1)\n"
	"      --port=N               port of rank 0; rank R listens on N + R (default 18600)\n"
	"                             HOST:PORT has the port of this host's first rank\n"
	"      --start-timeout=SECONDS  gives up if a rank does not connect (default 30)\n"
	"      --timeout=SECONDS      gives up if nothing happens for so long (default 3600)\n"
	"  -h, --help                 this text\n";

enum option_name { RANK = 256, HOSTS, HOSTS_FILE, RANKS_PER_HOST, PORT, START_TIMEOUT, TIMEOUT };

static const struct option LONG[] = {
	{"rank", required_argument, NULL, RANK},
	{"hosts", required_argument, NULL, HOSTS},
	{"hosts-file", required_argument, NULL, HOSTS_FILE},
	{"ranks-per-host", required_argument, NULL, RANKS_PER_HOST},
	{"port", required_argument, NULL, PORT},
	{"start-timeout", required_argument, NULL, START_TIMEOUT},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char TRY[] = "\n  try: softband-tcpplay --help";

static uint32_t number(const char *option, const char *text, uint32_t least, uint32_t most)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < (long)least || value > (long)most)
		wrong_use("%s: `%s` is not a number from %u to %u%s", option, text, least, most, TRY);
	return (uint32_t)value;
}

static void parse_one(struct options *o, int option, const char *text)
{
	switch (option) {
	case RANK:
		o->rank = number("--rank", text, 0, RANKS_MAX - 1);
		break;
	case HOSTS:
		o->hosts = text;
		break;
	case HOSTS_FILE:
		o->hosts_file = text;
		break;
	case RANKS_PER_HOST:
		o->ranks_per_host = number("--ranks-per-host", text, 1, RANKS_MAX);
		break;
	case PORT:
		o->port = (int)number("--port", text, 1, 65535);
		break;
	case START_TIMEOUT:
		o->start_seconds = (int)number("--start-timeout", text, 1, 86400);
		break;
	case TIMEOUT:
		o->seconds = (int)number("--timeout", text, 1, 864000);
		break;
	case 'h':
		fputs(HELP, stdout);
		exit(0);
	default:
		fprintf(stderr, "  try: softband-tcpplay --help\n");
		exit(2);
	}
}

void parse_options(int argc, char **argv, struct options *o)
{
	int option;

	*o = (struct options){.rank = NONE, .ranks_per_host = 1, .port = 18600, .start_seconds = 30, .seconds = 3600};
	while ((option = getopt_long(argc, argv, "h", LONG, NULL)) != -1)
		parse_one(o, option, optarg);
	if (o->rank == NONE)
		wrong_use("--rank is missing: the number of the rank that this process plays%s", TRY);
	if (!o->hosts == !o->hosts_file)
		wrong_use("%s%s", o->hosts ? "--hosts and --hosts-file exclude each other" : "--hosts or --hosts-file is missing", TRY);
	if (argc - optind != 1)
		wrong_use("%d files in place of one trace%s", argc - optind, TRY);
	o->trace = argv[optind];
}
