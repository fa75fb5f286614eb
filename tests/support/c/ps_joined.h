/* SPDX-License-Identifier: Apache-2.0 */
/* ps_joined.h - a shard whose trainers have declared, and frames that it takes. */
#pragma once

#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/ps_frames.h"

static struct pd_err last; /* of the last frame */

static inline int give(struct ps_shard *s, uint32_t trainer, struct wire_frame *f) {
    pd_err_clear(&last);
    return ps_shard_frame(s, trainer, "10.0.0.9:1", f, &last);
}

static inline void ok(struct ps_shard *s, uint32_t trainer, struct wire_frame *f) {
    if (give(s, trainer, f))
        fail_msg("trainer %u: %s", trainer, last.msg);
}

static inline struct ps_shard *joined(struct recorder *r, uint32_t n) {
    struct ps_shard *s = rec_shard(r, n);
    for (uint32_t i = 0; i < n; i++)
        ok(s, i, f_declare(n, i));
    assert_int_equal(r->n_answers, (int)n);
    return s;
}

static inline const struct recorded *last_answer(const struct recorder *r) {
    return &r->a[(r->n_answers - 1) % 64];
}
