/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * shared_arrivals KIND WORK WAY [PEER]: memory of two processes meets the HCA.
 *
 * The side without PEER makes memory of the kind KIND. One process registers it and sleeps. The
 * other one watches a word of it in the way WAY. The peer changes this word by WORK. The side prints
 * the nanoseconds from each post to the look that found the word.
 *
 * With the work "source" the watching process changes the word instead, and the peer reads it. Each
 * read must return the word as it was in the time of the read. */
#define _GNU_SOURCE
#include "verbs_common.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { ROUNDS = 5, GAP_US = 5000, BYTES = 1 << 18, LONG = 1 << 16, PLACE = LONG, READS_MAX = 4096 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct look {
	double from, to;
	uint64_t word;
};

static const char *kind, *work, *way;

static int is(const char *word, const char *name)
{
	return strcmp(word, name) == 0;
}

static void put(int fd, const void *data, size_t bytes)
{
	CHECK(write(fd, data, bytes) == (ssize_t)bytes);
}

static void get(int fd, void *data, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t part = read(fd, (char *)data + got, bytes - got);

		CHECK(part > 0);
		got += part;
	}
}

/* Makes the memory. Returns a descriptor or the number of a segment. */
static int make(void)
{
	char name[64];
	int fd;

	if (is(kind, "sysv")) return shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
	snprintf(name, sizeof name, "/softband-arrivals-%d", (int)getpid());
	if (is(kind, "memfd")) {
		fd = memfd_create("arrivals", 0);
	} else if (is(kind, "shm_open")) {
		fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		IS(0, shm_unlink(name));
	} else {
		CHECK(is(kind, "file") || is(kind, "inherited"));
		fd = open(".", O_TMPFILE | O_RDWR, 0600);
	}
	CHECK(fd >= 0);
	IS(0, ftruncate(fd, BYTES));
	return fd;
}

static uint8_t *map(int made, int rights)
{
	void *at;

	if (is(kind, "sysv")) {
		at = shmat(made, NULL, rights & PROT_WRITE ? 0 : SHM_RDONLY);
	} else if (is(kind, "inherited")) {
		at = mmap(NULL, BYTES, rights, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	} else {
		at = mmap(NULL, BYTES, rights, MAP_SHARED, made, 0);
	}
	CHECK(at != MAP_FAILED);
	return at;
}

/* Passes a descriptor through a socket, as servers pass memory to their clients. */
static void pass(int to, int fd)
{
	char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	*head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	CHECK(sendmsg(to, &message, 0) == 1);
}

static int take(int from)
{
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	int fd;

	CHECK(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

/* The process beside the registering one. */

static void watch(volatile uint64_t *word, int answers)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = is(way, "cq") ? ibv_open_device(devices[0]) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
	struct look looks[ROUNDS] = {{0}};
	uint64_t last = 0;
	struct ibv_wc wc;

	put(answers, &last, 1);
	while (last < ROUNDS) {
		uint64_t now = *word;

		if (now != last) {
			CHECK(now == last + 1);
			looks[last++] = (struct look){0, seconds(), now};
		}
		if (is(way, "nap")) usleep(10);
		if (is(way, "yield")) sched_yield();
		if (is(way, "clock")) seconds();
		if (cq) CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	}
	put(answers, looks, sizeof looks);
}

static void change(volatile uint64_t *word, int answers)
{
	struct look changes[ROUNDS] = {{0}};

	put(answers, changes, 1);
	for (int i = 0; i < ROUNDS; i++) {
		usleep(GAP_US / 5 + i * 37);
		changes[i].word = i + 1;
		changes[i].from = seconds();
		*word = i + 1;
		changes[i].to = seconds();
	}
	put(answers, changes, sizeof changes);
}

/* The registering process. */

static struct ibv_qp *open_side(struct side *s, void *buffer)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_qp *qp;

	CHECK(devices && devices[0]);
	s->context = ibv_open_device(devices[0]);
	s->pd = ibv_alloc_pd(s->context);
	s->buffer = buffer;
	s->mr = ibv_reg_mr(s->pd, buffer, BYTES, ALL);
	CHECK(s->mr);
	IS(0, ibv_query_port(s->context, 1, &s->port));
	IS(0, ibv_query_gid(s->context, 1, 0, &s->gid));
	s->send_cq = s->recv_cq = ibv_create_cq(s->context, 64, NULL, NULL, 0);
	qp = make_qp(s, IBV_QPT_RC);
	to_init(qp);
	return qp;
}

/* Reads the peer's words into the memory, and sleeps in between. */
static void read_words(struct side *s, struct ibv_qp *qp, const struct address *peer, double *posts)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_sge to = piece(s, PLACE, 8);

		usleep(GAP_US);
		posts[i] = seconds();
		IS(0, post(qp, (struct ibv_send_wr){.wr_id = i, .sg_list = &to, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
						    .wr.rdma = {peer->buffer + 8 * (i + 1), peer->rkey}}));
		usleep(GAP_US);
		success(s->send_cq, i, IBV_WC_RDMA_READ);
	}
}

