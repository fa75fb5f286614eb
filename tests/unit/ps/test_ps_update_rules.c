/* SPDX-License-Identifier: Apache-2.0 */
/* The update rules without a barrier: async, ssp, geo. First one server thread, then whole jobs
 * compared with their closed form. */
#include <setjmp.h>

#include <cmocka.h>

#include "conf/options.h"
#include "math/rng.h"
#include "ps/client/client_internal.h"
#include "ps/plan/update_rule.h"
#include "ps/table/table.h"
#include "tests/support/c/ps_cluster.h"
#include "tests/support/c/ps_joined.h"

/* --- one thread --- */

static struct ps_shard *joined_by(struct recorder *r, uint32_t n, const char *update) {
    struct ps_shard *s = rec_shard(r, n);
    for (uint32_t i = 0; i < n; i++)
        ok(s, i, f_declare_as(n, i, "sgd", update));
    return s;
}

static float first_value(struct ps_shard *s, struct recorder *r, uint32_t trainer, uint64_t after) {
    uint32_t w = 0;
    int n = r->n_answers;
    ok(s, trainer, f_pull_dense(after, 1, &w));
    assert_int_equal(r->n_answers, n + 1);
    return r->a[n % 64].values[0];
}

static void step(struct ps_shard *s, uint32_t trainer, uint64_t k, float g) {
    float grad[FR_VALUES];
    for (int i = 0; i < FR_VALUES; i++)
        grad[i] = g;
    ok(s, trainer, f_push_dense(k, trainer, 0, grad, FR_VALUES));
    ok(s, trainer, f_step_end(k, trainer, 2, NULL, 0));
}

/* w -= 0.1 * (g / 2 + 0.01 * w), with the settings of the test's frames */
static float after_step(float w, float g) { return w - 0.1f * (g / 2 + 0.01f * w); }

static void test_async_applies_at_once_and_drops_what_lags(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined_by(&r, 2, "async");
    struct ps_shard_stats st;
    float w = first_value(s, &r, 0, 0), now = w;
    (void)first_value(s, &r, 1, 0);
    step(s, 0, 0, 1); /* applied although trainer 1 has ended no step */
    now = after_step(now, 1);
    assert_true(first_value(s, &r, 0, 1) == now);
    for (uint64_t k = 1; k < 3; k++) {
        step(s, 0, k, 1);
        now = after_step(now, 1);
    }
    step(s, 1, 0, 8); /* lags by 3, which is not more than 1.5 * 2 trainers */
    now = after_step(now, 8);
    ps_shard_stats(s, &st);
    assert_int_equal(st.lagged, 0);
    assert_true(first_value(s, &r, 1, 1) == now);
    for (uint64_t k = 3; k < 7; k++) {
        step(s, 0, k, 1);
        now = after_step(now, 1);
    }
    step(s, 1, 1, 1000); /* lags by 4, so it is dropped */
    ps_shard_stats(s, &st);
    assert_int_equal(st.lagged, 1);
    assert_true(first_value(s, &r, 1, 2) == now);
    step(s, 1, 2, 2); /* with fresh values again */
    now = after_step(now, 2);
    assert_true(first_value(s, &r, 0, 7) == now);
    ok(s, 0, f_pass_end(7, 0));
    ok(s, 1, f_pass_end(3, 0));
    assert_int_equal(r.a[(r.n_answers - 1) % 64].type, WIRE_PS_PASS_END);
    uint64_t at[4];
    memcpy(at, r.a[(r.n_answers - 1) % 64].head, sizeof at);
    assert_int_equal(at[0], 7);  /* both trainers continue at this step */
    assert_int_equal(at[2], 10); /* and learn that one of ten contributions was dropped */
    assert_int_equal(at[3], 1);
    ok(s, 0, f_pass_end(7, 1));
    ok(s, 1, f_pass_end(7, 1));
    memcpy(at, r.a[(r.n_answers - 1) % 64].head, sizeof at);
    assert_int_equal(at[2] + at[3], 0); /* in the second pass */
    ps_shard_free(s);
}

