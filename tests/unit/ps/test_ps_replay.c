/* SPDX-License-Identifier: Apache-2.0 */
/* One server thread when connections break and trainers run ahead: a request that was done is not
 * done again, later or elsewhere. */
#include <setjmp.h>

#include <cmocka.h>

#include "model/model.h"
#include "tests/support/c/ps_joined.h"

static char dir[64];

static void back_again(struct ps_shard *s, uint32_t n, uint32_t trainer) {
    assert_int_equal(ps_shard_detach(s, trainer), 1);
    ok(s, trainer, f_declare_again(n, trainer, trainer + 100, FR_EPOCH));
}

static int make_dir(void **state) {
    (void)state;
    pd_fmt(dir, sizeof dir, "/tmp/test_ps_replay.XXXXXX");
    return !mkdtemp(dir);
}

static int remove_dir(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

/* --- save --- */

static uint64_t tag = 1;

static struct wire_frame *f_save(uint64_t after, uint64_t req) {
    return FRAME_AS(PS_SAVE, req, save, .after = after, .tag = tag, .dir = dir, .name = "m");
}

/* Writes the number of applied updates from every answer to PS_SAVE. Returns the number of answers.
 */
static int saved(const struct recorder *r, uint64_t updates[64]) {
    int n = 0;
    for (int i = 0; i < r->n_answers; i++) {
        const struct ps_body b = {.n = 1, .sec = {r->a[i].head}, .len = {r->a[i].n_head}};
        struct ps_msg_saved m;
        if (r->a[i].type != WIRE_PS_SAVE)
            continue;
        assert_int_equal(ps_get_saved(&b, &m, NULL), 0);
        updates[n++] = m.updates;
    }
    return n;
}

/* Trainer 0 requests the model after step 1, continues, and loses its connection. The steps are
 * applied before it reconnects. */
static struct ps_shard *save_and_leave(struct recorder *r, uint64_t *req) {
    struct ps_shard *s = joined(r, 2);
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    *req = next_req();
    ok(s, 0, f_save(1, *req));
    ok(s, 0, f_step_end(1, 0, 1, NULL, 0));
    assert_int_equal(ps_shard_detach(s, 0), 1);
    for (uint64_t step = 0; step < 2; step++)
        ok(s, 1, f_step_end(step, 1, 1, NULL, 0));
    ok(s, 0, f_declare_again(2, 0, 100, FR_EPOCH));
    return s;
}

static void test_a_save_that_waits_is_of_its_step_though_the_connection_breaks(void **state) {
    (void)state;
    struct recorder r;
    uint64_t req, updates[64];
    struct ps_shard *s = save_and_leave(&r, &req);
    ok(s, 0, f_save(1, req));                /* repeated, since its answer is missing */
    assert_int_equal(saved(&r, updates), 2); /* the lost answer and the repeated one */
    assert_int_equal(updates[0], 1);
    assert_int_equal(updates[1], 1);
    back_again(s, 2, 0);
    ok(s, 0, f_save(1, req));
    assert_int_equal(saved(&r, updates), 3);
    assert_int_equal(updates[2], 1);
    ps_shard_free(s);
}

static void test_a_save_that_comes_too_late_is_none(void **state) {
    (void)state;
    struct recorder r;
    uint64_t req, updates[64];
    pd_fault_arm("ps.save:1");
    struct ps_shard *s = save_and_leave(&r, &req);
    pd_fault_arm(NULL);
    assert_true(give(s, 0, f_save(1, req)) < 0);
    assert_non_null(
        strstr(last.msg, "the model after step 1 was not saved and no longer exists: step 2"));
    assert_int_equal(saved(&r, updates), 0);
    ps_shard_free(s);
}

static void test_a_save_comes_back_while_it_waits(void **state) {
    (void)state;
    struct recorder r;
    uint64_t updates[64];
    struct ps_shard *s = joined(&r, 2);
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    const uint64_t req = next_req();
    ok(s, 0, f_save(1, req));
    back_again(s, 2, 0);
    ok(s, 0, f_save(1, req));
    assert_int_equal(saved(&r, updates), 0);
    ok(s, 1, f_step_end(0, 1, 1, NULL, 0));
    assert_int_equal(saved(&r, updates), 1); /* only one answer */
    assert_int_equal(updates[0], 1);
    ps_shard_free(s);
}

static struct ps_saving *under_way;

static int save_later(void *arg, struct ps_saving *j, struct pd_err *err) {
    (void)arg;
    (void)err;
    under_way = j;
    return 0;
}

/* on_trainer_lost = wait: the process that requested the save is gone when the save is complete,
 * and another process has its place. */
static void test_a_save_is_answered_to_who_asked_for_it(void **state) {
    static const struct pd_err why = {.code = PD_ENOSPC, .msg = "the disk is full"};
    struct recorder r;
    (void)state;
    for (int again = 0; again < 2; again++) {
        fr_save = save_later;
        fr_on_lost = PS_LOST_WAIT;
        struct ps_shard *s = joined(&r, 1);
        fr_save = NULL;
        fr_on_lost = PS_LOST_FAIL;
        ok(s, 0, f_save(0, next_req()));
        assert_int_equal(ps_shard_detach(s, 0), 1);
        ok(s, 0, again ? f_declare_again(1, 0, 100, FR_EPOCH) : f_declare_again(1, 0, 777, 0));
        ps_shard_saved(s, under_way, NULL, &why);
        assert_int_equal(r.n_fails, again);
        ps_shard_free(s);
    }
}

/* A save whose trainer is lost before the commit leaves no files. */
static void test_a_save_that_is_not_committed_goes_with_the_next(void **state) {
    struct recorder r;
    uint64_t updates[64];
    char first[PATH_MAX], name[] = "m";
    (void)state;
    struct ps_shard *s = joined(&r, 1);
    ok(s, 0, f_save(0, next_req()));
    assert_int_equal(model_staging_path(dir, name, 1, first, &last), 0);
    assert_int_equal(access(first, F_OK), 0);
    tag = 2;
    ok(s, 0, f_save(0, next_req()));
    tag = 1;
    assert_int_equal(saved(&r, updates), 2);
    assert_int_not_equal(access(first, F_OK), 0);
    ps_shard_free(s);
}

/* --- copies of a model's files --- */

static struct wire_frame *f_store(const char *file, const uint8_t *p, uint64_t offset, size_t n,
                                  uint64_t size, uint64_t req) {
    return FRAME_AS(PS_STORE, req, store, .folder = dir, .file = file, .offset = offset,
                    .size = size, .data = p + offset, .n_data = n);
}

/* The answer to a piece is lost with the connection, and the piece is sent again. */
static void test_pieces_of_a_file_that_come_twice(void **state) {
    (void)state;
    enum { SIZE = 3000, PIECE = 1000 };
    uint8_t data[SIZE];
    char path[128];
    for (int i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 7 + 1);
    /* Number of the repeated piece; in the last iteration none. */
    for (int twice = 0; twice <= SIZE / PIECE; twice++) {
        struct recorder r;
        struct pd_buf b;
        struct pd_err err = {0};
        struct ps_shard *s = joined(&r, 1);
        for (int k = 0; k < SIZE / PIECE; k++) {
            const uint64_t req = next_req();
            ok(s, 0, f_store("x.bin", data, (uint64_t)k * PIECE, PIECE, SIZE, req));
            if (k == twice) {
                back_again(s, 1, 0);
                ok(s, 0, f_store("x.bin", data, (uint64_t)k * PIECE, PIECE, SIZE, req));
            }
        }
        pd_buf_init(&b);
        snprintf(path, sizeof path, "%s/x.bin", dir);
        assert_int_equal(pd_read_file(path, 1 << 20, &b, &err), 0);
        if (b.len != SIZE || memcmp(b.data, data, SIZE))
            fail_msg("piece %d came twice: the file has %zu bytes, and others", twice, b.len);
        /* A piece of a file that was never begun. */
        assert_true(give(s, 0, f_store("y.bin", data, PIECE, PIECE, SIZE, next_req())) < 0);
        pd_buf_release(&b);
        ps_shard_free(s);
        assert_int_equal(unlink(path), 0);
    }
}

/* --- as many steps ahead as a trainer may be --- */

static void run_ahead(struct ps_shard *s, const float *grad) {
    ok(s, 0, f_push_dense(0, 0, 1, grad, 3));
    for (uint64_t step = 0; step < 8; step++)
        ok(s, 0, f_step_end(step, 0, 1, NULL, 0));
}

static void test_a_trainer_that_is_far_ahead_may_end_the_pass(void **state) {
    (void)state;
    static const float grad[3] = {1, 2, 3};
    struct recorder r;
    struct ps_shard *s = joined(&r, 2);
    run_ahead(s, grad);
    ok(s, 0, f_pass_end(8, 0));
    ps_shard_free(s);
}

/* Steps that the trainer has ended stay, whether it is one step ahead or eight. */
static void test_steps_of_a_trainer_that_is_lost_far_ahead(void **state) {
    (void)state;
    static const float grad[3] = {1, 2, 3};
    static const uint32_t v = 1;
    fr_on_lost = PS_LOST_CONTINUE;
    struct recorder r;
    struct pd_err err = {0};
    struct ps_shard *s = joined(&r, 2);
    run_ahead(s, grad);
    (void)ps_shard_detach(s, 0);
    assert_int_equal(ps_shard_gone(s, 0, NULL, &err), 0);
    ok(s, 1, f_step_end(0, 1, 1, NULL, 0));
    ok(s, 1, f_pull_dense(1, 1, &v));
    const struct recorded *a = &r.a[r.n_answers - 1];
    assert_int_equal(a->type, WIRE_PS_PULL_DENSE);
    for (int i = 0; i < 3; i++)
        assert_true(a->values[i] < -0.09f); /* AdaGrad's first step is its rate, 0.1 */
    ps_shard_free(s);
    fr_on_lost = PS_LOST_FAIL;
}

/* --- key lists --- */

static void test_a_pull_without_a_number_takes_no_list_away(void **state) {
    (void)state;
    static const uint64_t keys[4][2] = {{1, 5}, {2, 6}, {3, 7}, {4, 8}};
    static const float grad[2 * FR_DIM] = {1};
    struct recorder r;
    struct ps_shard *s = joined(&r, 1);
    ok(s, 0, f_pull_rows(0, 0, 1, 17, keys[0], 2));
    ok(s, 0, f_pull_rows(0, 0, 1, 18, keys[1], 2));
    ok(s, 0, f_pull_rows(0, 0, 1, 0, keys[2], 2));
    ok(s, 0, f_push_rows(0, 0, 0, 17, NULL, 2, grad));
    struct ps_shard_stats st;
    ps_shard_stats(s, &st);
    assert_int_equal(st.rows, 6); /* all rows were created */
    ps_shard_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_save_that_waits_is_of_its_step_though_the_connection_breaks),
        cmocka_unit_test(test_a_save_that_comes_too_late_is_none),
        cmocka_unit_test(test_a_save_comes_back_while_it_waits),
        cmocka_unit_test(test_a_save_is_answered_to_who_asked_for_it),
        cmocka_unit_test(test_a_save_that_is_not_committed_goes_with_the_next),
        cmocka_unit_test(test_pieces_of_a_file_that_come_twice),
        cmocka_unit_test(test_a_trainer_that_is_far_ahead_may_end_the_pass),
        cmocka_unit_test(test_steps_of_a_trainer_that_is_lost_far_ahead),
        cmocka_unit_test(test_a_pull_without_a_number_takes_no_list_away),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
