/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that come and go: admission by count and by chance, shows and clicks, a day's end. Whole
 * jobs of several servers, threads and trainers are compared with a plain reference over random
 * sequences. test_ps_admit.c has single tables. */
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>

#include "math/rng.h"
#include "model/model.h"
#include "ps/table/row_policy.h"
#include "tests/support/c/ps_cluster.h"
#include "tests/support/c/ps_row_policy.h"

/* --- the reference --- */

enum { IDS = 300, DIM = 2, SEED = 42, STREAMS = 4, STEPS = 12, DAYS = 5, SAMPLES = 8 };
static const double RATE = 0.5;

struct ref {
    struct pd_row_life conf;
    uint64_t updates, forgotten;
    struct ref_id {
        int row, waits;
        uint32_t count, days; /* of a waiting id */
        float show, click, w[DIM];
        uint32_t shows, clicks, unseen;
    } id[IDS];
};

static uint64_t key_of(int id) { return (uint64_t)id * 1000003u + 11; }

/* The shows in a stream's samples of a step: few ids often, many ids seldom, and different ids
 * every day. */
static void shown(uint64_t stream, uint64_t step, int id, uint32_t *shows, uint32_t *clicks) {
    uint64_t h = toy_hash(stream, step, 3, (uint64_t)id), day = step / STEPS;
    int often = id % 10 == 0, today = (uint64_t)id * DAYS / IDS == day;
    *shows = h % (often ? 2 : today ? 6 : 40) == 0 ? 1 + (uint32_t)(h >> 20) % 3 : 0;
    *clicks = *shows ? (uint32_t)(h >> 40) % (*shows + 1) : 0;
}
static float grad_of(uint64_t stream, uint64_t step, int id, int d) {
    return (float)(int)(toy_hash(stream, step, 9 + (uint64_t)d, (uint64_t)id) % 9) - 4;
}

static int ref_admits(const struct ref *r, int id) {
    const struct pd_row_life *c = &r->conf;
    uint32_t u[4];
    if (c->admit_count > 0)
        return r->id[id].count >= c->admit_count;
    if (c->admit_probability <= 0)
        return 1;
    pd_rng_u32x4(pd_rng_key(SEED, PD_RNG_ADMIT, ps_name_hash("emb"), key_of(id)), 0, r->updates, u);
    return (double)u[0] < -expm1(r->id[id].count * log1p(-c->admit_probability)) * 4294967296.0;
}

static void ref_step(struct ref *r, uint64_t step) {
    for (int i = 0; i < IDS; i++) {
        struct ref_id *x = &r->id[i];
        uint32_t shows = 0, clicks = 0, s, k;
        float g[DIM] = {0};
        for (uint64_t st = 0; st < STREAMS; st++) {
            shown(st, step, i, &s, &k);
            shows += s;
            clicks += k;
            for (int d = 0; s && d < DIM; d++)
                g[d] += grad_of(st, step, i, d);
        }
        if (!shows)
            continue;
        if (!x->row) {
            x->count += shows;
            x->days = 0;
            x->row = ref_admits(r, i);
            x->waits = !x->row && r->conf.admit_count > 0;
            if (!x->waits)
                x->count = 0;
        }
        if (!x->row)
            continue;
        if (r->conf.ageing > 0) {
            x->shows += shows;
            x->clicks += clicks;
        }
        x->unseen = 0;
        for (int d = 0; d < DIM; d++)
            x->w[d] -= (float)RATE * (g[d] / (SAMPLES * STREAMS));
    }
    r->updates++;
}

static void ref_day(struct ref *r) {
    for (int i = 0; i < IDS; i++) {
        struct ref_id *x = &r->id[i];
        if (x->waits && ++x->days > r->conf.delete_days)
            memset(x, 0, sizeof *x);
        if (!x->row || r->conf.ageing <= 0)
            continue;
        x->show = (float)(((double)x->show + x->shows) * r->conf.show_decay);
        x->click = (float)(((double)x->click + x->clicks) * r->conf.show_decay);
        x->shows = x->clicks = 0;
        x->unseen++;
        double score = r->conf.show_weight * ((double)x->show - (double)x->click) +
                       r->conf.click_weight * (double)x->click;
        if (score < r->conf.delete_score || x->unseen > r->conf.delete_days)
            memset(x, 0, sizeof *x);
    }
}