static void test_async_stats_are_those_of_everybody_since_the_last_ones(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined_by(&r, 2, "async");
    const double a = 3, b = 4;
    double got;
    uint64_t samples;
    ok(s, 1, f_step_end(0, 1, 5, &b, 1));
    ok(s, 1, f_step_end(1, 1, 6, &b, 1));
    int n = r.n_answers;
    ok(s, 0, f_step_end(0, 0, 7, &a, 1));
    assert_int_equal(r.n_answers, n + 1);
    assert_int_equal(r.a[n % 64].trainer, 0);
    memcpy(&samples, r.a[n % 64].head + 8, 8);
    memcpy(&got, r.a[n % 64].head + 16, 8);
    assert_int_equal(samples, 18);
    assert_true(got == 11);
    ps_shard_free(s);
}

static void test_ssp_lets_nobody_run_ahead(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined_by(&r, 2, "ssp"); /* staleness 2 */
    uint32_t w = 0;
    for (uint64_t k = 0; k < 3; k++) {
        if (k < 2)
            (void)first_value(s, &r, 0, k);
        step(s, 0, k, 1);
    }
    int n = r.n_answers;
    ok(s, 0, f_pull_dense(3, 1, &w)); /* pull of trainer 0, which is 3 steps ahead of trainer 1 */
    assert_int_equal(r.n_answers, n);
    char text[200];
    assert_int_equal(ps_shard_waiting(s, text, sizeof text), 1);
    assert_string_equal(text, "waiting for trainer 1 (streams 1-1) in step 0");
    step(s, 1, 0, 1);
    assert_int_equal(r.n_answers, n + 1);
    step(s, 0, 3, 1);
    ok(s, 0, f_pull_dense(4, 1, &w));
    assert_int_equal(r.n_answers, n + 1);
    ok(s, 1, f_pass_end(1, 0)); /* the pull does not wait for a trainer that has left */
    assert_int_equal(r.n_answers, n + 2);
    ps_shard_free(s);
}

static void test_repeated_and_stale_pushes_are_dropped_without_a_barrier_too(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined_by(&r, 2, "async");
    struct ps_shard_stats st;
    float g[FR_VALUES] = {0};
    float w = first_value(s, &r, 0, 0);
    g[0] = 1;
    ok(s, 0, f_push_dense(0, 0, 0, g, FR_VALUES));
    ok(s, 0, f_push_dense(0, 0, 0, g, FR_VALUES)); /* repeated */
    ok(s, 0, f_step_end(0, 0, 2, NULL, 0));
    ok(s, 0, f_push_dense(0, 0, 0, g, FR_VALUES)); /* of a step that has ended */
    ok(s, 0, f_step_end(0, 0, 2, NULL, 0));
    ps_shard_stats(s, &st);
    assert_int_equal(st.duplicates, 1);
    assert_int_equal(st.stale, 2);
    assert_true(first_value(s, &r, 0, 1) == after_step(w, 1));
    ps_shard_free(s);
}

/* --- whole jobs: gradients do not depend on the values, so the order matters only for rounding ---
 */

enum { N_TRAINERS = 3, N_STEPS = 23, VALUES = 5000, DIM = 6, ROWS = 90 };

struct peer {
    const char *update, *servers;
    uint32_t id, push_nums;
    int n_steps;
    float dense[VALUES], rows[ROWS * DIM];
    uint64_t samples;
    double cost;
    int rc;
    struct pd_err err;
    pthread_t thread;
};

static float grad_of(uint32_t trainer, int k, uint64_t what, uint64_t i) {
    return toy_grad(trainer, (uint64_t)k, what, i);
}
static int has_row(uint32_t trainer, int k, int row) {
    return toy_hash(trainer, (uint64_t)k, 9, (uint64_t)row) % 3 == 0;
}
static uint64_t samples_of(uint32_t trainer, int k) {
    return 1 + toy_hash(trainer, (uint64_t)k, 3, 3) % 7;
}
static int steps_of(uint32_t trainer) {
    return N_STEPS - 5 * (int)trainer;
} /* trainers have different numbers of steps */

