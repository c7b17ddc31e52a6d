/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rfio.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
	"usage: softband-rfio serve [OPTIONS]                        the server\n"
	"       softband-rfio cp [OPTIONS] HOST:PATH DESTINATION     copies a file of the server\n"
	"       softband-rfio cp [OPTIONS] HOST:mem:SIZE /dev/null   copies no file: network and protocol only\n"
	"\n"
	"Copies files over InfiniBand: TCP carries the control messages, reliable connections carry the data.\n"
	"\n"
	"of both:\n"
	"      --port=N           TCP port of the server (default 18517)\n"
	"      --timeout=SECONDS  gives up if nothing moves for so long (default 30)\n"
	"  -d, --ib-dev=DEVICE    HCA (default: the first one)\n"
	"  -i, --ib-port=N        port of the HCA (default: the first active one)\n"
	"  -x, --gid-index=N      sends with a global route (default on Ethernet: 0)\n"
	"  -h, --help             this text\n"
	"of the server:\n"
	"      --root=FOLDER      folder of the files (default: the working folder)\n"
	"      --readers=N        most readers at a time (default 16)\n"
	"      --memory=SIZE      bytes of the buffers of all readers (default 256M)\n"
	"      --transfers=N      ends after N readers, and prints the rate of all (default: runs on)\n"
	"of a copy:\n"
	"      --method=METHOD    rdma (default): the server writes into the reader's buffers\n"
	"                         send: both sides copy through dedicated send and receive buffers\n"
	"      --buffers=N        buffers on each side (default 8)\n"
	"      --buffer-size=SIZE multiple of 4096 (default 256K)\n"
	"      --direct           the server reads from its disk, around the page cache\n"
	"      --verify           compares checksums of both sides\n"
	"      --csv              prints bytes,seconds,MB/s and with --verify the checksum\n"
	"\n"
	"SIZE is a number of bytes; K, M and G are 2^10, 2^20 and 2^30. MB are 10^6 bytes.\n";

enum option_name { PORT = 256, TIMEOUT, ROOT, READERS, MEMORY, TRANSFERS, METHOD, BUFFERS, BUFFER_SIZE, DIRECT, VERIFY, CSV };

static const struct option LONG[] = {
	{"port", required_argument, NULL, PORT},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"ib-dev", required_argument, NULL, 'd'},
	{"ib-port", required_argument, NULL, 'i'},
	{"gid-index", required_argument, NULL, 'x'},
	{"help", no_argument, NULL, 'h'},
	{"root", required_argument, NULL, ROOT},
	{"readers", required_argument, NULL, READERS},
	{"memory", required_argument, NULL, MEMORY},
	{"transfers", required_argument, NULL, TRANSFERS},
	{"method", required_argument, NULL, METHOD},
	{"buffers", required_argument, NULL, BUFFERS},
	{"buffer-size", required_argument, NULL, BUFFER_SIZE},
	{"direct", no_argument, NULL, DIRECT},
	{"verify", no_argument, NULL, VERIFY},
	{"csv", no_argument, NULL, CSV},
	{0},
};

/* Ends the program with status 2 after wrong use, as other commands do. */
static void refuse(const char *option, const char *given, const char *wanted) __attribute__((noreturn));
static void refuse(const char *option, const char *given, const char *wanted)
{
	fprintf(stderr, "softband-rfio: %s: `%s` is not %s\n  try: softband-rfio --help\n", option, given, wanted);
	exit(2);
}

static uint64_t size(const char *option, const char *text, uint64_t most)
{
	char wanted[80];
	uint64_t value;

	if (parse_size(text, most, &value)) {
		snprintf(wanted, sizeof wanted, "a size from 1 to %llu bytes", (unsigned long long)most);
		refuse(option, text, wanted);
	}
	return value;
}

static int number(const char *option, const char *text, int least, int most)
{
	char *end, wanted[80];
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		snprintf(wanted, sizeof wanted, "a number from %d to %d", least, most);
		refuse(option, text, wanted);
	}
	return (int)value;
}

static enum method method_of(const char *text)
{
	if (strcmp(text, "rdma") == 0)
		return RDMA;
	if (strcmp(text, "send") == 0)
		return SEND;
	refuse("--method", text, "rdma or send");
}

