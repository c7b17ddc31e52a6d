/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A sender stops in the midst of a message's data for longer than any timeout, and continues later.
 * Meanwhile its peer's queue pair
 *   flush, ud_flush    goes to the error state: each request is flushed once, no message completes;
 *   reset, srq_reset   is reset and connected to a new peer, whose message completes next;
 *   reuse, srq_reuse   is destroyed and replaced: the new one's only request is for its own peer.
 *
 * Run `held_up MODE` on one host. The sender is a child that stops itself, always at the same
 * place: its inline data lie in a page that is not readable yet. */
#include "verbs_common.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { BYTES = 64 << 10, PAGE = 4096, MESSAGE = 64, QKEY = 0x11111111 };

static struct side side;
static struct ibv_srq *srq;
static enum ibv_qp_type type = IBV_QPT_RC;
static uint8_t *page;

static void stop_here(int number, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;

	(void)number;
	(void)context;
	if (at < page || at >= page + PAGE) _exit(99);
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	kill(getpid(), SIGSTOP);
}

static void open_side(int control, int is_client)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	side.control = control;
	side.is_client = is_client;
	CHECK(devices && devices[0] && (side.context = ibv_open_device(devices[0])) && (side.pd = ibv_alloc_pd(side.context)));
	IS(0, ibv_query_port(side.context, 1, &side.port));
	CHECK((side.buffer = aligned_alloc(PAGE, BYTES)));
	memset(side.buffer, 0, BYTES);
	CHECK((side.mr = ibv_reg_mr(side.pd, side.buffer, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((side.send_cq = side.recv_cq = ibv_create_cq(side.context, 64, NULL, NULL, 0)));
}

static struct ibv_qp *queue_pair(struct ibv_srq *shared)
{
	struct ibv_qp_init_attr init = {.send_cq = side.send_cq, .recv_cq = side.recv_cq, .srq = shared, .qp_type = type, .sq_sig_all = 1,
					.cap = {.max_send_wr = 4, .max_recv_wr = shared ? 0 : 4, .max_send_sge = 1, .max_recv_sge = 1,
						.max_inline_data = MESSAGE}};
	struct ibv_qp *qp = ibv_create_qp(side.pd, &init);

	CHECK(qp != NULL);
	to_init(qp);
	return qp;
}

static void make_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};

	CHECK((srq = ibv_create_srq(side.pd, &init)));
}

static void post_request(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = piece(&side, 0, BYTES / 2);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (srq) IS(0, ibv_post_srq_recv(srq, &wr, &bad));
	else IS(0, receive(qp, id, sge));
}

/* Runs in the child: posts one message, and stops in the midst of the call. */
static void send_and_stop(int control)
{
	struct sigaction action = {.sa_sigaction = stop_here, .sa_flags = SA_SIGINFO};
	struct ibv_send_wr wr = {.wr_id = 77, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
	struct ibv_sge sge = {.length = MESSAGE};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_side(control, 1);
	struct ibv_qp *qp = queue_pair(NULL);
	struct address peer = connect_qp(&side, qp);
	meet(&side, 1);
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(page, 7, PAGE);
	mprotect(page, PAGE, PROT_NONE);
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	sge.addr = (uintptr_t)page;
	wr.sg_list = &sge;
	if (type == IBV_QPT_UD) {
		struct ibv_ah_attr to = {.dlid = peer.lid, .port_num = 1};

		CHECK((wr.wr.ud.ah = ibv_create_ah(side.pd, &to)));
		wr.wr.ud.remote_qpn = peer.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	IS(0, post(qp, wr));
	pause();
}

/* Checks that nothing completes for a while. */
static void silence(void)
{
	struct ibv_wc wc;

	for (double start = seconds(); seconds() - start < 0.5;)
		if (ibv_poll_cq(side.recv_cq, 1, &wc) != 0) FAIL("request %d completes: %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
}

static void flush(struct ibv_qp *qp, pid_t sender)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int seen = 0;

	IS(0, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	if (type == IBV_QPT_UD) kill(sender, SIGCONT); /* the request in its hands comes back when it continues */
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion(side.recv_cq);

		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && (wc.wr_id == 10 || wc.wr_id == 11) && !(seen & 1 << (wc.wr_id - 10)));
		seen |= 1 << (wc.wr_id - 10);
	}
	kill(sender, SIGCONT);
	silence();
}

/* Sends a message from another queue pair to `to`, which takes one of two requests. */
static void message_to(struct ibv_qp *to, uint64_t first, uint64_t second)
{
	struct ibv_qp *from = queue_pair(NULL);
	struct address mine = own_address(&side, to), peer = own_address(&side, from);
	struct ibv_sge sge = piece(&side, BYTES / 2, 8);
	struct ibv_send_wr wr = {.wr_id = 200, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	int seen = 0;

	to_ready(&side, to, &mine, &peer);
	to_ready(&side, from, &peer, &mine);
	if (!srq || first == second) post_request(to, first);
	IS(0, post(from, wr));
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion(side.recv_cq);

		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.wr_id == 200) CHECK(wc.qp_num == from->qp_num && !(seen & 1));
		else CHECK(wc.qp_num == to->qp_num && wc.byte_len == 8 && (wc.wr_id == first || wc.wr_id == second) && !(seen & 2));
		seen |= wc.wr_id == 200 ? 1 : 2;
	}
	silence();
}

int main(int count, char **words)
{
	const char *mode = count > 1 ? words[1] : "flush";
	int pair[2], status;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	if (!strcmp(mode, "ud_flush")) type = IBV_QPT_UD;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid_t sender = fork();
	CHECK(sender >= 0);
	if (sender == 0) {
		send_and_stop(pair[1]);
		return 0;
	}
	open_side(pair[0], 0);
	if (!strncmp(mode, "srq", 3)) make_srq();
	struct ibv_qp *qp = queue_pair(srq);
	post_request(qp, 10);
	post_request(qp, 11);
	connect_qp(&side, qp);
	meet(&side, 1);
	CHECK(waitpid(sender, &status, WUNTRACED) == sender && WIFSTOPPED(status));
	silence();
	if (strstr(mode, "flush")) {
		flush(qp, sender);
	} else if (strstr(mode, "reset")) {
		IS(0, ibv_modify_qp(qp, &reset, IBV_QP_STATE));
		kill(sender, SIGCONT);
		silence();
		to_init(qp);
		message_to(qp, srq ? 10 : 100, srq ? 11 : 100);
	} else {
		IS(0, ibv_destroy_qp(qp));
		if (srq) {
			IS(0, ibv_destroy_srq(srq));
			make_srq();
		}
		qp = queue_pair(srq);
		kill(sender, SIGCONT);
		silence();
		message_to(qp, 100, 100);
	}
	kill(sender, SIGKILL);
	printf("held_up %s: as it should be\n", mode);
	return 0;
}
