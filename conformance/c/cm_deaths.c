// Peers that die in each state of a handshake, and the events that the other side sees.
//
// cm_deaths             the listening sides: a child for each case
// cm_deaths HOST        the connecting sides of all listeners on this host
//
// The side that a case names kills itself. The other prints each event with the name of the case.
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_PORT 7600
#define PATIENCE_MS 20000

enum state {
	NOWHERE,
	BIND,
	LISTEN,
	ADDRESS,
	ROUTE,
	REQ_SENT,
	REQ_RECEIVED,
	REP_SENT,
	REP_RECEIVED,
	ESTABLISHED,
	DREQ_SENT,
	DREQ_RECEIVED,
	TIMEWAIT,
};

struct test {
	const char *name;
	enum state dies_at;
	int server_dies;
	enum rdma_port_space space;
};

static const struct test tests[] = {
	{"server-bind", BIND, 1, RDMA_PS_TCP},
	{"server-listen", LISTEN, 1, RDMA_PS_TCP},
	{"server-req-received", REQ_RECEIVED, 1, RDMA_PS_TCP},
	{"server-rep-sent", REP_SENT, 1, RDMA_PS_TCP},
	{"server-established", ESTABLISHED, 1, RDMA_PS_TCP},
	{"server-dreq-sent", DREQ_SENT, 1, RDMA_PS_TCP},
	{"server-dreq-received", DREQ_RECEIVED, 1, RDMA_PS_TCP},
	{"server-timewait", TIMEWAIT, 1, RDMA_PS_TCP},
	{"client-address", ADDRESS, 0, RDMA_PS_TCP},
	{"client-route", ROUTE, 0, RDMA_PS_TCP},
	{"client-req-sent", REQ_SENT, 0, RDMA_PS_TCP},
	{"client-rep-received", REP_RECEIVED, 0, RDMA_PS_TCP},
	{"client-established", ESTABLISHED, 0, RDMA_PS_TCP},
	{"client-dreq-sent", DREQ_SENT, 0, RDMA_PS_TCP},
	{"client-dreq-received", DREQ_RECEIVED, 0, RDMA_PS_TCP},
	{"client-timewait", TIMEWAIT, 0, RDMA_PS_TCP},
	{"client-sidr-req-sent", REQ_SENT, 0, RDMA_PS_UDP},
	{"server-sidr-req-received", REQ_RECEIVED, 1, RDMA_PS_UDP},
};
#define TESTS (sizeof(tests) / sizeof(*tests))

// The case of this process, and whether this side dies.
static const struct test *test;
static int is_victim;
static struct rdma_event_channel *channel;

static void say(const char *text, int number)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "%s: %s %d\n", test->name, text, number);

	// One call a line: the children share the output.
	if (!is_victim && write(STDOUT_FILENO, line, len) != len)
		_exit(1);
}

static void check(int status, const char *call)
{
	if (status) {
		say(call, errno);
		_exit(1);
	}
}

static void reach(enum state state)
{
	if (is_victim && test->dies_at == state)
		raise(SIGKILL);
}

static void wait_ms(int ms)
{
	poll(NULL, 0, ms);
}

// Whether this side begins to disconnect: the side that dies after its DREQ, or the other.
static int disconnects(void)
{
	return is_victim ? test->dies_at == DREQ_SENT : test->dies_at == DREQ_RECEIVED || test->dies_at == TIMEWAIT;
}

static void on_established(struct rdma_cm_id *id)
{
	reach(ESTABLISHED);
	if (disconnects()) {
		check(rdma_disconnect(id), "rdma_disconnect");
		reach(DREQ_SENT);
	}
}

static void connect_to(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = 17, .responder_resources = 1, .initiator_depth = 1, .retry_count = 7};

	reach(ROUTE);
	check(rdma_connect(id, &param), "rdma_connect");
	reach(REQ_SENT);
}

// Answers a request. Returns whether the case ends.
static int accept_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = 18, .responder_resources = 1, .initiator_depth = 1};

	reach(REQ_RECEIVED);
	// The peer dies meanwhile.
	if (test->dies_at == REQ_SENT)
		wait_ms(300);
	if (rdma_accept(id, &param)) {
		say("accept", errno);
		return 1;
	}
	reach(REP_SENT);
	if (test->space == RDMA_PS_UDP)
		say("accept", 0);
	return test->space == RDMA_PS_UDP;
}

// Handles an event. Returns whether the case ends.
static int handle(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;

	say(rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"), event->status);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		reach(ADDRESS);
		check(rdma_resolve_route(id, 2000), "rdma_resolve_route");
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		connect_to(id);
		return 0;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return accept_request(id);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		reach(REP_RECEIVED);
		// The RTU would come before the death of a peer that has sent its REP.
		if (test->dies_at == REP_SENT)
			return 0;
		check(rdma_establish(id), "rdma_establish");
		on_established(id);
		// After a death that nobody has seen, the client ends the connection.
		if (test->dies_at <= ROUTE)
			check(rdma_disconnect(id), "rdma_disconnect");
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(id);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		reach(DREQ_RECEIVED);
		check(rdma_disconnect(id), "rdma_disconnect");
		reach(TIMEWAIT);
		return test->dies_at != TIMEWAIT;
	default:
		return 1;
	}
}

static void run_events(void)
{
	struct pollfd waiting = {.events = POLLIN};
	struct rdma_cm_event *event, copy;

	waiting.fd = channel->fd;
	do {
		if (poll(&waiting, 1, PATIENCE_MS) != 1) {
			say("silence", 0);
			return;
		}
		check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
		copy = *event;
		rdma_ack_cm_event(event);
	} while (!handle(&copy));
}

static struct rdma_cm_id *begin(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_flags = host ? 0 : AI_PASSIVE}, *found;
	struct rdma_cm_id *id;
	char port[16];

	snprintf(port, sizeof(port), "%d", FIRST_PORT + (int)(test - tests));
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, test->space) || getaddrinfo(host, port, &hints, &found))
		check(-1, "begin");
	if (host)
		check(rdma_resolve_addr(id, NULL, found->ai_addr, 2000), "rdma_resolve_addr");
	else
		check(rdma_bind_addr(id, found->ai_addr), "rdma_bind_addr");
	freeaddrinfo(found);
	return id;
}

static void serve(void)
{
	struct rdma_cm_id *id = begin(NULL);

	reach(BIND);
	check(rdma_listen(id, 4), "rdma_listen");
	if (test->dies_at == LISTEN) {
		// The request arrives meanwhile.
		wait_ms(700);
		reach(LISTEN);
	}
	run_events();
}

static void connect_to_host(const char *host)
{
	begin(host);
	run_events();
}

// Lets a child die where its peer cannot know of it. This process then takes its place: the peer
// and the port are free for it.
static void die_unseen(void)
{
	int is_unseen = test->server_dies ? test->dies_at == BIND : test->dies_at <= ROUTE;

	if (is_victim && is_unseen) {
		pid_t child = fork();

		if (child > 0)
			waitpid(child, NULL, 0);
		is_victim = child == 0;
	}
}

int main(int argc, char **argv)
{
	int serves = argc == 1;

	for (test = tests; test < tests + TESTS; test++) {
		if (fork())
			continue;
		is_victim = test->server_dies == serves;
		die_unseen();
		if (serves)
			serve();
		else
			connect_to_host(argv[1]);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