static int peer_step(struct peer *p, struct ps_client *c, int dense, int table, int k, float *g,
                     float *rows) {
    float w[VALUES], pulled[ROWS * DIM];
    uint64_t keys[ROWS];
    size_t n = 0;
    for (int i = 0; i < ROWS; i++)
        if (has_row(p->id, k, i)) {
            keys[n] = toy_key(i);
            for (uint64_t d = 0; d < DIM; d++)
                rows[n * DIM + d] = grad_of(p->id, k, 1000 + toy_key(i), d);
            n++;
        }
    int rc = ps_pull_dense(c, dense, w, VALUES);
    if (!rc)
        rc = ps_pull_rows(c, table, n, keys, pulled, PS_CREATE);
    if (!rc)
        rc = ps_wait(c);
    for (uint64_t i = 0; i < VALUES; i++)
        g[i] = grad_of(p->id, k, 1, i);
    if (!rc)
        rc = ps_push_dense(c, dense, g, VALUES);
    if (!rc)
        rc = ps_push_rows(c, table, n, keys, rows);
    const double cost = 2.5;
    return rc ? rc : ps_step_end(c, samples_of(p->id, k), &cost, 1);
}

static int peer_train(struct peer *p, struct ps_client *c) {
    static __thread float g[VALUES], rows[ROWS * DIM];
    struct ps_dense_spec ds = {
        .name = "w", .n_dims = 1, .shape = {VALUES}, .init_std = 1, .lr_factor = 1};
    struct ps_table_spec ts = {.name = "emb", .dim = DIM, .init_std = 1, .lr_factor = 0.5f};
    int dense = ps_declare_dense(c, &ds), table = ps_declare_table(c, &ts), rc = ps_start(c);
    uint64_t step, n, keys[ROWS];
    double v[PS_STATS_MAX];
    for (int k = 0; k < steps_of(p->id) && !rc; k++) {
        rc = peer_step(p, c, dense, table, k, g, rows);
        while (!rc && ps_step_stats(c, &step, &n, v) == 1) {
            p->samples += n;
            p->cost += v[0];
        }
    }
    if (!rc)
        rc = ps_pass_end(c);
    for (int i = 0; i < ROWS; i++)
        keys[i] = toy_key(i);
    if (!rc)
        rc = ps_pull_dense(c, dense, p->dense, VALUES);
    if (!rc)
        rc = ps_pull_rows(c, table, ROWS, keys, p->rows, PS_NO_CREATE);
    if (!rc)
        rc = ps_wait(c);
    return rc ? rc : ps_bye(c);
}

static void *peer_main(void *arg) {
    struct peer *p = arg;
    struct ps_client *c = NULL;
    struct ps_client_opts o = {.pservers = p->servers,
                               .trainer_id = p->id,
                               .n_trainers = N_TRAINERS,
                               .seed = 42,
                               .optimizer = {"sgd", 0.1, 0},
                               .update = p->update,
                               .staleness = 3,
                               .geo_sgd_need_push_nums = p->push_nums,
                               .job = "J",
                               .key = cluster_key,
                               .connect_timeout_ms = 20000};
    if ((p->rc = ps_client_new(&c, &o, &p->err)))
        return NULL;
    if ((p->rc = peer_train(p, c)))
        p->err = *ps_client_err(c);
    ps_client_free(c);
    return NULL;
}

/* Geo, for the steps of one trainer: window_length gives the windows. row_share gives the share of
 * a row's difference that was touched in `touches` of `steps` steps, the last `since` of them in
 * this window (docs/sources.md#update-rules). */
static uint32_t window_length(uint32_t push_nums, uint32_t exchanges) {
    uint32_t n = 1;
    for (uint32_t i = 8; i <= exchanges && n < push_nums; i += 8)
        n *= 2;
    return n < push_nums ? n : push_nums;
}

