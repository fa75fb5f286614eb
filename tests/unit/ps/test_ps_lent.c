/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that is still being sent keeps its values while the server continues. The values are
 * sent without a copy. */
#include <setjmp.h>
#include <cmocka.h>

#include "tests/support/c/ps_frames.h"

enum { MOST = 64 };

/* Answers with values that are not sent yet. */
struct slow {
    const uint8_t *head[MOST];
    const float *values[MOST];
    size_t n_values[MOST];
    void (*release[MOST])(void *);
    void *arg[MOST];
    int n, n_fails;
};

static void keep(void *arg, uint32_t trainer, uint16_t type, uint64_t req, const struct iovec *sec,
                 uint32_t n_sec, void (*release)(void *), void *release_arg) {
    struct slow *q = arg;
    (void)trainer;
    (void)req;
    if (type == WIRE_PS_PULL_DENSE || type == WIRE_PS_PULL_ROWS) {
        assert_true(q->n < MOST && n_sec == 3 && release);
        q->head[q->n] = sec[0].iov_base;
        q->values[q->n] = sec[2].iov_base;
        q->n_values[q->n] = sec[2].iov_len / sizeof(float);
        q->release[q->n] = release;
        q->arg[q->n++] = release_arg;
    } else if (release) {
        release(release_arg);
    }
}

static void never(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                  const struct pd_err *why) {
    (void)arg;
    (void)trainer;
    (void)type;
    (void)req;
    fail_msg("%s", why->msg);
}

static void send_all(struct slow *q) {
    while (q->n) {
        q->n--;
        q->release[q->n](q->arg[q->n]);
    }
}

static void give(struct ps_shard *s, struct wire_frame *f) {
    struct pd_err err = {0};
    if (ps_shard_frame(s, 0, "10.0.0.9:1", f, &err))
        fail_msg("%s", err.msg);
}

static const uint32_t both[] = {0, 1}, turned[] = {1, 0};
static const uint64_t keys[] = {1, 5, 9};

static void step(struct ps_shard *s, uint64_t k) {
    float g[FR_VALUES], rows[3 * FR_DIM];
    for (int i = 0; i < FR_VALUES; i++)
        g[i] = (float)((i * 7 + (int)k) % 11) - 5;
    for (int i = 0; i < 3 * FR_DIM; i++)
        rows[i] = (float)((i * 5 + (int)k) % 7) - 3;
    give(s, f_push_dense(k, 0, 0, g, FR_VALUES));
    give(s, f_push_rows(k, 0, 0, 0, keys, 3, rows));
    give(s, f_step_end(k, 0, 1, NULL, 0));
}

static void pull(struct ps_shard *s, uint64_t k) {
    give(s, f_pull_dense(k, 2, both));   /* in the order of memory: lent */
    give(s, f_pull_dense(k, 2, turned)); /* in another order: gathered */
    give(s, f_pull_rows(k, 0, 0, 0, keys, 3));
}

