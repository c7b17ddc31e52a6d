/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Datagrams with a global route go to and fro between two hosts. Their GRH and their completions
 * are the same on every path. With the argument "stopped" the sender's parent process stands still
 * meanwhile. At wall pace the parent is the engine, so the datagrams must not need it.
 *
 *     global_route            the host that answers
 *     global_route RECEIVER [stopped]
 */
#include "engine_stop.h"

enum { ROUNDS = 240, QKEY = 0x11111111, PLACES = 4, PLACE_BYTES = 8192, PRINTED_ROUNDS = 48 };
/* The program makes an address handle for each of these routes. */
enum { PLAIN, SHORT, FULL, FOREIGN, GROUPS, ROUTES };

static const uint32_t sizes[] = {0, 1, 2, 3, 4, 5, 31, 32, 33, 500, 1023, 2048};
/* Bytes of a receive request's first entry:
 * the GRH lies in one entry, in two, or just fills one. */
static const uint32_t firsts[] = {0, 1, 10, 39, 40, 41, 60};

static struct ibv_qp *qp;
static struct ibv_ah *handles[ROUTES], *answers;
/* The routes by which the peer sends. */
static struct ibv_ah_attr routes[ROUTES];
static int stops;

static void set_up(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0] && (s->context = ibv_open_device(list[0])) != NULL);
	ibv_free_device_list(list);
	CHECK(posix_memalign((void **)&s->buffer, 4096, BUFFER_BYTES) == 0 && (s->pd = ibv_alloc_pd(s->context)) != NULL);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	s->send_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
	CHECK(s->mr && s->send_cq && s->recv_cq);
	IS(0, ibv_query_port(s->context, 1, &s->port));
	IS(0, ibv_query_gid(s->context, 1, 0, &s->gid));
}

/* Describes the routes to a port. */
static void describe(struct ibv_ah_attr to[ROUTES], uint32_t lid, union ibv_gid gid)
{
	for (int i = 0; i < ROUTES; i++) {
		to[i] = (struct ibv_ah_attr){.dlid = lid, .sl = i, .port_num = 1, .is_global = i != PLAIN};
		to[i].grh.dgid = gid;
	}
	to[FULL].grh.flow_label = 0xFFF12345; /* the packet carries the low twenty bits */
	to[FULL].grh.traffic_class = 0xAB;
	to[FULL].grh.hop_limit = 255;
	to[FULL].static_rate = IBV_RATE_10_GBPS;
	to[FOREIGN].grh.dgid.raw[15] ^= 0x55;
	to[FOREIGN].grh.dgid.raw[0] = 0x20;
	to[FOREIGN].grh.hop_limit = 1;
	memset(to[GROUPS].grh.dgid.raw, 0xFF, 16);
	to[GROUPS].grh.flow_label = 0xFFFFF;
}

static void make_handles(struct side *s, const struct address *peer)
{
	struct ibv_ah_attr outgoing[ROUTES];

	describe(outgoing, peer->lid, peer->gid);
	describe(routes, s->port.lid, s->gid);
	for (int i = 0; i < ROUTES; i++)
		CHECK((handles[i] = ibv_create_ah(s->pd, &outgoing[i])) != NULL);
}

static uint8_t *place(struct side *s, int round)
{
	return s->buffer + IN + round % PLACES * PLACE_BYTES;
}

static uint32_t size_of(int round)
{
	return sizes[round % (sizeof sizes / sizeof *sizes)];
}

static int route_of(int round)
{
	return (round + round / ROUTES) % ROUTES;
}

static void post_receive(struct side *s, int round)
{
	uint32_t first = firsts[round % (sizeof firsts / sizeof *firsts)];
	struct ibv_sge sges[2] = {piece(s, place(s, round) - s->buffer, first), piece(s, place(s, round) - s->buffer + first, PLACE_BYTES - first)};
	struct ibv_recv_wr wr = {.wr_id = 1000 + round, .sg_list = sges, .num_sge = 2}, *bad;

	memset(place(s, round), 0xA5, PLACE_BYTES);
	IS(0, ibv_post_recv(qp, &wr, &bad));
}

static void send_datagram(struct side *s, int round, struct ibv_ah *ah, uint32_t qpn)
{
	uint32_t bytes = size_of(round), half = bytes / 2;
	struct ibv_sge sges[2] = {piece(s, OUT, half), piece(s, OUT + half, bytes - half)};
	struct ibv_send_wr wr = {.wr_id = round, .sg_list = sges, .num_sge = 2, .imm_data = htonl(round),
				 .opcode = round % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY}};

	if (bytes <= 32 && round % 2)
		wr.send_flags |= IBV_SEND_INLINE;
	fill(s->buffer + OUT, bytes, round);
	IS(0, post(qp, wr));
	success(s->send_cq, round, IBV_WC_SEND);
}

static void print_bytes(const uint8_t *bytes, int count)
{
	for (int i = 0; i < count; i++)
		printf("%02x", bytes[i]);
	putchar('\n');
}

