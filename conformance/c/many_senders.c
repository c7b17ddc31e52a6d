/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Many senders, in several processes and threads, send to one receiver with a shared receive queue
 * and a queue pair for datagrams. Every message comes once, whole and in the order of its sender.
 * Each receive request serves once. Now and then the receiver resizes its queue, arms its limit,
 * and stands still. Senders also post work that goes through the engine. Acknowledgements ensure
 * that each datagram finds a request.
 *
 *     many_senders COUNT SENDERS [mortal]     the receiver; "mortal": senders may die early
 *     many_senders COUNT SENDERS RECEIVER     a sender: COUNT messages of each of its threads
 */
#include "verbs_common.h"
#include <pthread.h>
#include <signal.h>

enum { THREADS = 3, DATAGRAM_THREADS = 1, DATAGRAM_WINDOW = 4, CHANNELS_MAX = 16, REQUESTS = 64, REQUESTS_MOST = 256, BYTES = 8192, WINDOW = 8, PLACE = 4096, QKEY = 0x11111111 };
/* Places in the receiver's buffer: requests, then datagram
 * requests, then a target of RDMA writes for each channel. */
enum { PLACES = 2 * REQUESTS * BYTES, ALL_BYTES = PLACES + CHANNELS_MAX * PLACE };

struct message { uint32_t channel, sequence, bytes, count; };

struct hello { struct address address; uint32_t type; };

struct answer { struct address address; uint32_t channel; };

struct channel {
	struct ibv_qp *qp;
	uint32_t remote_qpn, remote_lid, expected;
	int goes;
	int control, is_over;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

static void open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])) != NULL && (pd = ibv_alloc_pd(context)) != NULL);
	IS(0, ibv_query_port(context, 1, &port));
}

static struct ibv_qp *new_queue_pair(struct ibv_cq *cq, struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
					.cap = {.max_send_wr = REQUESTS, .max_recv_wr = srq ? 0 : REQUESTS, .max_send_sge = 2, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp != NULL);
	to_init(qp);
	return qp;
}

static void give(int fd, const void *from, size_t bytes)
{
	CHECK(write(fd, from, bytes) == (ssize_t)bytes);
}

static int take(int fd, void *to, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t part = read(fd, (char *)to + got, bytes - got);

		if (part <= 0)
			return 0;
		got += part;
	}
	return 1;
}

/* The sender. */

static const char *host;
static int count;

static uint32_t length_of(uint32_t channel, uint32_t sequence)
{
	uint32_t some = (channel * 7919 + sequence) * 2654435761u >> 8;

	return some % 8 ? sizeof(struct message) + some % 300 : sizeof(struct message) + some % (BYTES - sizeof(struct message));
}

static int connected(void)
{
	for (double start = seconds(); seconds() - start < PATIENCE_SECONDS; usleep(20000)) {
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(CONTROL_PORT)};
		struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		CHECK(fd >= 0 && getaddrinfo(host, NULL, &hints, &found) == 0);
		to.sin_addr = ((struct sockaddr_in *)found->ai_addr)->sin_addr;
		freeaddrinfo(found);
		if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
			return fd;
		close(fd);
	}
	FAIL("nobody listens at %s", host);
}

static int count_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? count / 8 : count;
}

struct sender {
	int control;
	struct ibv_ah *ah;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
	struct address peer;
	uint32_t channel, under_way;
};

