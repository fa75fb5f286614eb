/* SPDX-License-Identifier: Apache-2.0 */
/* A step applied to the rows of a table, compared with the same step value by value, bit for bit:
 * narrow and wide rows, few and many contributions, all optimizers. */
#include <setjmp.h>
#include <cmocka.h>

#include "math/rng.h"
#include "tests/support/c/ps_joined.h"

enum { KEYS = 150, STEPS = 3, DIM_MOST = 200, TRAINERS_MOST = 12 };

struct setting {
    const char *name;
    uint32_t dim, n_trainers;
    const char *optimizer;
    float l1, l2; /* if not 0, every step touches all rows; test_ps_lazy_decay.c tests rows that a
                     step does not touch */
};

static void make_job(struct ps_declaration *job, const struct setting *c) {
    struct pd_err err = {0};
    const struct ps_table_spec t = {.name = "t",
                                    .dim = c->dim,
                                    .n_rows = KEYS,
                                    .init_std = 1,
                                    .lr_factor = 1,
                                    .l1 = c->l1,
                                    .l2 = c->l2};
    const struct ps_dense_spec w = {.name = "w", .n_dims = 1, .shape = {1}, .lr_factor = 1};
    ps_declaration_init(job);
    job->n_trainers = job->n_streams = c->n_trainers;
    job->n_servers = job->n_dense_threads = job->n_sparse_threads = 1;
    job->seed = 9;
    assert_int_equal(ps_optim_conf_init(&job->optim, c->optimizer, &err), 0);
    job->optim.learning_rate = 0.1;
    job->on_nan = PS_NAN_STOP;
    pd_fmt(job->update, sizeof job->update, "sync");
    ps_declaration_add_dense(job, &w, &err);
    ps_declaration_add_table(job, &t, &err);
}

static void declare(struct ps_shard *s, const struct ps_declaration *job, uint32_t id) {
    const struct ps_declare_sender d = {
        .kind = PS_KIND_BOTH, .stream_lo = id, .stream_hi = id + 1, .incarnation = id + 100};
    struct pd_buf b;
    pd_buf_init(&b);
    ps_declaration_put(&b, &d, job);
    ok(s, id, frame_of(WIRE_PS_DECLARE, next_req(), &b));
    pd_buf_release(&b);
}

static const float *pull(struct ps_shard *s, struct recorder *r, uint64_t after, uint64_t key) {
    const int n = r->n_answers;
    ok(s, 0, f_pull_rows(after, 0, 0, 0, &key, 1));
    assert_int_equal(r->n_answers, n + 1);
    return r->a[n % 64].values;
}

static uint64_t key_of(uint32_t k) { return 1000003u * (uint64_t)k + 17; }

/* A trainer's push in a step, in the order of the keys. */
struct push {
    size_t n;
    uint32_t number[KEYS];
    uint64_t keys[KEYS];
    float grad[KEYS * DIM_MOST];
};

static void make_push(struct push *p, const struct setting *c, uint32_t trainer, uint32_t step) {
    const struct pd_rng_key chance = pd_rng_key(3, PD_RNG_CHECK, trainer, step);
    p->n = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        const int all = trainer == 0 && (c->l1 > 0 || c->l2 > 0);
        if (!all && (pd_rng_below(chance, 0, k, 3) ||
                     (trainer == 1 && step == 1))) /* also a trainer without rows */
            continue;
        p->number[p->n] = k;
        p->keys[p->n++] = key_of(k);
    }
    pd_rng_normal(pd_rng_key(4, PD_RNG_CHECK, trainer, step), 0, p->grad, p->n * c->dim);
}

static struct wire_frame *frame_of_push(const struct push *p, const struct setting *c,
                                        uint32_t trainer, uint32_t step, uint32_t list) {
    return FRAME(PS_PUSH_ROWS, push_rows, PUSH_OF(trainer, step), .list = list, .n = p->n,
                 .keys = p->keys, .n_keys = list ? 0 : p->n, .values = p->grad,
                 .n_values = p->n * c->dim);
}

