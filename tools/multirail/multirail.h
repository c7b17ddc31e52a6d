/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * softband-multirail measures the bandwidth of several ports of an HCA together, and the latency of
 * each verb over one port. It uses plain verbs, so it runs on a fabric of Softband and on
 * hardware. */
#ifndef MULTIRAIL_H
#define MULTIRAIL_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { PORTS_MAX = 8, PROCS_MAX = 64, RAIL_WORDS = 7 };

enum policy { STRIPING, BINDING };

/* The verb and the measured quantity. All but the first are latency tests. */
enum test { WRITE_BW, SEND_LAT, WRITE_LAT, READ_LAT, CMP_SWAP_LAT, FETCH_ADD_LAT };

struct options {
	const char *server; /* NULL: this side is the server */
	const char *device; /* NULL: the first one */
	enum test test;
	enum policy policy;
	int ports, procs, bidirectional;
	uint8_t port_list[PORTS_MAX]; /* empty: the first active ones */
	int ports_listed;
	uint64_t size_from, size_to;
	int iterations, window;
	uint64_t stripe_from;
	int mtu; /* bytes; 0: the ports' active one */
	int gid_index; /* -1: no global route, but on Ethernet */
	uint32_t inline_bytes;
	int tcp_port;
};

static inline int is_latency(const struct options *o)
{
	return o->test != WRITE_BW;
}

/* options.c */
void parse_options(int argc, char **argv, struct options *o);
const char *test_name(enum test test);
const char *policy_name(enum policy policy);

/* Ends the program with a message. `fail_errno` adds what errno says. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fail_errno(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* control.c: the processes of both sides, `procs` on each. The server has numbers 0 to procs -
 * 1. */
struct control {
	int side, rank, procs; /* side 0: server, 1: client */
	int listener;          /* of process 0, until all have connected */
	int *peers;            /* of process 0: a connection to each process, -1 for itself */
	int arrived;           /* of process 0: the number of processes that have entered the current barrier */
	int up;                /* of all others: the connection to process 0 */
};

void control_listen(struct control *c, const struct options *o);
void control_join(struct control *c, const struct options *o);

/* Exchanges `words` numbers of each process. Returns those of all processes, in process order. */
void exchange(struct control *c, const uint64_t *mine, size_t words, uint64_t *all);

/* Waits until all processes have come here. */
void barrier(struct control *c);

/* The same for a process that continues to work. `barrier_enter` announces the process.
 * `barrier_passed` returns whether all have come. After that, do not call it again. */
void barrier_enter(struct control *c);
int barrier_passed(struct control *c);

/* Returns the lead of the client's clock over the server's in nanoseconds. All processes call it.
 * Only the client's first process gets the result. */
int64_t clock_ahead(struct control *c);

static inline int own_number(const struct control *c)
{
	return c->side * c->procs + c->rank;
}

static inline int peer_number(const struct control *c)
{
	return (1 - c->side) * c->procs + c->rank;
}

/* rails.c: one connection of queue pairs for each port. */
struct rail {
	uint8_t port;
	struct ibv_port_attr attr;
	struct ibv_qp *qp;
	uint64_t remote_address;
	uint32_t remote_key;
};

struct rails {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	uint8_t *buffer; /* the send half, then the receive half */
	size_t half;
	uint32_t inline_bytes;
	int count;
	struct rail rail[PORTS_MAX];
};

void rails_open(struct rails *r, const struct options *o);
void rails_connect(struct rails *r, struct control *c, const struct options *o);

/* Posts one request from the start of the send half to the start of the peer's receive half.
 * `offset` shifts both. */
void rail_post(struct rails *r, int rail, enum ibv_wr_opcode opcode, uint64_t offset, uint32_t bytes);
void rail_receive(struct rails *r, int rail, uint32_t bytes);

/* Waits for this number of completions. All must be successes. */
void drain(struct ibv_cq *cq, int count);

uint64_t now_ns(void);

/* rates.c: the record of a sender. LAST is the end of the latest of its WINDOWS, MEASURED the end
 * of those that --iters requests. Each of the MARKED marks is the time after STRIDE more
 * windows. */
enum { BEGAN, MEASURED, LAST, WINDOWS, BEST, STRIDE, MARKED, MARKS, MARKS_MAX = 256, RECORD_WORDS = MARKS + MARKS_MAX };

void start_record(uint64_t *record);
void record_window(uint64_t *record);
void record_measured(uint64_t *record);

/* Converts a record to another clock. */
void shift_record(uint64_t *record, int64_t by);

/* Computes the windows a nanosecond of all senders together. */
void rates(const uint64_t *const *senders, int count, double *peak, double *average);

/* bandwidth.c, latency.c */
void run_bandwidth(struct rails *r, struct control *c, const struct options *o);
void run_latency(struct rails *r, struct control *c, const struct options *o);

#endif