static double row_share(int touches, int steps, int since) {
    const double often = steps > 1 && touches > 0 ? (touches - 1) / (double)(steps - 1) : 1;
    return 1 / (1 + (N_TRAINERS - 1) * (1 - pow(1 - often, since)));
}

static double descent(uint32_t t, int k) { return 0.1 / (double)samples_of(t, k); }

static void geo_rows(uint32_t t, uint32_t push_nums, int row, double *w) {
    double moved[DIM] = {0};
    int touches = 0, since = 0;
    uint32_t exchanges = 0;
    for (int k = 0; k < steps_of(t); k++) {
        touches += has_row(t, k, row);
        for (uint64_t d = 0; has_row(t, k, row) && d < DIM; d++)
            moved[d] -= 0.5 * descent(t, k) * (double)grad_of(t, k, 1000 + toy_key(row), d);
        if (++since < (int)window_length(push_nums, exchanges) && k + 1 < steps_of(t))
            continue;
        for (int d = 0; d < DIM; d++) {
            w[d] += moved[d] * row_share(touches, k + 1, since);
            moved[d] = 0;
        }
        since = 0;
        exchanges++;
    }
}

/* All trainers' steps, applied to the initial values in any order. Under geo each trainer's steps
 * have a share of 1 / N_TRAINERS, those of rows a larger one. */
static void closed_form(const char *update, uint32_t push_nums, double *dense, double *rows) {
    static float x[VALUES];
    const int geo = !strcmp(update, "geo");
    pd_rng_normal_range(pd_rng_key(42, PD_RNG_INIT, ps_name_hash("w"), 0), 1, 0, x, VALUES);
    for (int i = 0; i < VALUES; i++)
        dense[i] = (double)x[i];
    for (int i = 0; i < ROWS; i++) {
        pd_rng_normal(pd_rng_key(42, PD_RNG_INIT, ps_name_hash("emb"), toy_key(i)), 0, x, DIM);
        for (int d = 0; d < DIM; d++)
            rows[i * DIM + d] = (double)x[d];
    }
    for (uint32_t t = 0; t < N_TRAINERS; t++) {
        for (int k = 0; k < steps_of(t); k++) {
            for (uint64_t i = 0; i < VALUES; i++)
                dense[i] -= descent(t, k) * (double)grad_of(t, k, 1, i) / (geo ? N_TRAINERS : 1);
            for (int i = 0; i < ROWS && !geo; i++)
                for (uint64_t d = 0; has_row(t, k, i) && d < DIM; d++)
                    rows[i * DIM + (int)d] -=
                        0.5 * descent(t, k) * (double)grad_of(t, k, 1000 + toy_key(i), d);
        }
        for (int i = 0; i < ROWS && geo; i++)
            geo_rows(t, push_nums, i, rows + i * DIM);
    }
}

static void job(const char *update, uint32_t push_nums, int n_servers, int n_dense, int n_sparse) {
    static double dense[VALUES], rows[ROWS * DIM];
    static struct peer p[N_TRAINERS];
    struct cluster c;
    struct pd_err err = {0};
    uint64_t samples = 0, told = 0;
    cluster_start(&c, n_servers, n_dense, n_sparse, N_TRAINERS, 0, -1);
    for (uint32_t i = 0; i < N_TRAINERS; i++) {
        memset(&p[i], 0, sizeof p[i]);
        p[i].update = update;
        p[i].servers = c.list;
        p[i].id = i;
        p[i].push_nums = push_nums;
        for (int k = 0; k < steps_of(i); k++)
            samples += samples_of(i, k);
        pthread_create(&p[i].thread, NULL, peer_main, &p[i]);
    }
    for (int i = 0; i < N_TRAINERS; i++)
        pthread_join(p[i].thread, NULL);
    int rc = cluster_join(&c, &err);
    for (int i = 0; i < N_TRAINERS; i++)
        if (p[i].rc)
            fail_msg("%s, trainer %d: %s", update, i, p[i].err.msg);
    if (rc)
        fail_msg("%s: %s", update, err.msg);
    closed_form(update, push_nums, dense, rows);
    for (int t = 0; t < N_TRAINERS; t++) {
        for (int i = 0; i < VALUES; i++)
            if (!(fabs((double)p[t].dense[i] - dense[i]) < 2e-5))
                fail_msg("%s: trainer %d sees dense[%d] = %.9g, not %.9g", update, t, i,
                         (double)p[t].dense[i], dense[i]);
        for (int i = 0; i < ROWS * DIM; i++)
            if (!(fabs((double)p[t].rows[i] - rows[i]) < 2e-5))
                fail_msg("%s: trainer %d sees rows[%d] = %.9g, not %.9g", update, t, i,
                         (double)p[t].rows[i], rows[i]);
        told = p[t].samples > told ? p[t].samples : told;
    }
    assert_true(told > 0 && told <= samples);
}

