/* Replay of a record: each call advances the rank's clock by the recorded stretch before it. */
#include "layer.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 256 };

/* Softband's library exports it. Without the library there is no simulated time to advance. */
void softband_compute_ps(uint64_t picos) __attribute__((weak));
/* Announces the next stretch. Ranks then compute at the same time. */
void softband_compute_ahead_ps(uint64_t picos) __attribute__((weak));

static FILE *times;
static long long calls;
static char line[TEXT_MAX + 64];

/* The next call of the record, after it was read: the stretch before it, whether the program looks for
 * messages in that stretch, and the call as text. */
static int is_read, looks;
static unsigned long long stretch_picos;
static char *recorded_call = "";

static void append(char *text, size_t room, const char *word, long long value) {
    size_t length = strlen(text);
    if (value != NO_FIELD && length < room) {
        snprintf(text + length, room - length, " %s %lld", word, value);
    }
}

/* Writes a call as the replay file has it. crates/workload/src/recording writes the same words. */
void signature_of(const struct call *call, char *text, size_t room) {
    snprintf(text, room, "%s", call->name);
    append(text, room, "comm", call->comm);
    append(text, room, "to", call->to);
    append(text, room, "tag", call->tag);
    append(text, room, "b", call->bytes);
    append(text, room, "from", call->from);
    append(text, room, "rtag", call->receive_tag);
    append(text, room, "rb", call->receive_bytes);
    append(text, room, "root", call->root);
}

static _Noreturn void mismatch(const char *recorded, const char *made) {
    char what[2 * TEXT_MAX + 200];
    snprintf(what, sizeof what, "call %lld is `%s`, and the record has %s%s%s", calls, made, *recorded ? "`" : "", *recorded ? recorded : "no further call",
             *recorded ? "`" : "");
    refuse(what, "record the program again, with the same arguments and the same number of ranks");
}

/* Opens the times of a rank. Returns 0 without Softband's simulated time. */
int open_replay(const char *folder, int rank, int ranks) {
    char path[4096], what[4300];
    if (!softband_compute_ps) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/rank-%d.times", folder, ranks);
    if (access(path, F_OK) == 0) {
        snprintf(what, sizeof what, "this program has %d ranks, and the record has more", ranks);
        refuse(what, "start as many ranks as the record has, or record the program again");
    }
    snprintf(path, sizeof path, "%s/rank-%d.times", folder, rank);
    times = fopen(path, "re");
    if (!times) {
        snprintf(what, sizeof what, "this program has %d ranks, and the record has no rank %d", ranks, rank);
        refuse(what, "start as many ranks as the record has, or record the program again");
    }
    return 1;
}

static void read_next(void) {
    if (is_read) {
        return;
    }
    is_read = 1;
    looks = 0;
    stretch_picos = 0;
    recorded_call = "";
    if (fgets(line, sizeof line, times)) {
        line[strcspn(line, "\n")] = 0;
        stretch_picos = strtoull(line, &recorded_call, 10);
        looks = *recorded_call == '+';
        recorded_call += looks;
        recorded_call += *recorded_call == ' ';
    }
}

void replay_call(const struct call *call) {
    char made[TEXT_MAX];
    signature_of(call, made, sizeof made);
    read_next();
    if (strcmp(recorded_call, made) != 0) {
        mismatch(recorded_call, made);
    }
    calls++;
    is_read = 0;
    softband_compute_ps(stretch_picos);
}

/* Announces the stretch after a call. A program that looks in the stretch interrupts it. */
void announce_computation(void) {
    read_next();
    if (!looks && stretch_picos > 0 && softband_compute_ahead_ps) {
        softband_compute_ahead_ps(stretch_picos);
    }
}
