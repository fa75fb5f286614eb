/* repeat.h - lines that several nodes say within a short time, to be shown once with all their
 * names.
 *
 * A line waits until REPEAT_SPAN_US of the nodes' time, or REPEAT_SPAN_MS of ours, have passed
 * since it came first; whoever says the same in between is added. What one node says twice is two
 * lines. They leave in the order they came. */
#ifndef LAUNCHER_REPEAT_H
#define LAUNCHER_REPEAT_H

#include <stddef.h>
#include <stdint.h>

enum { REPEAT_SPAN_US = 500000, REPEAT_SPAN_MS = 500, REPEAT_MAX_BYTES = 4 << 20 };

struct repeat_line {
    unsigned group;      /* lines of different groups (roles) are never one */
    const unsigned *who; /* numbers of the caller's, in the order they said it */
    unsigned n_who;
    uint64_t time_us, offset; /* of the first */
    unsigned source;
    const char *text;
    size_t n;
};

typedef void (*repeat_on_line)(void *arg, const struct repeat_line *l);

struct repeat;
struct repeat *repeat_new(repeat_on_line fn, void *arg); /* NULL: out of memory */
void repeat_free(struct repeat *r);
/* PD_ENOMEM: it was not taken. There is one in `l->who`. */
int repeat_add(struct repeat *r, const struct repeat_line *l, uint64_t now_ms);
/* Those that have waited long enough; all: every one. Returns in how many ms to call again,
 * UINT64_MAX: none waits. */
uint64_t repeat_flush(struct repeat *r, int all, uint64_t now_ms);

#endif