static void test_whole_jobs_reach_their_closed_form(void **state) {
    (void)state;
    job("async", 0, 1, 1, 1);
    job("async", 0, 2, 2, 1);
    job("ssp", 0, 2, 1, 2);
    job("geo", 1, 1, 1, 1);
    job("geo", 4, 2, 1, 2);
    job("geo", 1000, 3, 2, 1); /* the trainers exchange only at the end of the pass */
}

/* Rows may be pulled between a push and the end of its step. Under geo, too, the gradient applies
 * to the pushed rows. */
static void test_a_pull_between_a_push_and_the_end_of_its_step(void **state) {
    (void)state;
    static const uint64_t keys[3] = {1, 5, 9}, others[3] = {2, 6, 9};
    static const float grad[3] = {1, 2, 3};
    for (size_t i = 0; ps_update_rule_at(i); i++) {
        struct cluster cl;
        struct ps_client *c = NULL;
        struct pd_err err = {0};
        float rows[3], got[3];
        cluster_start(&cl, 1, 1, 1, 1, 0, -1);
        struct ps_client_opts o = {.pservers = cl.list,
                                   .n_trainers = 1,
                                   .optimizer = {"sgd", 1, 0},
                                   .update = ps_update_rule_at(i)->name,
                                   .job = "J",
                                   .key = cluster_key,
                                   .connect_timeout_ms = 20000};
        struct ps_table_spec t = {.name = "t", .dim = 1, .lr_factor = 1};
        if (ps_client_new(&c, &o, &err))
            fail_msg("%s", err.msg);
        int rc = ps_declare_table(c, &t);
        rc = rc ? rc : ps_start(c);
        rc = rc ? rc : ps_pull_rows(c, 0, 3, keys, rows, PS_CREATE);
        rc = rc ? rc : ps_wait(c);
        rc = rc ? rc : ps_push_rows(c, 0, 3, keys, grad);
        rc = rc ? rc : ps_pull_rows(c, 0, 3, others, got, PS_NO_CREATE);
        rc = rc ? rc : ps_wait(c);
        assert_true(!got[0] && !got[1] && !got[2]);
        rc = rc ? rc : ps_step_end(c, 1, NULL, 0);
        rc = rc ? rc : ps_pull_rows(c, 0, 3, keys, rows, PS_NO_CREATE);
        rc = rc ? rc : ps_pull_rows(c, 0, 3, others, got, PS_NO_CREATE);
        rc = rc ? rc : ps_wait(c);
        if (rc)
            fail_msg("%s: %s", ps_update_rule_at(i)->name, ps_client_err(c)->msg);
        assert_true(rows[0] == -1 && rows[1] == -2 && rows[2] == -3);
        assert_true(!got[0] && !got[1] && got[2] == -3);
        rc = ps_bye(c);
        ps_client_free(c);
        assert_int_equal(cluster_join(&cl, NULL), 0);
    }
}

/* --- notes in a save --- */

