/* SPDX-License-Identifier: Apache-2.0 */
/* capi_internal.h - the contents of a handle of libpaddle_ps. */
#pragma once

#include "capi/paddle_ps.h"
#include "conf/options.h"
#include "math/key_sort.h"
#include "ps/client/client.h"
#include "ps/plan/optim_conf.h"
#include "wire/handshake.h"

#define CAPI __attribute__((visibility("default")))

/* The rows of one pull or push. On the wire keys are sorted and unique; the caller's ids have any
 * order. */
struct capi_rows {
    struct capi_rows *next;
    uint64_t *key;  /* [n_keys] */
    uint32_t *slot; /* [n]: index of the key of the caller's i-th id */
    float *value;   /* [n_keys x dim] */
    size_t n, n_keys, dim, room_ids, room_values;
    float *out; /* pull: the caller's buffer; NULL: a push */
    /* [n_keys x 2] shows and clicks, for a push to a table with admission or ageing. */
    uint32_t *seen;
    size_t room_seen;
};

struct paddle_ps {
    struct ps_client *client;
    struct pd_options options;
    struct pd_log log;
    struct pd_err err; /* the first error */
    uint8_t key[WIRE_KEY_BYTES];
    /* pushed: 1 + the step of the last push; 0: never */
    struct capi_dense {
        uint64_t size, pushed;
    } * dense; /* [n_dense] */
    struct capi_table {
        uint32_t dim;
        int life; /* the table has admission or ageing */
        uint64_t n_rows, pushed;
    } * table; /* [n_tables] */
    int n_dense, n_tables, started;
    uint64_t pass;
    struct capi_rows *pending, *idle; /* pending: until the next wait; idle: for reuse */
    struct pd_sort_key *sort, *spare; /* [room_sort] */
    size_t room_sort;
};

/* The code of the handle: the first error of the handle or its client. */
int capi_done(paddle_ps *ps, int rc);
int capi_fail(paddle_ps *ps, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Read the next NAME=VALUE of *text and advance *text. 1; 0 at the end; PD_ECONF, also for a name
 * or value that is too long. */
struct capi_word {
    char name[64], value[4096];
};
int capi_word_next(const char **text, struct capi_word *w, struct pd_err *err);

/* rows.c */
/* A struct for the rows of one pull or push, valid until the next wait. NULL: out of memory. */
struct capi_rows *capi_rows_take(paddle_ps *ps, size_t n, const uint64_t *ids, size_t dim);
/* Set r->seen for a push: for equal ids the sum of seen[2 * i] and seen[2 * i + 1]. NULL: each id
 * counts as one show. 0 or PD_ENOMEM. */
int capi_rows_seen(struct capi_rows *r, const uint32_t *seen);
/* Copy pulled rows to the callers' buffers; all structs become idle. */
void capi_rows_wait_done(paddle_ps *ps);
void capi_rows_release(paddle_ps *ps);
