/* SPDX-License-Identifier: Apache-2.0 */
/* Delta saves: a model from any chain of saves is loaded, read and resumed with its exact values.
 */
#include <setjmp.h>
#include <cmocka.h>

#include "model/table.h"
#include "tests/support/c/ps_cluster.h"

enum { KEYS = 400, DIM = 4, WIDE = 50, N_SAVES = 6 };

static char root[64];

/* A dense parameter and two tables. One table decays, so all of its rows change in every step. */
struct job {
    struct cluster cl;
    struct ps_client *c;
    int servers, dense, plain, decays;
};

struct values {
    float w[WIDE], plain[KEYS * DIM], decays[KEYS * DIM];
};

static uint64_t key_at(uint64_t i) { return i * 7919 + 3; }

static void open_job(struct job *j, int servers, int threads) {
    struct pd_err err = {0};
    *j = (struct job){.servers = servers};
    if (servers)
        cluster_start(&j->cl, servers, threads, threads, 1, 0, -1);
    struct ps_client_opts o = {.local = !servers,
                               .pservers = j->cl.list,
                               .n_trainers = 1,
                               .seed = 5,
                               .optimizer = {.name = "adam", .learning_rate = 0.1},
                               .job = "J",
                               .key = cluster_key};
    assert_int_equal(ps_client_new(&j->c, &o, &err), 0);
    struct ps_dense_spec w = {
        .name = "w", .n_dims = 1, .shape = {WIDE}, .init_std = 1, .lr_factor = 1};
    struct ps_table_spec t = {.name = "plain", .dim = DIM, .init_std = 1, .lr_factor = 1};
    j->dense = ps_declare_dense(j->c, &w);
    j->plain = ps_declare_table(j->c, &t);
    t.name = "decays";
    t.l2 = 0.01f;
    j->decays = ps_declare_table(j->c, &t);
    assert_int_equal(ps_start(j->c), 0);
}

static void close_job(struct job *j) {
    assert_int_equal(ps_bye(j->c), 0);
    ps_client_free(j->c);
    if (j->servers)
        assert_int_equal(cluster_join(&j->cl, NULL), 0);
}

/* Some rows of each table, different in every step; more and more of them are new. */
static size_t keys_of(uint64_t step, uint64_t table, uint64_t *keys) {
    size_t n = 0;
    for (uint64_t i = 0; i < KEYS && i < 60 + step * 20; i++)
        if (toy_hash(step, table, i, 0) % 9 == 0)
            keys[n++] = key_at(i);
    return n;
}

static void train(struct job *j, uint64_t steps) {
    for (uint64_t end = ps_step(j->c) + steps; ps_step(j->c) < end;) {
        uint64_t step = ps_step(j->c), keys[2][KEYS];
        float w[WIDE], rows[2][KEYS * DIM], g[WIDE], grad[2][KEYS * DIM];
        const int table[] = {j->plain, j->decays};
        size_t n[2];
        assert_int_equal(ps_pull_dense(j->c, j->dense, w, WIDE), 0);
        for (int t = 0; t < 2; t++) {
            n[t] = keys_of(step, (uint64_t)t, keys[t]);
            assert_int_equal(ps_pull_rows(j->c, table[t], n[t], keys[t], rows[t], PS_CREATE), 0);
        }
        assert_int_equal(ps_wait(j->c), 0);
        for (int i = 0; i < WIDE; i++)
            g[i] = toy_grad(0, step, 1, (uint64_t)i) + w[i];
        assert_int_equal(ps_push_dense(j->c, j->dense, g, WIDE), 0);
        for (int t = 0; t < 2; t++) {
            for (size_t i = 0; i < n[t] * DIM; i++)
                grad[t][i] = toy_grad(1, step, (uint64_t)t, i) + rows[t][i];
            n[t] -= step % 4 == 1; /* a row that is created but not changed */
            assert_int_equal(ps_push_rows(j->c, table[t], n[t], keys[t], grad[t]), 0);
        }
        assert_int_equal(ps_step_end(j->c, 1, NULL, 0), 0);
        assert_int_equal(ps_wait(j->c), 0);
    }
}

static void read_values(struct job *j, struct values *v) {
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = key_at(i);
    memset(v, 0, sizeof *v);
    assert_int_equal(ps_pull_dense(j->c, j->dense, v->w, WIDE), 0);
    assert_int_equal(ps_pull_rows(j->c, j->plain, KEYS, keys, v->plain, PS_NO_CREATE), 0);
    assert_int_equal(ps_pull_rows(j->c, j->decays, KEYS, keys, v->decays, PS_NO_CREATE), 0);
    assert_int_equal(ps_wait(j->c), 0);
}