static void await(struct sender *s, uint32_t most)
{
	struct ibv_wc wc[WINDOW];
	double start = seconds();

	while (s->under_way > most) {
		int found = ibv_poll_cq(s->cq, WINDOW, wc);

		CHECK(found >= 0);
		for (int i = 0; i < found; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				FAIL("message %d of channel %u ends with '%s'", (int)wc[i].wr_id, s->channel, ibv_wc_status_str(wc[i].status));
		s->under_way -= found;
		if (found)
			start = seconds();
		else if (seconds() - start > PATIENCE_SECONDS)
			FAIL("channel %u waits in vain for %u", s->channel, s->under_way);
	}
}

static void send_one(struct sender *s, uint32_t sequence)
{
	uint32_t bytes = length_of(s->channel, sequence);
	uint8_t *at = s->buffer + (size_t)(sequence % WINDOW) * BYTES;
	struct ibv_sge sge = {(uintptr_t)at, bytes, s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = sequence, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(s->channel << 24 | sequence)};

	*(struct message *)at = (struct message){s->channel, sequence, bytes, count};
	fill(at + sizeof(struct message), bytes - sizeof(struct message), s->channel * 37 + sequence);
	if (s->ah) {
		sge.length = bytes % 900 + sizeof(struct message);
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->peer.qpn;
		wr.wr.ud.remote_qkey = QKEY;
		if (sequence % 97 == 3) { /* has no receiver, and goes through the engine */
			wr.wr.ud.remote_qkey = QKEY + 1;
			s->under_way++;
			IS(0, post(s->qp, wr));
			wr.wr.ud.remote_qkey = QKEY;
		}
	} else if (sequence % 11 == 5) { /* takes a request and puts its data elsewhere */
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		sge.length = bytes % PLACE;
		wr.wr.rdma.remote_addr = s->peer.buffer + PLACES + (size_t)s->channel * PLACE;
		wr.wr.rdma.rkey = s->peer.rkey;
	}
	s->under_way++;
	IS(0, post(s->qp, wr));
	if (!s->ah && sequence % 509 == 99) { /* goes through the engine */
		struct ibv_sge word = {(uintptr_t)s->buffer + WINDOW * BYTES, 8, s->mr->lkey};
		struct ibv_send_wr atomic = {.wr_id = sequence, .sg_list = &word, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					     .send_flags = IBV_SEND_SIGNALED};

		atomic.wr.atomic.remote_addr = s->peer.buffer + PLACES + (size_t)s->channel * PLACE;
		atomic.wr.atomic.rkey = s->peer.rkey;
		s->under_way++;
		IS(0, post(s->qp, atomic));
	}
}

static void *sends(void *type)
{
	struct sender s = {0};
	struct hello hello = {.type = (uintptr_t)type};
	struct answer answer;
	char go;
	int control = connected(), most = count_of(hello.type);

	CHECK((s.cq = ibv_create_cq(context, 2 * REQUESTS, NULL, NULL, 0)) != NULL);
	CHECK(posix_memalign((void **)&s.buffer, 4096, (WINDOW + 1) * BYTES) == 0);
	CHECK((s.mr = ibv_reg_mr(pd, s.buffer, (WINDOW + 1) * BYTES, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	s.qp = new_queue_pair(s.cq, NULL, hello.type);
	hello.address = (struct address){.qpn = s.qp->qp_num, .psn = 7, .lid = port.lid};
	give(control, &hello, sizeof hello);
	CHECK(take(control, &answer, sizeof answer));
	s.peer = answer.address;
	s.channel = answer.channel;
	to_ready(NULL, s.qp, &hello.address, &answer.address);
	if (hello.type == IBV_QPT_UD) {
		struct ibv_ah_attr to = {.dlid = answer.address.lid, .port_num = 1};

		CHECK((s.ah = ibv_create_ah(pd, &to)) != NULL);
	}
	give(control, "r", 1);
	CHECK(take(control, &go, 1));
	for (int sequence = 0; sequence < most; sequence++) {
		if (s.ah && sequence >= DATAGRAM_WINDOW)
			CHECK(take(control, &go, 1));
		await(&s, WINDOW - 1);
		send_one(&s, sequence);
	}
	await(&s, 0);
	for (int left = most < DATAGRAM_WINDOW ? most : DATAGRAM_WINDOW; s.ah && left > 0; left--)
		CHECK(take(control, &go, 1));
	give(control, "d", 1);
	CHECK(take(control, &go, 1)); /* the receiver has got every message */
	return NULL;
}

/* The receiver. */

static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *datagram_qp;
static struct ibv_mr *mr;
static uint8_t *memory;
static char is_posted[2 * REQUESTS];
static struct channel channels[CHANNELS_MAX];
static int channel_count;

static void post_request(int which)
{
	struct ibv_sge sge = {(uintptr_t)memory + (size_t)which * BYTES, BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = which, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!is_posted[which]);
	is_posted[which] = 1;
	if (which < REQUESTS)
		IS(0, ibv_post_srq_recv(srq, &wr, &bad));
	else
		IS(0, ibv_post_recv(datagram_qp, &wr, &bad));
}

static struct channel *channel_of(const struct ibv_wc *wc)
{
	for (int i = 0; i < channel_count; i++)
		if (channels[i].qp->qp_num == wc->qp_num && channels[i].remote_qpn == wc->src_qp &&
		    (channels[i].qp != datagram_qp || channels[i].remote_lid == wc->slid))
			return &channels[i];
	FAIL("a completion of queue pair %u", wc->qp_num);
}

static void got(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS || wc->wr_id >= 2 * REQUESTS || !is_posted[wc->wr_id])
		FAIL("request %d ends with '%s'", (int)wc->wr_id, ibv_wc_status_str(wc->status));
	struct channel *channel = channel_of(wc);
	int is_datagram = channel->qp == datagram_qp;
	uint32_t which = channel - channels, bytes = length_of(which, channel->expected), room = is_datagram ? GRH_BYTES : 0;
	const uint8_t *at = memory + wc->wr_id * BYTES + room;
	const struct message *message = (const struct message *)at;

	CHECK(wc->wc_flags & IBV_WC_WITH_IMM && is_datagram == (wc->wr_id >= REQUESTS));
	if (ntohl(wc->imm_data) != (which << 24 | channel->expected))
		FAIL("channel %u: %x comes, and not %u", which, ntohl(wc->imm_data), channel->expected);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		CHECK(wc->byte_len == bytes % PLACE && !is_datagram);
	} else {
		uint32_t sent = is_datagram ? bytes % 900 + sizeof *message : bytes;

		CHECK(wc->opcode == IBV_WC_RECV && wc->byte_len == sent + room);
		CHECK(message->channel == which && message->sequence == channel->expected && message->bytes == bytes);
		same(at + sizeof *message, (sent < bytes ? sent : bytes) - sizeof *message, which * 37 + channel->expected);
	}
	channel->expected++;
	is_posted[wc->wr_id] = 0;
	post_request(wc->wr_id);
	if (is_datagram)
		(void)!write(channel->control, "a", 1);
}

static void accept_all(int senders)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(CONTROL_PORT)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	CHECK(bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, CHANNELS_MAX) == 0);
	puts("listens");
	fflush(stdout);
	for (channel_count = 0; channel_count < senders * THREADS; channel_count++) {
		struct channel *channel = &channels[channel_count];
		struct hello hello;
		char ready;

		CHECK((channel->control = accept(listener, NULL, NULL)) >= 0 && take(channel->control, &hello, sizeof hello));
		channel->qp = hello.type == IBV_QPT_UD ? datagram_qp : new_queue_pair(cq, srq, hello.type);
		channel->remote_qpn = hello.address.qpn;
		channel->remote_lid = hello.address.lid;
		channel->goes = count_of(hello.type);
		struct answer answer = {{.qpn = channel->qp->qp_num, .psn = 7, .lid = port.lid, .rkey = mr->rkey, .buffer = (uintptr_t)memory},
					channel_count};
		if (channel->qp != datagram_qp)
			to_ready(NULL, channel->qp, &answer.address, &hello.address);
		give(channel->control, &answer, sizeof answer);
		CHECK(take(channel->control, &ready, 1));
	}
	close(listener);
	for (int i = 0; i < channel_count; i++)
		give(channels[i].control, "g", 1);
}

