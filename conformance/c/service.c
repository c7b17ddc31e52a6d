/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A service that its owner registers with subnet administration (IBTA 15.2.5.14). A new manager
 * knows no services: it asks ports to register again, and the owner does. The argument is the
 * number of times. */
#include "verbs_common.h"
#include <infiniband/umad.h>

enum { CLASS = 3, VERSION = 2, SET = 2, SET_RESPONSE = 0x81, SERVICE_RECORD = 0x31, MAD_BYTES = 256, DATA = 56 };

static void register_service(struct ibv_context *context, int port, int agent)
{
	uint8_t *umad = umad_alloc(1, umad_size() + MAD_BYTES), *mad;
	struct ibv_port_attr attributes;
	int length = MAD_BYTES;
	union ibv_gid gid;

	IS(0, ibv_query_port(context, 1, &attributes));
	IS(0, ibv_query_gid(context, 1, 0, &gid));
	CHECK(umad != NULL);
	mad = umad_get_mad(umad);
	memset(mad, 0, MAD_BYTES);
	mad[0] = 1;
	mad[1] = CLASS;
	mad[2] = VERSION;
	mad[3] = SET;
	mad[15] = 7;
	mad[17] = SERVICE_RECORD;
	/* Components: identity, key, lease and name. */
	mad[55] = 1 | 2 | 4 | 16 | 64;
	mad[DATA + 7] = 0x42;
	memcpy(mad + DATA + 8, gid.raw, sizeof gid.raw);
	mad[DATA + 24] = mad[DATA + 25] = 0xff;
	memset(mad + DATA + 28, 0xff, 4);
	strcpy((char *)mad + DATA + 48, "softband's service");
	umad_set_addr(umad, attributes.sm_lid, 1, 0, 0x80010000);
	CHECK(umad_send(port, agent, umad, MAD_BYTES, 1000, 3) == 0);
	CHECK(umad_recv(port, umad, &length, -1) == agent && umad_status(umad) == 0);
	mad = umad_get_mad(umad);
	CHECK(mad[3] == SET_RESPONSE && mad[4] == 0 && mad[5] == 0 && mad[DATA + 7] == 0x42);
	umad_free(umad);
	printf("registered\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	int port, agent, count = argc > 1 ? atoi(argv[1]) : 0;
	struct ibv_async_event event;

	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL);
	CHECK((port = umad_open_port((char *)ibv_get_device_name(context->device), 1)) >= 0);
	CHECK((agent = umad_register(port, CLASS, VERSION, 0, NULL)) >= 0);
	register_service(context, port, agent);
	while (count > 0) {
		IS(0, ibv_get_async_event(context, &event));
		if (event.event_type == IBV_EVENT_CLIENT_REREGISTER) {
			register_service(context, port, agent);
			count--;
		}
		ibv_ack_async_event(&event);
	}
	return 0;
}