static void answers_keep_their_step(void **state) {
    (void)state;
    static const char *const rule[] = {"sync", "async"};
    enum { STEPS = 6, PULLS = 3 };
    static const struct ps_shard_ops ops = {.answer = keep, .fail = never};
    for (size_t r = 0; r < 2; r++)
        for (int where = 0; where < 4;
             where++) { /* 0: heap; 1: pool; 2: memory that trainers map, with room for four copies,
                           the others in the pool; 3: such memory cannot be created */
            struct pd_pool *pool = where ? pd_pool_new() : NULL;
            struct ps_shard_opts o = {.kind = PS_KIND_BOTH,
                                      .n_trainers = 1,
                                      .epoch = FR_EPOCH,
                                      .pool = pool,
                                      .lends = where >= 2};
            struct slow slow = {0}, fast = {0};
            struct ps_shard *a, *b;
            assert_int_equal(ps_shard_new(&a, &o, &ops, &slow), 0);
            assert_int_equal(ps_shard_new(&b, &o, &ops, &fast), 0);
            pd_fault_arm(where == 3 ? "net.arena:1" : NULL);
            give(a, f_declare_as(1, 0, "adagrad", rule[r]));
            pd_fault_arm(NULL);
            give(b, f_declare_as(1, 0, "adagrad", rule[r]));
            float want[STEPS][PULLS][64];
            /* b's answers are sent at once, a's only at the end. */
            for (uint64_t k = 0; k < STEPS; k++) {
                pull(b, k);
                for (int i = 0; i < PULLS; i++) {
                    assert_true(fast.n_values[i] > 0 && fast.n_values[i] <= 64);
                    memcpy(want[k][i], fast.values[i], fast.n_values[i] * sizeof(float));
                }
                send_all(&fast);
                step(b, k);
                pull(a, k);
                step(a, k);
            }
            assert_int_equal(slow.n, STEPS * PULLS);
            const struct net_region *region = ps_shard_region(a);
            uint64_t at;
            assert_int_equal(region != NULL, where == 2 && r == 0); /* only with a barrier */
            assert_int_equal(
                net_region_has(region, slow.values[0], slow.n_values[0] * sizeof(float), &at),
                region != NULL);
            for (int k = 0; k < STEPS; k++)
                for (int i = 0; i < PULLS; i++) {
                    int j = k * PULLS + i;
                    uint64_t applied;
                    memcpy(&applied, slow.head[j], sizeof applied);
                    assert_int_equal(applied, k);
                    assert_memory_equal(slow.values[j], want[k][i],
                                        slow.n_values[j] * sizeof(float));
                    if (k)
                        assert_memory_not_equal(want[k][i], want[k - 1][i],
                                                slow.n_values[j] * sizeof(float));
                }
            /* The waiting answers caused a copy. */
            assert_ptr_not_equal(slow.values[0], slow.values[PULLS]);
            send_all(&slow);
            pull(a, STEPS);
            pull(a, STEPS);
            /* An answer alone causes no copy. */
            assert_ptr_equal(slow.values[0], slow.values[PULLS]);
            send_all(&slow);
            ps_shard_free(a);
            ps_shard_free(b);
            pd_pool_free(pool);
        }
}

static struct ps_saving *under_way;

static int save_later(void *arg, struct ps_saving *j, struct pd_err *err) {
    (void)arg;
    (void)err;
    under_way = j;
    return 0;
}

static void count(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                  const struct pd_err *why) {
    (void)trainer;
    (void)req;
    (void)why;
    ((struct slow *)arg)->n_fails += type == WIRE_PS_SAVE;
}

static struct wire_frame *f_save(const char *dir) {
    return FRAME(PS_SAVE, save, .tag = 1, .dir = dir, .name = "m");
}

/* fork does not copy shared memory, so while a child writes from it, steps use other memory. */
static void a_save_keeps_what_it_writes(void **state) {
    static const struct ps_shard_ops ops = {.answer = keep, .fail = count, .save = save_later};
    static const struct pd_err why = {.code = PD_ENOSPC, .msg = "the disk is full"};
    const struct ps_shard_opts o = {
        .kind = PS_KIND_BOTH, .n_trainers = 1, .epoch = FR_EPOCH, .lends = 1};
    struct slow q = {0};
    struct ps_shard *s;
    float was[FR_VALUES];
    char dir[] = "/tmp/test_ps_lent.XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(ps_shard_new(&s, &o, &ops, &q), 0);
    give(s, f_declare_as(1, 0, "adagrad", "sync"));
    give(s, f_pull_dense(0, 2, both));
    const float *values = q.values[0];
    memcpy(was, values, sizeof was);
    send_all(&q);
    give(s, f_save(dir));
    step(s, 0);
    assert_memory_equal(values, was, sizeof was);
    give(s, f_pull_dense(1, 2, both));
    assert_ptr_not_equal(q.values[0], values);
    assert_memory_not_equal(q.values[0], was, sizeof was);
    values = q.values[0];
    send_all(&q);
    ps_shard_saved(s, under_way, NULL, &why);
    assert_int_equal(q.n_fails, 1);
    step(s, 1);
    give(s, f_pull_dense(2, 2, both));
    assert_ptr_equal(q.values[0], values); /* no copy is needed any more */
    send_all(&q);
    ps_shard_free(s);
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_keep_their_step),
                                       cmocka_unit_test(a_save_keeps_what_it_writes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
