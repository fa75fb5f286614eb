/* SPDX-License-Identifier: Apache-2.0 */
/* spans.h - what the threads of a process did when (profile = 1): spans of time with names, in a
 * ring of bounded memory for each thread.
 *
 *     thread ── pd_span_end ──▶ its ring: the last PD_SPANS_MAX spans
 *     end of the process ── pd_spans_write ──▶ a file of lines, which paddlectl makes a trace of
 *
 * A thread that records nothing has no ring; each place then costs a load and a branch. Spans of a
 * thread lie inside each other or beside each other. They are recorded at their end, so that a ring
 * that is full loses the oldest ones and never the outer ones. */
#pragma once

enum { PD_SPANS_MAX = 1 << 15 }; /* 24 bytes each */

struct pd_spans; /* of a process */
struct pd_span_ring;
extern _Thread_local struct pd_span_ring *pd_span_ring; /* of this thread; NULL: none */

/* NULL: no memory. */
struct pd_spans *pd_spans_new(void);
void pd_spans_free(struct pd_spans *s); /* nothing, while a thread records */
/* The calling thread records spans until pd_spans_thread_end. Without memory for a ring it does
 * not, and the file says so. s: NULL: nothing happens. */
void pd_spans_thread(struct pd_spans *s, const char *name);
void pd_spans_thread_end(void);
/* Those that the calling thread records for, or NULL. */
struct pd_spans *pd_spans_here(void);

/* A process in a trace. */
struct pd_spans_of {
    const char *role; /* "trainer", "pserver" */
    int64_t rank, node;
};
/* Writes the spans, also of threads that have not ended; from then on nothing is recorded. The
 * clock is CLOCK_MONOTONIC, in ns:
 *
 *     {"version":1,"role":"trainer","rank":0,"node":1,"begin_ns":...,"busy":0,"boot":ID}
 *     {"thread":"ps_dense0","kept":2,"dropped":0}      ["PS_PUSH",BEGIN,DURATION] each on a line
 *
 * begin_ns: the earliest beginning; busy: threads that had no memory; boot: of pd_boot_id, since
 * the clock begins anew with each boot. The file appears when it is complete. */
int pd_spans_write(struct pd_spans *s, const char *path, const struct pd_spans_of *of,
                   struct pd_err *err);

/* Records a span of this thread. The name is a constant, without quotes and backslashes. */
void pd_span_add(const char *name, uint64_t began_ns, uint64_t ended_ns);

static inline uint64_t pd_span_begin(void) { return pd_span_ring ? pd_mono_ns() : 0; }
static inline void pd_span_end(const char *name, uint64_t began_ns) {
    if (pd_span_ring)
        pd_span_add(name, began_ns, pd_mono_ns());
}
