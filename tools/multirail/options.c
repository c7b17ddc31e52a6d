/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "multirail.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t SIZE_MAX_BYTES = 1u << 30;

static const char HELP[] =
	"usage: softband-multirail [OPTIONS]            the server\n"
	"       softband-multirail [OPTIONS] SERVER     the client, with the same options\n"
	"\n"
	"Bandwidth of RDMA writes over several ports of an HCA: a sender posts a window of messages back to back, waits for\n"
	"all of them, and repeats. And the latency of each verb over one port, in a ping-pong.\n"
	"\n"
	"  -t, --test=TEST        write_bw (default), send_lat, write_lat, read_lat, cmp_swap_lat or fetch_add_lat\n"
	"      --policy=POLICY    striping (default): each message is divided among the ports\n"
	"                         binding: messages stay whole; with one process what goes forth takes the first port and\n"
	"                         what goes back the second, with several each process has a port of its own, in turns\n"
	"      --ports=N          ports that are used (default 2; a latency test uses 1)\n"
	"      --procs=N          processes on each side, forked by the program (default 1)\n"
	"  -b, --bidirectional    both sides send; the sum of both directions is printed\n"
	"  -s, --size=BYTES       message size (default 1048576, latency 8), or FROM:TO for the powers of two in between\n"
	"  -n, --iters=N          windows of each process, or round trips (default 20, latency 1000)\n"
	"  -q, --window=N         messages in a window (default 64)\n"
	"      --stripe-from=B    smallest message that striping divides (default 4096); others take the ports in turns\n"
	"  -d, --ib-dev=DEVICE    HCA (default: the first one)\n"
	"  -i, --ib-port=LIST     ports, as 1,2 (default: the first active ones)\n"
	"  -m, --mtu=BYTES        path MTU: 256, 512, 1024, 2048 or 4096 (default: the ports' active one)\n"
	"  -x, --gid-index=N      sends with a global route (default on Ethernet: 0)\n"
	"  -I, --inline=BYTES     messages up to this size go inline (default 0)\n"
	"  -p, --port=N           TCP port for what both sides must know of each other (default 18516)\n"
	"  -h, --help             this text\n"
	"\n"
	"MB are 10^6 bytes. Latencies are half a round trip for send and write, a whole one for read and atomics.\n";

static const char *const TESTS[] = {"write_bw", "send_lat", "write_lat", "read_lat", "cmp_swap_lat", "fetch_add_lat"};
static const char *const POLICIES[] = {"striping", "binding"};

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "softband-multirail: ");
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	exit(1);
}

void fail_errno(const char *format, ...)
{
	int error = errno;
	va_list list;

	va_start(list, format);
	fprintf(stderr, "softband-multirail: ");
	vfprintf(stderr, format, list);
	fprintf(stderr, ": %s\n", strerror(error));
	va_end(list);
	exit(1);
}

const char *test_name(enum test test)
{
	return TESTS[test];
}

const char *policy_name(enum policy policy)
{
	return POLICIES[policy];
}

/* Ends the program with status 2 after wrong use, as other commands do. */
static void refuse(const char *option, const char *given, const char *wanted) __attribute__((noreturn));
static void refuse(const char *option, const char *given, const char *wanted)
{
	fprintf(stderr, "softband-multirail: %s: `%s` is not %s\n  try: softband-multirail --help\n", option, given, wanted);
	exit(2);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end, wanted[80];
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-') || value < least || value > most) {
		snprintf(wanted, sizeof wanted, "a number from %llu to %llu", (unsigned long long)least, (unsigned long long)most);
		refuse(option, text, wanted);
	}
	return value;
}

static int word(const char *option, const char *text, const char *const *words, int count, const char *wanted)
{
	for (int i = 0; i < count; i++)
		if (strcmp(text, words[i]) == 0)
			return i;
	refuse(option, text, wanted);
}

static void parse_sizes(struct options *o, const char *text)
{
	char copy[64], *to;

	if (strlen(text) >= sizeof copy)
		refuse("-s", text, "a size");
	strcpy(copy, text);
	to = strchr(copy, ':');
	if (to)
		*to++ = 0;
	o->size_from = number("-s", copy, 1, SIZE_MAX_BYTES);
	o->size_to = to ? number("-s", to, o->size_from, SIZE_MAX_BYTES) : o->size_from;
}

static void parse_port_list(struct options *o, const char *text)
{
	char copy[64], *rest, *part;

	if (strlen(text) >= sizeof copy)
		refuse("-i", text, "a list of ports");
	strcpy(copy, text);
	o->ports_listed = 0;
	for (part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
		uint8_t port = (uint8_t)number("-i", part, 1, 255);

		for (int i = 0; i < o->ports_listed; i++)
			if (o->port_list[i] == port)
				refuse("-i", text, "a list of different ports");
		if (o->ports_listed == PORTS_MAX)
			refuse("-i", text, "a list of at most 8 ports");
		o->port_list[o->ports_listed++] = port;
	}
	if (!o->ports_listed)
		refuse("-i", text, "a list of ports, such as 1,2");
}

