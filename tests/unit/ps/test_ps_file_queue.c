/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_file_queue.c - data = queue: which trainer gets which file, with a single server thread.
 * tests/integration/train/train_queue.sh has whole jobs. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/ps_joined.h"

static struct recorder r;

static void refused(struct ps_shard *s, uint32_t trainer, struct wire_frame *f, const char *why) {
    if (!give(s, trainer, f) || !strstr(last.msg, why))
        fail_msg("'%s', not '%s'", last.msg, why);
}

static struct ps_shard *joined_by(uint32_t n, const char *update, enum ps_lost on_lost) {
    fr_on_lost = on_lost;
    memset(&r, 0, sizeof r);
    struct ps_shard *s = rec_shard(&r, n);
    for (uint32_t i = 0; i < n; i++)
        ok(s, i, f_declare_as(n, i, "sgd", update));
    fr_on_lost = PS_LOST_FAIL;
    return s;
}

static uint64_t own_first; /* own_first of the requests below */

static struct wire_frame *f_task(uint64_t pass, uint64_t n, uint64_t done) {
    return FRAME(PS_TASK, task, .epoch = FR_EPOCH, .pass = pass, .n_files = n, .done = done,
                 .own_first = own_first);
}

enum { NOTHING = -1, OVER = -2, LATER = -3 };

static int64_t expected; /* the next file named by the last answer that was read; -1: none */

/* The file that answer number `i` gives to this trainer. */
static int64_t given(int i, uint32_t trainer) {
    if (i >= r.n_answers)
        return NOTHING;
    const struct recorded *a = &r.a[i % 64];
    uint64_t v[5];
    assert_int_equal(a->type, WIRE_PS_TASK);
    assert_int_equal(a->trainer, trainer);
    assert_int_equal(a->n_head, sizeof v);
    memcpy(v, a->head, sizeof v);
    expected = (int64_t)v[4] - 1;
    return v[0] == PS_TASK_FILE ? (int64_t)v[1] : v[0] == PS_TASK_OVER ? OVER : LATER;
}

static int64_t asks(struct ps_shard *s, uint32_t trainer, uint64_t n, int64_t done) {
    int before = r.n_answers;
    ok(s, trainer, f_task(0, n, (uint64_t)(done + 1)));
    return given(before, trainer);
}

static void each_file_goes_out_once_and_the_pass_ends_for_all(void **state) {
    (void)state;
    struct ps_shard *s = joined_by(2, "async", PS_LOST_FAIL);
    assert_int_equal(asks(s, 0, 4, -1), 0);
    assert_int_equal(asks(s, 1, 4, -1), 1);
    assert_int_equal(asks(s, 0, 4, 0), 2); /* trainer 0 is faster */
    assert_int_equal(asks(s, 0, 4, 2), 3);
    /* All files are assigned, and one is not read yet. */
    assert_int_equal(asks(s, 0, 4, 3), NOTHING);
    int n = r.n_answers;
    ok(s, 1, f_task(0, 4, 2)); /* now it is read: both trainers get the end of the pass */
    assert_int_equal(given(n, 0), OVER);
    assert_int_equal(given(n + 1, 1), OVER);
    ok(s, 0, f_pass_end(0, 0));
    ok(s, 1, f_pass_end(0, 0));
    n = r.n_answers;
    ok(s, 1, f_task(1, 4, 0)); /* the next pass begins with the first file */
    assert_int_equal(given(n, 1), 0);
    ps_shard_free(s);
}

static void files_of_a_lost_trainer_go_to_one_that_waits(void **state) {
    (void)state;
    struct ps_shard *s = joined_by(3, "geo", PS_LOST_CONTINUE);
    struct pd_err why = {.code = PD_EFAIL, .msg = "killed"}, err = {0};
    for (uint32_t t = 0; t < 3; t++)
        assert_int_equal(asks(s, t, 3, -1), t);
    assert_int_equal(asks(s, 2, 3, 2), NOTHING);
    int n = r.n_answers;
    assert_int_equal(ps_shard_gone(s, 0, &why, &err), 0);
    assert_int_equal(given(n, 2), 0);
    ok(s, 1, f_pass_end(0, 0)); /* trainer 1 ends the pass early: it has not read its file */
    assert_int_equal(asks(s, 2, 3, 0), 1);
    assert_int_equal(asks(s, 2, 3, 1), OVER);
    ok(s, 2, f_pass_end(0, 0));
    assert_int_equal(r.a[(r.n_answers - 1) % 64].type, WIRE_PS_PASS_END);
    ps_shard_free(s);
}

