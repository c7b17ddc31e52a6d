/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The plan of a round and the resulting model, shared by the parts of data_path. */
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

/* Areas of a queue pair's memory: outgoing data, fetched data, the peer's target (it starts with
 * words for atomics), and received data. */
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

/* The mistake in a request: local keys, range or rights;
 * remote ones; length; a bad or missing receive. */
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

/* A message or a flush that the receiver must get. */
struct announced {
	enum ibv_wc_status status;
	enum ibv_wr_opcode opcode;
	uint32_t len, imm;
	const uint8_t *bytes;
};

/* One direction of a queue pair: requests of one side, and receive requests of the other. */
struct half {
	struct request requests[BATCH];
	int count, checked; /* `checked`: its completion came, or it needs none */
	struct expected_receive receives[SLOTS];
	/* Receive requests since the connection: drawn, posted, used by the plan, completed. */
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

/* Both sides draw the same numbers. `draw_apart`
 * differs per side, for choices outside the model. */
uint32_t draw(uint32_t below);
uint32_t draw_apart(uint32_t below);

/* Draws a round for both sides and applies it to the model.
 * Returns true if both must wait for unacknowledged work. */
int plan_round(void);
/* Prints the plan of a queue pair in this round. */
void show_plan(int q);
/* Flushes the requests in the receive queue that serves `requester`. */
void flush_receives(struct pair *p, int requester);

#endif
