/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A port goes down and comes up again. The program gets IBV_EVENT_PORT_ERR and
 * IBV_EVENT_PORT_ACTIVE, each once and in this order. ibv_query_port and the kernel's files show
 * the state of each moment. The link must fail from outside. An argument sets the number of pairs
 * of events (default 1). */
#include "verbs_common.h"

static struct ibv_context *context;

static void check_file(const char *name, const char *expected)
{
	char path[256], text[64] = "";
	FILE *file;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/%s", ibv_get_device_name(context->device), name);
	CHECK((file = fopen(path, "r")) != NULL);
	CHECK(fgets(text, sizeof text, file) != NULL);
	fclose(file);
	text[strcspn(text, "\n")] = 0;
	if (strcmp(text, expected))
		FAIL("%s has \"%s\", not \"%s\"", path, text, expected);
}

static void check_state(enum ibv_port_state state, uint16_t lid)
{
	struct ibv_port_attr port;
	int active = state == IBV_PORT_ACTIVE;

	IS(0, ibv_query_port(context, 1, &port));
	if (port.state != state)
		FAIL("the port is %s", ibv_port_state_str(port.state));
	CHECK(port.phys_state == (active ? 5 : 2));
	CHECK(port.lid == lid);
	check_file("state", active ? "4: ACTIVE" : "1: DOWN");
	check_file("phys_state", active ? "5: LinkUp" : "2: Polling");
}

static void await_event(enum ibv_event_type expected)
{
	struct ibv_async_event event;

	IS(0, ibv_get_async_event(context, &event));
	if (event.event_type != expected)
		FAIL("%s came", ibv_event_type_str(event.event_type));
	CHECK(event.element.port_num == 1);
	ibv_ack_async_event(&event);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	CHECK(devices != NULL && devices[0] != NULL);
	CHECK((context = ibv_open_device(devices[0])) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
	check_state(IBV_PORT_ACTIVE, port.lid);
	printf("the port is active\n");
	fflush(stdout);
	for (int round = 0; round < rounds; round++) {
		await_event(IBV_EVENT_PORT_ERR);
		check_state(IBV_PORT_DOWN, port.lid);
		printf("the port is down at %.6f s\n", seconds());
		fflush(stdout);
		await_event(IBV_EVENT_PORT_ACTIVE);
		check_state(IBV_PORT_ACTIVE, port.lid);
		printf("the port is active at %.6f s\n", seconds());
		fflush(stdout);
	}
	IS(0, ibv_close_device(context));
	ibv_free_device_list(devices);
	printf("OK\n");
	return 0;
}