static void a_trainer_that_is_started_again_is_handed_files(void **state) {
    (void)state;
    struct ps_shard *s = joined_by(2, "async", PS_LOST_WAIT);
    struct pd_err why = {.code = PD_EFAIL, .msg = "killed"}, err = {0};
    assert_int_equal(asks(s, 0, 2, -1), 0);
    assert_int_equal(asks(s, 1, 2, -1), 1);
    assert_int_equal(asks(s, 0, 2, 0), NOTHING);
    int n = r.n_answers;
    assert_int_equal(ps_shard_gone(s, 1, &why, &err), 0);
    assert_int_equal(given(n, 0), 1); /* once the file is returned, it is assigned at once */
    struct wire_frame *f = f_declare_as(2, 1, "sgd", "async");
    const uint64_t incarnation = 4711;
    memcpy(f->data + 40, &incarnation, 8);
    ok(s, 1, f);
    assert_int_equal(asks(s, 1, 2, -1), NOTHING);
    n = r.n_answers;
    ok(s, 0, f_task(0, 2, 2));
    assert_int_equal(given(n, 0), OVER);
    assert_int_equal(given(n + 1, 1), OVER);
    ps_shard_free(s);
}

/* The answer was lost with the connection. The repeated request gets the same file. */
static void a_repeated_request_gets_the_same_file(void **state) {
    (void)state;
    struct ps_shard *s = joined_by(1, "async", PS_LOST_FAIL);
    const uint64_t req = next_req();
    int n = r.n_answers;
    ok(s, 0, FRAME_AS(PS_TASK, req, task, .epoch = FR_EPOCH, .n_files = 5));
    assert_int_equal(given(n, 0), 0);
    assert_int_equal(ps_shard_detach(s, 0), 1);
    ok(s, 0, f_declare_full(1, 0, "sgd", "async", 100, FR_EPOCH));
    n = r.n_answers;
    ok(s, 0, FRAME_AS(PS_TASK, req, task, .epoch = FR_EPOCH, .n_files = 5));
    assert_int_equal(given(n, 0), 0);
    assert_int_equal(asks(s, 0, 5, 0), 1);
    ps_shard_free(s);
}

/* Under ssp, a trainer that waits for a file must not delay the others: it gets their step and
 * steps up to it. */
static void under_ssp_who_waits_keeps_up(void **state) {
    (void)state;
    struct ps_shard *s = joined_by(2, "ssp", PS_LOST_FAIL); /* staleness 2 */
    uint32_t w = 0;
    assert_int_equal(asks(s, 0, 1, -1), 0);
    assert_int_equal(asks(s, 1, 1, -1), NOTHING);
    int n = r.n_answers;
    ok(s, 0, f_step_end(0, 0, 2, NULL, 0));
    assert_int_equal(given(n, 1), LATER);
    uint64_t furthest;
    memcpy(&furthest, r.a[n % 64].head + 24, 8);
    assert_int_equal(furthest, 1);
    for (uint64_t k = 1; k < 4; k++)
        ok(s, 0, f_step_end(k, 0, 2, NULL, 0));
    n = r.n_answers;
    ok(s, 0, f_pull_dense(4, 1, &w));
    assert_int_equal(r.n_answers, n); /* trainer 0 is 4 steps ahead */
    for (uint64_t k = 0; k < 4; k++)
        ok(s, 1, f_step_end(k, 1, 0, NULL, 0));
    assert_int_equal(r.n_answers, n + 1);
    /* At the same step as the other trainer, so it waits again. */
    assert_int_equal(asks(s, 1, 1, -1), NOTHING);
    n = r.n_answers;
    ok(s, 0, f_task(0, 1, 1));
    assert_int_equal(given(n, 0), OVER);
    assert_int_equal(given(n + 1, 1), OVER);
    ps_shard_free(s);
}