static void check_reads(const struct look *reads, const struct look *changes)
{
	int count = 0;

	for (; count < READS_MAX && reads[count].to > 0; count++) {
		uint64_t least = 0, most = 0;

		for (int i = 0; i < ROUNDS; i++) {
			if (changes[i].to <= reads[count].from) least = i + 1;
			if (changes[i].from <= reads[count].to) most = i + 1;
		}
		if (reads[count].word < least || reads[count].word > most)
			FAIL("a read from %.9f to %.9f returns %d, not %d to %d", reads[count].from, reads[count].to, (int)reads[count].word,
			     (int)least, (int)most);
	}
	CHECK(count > ROUNDS && reads[count - 1].word == ROUNDS);
	printf("%d reads\n", count);
}

static void register_and_sleep(void)
{
	static struct look beside[ROUNDS], reads[READS_MAX];
	static double posts[ROUNDS];
	struct side s = {.control = control_connect(NULL)};
	int made = make(), talk[2];
	uint8_t *memory = is(kind, "inherited") ? map(made, PROT_READ | PROT_WRITE) : NULL;
	struct address peer;
	struct ibv_qp *qp;
	char byte;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, talk) == 0);
	if (fork() == 0) {
		int changes = is(work, "source"), found = is(kind, "memfd") ? take(talk[1]) : made;
		uint8_t *at = memory ? memory : map(found, changes ? PROT_READ | PROT_WRITE : PROT_READ);

		(changes ? change : watch)((void *)(at + PLACE), talk[1]);
		_exit(0);
	}
	if (is(kind, "memfd")) pass(talk[0], made);
	if (!memory) memory = map(made, PROT_READ | PROT_WRITE);
	get(talk[0], &byte, 1);
	qp = open_side(&s, memory);
	for (int i = 0; i < ROUNDS; i++)
		IS(0, receive(qp, 100 + i, piece(&s, PLACE, 8)));
	peer = connect_qp(&s, qp);
	meet(&s, 1);
	if (is(work, "read")) read_words(&s, qp, &peer, posts);
	else usleep((ROUNDS + 5) * GAP_US);
	get(talk[0], beside, sizeof beside);
	if (is(work, "source")) {
		get(s.control, reads, sizeof reads);
		check_reads(reads, beside);
		return;
	}
	if (!is(work, "read")) get(s.control, posts, sizeof posts);
	else meet(&s, 2);
	for (int i = 0; i < ROUNDS; i++)
		printf("%d %.0f\n", i + 1, (beside[i].to - posts[i]) * 1e9);
}

/* The peer. */

static void change_word(struct side *s, struct ibv_qp *qp, const struct address *peer, uint64_t value)
{
	int is_long = is(work, "long");
	uint32_t bytes = is_long ? LONG : 8;
	struct ibv_sge from = piece(s, 0, bytes), back = piece(s, LONG, 8);
	uint64_t word = peer->buffer + PLACE;
	struct ibv_send_wr wr = {.wr_id = value, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {word + 8 - bytes, peer->rkey}};

	*(uint64_t *)(s->buffer + bytes - 8) = value;
	if (is(work, "send")) wr.opcode = IBV_WR_SEND;
	if (is(work, "immediate")) wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	if (is(work, "add") || is(work, "swap")) {
		wr.sg_list = &back;
		wr.opcode = is(work, "add") ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.remote_addr = word;
		wr.wr.atomic.rkey = peer->rkey;
		wr.wr.atomic.compare_add = is(work, "add") ? 1 : value - 1;
		wr.wr.atomic.swap = value;
	}
	IS(0, post(qp, wr));
	CHECK(completion(s->send_cq).status == IBV_WC_SUCCESS);
}

static void read_word(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	static struct look reads[READS_MAX];
	struct ibv_sge to = piece(s, 0, 8);

	for (int i = 0; i < READS_MAX && (i == 0 || reads[i - 1].word < ROUNDS); i++) {
		reads[i].from = seconds();
		IS(0, post(qp, (struct ibv_send_wr){.wr_id = i, .sg_list = &to, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
						    .wr.rdma = {peer->buffer + PLACE, peer->rkey}}));
		success(s->send_cq, i, IBV_WC_RDMA_READ);
		reads[i].to = seconds();
		reads[i].word = *(uint64_t *)s->buffer;
		usleep(3);
	}
	put(s->control, reads, sizeof reads);
}

static void reach(const char *name)
{
	static double posts[ROUNDS];
	struct side s = {.is_client = 1, .control = control_connect(name)};
	uint64_t *memory = calloc(1, BYTES);
	struct address peer;
	struct ibv_qp *qp;

	for (int i = 0; i <= ROUNDS; i++)
		memory[i] = i;
	qp = open_side(&s, memory);
	peer = connect_qp(&s, qp);
	meet(&s, 1);
	if (is(work, "read")) return meet(&s, 2);
	if (is(work, "source")) return read_word(&s, qp, &peer);
	for (int i = 0; i < ROUNDS; i++) {
		usleep(GAP_US);
		posts[i] = seconds();
		change_word(&s, qp, &peer, i + 1);
	}
	put(s.control, posts, sizeof posts);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4 || argc == 5);
	kind = argv[1];
	work = argv[2];
	way = argv[3];
	if (argc == 5) reach(argv[4]);
	else register_and_sleep();
	return 0;
}
