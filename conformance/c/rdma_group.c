// Members of a multicast group by librdmacm. Each program prints the address of the group.
//
// rdma_group receive | again | send | send-only GROUP COUNT
//     receive joins, prints COUNT messages, and leaves; send joins, and sends COUNT messages.
//     again joins, waits for the end of its membership, joins again, and receives.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRH_BYTES 40
#define ROOM 64
#define COUNT_MAX 100

static char buffers[COUNT_MAX][GRH_BYTES + ROOM];
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *region;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct rdma_cm_event *await(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		fail("rdma_get_cm_event");
	if (event->event != wanted) {
		printf("%s %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	return event;
}

static void await_completions(int count)
{
	struct ibv_wc completion;

	while (count > 0) {
		int found = ibv_poll_cq(cq, 1, &completion);

		if (found < 0 || (found > 0 && completion.status != IBV_WC_SUCCESS))
			fail("ibv_poll_cq");
		if (found > 0 && completion.opcode == IBV_WC_RECV)
			printf("%s\n", buffers[completion.wr_id] + GRH_BYTES);
		count -= found;
	}
}

// Resolves the group, which binds the identifier to a device, and makes a queue pair there.
static void prepare(struct sockaddr *group, int is_receiver, int count)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {COUNT_MAX, COUNT_MAX, 1, 1, 0}};

	if (rdma_resolve_addr(id, NULL, group, 2000))
		fail("rdma_resolve_addr");
	rdma_ack_cm_event(await(RDMA_CM_EVENT_ADDR_RESOLVED));
	pd = ibv_alloc_pd(id->verbs);
	cq = ibv_create_cq(id->verbs, COUNT_MAX, NULL, NULL, 0);
	if (!pd || !cq)
		fail("ibv_create_cq");
	init.send_cq = init.recv_cq = cq;
	if (rdma_create_qp(id, pd, &init))
		fail("rdma_create_qp");
	region = ibv_reg_mr(pd, buffers, sizeof buffers, IBV_ACCESS_LOCAL_WRITE);
	if (!region)
		fail("ibv_reg_mr");
	for (int i = 0; i < count && is_receiver; i++) {
		struct ibv_sge room = {(uintptr_t)buffers[i], GRH_BYTES + ROOM, region->lkey};
		struct ibv_recv_wr request = {.wr_id = i, .sg_list = &room, .num_sge = 1}, *bad;

		if (ibv_post_recv(id->qp, &request, &bad))
			fail("ibv_post_recv");
	}
}

static void send_all(struct rdma_ud_param *to, int count)
{
	struct ibv_ah *address = ibv_create_ah(pd, &to->ah_attr);

	if (!address)
		fail("ibv_create_ah");
	for (int i = 0; i < count; i++) {
		struct ibv_sge data = {(uintptr_t)buffers[i], ROOM, region->lkey};
		struct ibv_send_wr request = {.sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

		snprintf(buffers[i], ROOM, "message %d", i);
		request.wr.ud.ah = address;
		request.wr.ud.remote_qpn = to->qp_num;
		request.wr.ud.remote_qkey = to->qkey;
		if (ibv_post_send(id->qp, &request, &bad))
			fail("ibv_post_send");
	}
	await_completions(count);
	ibv_destroy_ah(address);
}

// Waits until the membership ends, leaves, and joins again, as the manual page of
// rdma_get_cm_event asks for.
static struct rdma_cm_event *join_again(struct rdma_cm_event *joined, struct rdma_cm_join_mc_attr_ex *how)
{
	struct rdma_cm_event *event;

	rdma_ack_cm_event(joined);
	event = await(RDMA_CM_EVENT_MULTICAST_ERROR);
	printf("%s %d\n", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	if (rdma_leave_multicast(id, how->addr) || rdma_join_multicast_ex(id, how, id))
		fail("rdma_join_multicast_ex");
	return await(RDMA_CM_EVENT_MULTICAST_JOIN);
}

int main(int argc, char **argv)
{
	struct sockaddr_in group = {.sin_family = AF_INET};
	struct rdma_cm_join_mc_attr_ex how = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS};
	struct rdma_cm_event *event;
	char name[INET6_ADDRSTRLEN];
	int count, is_receiver;

	if (argc < 4 || inet_pton(AF_INET, argv[2], &group.sin_addr) != 1)
		return 2;
	count = atoi(argv[3]);
	is_receiver = strcmp(argv[1], "receive") == 0 || strcmp(argv[1], "again") == 0;
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_UDP))
		fail("rdma_create_id");
	prepare((struct sockaddr *)&group, is_receiver, count);
	how.addr = (struct sockaddr *)&group;
	how.join_flags = strcmp(argv[1], "send-only") ? RDMA_MC_JOIN_FLAG_FULLMEMBER : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	if (rdma_join_multicast_ex(id, &how, id))
		fail("rdma_join_multicast_ex");
	event = await(RDMA_CM_EVENT_MULTICAST_JOIN);
	inet_ntop(AF_INET6, &event->param.ud.ah_attr.grh.dgid, name, sizeof name);
	printf("%s %x %x %x\n", name, event->param.ud.ah_attr.dlid, event->param.ud.qp_num, event->param.ud.qkey);
	if (strcmp(argv[1], "again") == 0)
		event = join_again(event, &how);
	if (event->param.ud.private_data != id)
		fail("context");
	if (is_receiver)
		await_completions(count);
	else
		send_all(&event->param.ud, count);
	rdma_ack_cm_event(event);
	if (rdma_leave_multicast(id, (struct sockaddr *)&group))
		fail("rdma_leave_multicast");
	rdma_destroy_qp(id);
	ibv_dereg_mr(region);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	if (rdma_destroy_id(id))
		fail("rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	printf("left\n");
	return 0;
}