/* Separate data: file i is on the node of trainer i mod 3. */
static void each_is_handed_its_own_first_then_others(void **state) {
    (void)state;
    enum { N = 11 };
    struct ps_shard *s = joined_by(3, "async", PS_LOST_CONTINUE);
    own_first = 1;
    /* Trainer 1 is slow: it reads file 1 while the others read all other files. */
    assert_int_equal(asks(s, 1, N, -1), 1);
    assert_int_equal(expected, 4);
    static const int64_t order[] = {0, 2, 3, 5, 6, 8, 9}; /* for trainers 0 and 2 in turn */
    int64_t had[3] = {-1, 0, -1};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        uint32_t t = i % 2 ? 2 : 0;
        had[t] = asks(s, t, N, had[t]);
        assert_int_equal(had[t], order[i]);
    }
    assert_int_equal(expected, 10); /* not 4 and 7, which are announced to others */
    had[2] = asks(s, 2, N, had[2]);
    assert_int_equal(had[2], 7);
    assert_int_equal(expected, 4); /* only files announced to others are left */
    had[0] = asks(s, 0, N, had[0]);
    assert_int_equal(had[0], 10);
    had[2] = asks(s, 2, N, had[2]);
    assert_int_equal(had[2], 4); /* better than waiting for the slow trainer */
    assert_int_equal(expected, -1);
    assert_int_equal(asks(s, 1, N, 1), NOTHING);
    assert_int_equal(asks(s, 0, N, had[0]), NOTHING);
    /* A returned file goes to a waiting trainer, before the end of the pass is answered. */
    struct pd_err why = {.code = PD_EFAIL, .msg = "killed"}, err = {0};
    int n = r.n_answers;
    assert_int_equal(ps_shard_gone(s, 2, &why, &err), 0);
    assert_int_equal(given(n, 0), 4);
    n = r.n_answers;
    ok(s, 0, f_task(0, N, 5));
    assert_int_equal(given(n, 0), OVER);
    assert_int_equal(given(n + 1, 1), OVER);
    ps_shard_free(s);
    own_first = 0;
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    struct ps_shard *s = joined_by(2, "async", PS_LOST_FAIL);
    assert_int_equal(asks(s, 0, 3, -1), 0);
    refused(s, 1, f_task(0, 4, 0), "PS_TASK of 4 files, others have 3");
    /* The file of another trainer. */
    refused(s, 1, f_task(0, 3, 1), "file 0 is done, but -1 was handed out");
    refused(s, 1, f_task(1, 3, 0), "PS_TASK of pass 1 does not fit");
    refused(s, 0, f_task(0, 3, 0), "file -1 is done, but 0 was handed out");
    refused(s, 0, f_task(0, UINT64_MAX, 1), "at most 16777216");
    refused(s, 0, frame(WIRE_PS_TASK, next_req(), &s, 8, NULL, 0, NULL, 0), "PS_TASK of 8 bytes");
    assert_int_equal(asks(s, 0, 3, 0), 1);
    assert_int_equal(asks(s, 0, 3, 1), 2);
    assert_int_equal(asks(s, 0, 3, 2), OVER);
    assert_int_equal(asks(s, 1, 3, -1), OVER);
    struct pd_err why = {.code = PD_EFAIL, .msg = "the disk is full"};
    ps_shard_free(s);
    s = joined_by(2, "async", PS_LOST_FAIL);
    assert_int_equal(asks(s, 0, 1, -1), 0);
    assert_int_equal(asks(s, 1, 1, -1), NOTHING);
    ps_shard_fail(s, &why);
    assert_int_equal(r.n_fails, 1);
    assert_string_equal(r.last_fail.msg, "the disk is full");
    ps_shard_free(s);
    s = joined_by(1, "sync", PS_LOST_FAIL);
    refused(s, 0, f_task(0, 3, 0), "files are not handed out under update = sync");
    ps_shard_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_goes_out_once_and_the_pass_ends_for_all),
        cmocka_unit_test(files_of_a_lost_trainer_go_to_one_that_waits),
        cmocka_unit_test(a_trainer_that_is_started_again_is_handed_files),
        cmocka_unit_test(a_repeated_request_gets_the_same_file),
        cmocka_unit_test(under_ssp_who_waits_keeps_up),
        cmocka_unit_test(each_is_handed_its_own_first_then_others),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