/* Returns whether all senders have finished or died. */
static int are_over(int *lost)
{
	int is_over = 1;

	for (int i = 0; i < channel_count; i++) {
		char done;
		ssize_t heard = channels[i].is_over ? 0 : recv(channels[i].control, &done, 1, MSG_DONTWAIT);

		if (!channels[i].is_over && (heard == 1 || heard == 0 || errno != EAGAIN)) {
			channels[i].is_over = 1;
			*lost += heard != 1;
			if (heard == 1 && (int)channels[i].expected != channels[i].goes)
				channels[i].is_over = 2; /* its last messages may still come */
		}
		if (channels[i].is_over == 2 && (int)channels[i].expected == channels[i].goes)
			channels[i].is_over = 1;
		is_over &= channels[i].is_over == 1;
	}
	return is_over;
}

static void disturb(unsigned messages)
{
	struct ibv_srq_attr attr = {.max_wr = REQUESTS + messages % (REQUESTS_MOST - REQUESTS), .srq_limit = 4};

	switch (messages % 2000) {
	case 499: usleep(2000); return; /* no sender finds a request for a while */
	case 999: IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)); return;
	case 1199:
		attr.srq_limit = 0;
		IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
		return;
	case 1499: IS(0, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR)); return;
	default: return;
	}
}