static struct ps_client *async_client(const struct cluster *cl, uint32_t id) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_dense_spec ds = {.name = "w", .n_dims = 1, .shape = {10}, .lr_factor = 1};
    struct ps_client_opts o = {.pservers = cl->list,
                               .trainer_id = id,
                               .n_trainers = 3,
                               .seed = 1,
                               .optimizer = {"sgd", 0.1, 0},
                               .update = "async",
                               .job = "J",
                               .key = cluster_key,
                               .connect_timeout_ms = 20000};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(ps_declare_dense(c, &ds), 0);
    return c;
}

static void *async_starts(void *client) { return ps_start(client) ? client : NULL; }
static void *async_leaves(void *client) { return ps_bye(client) ? client : NULL; }

static void with_others(struct ps_client *c[3], void *(*f)(void *)) {
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, f, c[i]);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
}

static void note(struct ps_client *c, uint64_t after, const char *line) {
    assert_int_equal(ps_note(c, after, line, strlen(line)), 0);
}

/* Trainer 0 saves while trainer 1 is inside its first step: its note has arrived, the end of the
 * step has not. Trainer 2 has sent nothing. */
static void test_a_save_has_the_notes_of_ended_steps_only(void **state) {
    (void)state;
    char dir[] = "/tmp/test_ps_update_rules.XXXXXX", path[100];
    struct ps_progress inside = {.pass = 0, .batch = 1};
    struct ps_save_opts o = {.dir = dir, .name = "m", .resume = &inside, .unsaid = "nothing"};
    struct ps_client *c[3];
    struct cluster cl;
    struct pd_err err = {0};
    struct pd_buf text;
    float w[10];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/m/manifest.json", dir);
    pd_buf_init(&text);
    cluster_start(&cl, 1, 1, 1, 3, 0, -1);
    for (uint32_t i = 0; i < 3; i++)
        c[i] = async_client(&cl, i);
    with_others(c, async_starts);
    note(c[0], 1, "one-0\n");
    assert_int_equal(ps_step_end(c[0], 1, NULL, 0), 0);
    note(c[1], 0, "begin-1\n");
    note(c[1], 1, "one-1\n");
    assert_int_equal(ps_pull_dense(c[1], 0, w, 10), 0);
    assert_int_equal(ps_wait(c[1]), 0); /* the messages of both have arrived */
    assert_int_equal(ps_save(c[0], &o), 0);
    assert_int_equal(pd_read_file(path, 1 << 20, &text, &err), 0);
    pd_put_u32(&text, 0);
    const char *lines[] = {"\"one-0\"", "\"begin-1\"", "\"nothing\""};
    for (int i = 0; i < 3; i++)
        if (!strstr((const char *)text.data, lines[i]))
            fail_msg("no %s in %s", lines[i], (const char *)text.data);
    pd_buf_release(&text);
    with_others(c, async_leaves);
    for (int i = 0; i < 3; i++)
        ps_client_free(c[i]);
    assert_int_equal(cluster_join(&cl, NULL), 0);
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

static void test_the_option_names_the_rules_of_the_table(void **state) {
    (void)state;
    size_t n;
    char names[100] = "";
    const struct pd_option *o = pd_option_table(&n);
    for (size_t i = 0; ps_update_rule_at(i); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "|" : "",
                 ps_update_rule_at(i)->name);
    int at = pd_options_find("update", PD_TRAINER);
    assert_true(at >= 0);
    assert_string_equal(o[at].choices, names);
    assert_string_equal(ps_update_rule_at(PD_UPDATE_GEO)->name, "geo");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_async_applies_at_once_and_drops_what_lags),
        cmocka_unit_test(test_async_stats_are_those_of_everybody_since_the_last_ones),
        cmocka_unit_test(test_ssp_lets_nobody_run_ahead),
        cmocka_unit_test(test_repeated_and_stale_pushes_are_dropped_without_a_barrier_too),
        cmocka_unit_test(test_whole_jobs_reach_their_closed_form),
        cmocka_unit_test(test_a_pull_between_a_push_and_the_end_of_its_step),
        cmocka_unit_test(test_a_save_has_the_notes_of_ended_steps_only),
        cmocka_unit_test(test_the_option_names_the_rules_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