/* --- the result that is compared: a saved model --- */

static int each_row(void *arg, uint64_t key, const float *row, const float *st, uint32_t width,
                    struct pd_err *err) {
    struct ref *got = arg;
    struct ps_row_seen seen;
    int i = (int)((key - 11) / 1000003u);
    (void)err;
    assert_true(i < IDS && key == key_of(i) && !got->id[i].row);
    assert_int_equal(width, MODEL_SEEN_WIDTH); /* sgd has no other state */
    memcpy(&seen, st, sizeof seen);
    got->id[i] = (struct ref_id){.row = 1,
                                 .show = seen.show,
                                 .click = seen.click,
                                 .shows = seen.shows,
                                 .clicks = seen.clicks,
                                 .unseen = seen.unseen};
    memcpy(got->id[i].w, row, sizeof got->id[i].w);
    return 0;
}

static int each_waiting(void *arg, uint64_t key, uint32_t st, struct pd_err *err) {
    struct ref *got = arg;
    int i = (int)((key - 11) / 1000003u);
    (void)err;
    assert_true(i < IDS && key == key_of(i) && !got->id[i].row && !got->id[i].waits);
    got->id[i] = (struct ref_id){.waits = 1, .count = st & 0xffff, .days = st >> 16};
    return 0;
}

static void compare(const struct ref *want, const char *folder, const char *what) {
    struct model *m = NULL;
    struct pd_err err = {0};
    static struct ref got;
    memset(&got, 0, sizeof got);
    if (model_open(&m, folder, &err) || model_each_state(m, "emb", each_row, &got, &err) ||
        model_each_waiting(m, "emb", each_waiting, &got, &err))
        fail_msg("%s: %s", what, err.msg);
    assert_int_equal(model_has_seen(m, "emb", &err), 1);
    model_close(m);
    for (int i = 0; i < IDS; i++) {
        const struct ref_id *a = &want->id[i], *b = &got.id[i];
        if (a->row != b->row || a->waits != b->waits || a->count != b->count ||
            a->days != b->days || a->show != b->show || a->click != b->click ||
            a->shows != b->shows || a->clicks != b->clicks || a->unseen != b->unseen ||
            a->w[0] != b->w[0] || a->w[1] != b->w[1])
            fail_msg("%s: id %d: row %d waits %d (%u, %u days) show %g+%u click %g+%u unseen %u w "
                     "%g; want row %d waits %d (%u, %u) %g+%u %g+%u %u w %g",
                     what, i, b->row, b->waits, b->count, b->days, (double)b->show, b->shows,
                     (double)b->click, b->clicks, b->unseen, (double)b->w[0], a->row, a->waits,
                     a->count, a->days, (double)a->show, a->shows, (double)a->click, a->clicks,
                     a->unseen, (double)a->w[0]);
    }
}

/* --- whole jobs --- */

struct life_job {
    struct pd_row_life conf;
    int servers, threads, trainers; /* servers 0: local */
    const char *dir;
    const char *from; /* resumes from this checkpoint, after this many days */
    uint64_t first_day, n_days;
    int delta; /* 1: the last day does not end; a base is saved in its middle, and a delta at its
                  end */
};
struct life_trainer {
    const struct life_job *j;
    const char *servers;
    int id;
    struct pd_err err;
    pthread_t thread;
};

static int life_step(struct ps_client *c, int lo, int hi, uint64_t step) {
    static __thread uint64_t keys[IDS];
    static __thread float grad[IDS * DIM], values[IDS * DIM];
    static __thread uint32_t seen[IDS * 2];
    size_t n = 0;
    for (int i = 0; i < IDS; i++) {
        uint32_t all[2] = {0}, s, k;
        float g[DIM] = {0};
        for (int st = lo; st < hi; st++) {
            shown((uint64_t)st, step, i, &s, &k);
            all[0] += s;
            all[1] += k;
            for (int d = 0; s && d < DIM; d++)
                g[d] += grad_of((uint64_t)st, step, i, d);
        }
        if (!all[0])
            continue;
        keys[n] = key_of(i);
        memcpy(seen + 2 * n, all, sizeof all);
        memcpy(grad + DIM * n++, g, sizeof g);
    }
    int rc =
        /* A known list, or keys with the push. */
        ps_pull_rows(c, 0, n, keys, values, step % 3 ? PS_CREATE : PS_NO_CREATE);
    rc = rc ? rc : ps_wait(c);
    rc = rc ? rc : ps_push_seen_rows(c, 0, n, keys, grad, seen);
    rc = rc ? rc : ps_step_end(c, (uint64_t)(SAMPLES * (hi - lo)), NULL, 0);
    return rc ? rc : ps_wait(c);
}

