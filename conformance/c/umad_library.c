/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The part of umad.c that uses libibumad. */
#include "umad.h"
#include <infiniband/umad.h>

void use_library(void)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	uint8_t *umad = umad_alloc(1, umad_size() + MAD_BYTES), *mad;
	int length = MAD_BYTES, port, agent;
	umad_port_t about;

	CHECK(umad != NULL && umad_init() == 0);
	CHECK(umad_get_cas_names(names, UMAD_MAX_DEVICES) >= 1);
	CHECK(umad_get_port(names[0], 1, &about) == 0 && about.base_lid != 0 && !strcmp(about.link_layer, "InfiniBand"));
	umad_release_port(&about);
	CHECK((port = umad_open_port(names[0], 1)) >= 0);
	CHECK((agent = umad_register(port, PERFORMANCE, 1, 0, NULL)) >= 0);
	CHECK(umad_poll(port, 0) == -ETIMEDOUT);
	CHECK(umad_recv(port, umad, &length, 0) == -EWOULDBLOCK);
	mad = umad_get_mad(umad);
	mad[0] = mad[2] = mad[3] = 1;
	mad[1] = PERFORMANCE;
	umad_set_addr(umad, NOBODY, 1, 0, 0x80010000);
	CHECK(umad_send(port, agent, umad, MAD_BYTES, 30, 0) == 0);
	length = MAD_BYTES;
	CHECK(umad_recv(port, umad, &length, -1) == agent && umad_status(umad) == ETIMEDOUT);
	CHECK(umad_unregister(port, agent) == 0);
	CHECK(umad_close_port(port) == 0);
	umad_free(umad);
}
