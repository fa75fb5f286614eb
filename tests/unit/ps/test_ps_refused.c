/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_refused.c - what a shard refuses: messages that do not fit, are cut or changed, and any
 * message when there is no memory. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "tests/support/c/ps_joined.h"

static const uint64_t keys_a[] = {1, 5, 9}, keys_b[] = {5, 6};
static float grad_w[4][FR_VALUES], grad_rows[4][3 * FR_DIM];

static int setup(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        pd_rng_normal(pd_rng_key(1, 1, i, 0), 0, grad_w[i], FR_VALUES);
        pd_rng_normal(pd_rng_key(1, 1, i, 1), 0, grad_rows[i], 3 * FR_DIM);
    }
    return 0;
}

static struct wire_frame *with_flags(struct wire_frame *f, uint16_t flags) {
    f->flags = flags;
    return f;
}

static struct wire_frame *bad_frame(int which) {
    static const uint64_t unsorted[] = {9, 5}, twice[] = {5, 5};
    static const uint32_t ids[] = {0, 1, 2, 9};
    static double v[2];
    switch (which) {
    case 0:
        return f_declare_again(2, 0, 5, 0);
    case 1:
        return f_push_dense(1, 0, 0, grad_w[0], FR_VALUES);
    case 2:
        return f_push_dense(0, 1, 0, grad_w[0], FR_VALUES);
    case 3:
        return f_push_dense(0, 0, 0, grad_w[0], FR_VALUES - 1);
    case 4:
        return f_push_dense(0, 0, 7, grad_w[0], 3);
    case 5:
        return f_push_rows(0, 0, 1, 0, keys_a, 3, grad_rows[0]);
    case 6:
        return f_push_rows(0, 0, 0, 0, unsorted, 2, grad_rows[0]);
    case 7:
        return f_push_rows(0, 0, 0, 0, twice, 2, grad_rows[0]);
    case 8:
        return f_push_rows(0, 0, 0, 5, NULL, 3, grad_rows[0]);
    case 9:
        return f_pull_dense(2, 1, ids);
    case 10:
        return f_pull_dense(0, 1, ids + 3);
    case 11:
        return f_pull_rows(0, 3, 0, 0, keys_a, 3);
    case 12:
        return f_pull_rows(0, 0, 2, 0, keys_a, 3);
    case 13:
        return f_pull_rows(0, 0, 1, 0, unsorted, 2);
    case 14:
        return f_pass_end(1, 0);
    case 15:
        return f_pass_end(0, 1);
    case 16:
        return f_step_end(5, 0, 1, NULL, 0);
    case 17:
        return f_step_end(0, 0, UINT64_MAX, NULL, 0);
    case 18:
        return frame(WIRE_PS_SAVE, next_req(), v, 16, NULL, 0, NULL, 0);
    case 19:
        return frame(WIRE_PS_LOAD, next_req(), v, 15, NULL, 0, NULL, 0);
    case 20:
        return frame(WIRE_PS_COMMIT, next_req(), v, 16, NULL, 0, NULL, 0);
    case 21:
        return frame(WIRE_AG_HELLO, next_req(), v, 16, NULL, 0, NULL, 0);
    case 22:
        return with_flags(f_reduce(1, v), WIRE_F_ERROR);
    default:
        return NULL;
    }
}

static void test_what_does_not_fit_is_refused(void **state) {
    (void)state;
    static const char *const want[] = {
        "is already here",
        "is at step 0",
        "streams 1 to 2; here epoch 7, streams 0 to 1",
        "39 values for parameter 'w'",
        "no parameter 7",
        "no table 1",
        "not sorted and unique",
        "not sorted and unique",
        "key list 5",
        "after step 2",
        "no parameter 9",
        "no table 3",
        "PS_PULL_ROWS of",
        "not sorted and unique",
        "does not fit",
        "does not fit",
        "is at step 0",
        "samples",
        "PS_SAVE of",
        "PS_LOAD of",
        "PS_COMMIT of",
        "unexpected message 0x101",
        "flags",
    };
    for (int i = 0; i < (int)(sizeof want / sizeof want[0]); i++) {
        struct recorder r;
        struct ps_shard *s = joined(&r, 2);
        int rc = give(s, 0, bad_frame(i));
        if (rc >= 0 || !strstr(last.msg, want[i]))
            fail_msg("case %d: %d '%s' does not contain '%s'", i, rc, last.msg, want[i]);
        ok(s, 0, f_step_end(0, 0, 1, NULL, 0)); /* the refused message has changed nothing */
        ok(s, 1, f_step_end(0, 1, 1, NULL, 0));
        struct ps_shard_stats st;
        ps_shard_stats(s, &st);
        assert_int_equal(st.steps, 1);
        ps_shard_free(s);
    }
}

static void test_nobody_runs_ahead_without_end(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined(&r, 2);
    uint64_t step = 0;
    while (step < 100 && !give(s, 0, f_step_end(step, 0, 1, NULL, 0)))
        step++;
    assert_in_range(step, 4, 16);
    assert_non_null(strstr(last.msg, "while step 0 is not complete"));
    ps_shard_free(s);
}