static uint32_t buffer_size(const char *text)
{
	uint64_t bytes = size("--buffer-size", text, BUFFER_BYTES_MAX);

	if (bytes % BUFFER_UNIT)
		refuse("--buffer-size", text, "a multiple of 4096 bytes");
	return (uint32_t)bytes;
}

static void parse_of_copy(struct options *o, int option, const char *text)
{
	static const char *const names[] = {"--method", "--buffers", "--buffer-size", "--direct", "--verify", "--csv"};

	if (o->serves)
		refuse(names[option - METHOD], text ? text : "given", "for a server");
	switch (option) {
	case METHOD:
		o->method = method_of(text);
		break;
	case BUFFERS:
		o->buffers = (uint32_t)number("--buffers", text, 1, BUFFERS_MAX);
		break;
	case BUFFER_SIZE:
		o->buffer_bytes = buffer_size(text);
		break;
	case DIRECT:
		o->flags |= FROM_DISK;
		break;
	case VERIFY:
		o->flags |= WITH_CHECKSUM;
		break;
	case CSV:
		o->csv = 1;
		break;
	}
}

static void parse_of_server(struct options *o, int option, const char *text)
{
	static const char *const names[] = {"--root", "--readers", "--memory", "--transfers"};

	if (!o->serves)
		refuse(names[option - ROOT], text, "for a copy");
	switch (option) {
	case ROOT:
		o->root = text;
		break;
	case READERS:
		o->readers = number("--readers", text, 1, 1024);
		break;
	case MEMORY:
		o->memory = size("--memory", text, 1ull << 40);
		break;
	case TRANSFERS:
		o->transfers = number("--transfers", text, 1, 1000000);
		break;
	}
}

static void parse_one(struct options *o, int option, const char *text)
{
	switch (option) {
	case PORT:
		o->tcp_port = number("--port", text, 1, 65535);
		break;
	case TIMEOUT:
		o->timeout_seconds = number("--timeout", text, 1, 86400);
		break;
	case 'd':
		o->device = text;
		break;
	case 'i':
		o->ib_port = number("-i", text, 1, 254);
		break;
	case 'x':
		o->gid_index = number("-x", text, 0, 255);
		break;
	case 'h':
		fputs(HELP, stdout);
		exit(0);
	case '?':
		fprintf(stderr, "  try: softband-rfio --help\n");
		exit(2);
	default:
		if (option >= METHOD)
			parse_of_copy(o, option, text);
		else
			parse_of_server(o, option, text);
	}
}

static void parse_source(struct options *o, const char *text)
{
	const char *colon = strchr(text, ':');

	if (!colon || colon == text || colon[1] == 0 || (size_t)(colon - text) >= sizeof o->host)
		refuse("source", text, "HOST:PATH");
	if (strlen(colon + 1) > PATH_BYTES_MAX)
		refuse("source", text, "a path of at most 4095 bytes");
	memcpy(o->host, text, (size_t)(colon - text));
	o->path = colon + 1;
}

void parse_options(int argc, char **argv, struct options *o)
{
	int option, wants_help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);

	*o = (struct options){.root = ".", .memory = 256 << 20, .readers = 16, .buffers = 8, .buffer_bytes = 256 << 10, .tcp_port = 18517,
			      .timeout_seconds = 30, .gid_index = -1};
	if (!wants_help && (argc < 2 || (strcmp(argv[1], "serve") && strcmp(argv[1], "cp"))))
		refuse("command", argc < 2 ? "" : argv[1], "serve or cp");
	o->serves = !wants_help && strcmp(argv[1], "serve") == 0;
	if (!wants_help)
		optind = 2;
	while ((option = getopt_long(argc, argv, "d:i:x:h", LONG, NULL)) != -1)
		parse_one(o, option, optarg);
	if (argc - optind != (o->serves ? 0 : 2))
		refuse("arguments", optind < argc ? argv[optind] : "", o->serves ? "expected: a server has options only" : "HOST:PATH DESTINATION");
	if (o->serves)
		return;
	parse_source(o, argv[optind]);
	o->destination = argv[optind + 1];
}