/* Sends itself a message for each request. Only killed senders may have taken requests along. */
static void account(int lost)
{
	struct ibv_qp *from = new_queue_pair(cq, NULL, IBV_QPT_RC), *to = new_queue_pair(cq, srq, IBV_QPT_RC);
	struct address a = {.qpn = from->qp_num, .psn = 1, .lid = port.lid}, b = {.qpn = to->qp_num, .psn = 1, .lid = port.lid};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	int left = REQUESTS;
	struct ibv_wc wc;

	to_ready(NULL, to, &b, &a);
	to_ready(NULL, from, &a, &b);
	for (int i = 0; i < REQUESTS - lost; i++) {
		IS(0, post(from, wr));
		for (int halves = 0; halves < 2; halves++) {
			wc = completion(cq);
			if (wc.status != IBV_WC_SUCCESS)
				FAIL("request %d of those that are left ends with '%s'", i, ibv_wc_status_str(wc.status));
			if (wc.opcode != IBV_WC_RECV)
				continue;
			CHECK(wc.qp_num == to->qp_num && wc.wr_id < REQUESTS && is_posted[wc.wr_id]);
			is_posted[wc.wr_id] = 0;
			left--;
		}
	}
	CHECK(left <= lost);
	IS(0, ibv_destroy_qp(from));
	IS(0, ibv_destroy_qp(to));
}

static void receives(int senders, int are_mortal)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = REQUESTS, .max_sge = 1}};
	unsigned messages = 0;
	int lost = 0;
	struct ibv_wc wc[16];
	double start;

	CHECK((cq = ibv_create_cq(context, 2 * REQUESTS_MOST, NULL, NULL, 0)) != NULL && (srq = ibv_create_srq(pd, &init)) != NULL);
	CHECK(posix_memalign((void **)&memory, 4096, ALL_BYTES) == 0);
	CHECK((mr = ibv_reg_mr(pd, memory, ALL_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != NULL);
	datagram_qp = new_queue_pair(cq, NULL, IBV_QPT_UD);
	struct address unused = {0};
	to_ready(NULL, datagram_qp, &unused, &unused);
	for (int i = 0; i < 2 * REQUESTS; i++)
		post_request(i);
	accept_all(senders);
	for (start = seconds(); seconds() - start < PATIENCE_SECONDS;) {
		int found = ibv_poll_cq(cq, 16, wc);

		CHECK(found >= 0);
		for (int i = 0; i < found; i++) {
			got(&wc[i]);
			disturb(++messages);
			start = seconds();
		}
		if (!found && are_over(&lost))
			break;
	}
	for (int i = 0; i < channel_count; i++)
		if (channels[i].is_over != 1)
			FAIL("channel %d has brought %u of %d", i, channels[i].expected, channels[i].goes);
	CHECK(are_mortal || lost == 0);
	for (int i = 0; i < channel_count; i++) {
		(void)!write(channels[i].control, "e", 1);
		if (channels[i].qp != datagram_qp)
			IS(0, ibv_destroy_qp(channels[i].qp));
	}
	account(lost);
	IS(0, ibv_destroy_qp(datagram_qp));
	IS(0, ibv_destroy_srq(srq));
	IS(0, ibv_destroy_cq(cq));
	printf("%u messages of %d channels, of which %d are lost; none wrong\n", messages, channel_count, lost);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int senders = argc > 2 ? atoi(argv[2]) : 1, is_receiver = argc < 4 || strcmp(argv[3], "mortal") == 0;

	signal(SIGPIPE, SIG_IGN);
	count = argc > 1 ? atoi(argv[1]) : 1000;
	CHECK(senders * THREADS <= CHANNELS_MAX);
	open_device();
	if (is_receiver) {
		receives(senders, argc > 3);
		return 0;
	}
	host = argv[3];
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, sends, (void *)(uintptr_t)(i < DATAGRAM_THREADS ? IBV_QPT_UD : IBV_QPT_RC)) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	puts("all sent");
	return 0;
}
