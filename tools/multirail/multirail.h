/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * softband-multirail: bandwidth of several ports of an HCA together, and the latency of each verb over one.
 * Plain verbs: it runs on a fabric of Softband and on hardware alike. */
#ifndef MULTIRAIL_H
#define MULTIRAIL_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { PORTS_MAX = 8, PROCS_MAX = 64, RAIL_WORDS = 7 };

enum policy { STRIPING, BINDING };

/* The verb and what is measured of it. All but the first are latency tests. */
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

/* control.c: the processes of both sides, `procs` on each. Numbers 0 to procs - 1 are the server's. */
struct control {
	int side, rank, procs; /* side 0: server, 1: client */
	int listener;          /* of process 0, until all have come */
	int *peers;            /* of process 0: a connection to each process, -1 for itself */
	int arrived;           /* of process 0: how many of them have entered the barrier at which it looks */
	int up;                /* of all others: the connection to process 0 */
};

void control_listen(struct control *c, const struct options *o);
void control_join(struct control *c, const struct options *o);

/* Each process gives `words` numbers and gets those of all processes, in the order of their numbers. */
void exchange(struct control *c, const uint64_t *mine, size_t words, uint64_t *all);

/* Returns when all processes have come here. */
void barrier(struct control *c);

/* The same for who goes on working meanwhile: says that this process has come, then whether all have. Once all have, no more. */
void barrier_enter(struct control *c);
int barrier_passed(struct control *c);

/* How many nanoseconds the client's clock is ahead of the server's. All processes call it; the client's first one gets to know. */
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
	uint8_t *buffer; /* what goes out, then what comes in */
	size_t half;
	uint32_t inline_bytes;
	int count;
	struct rail rail[PORTS_MAX];
};

void rails_open(struct rails *r, const struct options *o);
void rails_connect(struct rails *r, struct control *c, const struct options *o);

/* One request from the start of what goes out to the start of what comes in, both moved on by `offset`. */
void rail_post(struct rails *r, int rail, enum ibv_wr_opcode opcode, uint64_t offset, uint32_t bytes);
void rail_receive(struct rails *r, int rail, uint32_t bytes);

/* Waits for so many completions. All must be successes. */
void drain(struct ibv_cq *cq, int count);

uint64_t now_ns(void);

/* rates.c: what a sender tells of its windows. LAST is when the latest of WINDOWS ended, MEASURED when those that --iters asks for had;
 * each of the MARKED marks is the time after STRIDE windows more. */
enum { BEGAN, MEASURED, LAST, WINDOWS, BEST, STRIDE, MARKED, MARKS, MARKS_MAX = 256, RECORD_WORDS = MARKS + MARKS_MAX };

void start_record(uint64_t *record);
void record_window(uint64_t *record);
void record_measured(uint64_t *record);

/* As another clock would have shown it. */
void shift_record(uint64_t *record, int64_t by);

/* Windows a nanosecond of all these senders together. */
void rates(const uint64_t *const *senders, int count, double *peak, double *average);

/* bandwidth.c, latency.c */
void run_bandwidth(struct rails *r, struct control *c, const struct options *o);
void run_latency(struct rails *r, struct control *c, const struct options *o);

#endif