static void *life_trainer(void *arg) {
    struct life_trainer *me = arg;
    const struct life_job *j = me->j;
    struct ps_client *c = NULL;
    struct ps_client_opts o = {.local = !j->servers,
                               .pservers = me->servers,
                               .trainer_id = (uint32_t)me->id,
                               .n_trainers = (uint32_t)j->trainers,
                               .n_streams = STREAMS,
                               .stream_lo = (uint32_t)(STREAMS * me->id / j->trainers),
                               .stream_hi = (uint32_t)(STREAMS * (me->id + 1) / j->trainers),
                               .seed = SEED,
                               .optimizer = {"sgd", RATE, 0},
                               .job = "J",
                               .key = cluster_key};
    struct ps_table_spec t = {.name = "emb", .dim = DIM, .lr_factor = 1, .life = &j->conf};
    uint64_t step, pass;
    int rc = ps_client_new(&c, &o, &me->err);
    if (rc)
        return NULL;
    rc = ps_declare_table(c, &t) ? ps_client_err(c)->code : ps_start(c);
    if (!rc && j->from) {
        if (!me->id)
            rc = ps_resume(c, j->from, PS_MISSING_FAIL, &step, &pass);
        rc = rc ? rc : ps_barrier(c);
        rc = rc ? rc : ps_continue(c, j->first_day * STEPS, j->first_day);
    }
    for (uint64_t day = j->first_day; day < j->first_day + j->n_days && !rc; day++) {
        const int unended = j->delta && day + 1 == j->first_day + j->n_days;
        for (uint64_t s = 0; s < STEPS && !rc; s++) {
            rc = life_step(c, (int)o.stream_lo, (int)o.stream_hi, day * STEPS + s);
            struct ps_save_opts base = {.dir = j->dir,
                                        .name = "base",
                                        .resume = &(struct ps_progress){.pass = day},
                                        .chain = PS_CHAIN_BASE};
            if (!rc && unended && !me->id && s == STEPS / 2)
                rc = ps_save(c, &base);
        }
        struct ps_day ended;
        rc = rc ? rc : ps_pass_end(c);
        if (!rc && !me->id && !unended)
            rc = ps_day_end(c, &ended);
        rc = rc ? rc : ps_barrier(c);
    }
    struct ps_progress at = {.pass = j->first_day + j->n_days};
    struct ps_save_opts s = {.dir = j->dir,
                             .name = "m",
                             .resume = &at,
                             .chain = j->delta ? PS_CHAIN_DELTA : PS_CHAIN_NONE};
    if (!rc && !me->id)
        rc = ps_save(c, &s);
    rc = rc ? rc : ps_barrier(c);
    rc = rc ? rc : ps_bye(c);
    me->err = *ps_client_err(c);
    ps_client_free(c);
    return NULL;
}

static void run_job(const struct life_job *j) {
    struct life_trainer t[STREAMS] = {0};
    struct cluster cl;
    if (j->servers)
        cluster_start(&cl, j->servers, 1, j->threads, j->trainers, 0, -1);
    for (int i = 0; i < j->trainers; i++) {
        t[i] = (struct life_trainer){.j = j, .servers = j->servers ? cl.list : NULL, .id = i};
        assert_int_equal(pthread_create(&t[i].thread, NULL, life_trainer, &t[i]), 0);
    }
    for (int i = 0; i < j->trainers; i++) {
        pthread_join(t[i].thread, NULL);
        if (t[i].err.code)
            fail_msg("trainer %d: %s", i, t[i].err.msg);
    }
    if (j->servers)
        assert_int_equal(cluster_join(&cl, NULL), 0);
}