/* Computes every value separately: adds its contributions in the tree, then applies the rule. */
static void expect(const struct setting *c, const struct ps_declaration *job,
                   const struct push *push, uint32_t step, float (*w)[DIM_MOST],
                   float (*state)[DIM_MOST][PS_OPTIM_STATES]) {
    const struct ps_optim *optim = ps_optim_find(c->optimizer);
    struct ps_optim_args a;
    struct ps_range range[TRAINERS_MOST];
    struct ps_add plan[TRAINERS_MOST];
    size_t at[TRAINERS_MOST] = {0};
    ps_optim_args_init(&a, &job->optim, (double)(float)0.1, step + 1);
    a.n_samples = (float)(2 * c->n_trainers);
    a.l1 = c->l1;
    a.l2 = c->l2;
    for (uint32_t k = 0; k < KEYS; k++) {
        const float *row[TRAINERS_MOST];
        uint32_t m = 0;
        for (uint32_t t = 0; t < c->n_trainers; t++)
            if (at[t] < push[t].n && push[t].number[at[t]] == k) {
                range[m] = (struct ps_range){t, t + 1};
                row[m++] = push[t].grad + at[t]++ * c->dim;
            }
        ps_sum_tree_plan(range, m ? m : 1, c->n_trainers, plan);
        for (uint32_t d = 0; m && d < c->dim; d++) {
            const float *val[TRAINERS_MOST];
            float tmp[TRAINERS_MOST];
            for (uint32_t i = 0; i < m; i++)
                val[i] = row[i] + d;
            ps_optim_apply(optim, &a, &w[k][d], state[k][d], 1,
                           ps_sum_tree_sum_f32(plan, m, val, tmp, 1), 1);
        }
    }
}

static void run(const struct setting *c) {
    static struct push push[TRAINERS_MOST];
    static float w[KEYS][DIM_MOST], state[KEYS][DIM_MOST][PS_OPTIM_STATES];
    struct recorder *r = malloc(sizeof *r);
    struct ps_declaration job;
    struct ps_shard *s = rec_shard(r, c->n_trainers);
    make_job(&job, c);
    memset(state, 0, sizeof state);
    for (uint32_t t = 0; t < c->n_trainers; t++)
        declare(s, &job, t);
    for (uint32_t k = 0; k < KEYS; k++)
        memcpy(w[k], pull(s, r, 0, key_of(k)), c->dim * sizeof **w);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t t = 0; t < c->n_trainers; t++) {
            const uint32_t list =
                t % 2 ? step + 1 : 0; /* some pushes name the key list of a pull */
            make_push(&push[t], c, t, step);
            if (list && push[t].n)
                ok(s, t, f_pull_rows(step, 0, 1, list, push[t].keys, push[t].n));
            if (push[t].n)
                ok(s, t, frame_of_push(&push[t], c, t, step, list));
            ok(s, t, f_step_end(step, t, 2, NULL, 0));
        }
        expect(c, &job, push, step, w, state);
        for (uint32_t k = 0; k < KEYS; k++) {
            const float *got = pull(s, r, step + 1, key_of(k));
            for (uint32_t d = 0; d < c->dim; d++)
                if (memcmp(&got[d], &w[k][d], sizeof *got))
                    fail_msg("%s, %s: step %u, key %u, value %u is %.9g, not %.9g", c->name,
                             c->optimizer, step, k, d, (double)got[d], (double)w[k][d]);
        }
    }
    ps_declaration_release(&job);
    ps_shard_free(s);
    free(r);
}

static void test_rows_are_as_value_by_value(void **state) {
    (void)state;
    static const uint32_t dims[] = {1, 2, 3, 4, 5, 10, 16, 63, 64, 200},
                          trainers[] = {1, 2, 3, 8, 9, TRAINERS_MOST};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (size_t k = 0; k < sizeof trainers / sizeof trainers[0]; k++) {
            char name[60];
            snprintf(name, sizeof name, "%u values, %u trainers", dims[i], trainers[k]);
            run(&(struct setting){name, dims[i], trainers[k], "adagrad", 0, 0});
        }
}

static void test_all_optimizers(void **state) {
    (void)state;
    const struct ps_optim *o;
    for (size_t i = 0; (o = ps_optim_at(i)); i++) {
        assert_true(o->state <= PS_OPTIM_STATES);
        run(&(struct setting){"short rows", 10, 2, o->name, 0, 0});
        run(&(struct setting){"wide rows", 70, 2, o->name, 0, 0});
        if (!o->own_l1)
            run(&(struct setting){"short rows with l1 and l2", 10, 2, o->name, 0.01f, 0.02f});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_as_value_by_value),
        cmocka_unit_test(test_all_optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