static const char *folder_of(int i) {
    static char path[100];
    snprintf(path, sizeof path, "%s/pass-%05d", root, i);
    return path;
}

static void save(struct job *j, int i, enum ps_chain chain) {
    static const struct ps_progress none = {0, 0};
    char name[16];
    snprintf(name, sizeof name, "pass-%05d", i);
    struct ps_save_opts o = {
        .dir = root, .name = name, .config = "", .chain = chain, .resume = &none};
    if (ps_save(j->c, &o))
        fail_msg("%s: %s", name, ps_client_err(j->c)->msg);
}

static void resume(struct job *j, int i) {
    uint64_t step, pass;
    if (ps_resume(j->c, folder_of(i), PS_MISSING_FAIL, &step, &pass))
        fail_msg("%s: %s", folder_of(i), ps_client_err(j->c)->msg);
    assert_int_equal(ps_continue(j->c, step, pass), 0);
}

/* Number of layers of the model's parts. With more than one, the last has fewer rows than the
 * model. */
static uint32_t layers_of(int i) {
    struct model *m = NULL;
    uint64_t n = 0;
    uint32_t layers = 0;
    assert_int_equal(model_open(&m, folder_of(i), NULL), 0);
    assert_int_equal(model_verify(m, NULL), 0);
    const struct model_manifest *info = model_info(m);
    for (size_t p = 0; p < info->n_parts; p++) {
        if (p == 0 || info->parts[p - 1].layer == 0)
            n += info->parts[p].rows;
        layers = info->parts[p].layer + 1 > layers ? info->parts[p].layer + 1 : layers;
    }
    const uint64_t all = model_find_param(m, "plain")->rows + model_find_param(m, "decays")->rows;
    assert_true(layers == 1 ? n == all : n < all);
    model_close(m);
    return layers;
}

struct checked {
    const struct values *v;
    uint64_t n, last;
};

static int check_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct checked *k = arg;
    (void)err;
    assert_true(!k->n || key > k->last);
    assert_memory_equal(row, k->v->plain + (key - 3) / 7919 * DIM, DIM * sizeof *row);
    k->last = key;
    k->n++;
    return 0;
}

/* Checks the values as infer and export read them, from the files in place. */
static void check_table(int i, const struct values *v) {
    struct model *m = NULL;
    struct model_table *t = NULL;
    struct checked k = {.v = v};
    uint64_t n;
    assert_int_equal(model_open(&m, folder_of(i), NULL), 0);
    assert_int_equal(model_table_open(&t, m, "plain", NULL), 0);
    assert_int_equal(model_table_walk(t, check_row, &k, NULL), 0);
    assert_int_equal(model_table_rows(t, &n, NULL), 0);
    assert_int_equal(n, k.n);
    assert_int_equal(n, model_find_param(m, "plain")->rows);
    for (uint64_t r = 0; r < KEYS; r++) {
        const float *row = model_table_find(t, key_at(r));
        if (row)
            assert_memory_equal(row, v->plain + r * DIM, DIM * sizeof *row);
        n -= row != NULL;
    }
    assert_int_equal(n, 0);
    model_table_close(t);
    model_close(m);
}

/* A base, four deltas, and between them a save without a chain. */
static void save_chain(struct job *j, struct values v[N_SAVES]) {
    static const enum ps_chain kind[N_SAVES] = {PS_CHAIN_BASE, PS_CHAIN_DELTA, PS_CHAIN_DELTA,
                                                PS_CHAIN_NONE, PS_CHAIN_DELTA, PS_CHAIN_DELTA};
    for (int i = 0; i < N_SAVES; i++) {
        train(j, 3);
        save(j, i, kind[i]);
        read_values(j, &v[i]);
    }
}

