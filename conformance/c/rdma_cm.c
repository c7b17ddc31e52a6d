// Connections by librdmacm that end early. Each program prints the events that it sees.
//
// rdma_cm listen-reject | listen-hold | listen-die       a server: refuses, accepts, or dies at the request
// rdma_cm connect | connect-die | connect-die-later HOST  a client: dies at the reply, or after the handshake
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PORT "7500"

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int is(const char *role, const char *name)
{
	return strcmp(role, name) == 0;
}

static void die(void)
{
	fflush(stdout);
	raise(SIGKILL);
}

// Handles an event. Returns whether it is the last.
static int handle(struct rdma_cm_event *event, const char *role)
{
	struct rdma_conn_param param = {.qp_num = 17, .responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_id *id = event->id;

	printf("%s %d", rdma_event_str(event->event), event->status);
	if (event->param.conn.private_data_len > 0)
		printf(" '%s' %d", (const char *)event->param.conn.private_data, event->param.conn.private_data_len);
	printf("\n");
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(id, 2000))
			fail("rdma_resolve_route");
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		param.private_data = "may I";
		param.private_data_len = 6;
		param.retry_count = 7;
		if (rdma_connect(id, &param))
			fail("rdma_connect");
		return 0;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (is(role, "listen-die"))
			die();
		if (is(role, "listen-reject")) {
			if (rdma_reject(id, "no", 3))
				fail("rdma_reject");
			return 1;
		}
		param.private_data = "welcome";
		param.private_data_len = 8;
		if (rdma_accept(id, &param))
			fail("rdma_accept");
		return 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (is(role, "connect-die"))
			die();
		if (rdma_establish(id))
			fail("rdma_establish");
		if (is(role, "connect-die-later"))
			die();
		if (rdma_disconnect(id))
			fail("rdma_disconnect");
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (is(role, "listen-hold") && rdma_disconnect(id))
			fail("rdma_disconnect");
		return 1;
	default:
		return 1;
	}
}

static void begin(struct rdma_cm_id *id, const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_flags = host ? 0 : AI_PASSIVE}, *found;

	if (getaddrinfo(host, PORT, &hints, &found))
		fail("getaddrinfo");
	if (host ? rdma_resolve_addr(id, NULL, found->ai_addr, 2000) : rdma_bind_addr(id, found->ai_addr) || rdma_listen(id, 4))
		fail(host ? "rdma_resolve_addr" : "rdma_listen");
	freeaddrinfo(found);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	const char *role = argv[1], *host = argc > 2 ? argv[2] : NULL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *other;
	struct stat status;
	int is_last = 0;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		fail("rdma_create_id");
	if (fstat(channel->fd, &status) || !S_ISCHR(status.st_mode))
		fail("fstat");
	begin(id, host);
	while (!is_last) {
		struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};

		if (poll(&waiting, 1, -1) != 1 || !(waiting.revents & POLLIN))
			fail("poll");
		if (rdma_get_cm_event(channel, &event))
			fail("rdma_get_cm_event");
		is_last = handle(event, role);
		other = event->id != id ? event->id : NULL;
		rdma_ack_cm_event(event);
		if (is_last && other && rdma_destroy_id(other))
			fail("rdma_destroy_id");
	}
	if (rdma_destroy_id(id))
		fail("rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	return 0;
}