/* Every message, cut at every byte and with every bit of its fields flipped, is refused or
 * harmless, never undefined behaviour. */
static void test_cut_and_flipped_messages(void **state) {
    (void)state;
    double v[2] = {1, 2};
    uint32_t ids[2] = {0, 1};
    static const struct ps_range all = {0, 1};
    for (int kind = 0; kind < 9; kind++)
        for (int mode = 0; mode < 2; mode++)
            for (size_t at = 0;; at++) {
                struct recorder r;
                struct ps_shard *s = joined(&r, 1);
                struct wire_frame *f =
                    kind == 0   ? f_push_dense(0, 0, 0, grad_w[0], FR_VALUES)
                    : kind == 1 ? f_push_rows(0, 0, 0, 0, keys_a, 3, grad_rows[0])
                    : kind == 2 ? f_step_end(0, 0, 1, v, 2)
                    : kind == 3 ? f_pull_dense(0, 2, ids)
                    : kind == 4 ? f_pull_rows(0, 0, 1, 4, keys_a, 3)
                    : kind == 5 ? f_pass_end(0, 0)
                    : kind == 6 ? f_reduce(2, v)
                    : kind == 7 ? f_step_end_parts(0, 0, 1, &all, v, 1)
                                : f_push_rows(0, 0, 0, 0, keys_b, 2, grad_rows[0]);
                int end = mode ? at >= f->len[0] * 8 : at >= f->len[0];
                if (!end && mode)
                    f->data[at / 8] ^= (uint8_t)(1 << at % 8);
                else if (!end)
                    f->len[0] = at;
                int rc = give(s, 0, f);
                if (!end && !mode && rc >= 0)
                    fail_msg("message kind %d is accepted with %zu bytes", kind, at);
                if (end)
                    assert_int_equal(rc, 0);
                (void)give(s, 0, f_step_end(0, 0, 1, NULL, 0));
                ps_shard_free(s);
                if (end)
                    break;
            }
}

/* --- no memory --- */

struct script {
    struct {
        uint32_t trainer;
        struct wire_frame *f;
    } line[64];
    int n;
};

static void say(struct script *q, uint32_t trainer, struct wire_frame *f) {
    q->line[q->n].trainer = trainer;
    q->line[q->n++].f = f;
}

static void write_script(struct script *q) {
    static const struct ps_range two[2][2] = {{{0, 1}, {1, 2}}, {{2, 3}, {3, 4}}};
    static const float v_of_two[3] = {1, 2, 3};
    double v[2] = {1, 2};
    uint32_t ids[2] = {1, 0};
    q->n = 0;
    fr_width = 2;
    for (uint32_t t = 0; t < 2; t++)
        say(q, t, f_declare(2, t));
    for (uint64_t step = 0; step < 2; step++)
        for (uint32_t t = 0; t < 2; t++) {
            say(q, t, f_pull_rows(step, 0, 1, 3, keys_a, 3));
            say(q, t, f_pull_dense(step, 2, ids));
            say(q, t, of_streams(f_push_dense(step, t, 0, grad_w[t], FR_VALUES), 2 * t, 2 * t + 1));
            say(q, t,
                of_streams(f_push_rows(step, t, 0, step ? 0 : 3, keys_a, 3, grad_rows[t]), 2 * t,
                           2 * t + 1));
            say(q, t, of_streams(f_push_dense(step, t, 1, v_of_two, 3), 2 * t + 1, 2 * t + 2));
            say(q, t, f_step_end_parts(step, t, 1, two[t], v, 2));
        }
    for (uint32_t t = 0; t < 2; t++)
        say(q, t, f_reduce(2, v));
    for (uint32_t t = 0; t < 2; t++)
        say(q, t, f_pass_end(2, 0));
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    enum { MORE_THAN_THERE_ARE = 250 };
    int rc = -1, failed = 0;
    for (int n = 1; n <= MORE_THAN_THERE_ARE; n++) {
        struct recorder r;
        struct script q;
        char spec[32];
        write_script(&q);
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        struct ps_shard *s = rec_shard(&r, 2);
        int k = 0;
        rc = s ? 0 : PD_ENOMEM;
        for (; k < q.n && !rc; k++)
            rc = give(s, q.line[k].trainer, q.line[k].f);
        if (!rc && r.n_fails) /* a waiting pull failed for lack of memory */
            rc = r.last_fail.code;
        pd_fault_arm(NULL);
        failed += rc != 0;
        if (rc != 0 && rc != PD_ENOMEM)
            fail_msg("allocation %d, message %d: %d %s", n, k, rc, last.msg);
        for (; k < q.n; k++)
            wire_frame_free(q.line[k].f);
        ps_shard_free(s);
    }
    fr_width = 1;
    assert_int_equal(rc, 0);
    assert_true(failed > 40);
}

/* A day's end and a load wait until the trainer has read the answers that are queued for it. While
 * they wait, no step counts as under way. */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_nobody_runs_ahead_without_end),
        cmocka_unit_test(test_cut_and_flipped_messages),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
