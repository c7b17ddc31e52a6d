/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * softband-tcpplay plays a trace in the text form of GOAL over TCP, as a process for each rank. It
 * uses plain sockets, so it runs on a fabric of Softband and on any hosts. */
#ifndef TCPPLAY_H
#define TCPPLAY_H

#include <stddef.h>
#include <stdint.h>

#define NONE UINT32_MAX

/* The limits of `softband model`. */
#define RANKS_MAX (1u << 20)
#define BYTES_MAX (1ull << 30)
#define NANOS_MAX 3600000000000ull

struct options {
	uint32_t rank, ranks_per_host;
	const char *hosts, *hosts_file; /* one of both */
	int port;                       /* of rank 0; rank r has port + r */
	int start_seconds, seconds;
	const char *trace;
};

/* options.c */
void parse_options(int argc, char **argv, struct options *o);

/* main.c: end the program with a message. `wrong_use` has the status 2. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fail_errno(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void wrong_use(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
uint64_t now_ns(void);
void *grown(void *memory, size_t count, size_t *room, size_t size);
void *zeroed(size_t count, size_t size);

/* words.c */
struct word {
	const char *text;
	size_t length; /* 0: the end of the trace */
	uint32_t line;
};

struct reader {
	const char *path, *begin, *at, *end;
	uint32_t line;
	struct word ahead; /* the next word, if `is_ahead` */
	int is_ahead;
};

void reader_open(struct reader *r, const char *path);
struct word next_word(struct reader *r);
int skip_word(struct reader *r, const char *text);
int is_word(const struct word *w, const char *text);

/* Reads a number up to `most`. `what` names it in an error. */
uint64_t next_number(struct reader *r, const char *what, uint64_t most);
void expect_word(struct reader *r, const char *text);

/* Ends the program with a defect of the trace: its line, and the remedy. */
void wrong_trace(const char *path, uint32_t line, const char *help, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));

/* channel.c: the messages of one tag from a rank to another. One of both is this rank. */
struct channel {
	uint32_t peer, tag;
	int is_outgoing;
	uint32_t sends, receives, send_line, receive_line; /* counts and last lines in the trace */
	uint32_t arrived;                                  /* messages without a receive */
	uint32_t head, tail;                               /* receives without a message */
};

struct channels {
	struct channel *list;
	size_t count, room;
	uint32_t *slots; /* numbers of channels by hash, or NONE */
	size_t slot_count;
};

/* Returns the number of a channel, or NONE. `adds`: a new one if there is none. */
uint32_t channel_of(struct channels *c, uint32_t peer, uint32_t tag, int is_outgoing, int adds);

/* trace.c: the steps of one rank. */
enum kind { SEND, RECEIVE, CALCULATE };

struct step {
	enum kind kind;
	uint32_t line, peer, tag, channel;
	uint32_t cpu;    /* its place in `cpus` */
	uint32_t waits;  /* unfinished requirements */
	uint32_t orders; /* its first order as `earlier` */
	uint32_t next;   /* in the list that it stands in */
	uint64_t amount; /* bytes or nanoseconds */
	uint64_t at;     /* when its last requirement was met */
};

struct order {
	uint32_t earlier, later;
	int until_begun;
};

struct trace {
	const char *path;
	uint32_t ranks, rank;
	uint64_t digest;
	struct step *steps;
	struct order *orders; /* by `earlier` */
	size_t step_count, step_room, order_count, order_room;
	uint32_t *cpus; /* the numbers of the processors */
	size_t cpu_count, cpu_room;
	struct channels channels;
};

/* Reads the trace and keeps the steps of one rank. Ends the program at the first defect. */
void read_trace(struct trace *t, const char *path, uint32_t rank);

/* order.c: labels and orders of one rank. */
struct labels {
	struct {
		struct word word;
		uint32_t step;
	} *slots;
	size_t count, slot_count;
};

struct wish {
	struct word later, earlier;
	int until_begun;
};

void label_add(struct labels *l, const struct trace *t, struct word word, uint32_t step);
void order_steps(struct trace *t, const struct labels *l, const struct wish *wishes, size_t count);

/* peer.c: the connection with another rank. */
enum message { DATA, READY, GO, DONE, END };

/* All fields in network order. The connection names the sender. */
struct header {
	uint32_t message, tag;
	uint64_t value; /* bytes of the payload; of DONE nanoseconds */
};

struct peer {
	uint32_t rank;
	int fd;              /* -1: closed */
	uint32_t head, tail; /* sends */
	uint64_t sent;       /* of the first one, with its header */
	int is_full;         /* the kernel takes no more at the moment */
	struct header in;
	size_t in_bytes; /* of the header */
	uint64_t rest;   /* of the payload */
	int is_done;     /* it has reported the end of its part of the tree */
};

/* Sends until the kernel takes no more. Calls `sent` for each send that ends. Returns -1 if the peer
 * has left. */
int peer_send(struct peer *p, struct trace *t, void (*sent)(uint32_t step));

/* Receives what is there. Calls `received` for each complete message. Returns -1 if the peer has left. */
int peer_receive(struct peer *p, void (*received)(struct peer *p, const struct header *h));

/* Sends a message without payload to a peer without unfinished sends. Returns -1 if the peer has left. */
int peer_tell(struct peer *p, enum message message, uint64_t value);

/* mesh.c: connections with all ranks that this one needs. */
struct mesh {
	struct peer *peers;
	size_t count;
	struct peer **by_rank;
};

void mesh_connect(struct mesh *m, const struct options *o, const struct trace *t);

/* hosts.c */
struct address {
	char host[256], port[8];
};

/* Returns the addresses of all ranks. */
struct address *addresses_of(const struct options *o, uint32_t ranks);

/* Ranks form a binomial tree with the root 0. */
static inline uint32_t parent_of(uint32_t rank)
{
	return rank & (rank - 1);
}

static inline int is_child(uint32_t rank, uint32_t parent)
{
	return rank && parent_of(rank) == parent;
}

/* play.c */
void play(struct trace *t, struct mesh *m, const struct options *o);

#endif
