/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h - the trace of a job (profile = 1): the spans that its processes recorded
 * (base/spans.h), as one file on one clock, for ui.perfetto.dev and chrome://tracing.
 *
 *     DIR/profile/trainer-0.jsonl, pserver-0.jsonl, ... ──▶ DIR/profile.json, or another file
 *
 * The clock is CLOCK_MONOTONIC of paddlectl. Its difference to that of a node comes from the pings:
 *
 *     paddlectl  sent ─────────────────── received          node's clock - paddlectl's
 *     node                  now                               = now - (sent + received) / 2
 *
 * (NTP, RFC 5905: offset and delay). However the two ways differ, the error is at most half of the
 * round trip. So the ping with the shortest round trip counts, but clocks drift: the error of an
 * old ping grows, until a newer one is better. */
#pragma once

struct outputs_clock {
    int known;
    int64_t offset_ns;     /* add it to paddlectl's clock, and it is the node's */
    int64_t error_ns;      /* at the time of the ping */
    int64_t at_ns;         /* when that was, of paddlectl's clock */
    char boot[PD_BOOT_ID]; /* of the node then; "": unknown */
};

/* A ping that was sent and answered at these times of paddlectl, at `now_ns` of the node, whose
 * boot id is `boot`. A ping of another boot replaces the clock. */
void outputs_clock_ping(struct outputs_clock *c, int64_t sent_ns, int64_t now_ns,
                        int64_t received_ns, const char *boot);

struct outputs_profile {
    const char *dir;  /* of the job's outputs */
    const char *file; /* the trace; NULL or "": DIR/profile.json */
    const char *job;
    struct outputs_clock *clocks; /* [n_nodes], by node id */
    const char **hosts;           /* [n_nodes] */
    int64_t n_nodes;
    /* out */
    size_t n_processes, n_left_out; /* n_left_out: of nodes whose clock is not known */
    size_t n_rebooted;              /* of nodes that were rebooted since: left out, too */
    const char *rebooted_on;        /* the host of the first of them */
    size_t n_damaged;               /* files that cannot be read, or not to their end */
    struct pd_err damage;           /* the first of them */
    uint64_t n_spans, n_dropped;
};

/* Makes the trace, and removes the parts that it has whole. PD_ENOENT: there are no parts;
 * PD_EDATA: a part is damaged, and no span can be read. */
int outputs_profile_merge(struct outputs_profile *p, struct pd_err *err);
/* The line about the trace for users; `err`: of outputs_profile_merge. */
enum { OUTPUTS_PROFILE_TEXT = 5000 };
void outputs_profile_text(const struct outputs_profile *p, const struct pd_err *err,
                          char out[OUTPUTS_PROFILE_TEXT]);
/* All of it, for a caller that has set dir, file and job: outputs_profile_nodes makes the arrays
 * (PD_ENOMEM), outputs_profile_node sets a node (ignored if there is no such node or no memory),
 * outputs_profile_make merges and writes the texts for users: `lacks` is "" or a warning about
 * damaged files. Its value is that of outputs_profile_merge. */
int outputs_profile_nodes(struct outputs_profile *p, int64_t n_nodes);
void outputs_profile_node(struct outputs_profile *p, int64_t node, const char *host,
                          const struct outputs_clock *clock);
int outputs_profile_make(struct outputs_profile *p, char text[OUTPUTS_PROFILE_TEXT],
                         char lacks[OUTPUTS_PROFILE_TEXT]);
void outputs_profile_release(struct outputs_profile *p); /* the arrays */
/* 1: the outputs have spans. */
int outputs_profile_has_parts(const char *dir);
/* The file can be made: its folder exists and may be written. Or PD_EUSAGE. */
int outputs_profile_check(const char *file, struct pd_err *err);
