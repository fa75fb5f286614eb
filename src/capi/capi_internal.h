/* internal.h - what a handle of libpaddle_ps holds. */
#ifndef PD_CAPI_INTERNAL_H
#define PD_CAPI_INTERNAL_H

#include "capi/paddle_ps.h"
#include "conf/options.h"
#include "math/key_sort.h"
#include "ps/client/client.h"
#include "ps/plan/optim_conf.h"
#include "wire/handshake.h"

#define CAPI __attribute__((visibility("default")))

/* The rows of one pull or push: sorted unique keys on the wire, the caller's order outside. */
struct capi_rows {
    struct capi_rows *next;
    uint64_t *key;  /* [n_keys] */
    uint32_t *slot; /* [n]: which key the caller's i-th id is */
    float *value;   /* [n_keys x dim] */
    size_t n, n_keys, dim, room_ids, room_values;
    float *out;     /* of a pull: the caller's; NULL: a push */
    uint32_t *seen; /* [n_keys x 2] shows and clicks, of a push to a table whose rows come and go */
    size_t room_seen;
};

struct paddle_ps {
    struct ps_client *client;
    struct pd_options options;
    struct pd_log log;
    struct pd_err err; /* the first one */
    uint8_t key[WIRE_KEY_BYTES];
    uint64_t *size; /* [n_dense] values */
    struct capi_table {
        uint32_t dim;
        int life; /* its rows come and go */
    } * table;    /* [n_tables] */
    int n_dense, n_tables, started;
    uint64_t pass;
    struct capi_rows *pending, *idle; /* until the next wait; to be used again */
    struct pd_keyed *sort, *spare;    /* [room_sort] */
    size_t room_sort;
};

/* The handle's code: the first error, whoever saw it. */
int capi_done(paddle_ps *ps, int rc);
int capi_fail(paddle_ps *ps, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The next NAME=VALUE of `*text`, which moves on: 1, 0 at the end, PD_ECONF. Both are cut at their
 * room: PD_ECONF, too. */
struct capi_word {
    char name[64], value[4096];
};
int capi_word_next(const char **text, struct capi_word *w, struct pd_err *err);

/* rows.c */
/* The rows of one pull or push, until the next wait. NULL: no memory */
struct capi_rows *capi_rows_take(paddle_ps *ps, size_t n, const uint64_t *ids, size_t dim);
/* r->seen of a push: of equal ids the sum of seen[2 * i] and seen[2 * i + 1]; NULL: each was shown
 * once. 0 or PD_ENOMEM. */
int capi_rows_seen(struct capi_rows *r, const uint32_t *seen);
void capi_rows_wait_done(
    paddle_ps *ps); /* what was pulled goes to its callers; everything is idle */
void capi_rows_release(paddle_ps *ps);

#endif