static void test_jobs_against_the_reference(void **state) {
    (void)state;
    static const struct {
        double count, probability;
        int ageing;
    } kind[] = {{5, 0, 1}, {0, 0.1, 1}, {0, 0, 1}, {60, 0, 0}};
    static const struct {
        int servers, threads, trainers;
    } shape[] = {{0, 0, 1}, {1, 1, 1}, {3, 1, 2}, {2, 2, 4}};
    char dir[] = "/tmp/test_ps_row_policy.XXXXXX", folder[64], other[64], what[80];
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    snprintf(other, sizeof other, "%s/half", dir);
    for (size_t k = 0; k < sizeof kind / sizeof kind[0]; k++) {
        static struct ref r;
        int rows = 0, none = 0;
        memset(&r, 0, sizeof r);
        r.conf = life_conf(kind[k].count, kind[k].probability, kind[k].ageing);
        for (uint64_t step = 0; step < DAYS * STEPS; step++) {
            ref_step(&r, step);
            if (step % STEPS == STEPS - 1)
                ref_day(&r);
        }
        for (int i = 0; i < IDS; i++) {
            rows += r.id[i].row;
            none += !r.id[i].row;
        }
        if (rows < 20 || none < 20) /* too few to prove anything */
            fail_msg("kind %zu: %d rows, %d ids without", k, rows, none);
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
            struct life_job j = {.conf = r.conf,
                                 .servers = shape[i].servers,
                                 .threads = shape[i].threads,
                                 .trainers = shape[i].trainers,
                                 .dir = dir,
                                 .n_days = DAYS};
            snprintf(what, sizeof what, "kind %zu, %d servers of %d threads, %d trainers", k,
                     j.servers, j.threads, j.trainers);
            run_job(&j);
            compare(&r, folder, what);
        }
        /* Two days, then the other days by a job of another shape. */
        for (size_t i = 0; i + 1 < sizeof shape / sizeof shape[0]; i++) {
            struct life_job j = {.conf = r.conf,
                                 .servers = shape[i].servers,
                                 .threads = shape[i].threads,
                                 .trainers = shape[i].trainers,
                                 .dir = dir,
                                 .n_days = 2};
            run_job(&j);
            (void)pd_rm_tree(other, NULL);
            assert_int_equal(rename(folder, other), 0);
            j = (struct life_job){.conf = r.conf,
                                  .servers = shape[i + 1].servers,
                                  .threads = shape[i + 1].threads,
                                  .trainers = shape[i + 1].trainers,
                                  .dir = dir,
                                  .from = other,
                                  .first_day = 2,
                                  .n_days = DAYS - 2};
            snprintf(what, sizeof what, "kind %zu, continued with %d servers", k, j.servers);
            run_job(&j);
            compare(&r, folder, what);
        }
    }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

/* Other rows have the places of removed rows. A delta save must have all these changes. */
static void test_saves_of_changes_after_rows_have_gone(void **state) {
    (void)state;
    static struct ref r;
    char dir[] = "/tmp/test_ps_row_policy.XXXXXX", folder[64];
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    r.conf = life_conf(5, 0, 1);
    for (uint64_t step = 0; step < DAYS * STEPS; step++) {
        ref_step(&r, step);
        if (step % STEPS == STEPS - 1 && step + 1 < DAYS * STEPS)
            ref_day(&r);
    }
    for (int servers = 0; servers < 3; servers += 2) {
        struct model *m = NULL;
        struct pd_err err = {0};
        struct life_job j = {.conf = r.conf,
                             .servers = servers,
                             .threads = 1,
                             .trainers = 1,
                             .dir = dir,
                             .n_days = DAYS,
                             .delta = 1};
        run_job(&j);
        compare(&r, folder, "changes");
        assert_int_equal(model_open(&m, folder, &err), 0);
        /* The first sparse thread's part is a delta. */
        assert_int_equal(model_info(m)->parts[servers].layer, 1);
        model_close(m);
    }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_against_the_reference),
        cmocka_unit_test(test_saves_of_changes_after_rows_have_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