static int parse_mtu(const char *text)
{
	int mtu = (int)number("-m", text, 256, 4096);

	if (mtu & (mtu - 1))
		refuse("-m", text, "256, 512, 1024, 2048 or 4096");
	return mtu;
}

static const struct option LONG[] = {
	{"test", required_argument, NULL, 't'},	     {"policy", required_argument, NULL, 'P'},
	{"ports", required_argument, NULL, 'N'},     {"procs", required_argument, NULL, 'R'},
	{"bidirectional", no_argument, NULL, 'b'},   {"size", required_argument, NULL, 's'},
	{"iters", required_argument, NULL, 'n'},     {"window", required_argument, NULL, 'q'},
	{"stripe-from", required_argument, NULL, 'S'}, {"ib-dev", required_argument, NULL, 'd'},
	{"ib-port", required_argument, NULL, 'i'},   {"mtu", required_argument, NULL, 'm'},
	{"gid-index", required_argument, NULL, 'x'}, {"inline", required_argument, NULL, 'I'},
	{"port", required_argument, NULL, 'p'},	     {"help", no_argument, NULL, 'h'},
	{0},
};

static void parse_one(struct options *o, int option, const char *text)
{
	switch (option) {
	case 't':
		o->test = (enum test)word("-t", text, TESTS, 6, "write_bw, send_lat, write_lat, read_lat, cmp_swap_lat or fetch_add_lat");
		break;
	case 'P':
		o->policy = (enum policy)word("--policy", text, POLICIES, 2, "striping or binding");
		break;
	case 'N':
		o->ports = (int)number("--ports", text, 1, PORTS_MAX);
		break;
	case 'R':
		o->procs = (int)number("--procs", text, 1, PROCS_MAX);
		break;
	case 'b':
		o->bidirectional = 1;
		break;
	case 's':
		parse_sizes(o, text);
		break;
	case 'n':
		o->iterations = (int)number("-n", text, 1, 100000000);
		break;
	case 'q':
		o->window = (int)number("-q", text, 1, 8192);
		break;
	case 'S':
		o->stripe_from = number("--stripe-from", text, 2, SIZE_MAX_BYTES);
		break;
	case 'd':
		o->device = text;
		break;
	case 'i':
		parse_port_list(o, text);
		break;
	case 'm':
		o->mtu = parse_mtu(text);
		break;
	case 'x':
		o->gid_index = (int)number("-x", text, 0, 255);
		break;
	case 'I':
		o->inline_bytes = (uint32_t)number("-I", text, 0, 4096);
		break;
	case 'p':
		o->tcp_port = (int)number("-p", text, 1, 65535);
		break;
	case 'h':
		fputs(HELP, stdout);
		exit(0);
	default:
		fprintf(stderr, "  try: softband-multirail --help\n");
		exit(2);
	}
}

/* Sets missing options by the test. Refuses an option that does not fit the test. */
static void complete(struct options *o)
{
	if (is_latency(o)) {
		if (o->ports > 1 || o->ports_listed > 1)
			refuse("--ports", "more than 1", "for a latency test, which uses one port");
		if (o->procs > 1)
			refuse("--procs", "more than 1", "for a latency test, which has one process on each side");
		if (o->bidirectional)
			refuse("-b", "bidirectional", "for a latency test, which goes to and fro");
		if (o->window)
			refuse("-q", "a window", "for a latency test, which has one message on the way");
		if ((o->test == CMP_SWAP_LAT || o->test == FETCH_ADD_LAT) && o->size_to && (o->size_from != 8 || o->size_to != 8))
			refuse("-s", "the size", "8, which atomics have");
	}
	if (!o->ports)
		o->ports = o->ports_listed ? o->ports_listed : is_latency(o) ? 1 : 2;
	if (o->ports_listed && o->ports_listed != o->ports)
		refuse("-i", "the list", "as long as --ports says");
	if (!o->size_to)
		o->size_from = o->size_to = is_latency(o) ? 8 : 1048576;
	if (!o->iterations)
		o->iterations = is_latency(o) ? 1000 : 20;
	if (!o->window)
		o->window = 64;
}

void parse_options(int argc, char **argv, struct options *o)
{
	int option;

	*o = (struct options){.procs = 1, .stripe_from = 4096, .gid_index = -1, .tcp_port = 18516};
	while ((option = getopt_long(argc, argv, "t:bs:n:q:d:i:m:x:I:p:h", LONG, NULL)) != -1)
		parse_one(o, option, optarg);
	if (optind < argc)
		o->server = argv[optind++];
	if (optind < argc)
		refuse("arguments", argv[optind], "expected: one name, that of the server");
	complete(o);
}