/* Checks the GRH of a datagram that `from` sent by this route. */
static void check_route(const uint8_t *got, const struct ibv_ah_attr *route, union ibv_gid from, uint32_t bytes, int has_immediate)
{
	const struct ibv_grh *grh = (const struct ibv_grh *)got;
	uint32_t word = 6u << 28 | (uint32_t)route->grh.traffic_class << 20 | (route->grh.flow_label & 0xFFFFF);

	CHECK(ntohl(grh->version_tclass_flow) == word && grh->next_hdr == 0x1B && grh->hop_limit == route->grh.hop_limit);
	/* BTH, DETH, immediate data, padded payload and invariant CRC. */
	CHECK(ntohs(grh->paylen) == 12 + 8 + (has_immediate ? 4 : 0) + (bytes + 3) / 4 * 4 + 4);
	CHECK(memcmp(&grh->sgid, &from, 16) == 0 && memcmp(&grh->dgid, &route->grh.dgid, 16) == 0);
}

static struct ibv_wc check_received(struct side *s, int round, const struct ibv_ah_attr *route, const struct address *peer)
{
	struct ibv_wc wc = success(s->recv_cq, 1000 + round, IBV_WC_RECV);
	uint32_t bytes = size_of(round), has_immediate = round % 3 == 0;
	const uint8_t *got = place(s, round);

	CHECK(wc.byte_len == GRH_BYTES + bytes && wc.qp_num == qp->qp_num && wc.src_qp == peer->qpn && wc.slid == peer->lid);
	CHECK(wc.wc_flags == ((route->is_global ? IBV_WC_GRH : 0) | (has_immediate ? IBV_WC_WITH_IMM : 0)));
	CHECK(wc.sl == route->sl && (!has_immediate || ntohl(wc.imm_data) == (uint32_t)round));
	if (route->is_global)
		check_route(got, route, peer->gid, bytes, has_immediate);
	for (int i = 0; i < GRH_BYTES && !route->is_global; i++)
		CHECK(got[i] == 0xA5);
	same(got + GRH_BYTES, bytes, round);
	CHECK(got[GRH_BYTES + bytes] == 0xA5);
	if (round < PRINTED_ROUNDS) {
		printf("%d: %u bytes, flags %u, sl %u, pkey_index %u, path bits %u: ", round, wc.byte_len, wc.wc_flags, wc.sl, wc.pkey_index,
		       wc.dlid_path_bits);
		print_bytes(got, GRH_BYTES);
	}
	return wc;
}


/* Answers each datagram. The first rounds let both sides find the other. */
static void to_and_fro(struct side *s, const struct address *peer)
{
	post_receive(s, 0);
	meet(s, 1);
	for (int round = 0; round < ROUNDS; round++) {
		if (stops && round == 2 * ROUTES)
			engine_stands_still();
		if (s->is_client) {
			send_datagram(s, round, handles[route_of(round)], peer->qpn);
			check_received(s, round, &routes[round > 0 ? SHORT : PLAIN], peer);
			post_receive(s, round + 1);
		} else {
			struct ibv_wc wc = check_received(s, round, &routes[route_of(round)], peer);

			/* Answers go to the source of the first datagram with a route. */
			if (round == 1)
				answers = ibv_create_ah_from_wc(s->pd, &wc, (struct ibv_grh *)place(s, round), 1);
			CHECK(answers || round < 1);
			post_receive(s, round + 1);
			send_datagram(s, round, round > 0 ? answers : handles[PLAIN], peer->qpn);
		}
	}
	engine_goes_on();
}

/* The request has room for the data but not for the GRH. */
static void without_room(struct side *s, const struct address *peer)
{
	struct ibv_qp *former = qp;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	IS(0, ibv_modify_qp(former, &error, IBV_QP_STATE));
	ends(s->recv_cq, 1000 + ROUNDS, IBV_WC_WR_FLUSH_ERR);
	to_init(qp = make_qp(s, IBV_QPT_UD));
	struct address now = connect_qp(s, qp);

	CHECK(now.lid == peer->lid);
	if (!s->is_client)
		IS(0, receive(qp, 1, piece(s, IN, GRH_BYTES + 30)));
	meet(s, 2);
	if (s->is_client)
		send_datagram(s, 6, handles[FULL], now.qpn);
	else
		ends(s->recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	meet(s, 3);
}

int main(int argc, char **argv)
{
	struct side s = {.is_client = argc > 1};

	stops = argc > 2 && strcmp(argv[2], "stopped") == 0;
	set_up(&s);
	s.control = control_connect(argc > 1 ? argv[1] : NULL);
	to_init(qp = make_qp(&s, IBV_QPT_UD));
	struct address peer = connect_qp(&s, qp);
	make_handles(&s, &peer);
	to_and_fro(&s, &peer);
	without_room(&s, &peer);
	puts("as it should be");
	return 0;
}
