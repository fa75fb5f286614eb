/* SPDX-License-Identifier: Apache-2.0 */
/* repeat.h - collects equal lines of several nodes within a short time, to show each once with all
 * names.
 *
 * A line waits until REPEAT_SPAN_MS (or what repeat_wait says) of the nodes' time, or of this
 * machine's, have passed since its first node. Nodes that say the same line meanwhile are added to
 * it. A line that one node says twice stays two lines. Lines leave in the order of arrival. */
#pragma once

enum { REPEAT_SPAN_MS = 500, REPEAT_MAX_BYTES = 4 << 20 };

struct repeat_line {
    unsigned group; /* lines of different groups (roles) stay separate */
    /* the caller's numbers of the sources, in the order of arrival */
    const unsigned *sources;
    unsigned n_sources;
    uint64_t time_us, offset; /* of the first source */
    unsigned source;
    const char *text;
    size_t n;
};

typedef void (*repeat_on_line)(void *arg, const struct repeat_line *l);

struct repeat;
struct repeat *repeat_new(repeat_on_line fn, void *arg); /* NULL: out of memory */
void repeat_free(struct repeat *r);
/* Add a line of one source, l->sources[0]. PD_ENOMEM: it was not taken. */
int repeat_add(struct repeat *r, const struct repeat_line *l, uint64_t now_ms);
/* Lines that are added from now on wait for span_ms, of the nodes' time and of this machine's. */
void repeat_wait(struct repeat *r, uint64_t span_ms);
/* Emit the lines that have waited long enough; `all`: every line. Returns after how many ms to call
 * again. UINT64_MAX: no line waits. */
uint64_t repeat_flush(struct repeat *r, int all, uint64_t now_ms);
