/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - converts a caller's ids, in any order and repeated, to the sorted unique keys that
 * servers take, and puts rows back into the caller's order. */
#include "capi/capi_internal.h"

static int grow(void **p, size_t n, size_t size) {
    void *bigger = pd_realloc(*p, n * size);
    if (bigger)
        *p = bigger;
    return bigger ? 0 : -1;
}

static int make_room(paddle_ps *ps, struct capi_rows *r, size_t n) {
    if (n > ps->room_sort) {
        if (grow((void **)&ps->sort, n, sizeof *ps->sort) ||
            grow((void **)&ps->spare, n, sizeof *ps->spare))
            return -1;
        ps->room_sort = n;
    }
    if (n > r->room_ids) {
        if (grow((void **)&r->key, n, sizeof *r->key) ||
            grow((void **)&r->slot, n, sizeof *r->slot))
            return -1;
        r->room_ids = n;
    }
    return 0;
}

struct capi_rows *capi_rows_take(paddle_ps *ps, size_t n, const uint64_t *ids, size_t dim) {
    struct capi_rows *r = ps->idle;
    if (r)
        ps->idle = r->next;
    else
        r = pd_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->next = ps->pending;
    ps->pending = r;
    r->n = r->n_keys = 0; /* nothing to copy out if memory runs out below */
    r->dim = dim;
    r->out = NULL;
    if (n > UINT32_MAX || make_room(ps, r, n))
        return NULL;
    for (size_t i = 0; i < n; i++)
        ps->sort[i] = (struct pd_sort_key){ids[i], (uint32_t)i, 0};
    pd_key_sort(&ps->sort, &ps->spare, n);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (!i || ps->sort[i].key != r->key[k - 1])
            r->key[k++] = ps->sort[i].key;
        r->slot[ps->sort[i].a] = (uint32_t)(k - 1);
    }
    if (k * dim > r->room_values) {
        if (grow((void **)&r->value, k * dim, sizeof *r->value))
            return NULL;
        r->room_values = k * dim;
    }
    r->n = n;
    r->n_keys = k;
    return r;
}

static uint32_t add(uint32_t a, uint32_t b) { return b > UINT32_MAX - a ? UINT32_MAX : a + b; }

int capi_rows_seen(struct capi_rows *r, const uint32_t *seen) {
    if (2 * r->n_keys > r->room_seen) {
        if (grow((void **)&r->seen, 2 * r->n_keys, sizeof *r->seen))
            return PD_ENOMEM;
        r->room_seen = 2 * r->n_keys;
    }
    memset(r->seen, 0, 2 * r->n_keys * sizeof *r->seen);
    for (size_t i = 0; i < r->n; i++) {
        uint32_t *to = r->seen + 2 * (size_t)r->slot[i];
        to[0] = add(to[0], seen ? seen[2 * i] : 1);
        to[1] = add(to[1], seen ? seen[2 * i + 1] : 0);
    }
    return 0;
}

void capi_rows_wait_done(paddle_ps *ps) {
    while (ps->pending) {
        struct capi_rows *r = ps->pending;
        for (size_t i = 0; r->out && i < r->n; i++)
            memcpy(r->out + i * r->dim, r->value + r->slot[i] * r->dim, r->dim * sizeof *r->out);
        ps->pending = r->next;
        r->next = ps->idle;
        ps->idle = r;
    }
}

void capi_rows_release(paddle_ps *ps) {
    ps->started = 0;
    for (struct capi_rows *r; (r = ps->pending ? ps->pending : ps->idle);) {
        *(ps->pending ? &ps->pending : &ps->idle) = r->next;
        free(r->key);
        free(r->slot);
        free(r->value);
        free(r->seen);
        free(r);
    }
    free(ps->sort);
    free(ps->spare);
}
