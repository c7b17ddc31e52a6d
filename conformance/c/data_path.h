/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the parts of data_path share: the plan of a round, and the model that follows from it. */
#ifndef DATA_PATH_H
#define DATA_PATH_H

#include "verbs_common.h"

enum {
	PAIRS = 9,
	BATCH = 12,
	SGES = 3,
	INLINE = 64,
	DEPTH_OF_RECEIVES = 8,
	SLOTS = 16,
	SLOT_BYTES = 4096,
	MESSAGE_MAX = SLOT_BYTES,
	RDMA_MAX = 6000,
	DATAGRAM_MAX = 1024,
	SRQ_DEPTH = 32,
	WORDS_COUNT = 8
};

/* Places of a queue pair's memory: what goes out, what was fetched, what the peer reaches (first words for atomics), what is received. */
enum {
	SRC = 0,
	SRC_BYTES = 8192,
	LOC = SRC + SRC_BYTES,
	LOC_BYTES = 8192,
	TGT = LOC + LOC_BYTES,
	TGT_BYTES = 12288,
	RCV = TGT + TGT_BYTES,
	PAIR_BYTES = RCV + SLOTS * SLOT_BYTES,
	ARENA = PAIRS * PAIR_BYTES + SRQ_DEPTH * SLOT_BYTES
};

#define IS_RECEIVE (1ull << 63)
enum { SRQ_MARK = 0xffff };

/* The mistake in a request: its own keys, range or rights; the peer's; its length; the receive request; that there is none. */
enum fault { FINE, F_LKEY, F_LBOUND, F_LPERM, F_RKEY, F_RBOUND, F_RPERM, F_LONG, F_RECEIVE, F_NO_RECEIVE, FAULTS };

struct kind {
	enum ibv_qp_type type;
	int set, has_srq, signals_all;
};

struct request {
	uint64_t wr_id, compare_add, swap;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;
	enum fault fault;
	int flags, entries, ends_chain, is_told;
	uint32_t places[SGES], lens[SGES], len, remote, imm;
	uint8_t inlined[INLINE];
};

struct expected_receive {
	uint64_t wr_id;
	uint32_t place, lens[2];
	int is_bad, is_new, is_there;
};

/* A message, or a flush, as its receiver must hear of it. */
struct announced {
	enum ibv_wc_status status;
	enum ibv_wr_opcode opcode;
	uint32_t len, imm;
	const uint8_t *bytes;
};

/* One way of a queue pair: the requests of one side, and the receive requests of the other. */
struct half {
	struct request requests[BATCH];
	int count, checked; /* `checked`: whose completion came, or needs none */
	struct expected_receive receives[SLOTS];
	/* Receive requests since the connection was made: drawn, posted, used up by the plan, and by completions that came. */
	int planned, posted, consumed, completed, is_late, is_broken;
	struct announced messages[BATCH + SLOTS];
	int announced, heard;
};

struct pair {
	const struct kind *kind;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t peer_qpn, peer_rkey, peer_poor;
	uint64_t peer_arena;
	int own_cqs[2], rnr_retry;
	int send_room, receive_room;
	struct half halves[2]; /* by requester */
};

extern struct pair pairs[PAIRS];
extern struct expected_receive srq_receives[SRQ_DEPTH];
extern uint8_t model[2][ARENA];
extern int me;

/* Both sides draw the same; `draw_apart` is each side's own, for what the model does not depend on. */
uint32_t draw(uint32_t below);
uint32_t draw_apart(uint32_t below);

/* Draws a round for both sides and lets the model go through it. True when something is not acknowledged, and to be waited for. */
int plan_round(void);
/* Says what a queue pair was to do in this round. */
void show_plan(int q);
/* The requests in the receive queue that serves `requester` come back. */
void flush_receives(struct pair *p, int requester);

#endif