static void test_every_member_of_a_chain_is_a_whole_model(void **state) {
    (void)state;
    static struct values v[N_SAVES], end, got;
    static const struct { int servers, threads; } row[] = {{0, 0}, {1, 1}, {2, 2}};
    struct job j;
    for (size_t r = 0; r < 3; r++) {
        open_job(&j, row[r].servers, row[r].threads);
        save_chain(&j, v);
        train(&j, 3);
        read_values(&j, &end);
        close_job(&j);
        static const uint32_t layers[N_SAVES] = {1, 2, 3, 1, 4, 5};
        for (int i = 0; i < N_SAVES; i++)
            assert_int_equal(layers_of(i), layers[i]);
        assert_int_equal(pd_rm_tree(folder_of(1), NULL), 0); /* the other saves do not need it */
        for (int i = 0; i < N_SAVES; i++)
            for (size_t k = 0; k < 3 && i != 1; k++) {
                open_job(&j, row[k].servers, row[k].threads);
                resume(&j, i);
                read_values(&j, &got);
                assert_memory_equal(&got, &v[i], sizeof got);
                train(&j, (uint64_t)(N_SAVES - i) * 3);
                read_values(&j, &got);
                assert_memory_equal(&got, &end, sizeof got);
                close_job(&j);
                check_table(i, &v[i]);
            }
        for (int i = 0; i < N_SAVES; i++)
            assert_int_equal(pd_rm_tree(folder_of(i), NULL), 0);
    }
}

/* Saves that cannot be deltas: after a load, with lower files removed or replaced, and without
 * links. */
static void test_what_cannot_be_a_delta_is_whole(void **state) {
    (void)state;
    static struct values v, got;
    struct job j;
    open_job(&j, 0, 0);
    train(&j, 4);
    save(&j, 0, PS_CHAIN_DELTA); /* there is no base yet */
    assert_int_equal(layers_of(0), 1);
    train(&j, 1);
    save(&j, 1, PS_CHAIN_DELTA);
    assert_int_equal(layers_of(1), 2);
    for (int i = 2; i < 6; i++) {
        if (i == 2)
            resume(&j, 1);
        else if (i == 3)
            assert_int_equal(pd_rm_tree(folder_of(2), NULL), 0);
        else if (i == 4) {
            char cmd[300];
            snprintf(
                cmd, sizeof cmd,
                "cd %s && cp local-00000-of-00001.bin copy && mv copy local-00000-of-00001.bin",
                folder_of(3));
            assert_int_equal(system(cmd), 0);
        } else
            pd_fault_arm("ps.link:1");
        train(&j, 1);
        save(&j, i, PS_CHAIN_DELTA);
        pd_fault_arm(NULL);
        assert_int_equal(layers_of(i), 1);
        read_values(&j, &v);
        struct job other;
        open_job(&other, 0, 0);
        resume(&other, i);
        read_values(&other, &got);
        assert_memory_equal(&got, &v, sizeof got);
        close_job(&other);
    }
    close_job(&j);
    for (int i = 0; i < 6; i++)
        assert_int_equal(pd_rm_tree(folder_of(i), NULL), 0);
}

static void test_damage_of_any_member_is_named(void **state) {
    (void)state;
    static struct values v[N_SAVES];
    struct job j;
    open_job(&j, 0, 0);
    save_chain(&j, v);
    close_job(&j);
    static const struct {
        const char *file;
        int whole_before; /* number of saves without that file */
    } row[] = {{"local-00000-of-00001.bin", -1},
               {"local-00000-of-00001.delta-00001.bin", 0},
               {"local-00000-of-00001.delta-00003.bin", 3}};
    for (size_t r = 0; r < 3; r++) {
        char path[200], byte = 0;
        snprintf(path, sizeof path, "%s/%s", folder_of(5), row[r].file);
        int fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, 5000), 1);
        for (int damaged = 1; damaged >= 0; damaged--) {
            byte ^= 4;
            assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
            for (int i = 0; i < N_SAVES; i++) {
                struct pd_err err = {0};
                struct model *m = NULL;
                assert_int_equal(model_open(&m, folder_of(i), &err), 0);
                int rc = model_verify(m, &err);
                /* Save 3 has no chain. */
                assert_int_equal(rc != 0, damaged && i > row[r].whole_before && i != 3);
                if (rc && (!strstr(err.msg, row[r].file) || !strstr(err.msg, "damaged")))
                    fail_msg("%s", err.msg);
                model_close(m);
            }
        }
        close(fd);
        char away[210];
        snprintf(away, sizeof away, "%s.away", path);
        assert_int_equal(rename(path, away), 0);
        struct pd_err err = {0};
        struct model *m = NULL;
        assert_int_equal(model_open(&m, folder_of(5), &err), 0);
        assert_int_equal(model_verify(m, &err), PD_ENOENT);
        assert_non_null(strstr(err.msg, row[r].file));
        model_close(m);
        assert_int_equal(rename(away, path), 0);
    }
}

static int make_root(void **state) {
    (void)state;
    pd_fmt(root, sizeof root, "/tmp/test_ps_delta.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    return pd_rm_tree(root, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_member_of_a_chain_is_a_whole_model, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_a_delta_is_whole, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(test_damage_of_any_member_is_named, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
