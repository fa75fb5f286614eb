/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_params.c - the parameters of a server thread, without messages: contributions are applied
 * to dense parameters and to rows, and compared with the optimizer on plain arrays. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "base/memory_use.h"
#include "ps/plan/declaration.h"
#include "ps/plan/initial.h"
#include "ps/shard/params.h"
#include "tests/support/c/skip.h"

enum { VALUES = 40, DIM = 4, STREAMS = 4 };

struct setting {
    const char *optimizer, *update;
    enum ps_nan on_nan;
    const struct pd_row_life *life;
};

static void declare(struct ps_params *p, const struct setting *c) {
    const struct ps_dense_spec w = {
        .name = "w", .n_dims = 1, .shape = {VALUES}, .init_std = 1, .lr_factor = 1};
    const struct ps_dense_spec fixed = {.name = "fixed", .n_dims = 1, .shape = {3}, .init_mean = 2};
    const struct ps_table_spec t = {
        .name = "t", .dim = DIM, .init_std = 1, .lr_factor = 1, .life = c->life};
    struct ps_declaration job;
    struct pd_err err = {0};
    *p = (struct ps_params){0};
    ps_declaration_init(&job);
    job.n_trainers = job.n_streams = STREAMS;
    job.n_servers = job.n_dense_threads = job.n_sparse_threads = 1;
    job.seed = 7;
    job.on_nan = c->on_nan;
    assert_int_equal(pd_fmt(job.update, sizeof job.update, "%s", c->update), 0);
    assert_int_equal(ps_optim_conf_init(&job.optim, c->optimizer, &err), 0);
    job.optim.learning_rate = 0.25;
    assert_int_equal(ps_declaration_add_dense(&job, &w, &err), 0);
    assert_int_equal(ps_declaration_add_dense(&job, &fixed, &err), 0);
    assert_int_equal(ps_declaration_add_table(&job, &t, &err), 0);
    assert_int_equal(ps_declaration_check(&job, &err), 0);
    assert_int_equal(ps_params_declare(p, &job, PS_KIND_BOTH, 0, &err), 0);
    assert_int_equal(job.n_dense, 0); /* *job was taken */
}

static void undeclare(struct ps_params *p) {
    ps_params_release(p);
    shard_scratch_release(&p->scratch);
}

/* The contribution of stream `stream` to an update. */
struct given {
    struct contribution c;
    const float *dense[2];
    struct row_push push;
    uint64_t keys[8];
    uint32_t rows[8];
    float grad_w[VALUES], grad[8 * DIM];
    uint32_t seen[16];
};

static void give(struct ps_params *p, struct given *g, uint32_t stream, size_t n_keys,
                 const uint64_t *keys) {
    *g = (struct given){0};
    for (int i = 0; i < VALUES; i++)
        g->grad_w[i] = 0.01f * (float)(i + 1) * (float)(stream + 1);
    for (size_t i = 0; i < n_keys * DIM; i++)
        g->grad[i] = 0.1f * (float)(i + 1) - (float)stream;
    for (size_t i = 0; i < n_keys; i++) {
        g->keys[i] = keys[i];
        g->seen[2 * i] = 1;
    }
    assert_int_equal(ps_table_find(p->tables[0], g->keys, n_keys, !p->policies[0].active, g->rows),
                     0);
    g->dense[0] = g->grad_w;
    g->push = (struct row_push){.pushed = n_keys > 0,
                                .list = {.rows = g->rows, .n = n_keys, .keys = g->keys},
                                .grad = g->grad,
                                .seen = g->seen};
    g->c = (struct contribution){
        .streams = {stream, stream + 1}, .dense = g->dense, .tables = &g->push};
}

static int apply(struct ps_params *p, struct given *g, uint32_t n, uint64_t n_samples,
                 struct pd_err *err) {
    assert_int_equal(shard_scratch_room(&p->scratch, n), 0);
    for (uint32_t i = 0; i < n; i++) {
        p->scratch.parts[i] = &g[i].c;
        p->scratch.ranges[i] = g[i].c.streams;
    }
    return ps_params_apply(p, n, n_samples, 0, err);
}

static void row_of(const struct ps_params *p, uint64_t key, float out[DIM]) {
    uint32_t row;
    assert_int_equal(ps_table_find(p->tables[0], &key, 1, 0, &row), 0);
    ps_params_gather(p, 0, &key, &row, 1, out);
}

/* The same update, on arrays. */
static void expect(const struct ps_params *p, uint64_t update, uint64_t n_samples, float *w,
                   float *state, size_t stride, const float *sum, size_t n) {
    const struct ps_schedule_at at = {.step = update, .samples = update * n_samples};
    struct ps_optim_args a;
    ps_optim_args_init(&a, &p->decl.optim, (float)ps_learning_rate(&p->decl.optim, &at),
                       update + 1);
    ps_optim_args_samples(&a, (float)n_samples);
    ps_optim_apply(ps_optim_find(p->decl.optim.name), &a, w, state, stride, sum, n);
}

static void optimizers_are_applied_to_sums(void **state) {
    (void)state;
    static const char *const names[] = {"sgd", "momentum", "adagrad", "adam", "ftrl"};
    const uint64_t keys[2][3] = {{1, 5, 9}, {5, 6, 9}}, all[] = {1, 5, 6, 9};
    for (size_t o = 0; o < sizeof names / sizeof names[0]; o++) {
        struct ps_params p;
        struct given g[2];
        float w[VALUES], state_w[PS_OPTIM_STATES][VALUES] = {{0}}, rows[4][DIM],
                         state_rows[4][PS_OPTIM_STATES][DIM] = {{{0}}};
        declare(&p, &(struct setting){.optimizer = names[o], .update = "sync"});
        memcpy(w, params_w(&p, 0), sizeof w);
        for (int i = 0; i < 4; i++)
            row_of(&p, all[i], rows[i]);
        for (uint64_t update = 0; update < 3; update++) {
            float sum[VALUES], sum_row[DIM];
            for (uint32_t t = 0; t < 2; t++)
                give(&p, &g[t], 2 * t, 3, keys[t]);
            for (int i = 0; i < VALUES; i++)
                sum[i] = g[0].grad_w[i] + g[1].grad_w[i];
            assert_int_equal(apply(&p, g, 2, 10, NULL), 0);
            expect(&p, update, 10, w, state_w[0], VALUES, sum, VALUES);
            assert_memory_equal(w, params_w(&p, 0), sizeof w);
            for (int i = 0; i < 4; i++) {
                const float *of[2] = {NULL, NULL};
                for (uint32_t t = 0; t < 2; t++)
                    for (int k = 0; k < 3; k++)
                        if (keys[t][k] == all[i])
                            of[t] = &g[t].grad[k * DIM];
                for (int k = 0; k < DIM; k++)
                    sum_row[k] = of[0] && of[1] ? of[0][k] + of[1][k] : of[0] ? of[0][k] : of[1][k];
                expect(&p, update, 10, rows[i], state_rows[i][0], DIM, sum_row, DIM);
                float now[DIM];
                row_of(&p, all[i], now);
                if (memcmp(now, rows[i], sizeof now))
                    fail_msg("%s: row %llu after update %llu", names[o], (unsigned long long)all[i],
                             (unsigned long long)update);
            }
        }
        assert_int_equal(p.updates, 3);
        assert_int_equal(p.samples, 30);
        assert_true(params_w(&p, 1)[0] == 2.0f); /* learning-rate factor 0 */
        undeclare(&p);
    }
}

/* An update without samples does nothing. Differences are not divided by samples. */
static void samples_divide_and_differences_add(void **state) {
    (void)state;
    struct ps_params p;
    struct given g[1];
    float before[VALUES], after[VALUES];
    declare(&p, &(struct setting){.optimizer = "sgd", .update = "sync"});
    memcpy(before, params_w(&p, 0), sizeof before);
    give(&p, &g[0], 0, 0, NULL);
    assert_int_equal(apply(&p, g, 1, 0, NULL), 0);
    assert_int_equal(p.updates, 0);
    assert_memory_equal(before, params_w(&p, 0), sizeof before);
    undeclare(&p);
    declare(&p, &(struct setting){.optimizer = "sgd", .update = "geo"});
    memcpy(before, params_w(&p, 0), sizeof before);
    give(&p, &g[0], 0, 0, NULL);
    assert_int_equal(apply(&p, g, 1, 5, NULL), 0);
    memcpy(after, params_w(&p, 0), sizeof after);
    for (int i = 0; i < VALUES; i++)
        assert_true(fabsf(after[i] - before[i] - g[0].grad_w[i]) < 1e-6f);
    undeclare(&p);
}

static void what_is_not_finite_is_named(void **state) {
    (void)state;
    const uint64_t keys[] = {3, 4};
    struct ps_params p;
    struct given g[2];
    for (int of_row = 0; of_row < 2; of_row++) {
        struct pd_err err = {0};
        declare(&p,
                &(struct setting){.optimizer = "adam", .update = "sync", .on_nan = PS_NAN_STOP});
        give(&p, &g[0], 0, 2, keys);
        give(&p, &g[1], 3, 2, keys);
        *(of_row ? &g[1].grad[DIM] : &g[1].grad_w[VALUES - 1]) = NAN;
        p.scratch.step = 17;
        assert_int_equal(apply(&p, g, 2, 4, &err), PD_ENUM);
        const char *want =
            of_row ? "table 't' is not a finite number in step 17; it came from streams 3-3"
                   : "parameter 'w' is not a finite number in step 17; it came from streams 3-3";
        if (!strstr(err.msg, want))
            fail_msg("'%s'", err.msg);
        undeclare(&p);
    }
}

/* Rows are admitted by count, decay at the end of days, and are removed. */
static void rows_come_and_go(void **state) {
    (void)state;
    const uint64_t key = 8;
    struct pd_row_life life;
    struct ps_params p;
    struct given g[1];
    struct ps_row_policy_day day;
    struct pd_err err = {0};
    uint32_t row;
    pd_row_life_init(&life);
    life.admit_count = 2;
    life.admit_candidates = 1024;
    life.ageing = 1;
    life.delete_score = 0;
    life.delete_days = 2;
    declare(&p, &(struct setting){.optimizer = "sgd", .update = "sync", .life = &life});
    for (int i = 0; i < 2; i++) {
        give(&p, &g[0], 0, 1, &key);
        assert_int_equal(apply(&p, g, 1, 1, &err), 0);
        assert_int_equal(ps_table_find(p.tables[0], &key, 1, 0, &row), 0);
        assert_int_equal(row != PS_ROW_NONE, i == 1);
    }
    assert_int_equal(ps_params_day_end(&p, &day, &err), 0);
    assert_int_equal(day.rows, 1);
    for (int i = 0; i < 5 && day.rows; i++)
        assert_int_equal(ps_params_day_end(&p, &day, &err), 0);
    assert_int_equal(day.rows, 0);
    assert_int_equal(day.removed, 1);
    undeclare(&p);
}

/* --- initial values --- */

enum { INITIAL = 20011 };

/* Independent of how the parameter is cut, and with the requested distribution. */
static void initial_slices_are_those_of_the_whole(void **state) {
    (void)state;
    static float whole[INITIAL], parts[INITIAL];
    static const float std[] = {0.5f, 0, -0.25f};
    for (size_t k = 0; k < sizeof std / sizeof std[0]; k++) {
        double sum = 0, squares = 0, most = 0;
        struct pd_rng_key key = pd_rng_key(9, PD_RNG_INIT, k, 0);
        ps_initial(key, 1, 0, 2, std[k], whole, INITIAL);
        for (uint64_t at = 0, n = 1; at < INITIAL; at += n, n = n % 97 + 1)
            ps_initial(key, 1, at, 2, std[k], parts + at, at + n < INITIAL ? n : INITIAL - at);
        assert_memory_equal(whole, parts, sizeof whole);
        for (size_t i = 0; i < INITIAL; i++) {
            double d = (double)whole[i] - 2;
            sum += d;
            squares += d * d;
            most = fmax(most, fabs(d));
        }
        double want = std[k] > 0 ? 0.5 : std[k] < 0 ? 0.25 / sqrt(3) : 0;
        assert_true(fabs(sum / INITIAL) < 0.02 && fabs(sqrt(squares / INITIAL) - want) < 0.01);
        assert_true(std[k] > 0 ? most > 1
                               : most <= -(double)std[k] && most >= -0.99 * (double)std[k]);
    }
}

/* A peer with the key, or a mistake in a configuration, declares terabytes. */
static void what_the_machine_cannot_hold_is_refused(void **state) {
    (void)state;
    for (int servers = 1; servers <= 2; servers++) {
        struct ps_params p = {0};
        struct ps_declaration job;
        struct pd_err err = {0};
        const struct ps_dense_spec big = {
            .name = "big", .n_dims = 1, .shape = {UINT64_C(1) << 39}, .lr_factor = 1};
        const struct ps_dense_spec small = {
            .name = "small", .n_dims = 1, .shape = {1000}, .lr_factor = 1};
        ps_declaration_init(&job);
        job.n_trainers = job.n_streams = 1;
        job.n_servers = job.n_sparse_threads = (uint32_t)servers;
        job.n_dense_threads = 2 * (uint32_t)servers;
        assert_int_equal(pd_fmt(job.update, sizeof job.update, "sync"), 0);
        assert_int_equal(ps_optim_conf_init(&job.optim, "adagrad", &err), 0);
        assert_int_equal(ps_declaration_add_dense(&job, &small, &err), 0);
        assert_int_equal(ps_declaration_add_dense(&job, &big, &err), 0);
        assert_int_equal(ps_params_declare(&p, &job, PS_KIND_DENSE, 1, &err), PD_ENOMEM);
        /* 2^39 values and as many of state, 4 bytes each, divided among the servers */
        if (!strstr(err.msg, servers == 1 ? "need 4398 GB on " : "need 2199 GB on ") ||
            !strstr(err.msg, "the largest is 'big' with ") || !strstr(err.msg, "available"))
            fail_msg("%s", err.msg);
        assert_false(p.declared);
    }
}

/* Adds rows from *key on until there is no memory, or `most` bytes. */
static int fill(struct ps_params *p, uint64_t *key, uint64_t most) {
    enum { LOT = 1000 };
    uint64_t keys[LOT];
    uint32_t rows[LOT];
    int rc = 0;
    while (!rc && ps_table_bytes(p->tables[0]) < most) {
        for (int i = 0; i < LOT; i++)
            keys[i] = ++*key;
        rc = ps_table_find(p->tables[0], keys, LOT, 1, rows);
    }
    return rc;
}

static void declare_table(struct ps_params *p, uint32_t dim, int want, struct pd_err *err) {
    const struct ps_table_spec t = {.name = "t", .dim = dim, .lr_factor = 1};
    struct ps_declaration job;
    ps_declaration_init(&job);
    job.n_trainers = job.n_streams = 1;
    job.n_servers = job.n_dense_threads = job.n_sparse_threads = 1;
    assert_int_equal(pd_fmt(job.update, sizeof job.update, "sync"), 0);
    assert_int_equal(ps_optim_conf_init(&job.optim, "adagrad", err), 0);
    assert_int_equal(ps_declaration_add_table(&job, &t, err), 0);
    *p = (struct ps_params){0};
    assert_int_equal(ps_params_declare(p, &job, PS_KIND_SPARSE, 0, err), want);
    ps_declaration_release(&job);
}

/* Rows of a table ask before each slab and each part of the index. The rows that
 * the table already has stay usable. */
static void a_table_grows_while_the_machine_has_memory(void **state) {
    (void)state;
    struct ps_params p;
    struct pd_err err = {0};
    pd_fault_arm("memory.room:1");
    declare_table(&p, 1 << 20, PD_ENOMEM, &err);
    pd_fault_arm(NULL);
    if (!strstr(err.msg, "1048576 values of a row of table 't', and its state, need 0.0083") ||
        !strstr(err.msg, "GB of them available"))
        fail_msg("%s", err.msg);
    pd_err_clear(&err);
    declare_table(&p, 100, 0, &err);
    uint64_t key = 0, before = 0;
    uint32_t row;
    for (int nth = 1; nth < 12; nth++) {
        char spec[40];
        snprintf(spec, sizeof spec, "memory.room:%d", nth);
        pd_fault_arm(spec);
        assert_int_equal(fill(&p, &key, UINT64_C(1) << 33), PD_ENOMEM);
        pd_fault_arm(NULL);
        const uint64_t rows = ps_table_rows(p.tables[0]);
        assert_true(rows > before || nth == 1);
        before = rows;
        assert_int_equal(ps_table_find(p.tables[0], &(uint64_t){1}, 1, 0, &row), 0);
        assert_true(row != PS_ROW_NONE);
    }
    assert_int_equal(ps_params_no_rows(&p, 0, &err), PD_ENOMEM);
    if (!strstr(err.msg, "more rows of table 't', which has ") ||
        !strstr(err.msg, "GB of them available"))
        fail_msg("%s", err.msg);
    undeclare(&p);
}

enum { GROUP_BYTES = 300 << 20 };

static int put_number(const char *dir, const char *name, long v) {
    char path[200], text[32];
    if (pd_fmt(path, sizeof path, "%s/%s", dir, name) || pd_fmt(text, sizeof text, "%ld", v))
        return -1;
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const int rc = fd < 0 || pd_write_all(fd, text, strlen(text));
    pd_close(fd);
    return rc;
}

/* A group of its own with a limit, of either version. Returns 0, and its folder. */
static int make_group(char dir[100]) {
    static const char *const rows[][2] = {{"/sys/fs/cgroup", "memory.max"},
                                          {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
    for (int i = 0; i < 2; i++) {
        (void)pd_fmt(dir, 100, "%s/paddle-test-%d", rows[i][0], (int)getpid());
        if (mkdir(dir, 0755))
            continue;
        if (!put_number(dir, rows[i][1], GROUP_BYTES))
            return 0;
        rmdir(dir);
    }
    return -1;
}

/* The kernel would kill the process that exceeds the limit. */
static void a_table_stops_before_the_kernel_kills(void **state) {
    (void)state;
    char dir[100];
    int status;
    if (make_group(dir))
        SKIP("no group with a memory limit can be made here");
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) {
        struct ps_params p;
        struct pd_err err = {0};
        uint64_t total, key = 0;
        if (put_number(dir, "cgroup.procs", getpid()))
            _exit(77);
        (void)pd_memory_available("", &total);
        if (total != GROUP_BYTES)
            _exit(77);
        declare_table(&p, 100, 0, &err);
        const int rc = fill(&p, &key, UINT64_C(1) << 32);
        const uint64_t bytes = ps_table_bytes(p.tables[0]);
#ifdef __SANITIZE_THREAD__ /* needs most of the memory itself */
        const uint64_t least = 1;
#else
        const uint64_t least = GROUP_BYTES / 2;
#endif
        const int wrong = rc != PD_ENOMEM || bytes < least || bytes > GROUP_BYTES;
        if (wrong)
            fprintf(stderr, "%d, %llu bytes\n", rc, (unsigned long long)bytes);
        _exit(wrong);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 100 && rmdir(dir); i++)
        usleep(50000); /* the kernel is not done with the process yet */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no process can be put into a group here");
    assert_int_equal(status, 0);
}

static void put_file(const char *dir, const char *name, const char *text) {
    char path[200], above[200];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", dir, name), 0);
    assert_int_equal(pd_fmt(above, sizeof above, "%s", path), 0);
    *strrchr(above, '/') = 0;
    assert_int_equal(pd_mkdirs(above, 0755, NULL), 0);
    assert_int_equal(pd_write_file_quick(path, text, strlen(text), 0644, NULL), 0);
}

static void limits_of_cgroups_count(void **state) {
    (void)state;
    static const struct {
        const char *name, *cgroup, *limit, *limit_at, *used_at, *stat;
        uint64_t left, total;
    } rows[] = {
        {"none", "0::/\n", "max", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "",
         6144000, 8192000},
        {"version 2", "0::/a/b\n", "3000000", "sys/fs/cgroup/a/b/memory.max",
         "sys/fs/cgroup/a/b/memory.current", "sys/fs/cgroup/a/b/memory.stat", 2400000, 3000000},
        {"above", "0::/a/b\n", "3000000", "sys/fs/cgroup/a/memory.max",
         "sys/fs/cgroup/a/memory.current", "sys/fs/cgroup/a/memory.stat", 2400000, 3000000},
        {"version 1", "4:cpu:/x\n3:memory:/a\n", "3000000",
         "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
         "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "", 2000000, 3000000},
        {"larger than the machine", "0::/a\n", "9000000000", "sys/fs/cgroup/a/memory.max",
         "sys/fs/cgroup/a/memory.current", "", 6144000, 8192000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dir[] = "/tmp/paddle-memory-XXXXXX";
        uint64_t total, left;
        assert_non_null(mkdtemp(dir));
        put_file(dir, "proc/meminfo",
                 "MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable: 5000 kB\nSwapFree: 1000 kB\n");
        put_file(dir, "proc/self/cgroup", rows[i].cgroup);
        put_file(dir, rows[i].limit_at, rows[i].limit);
        put_file(dir, rows[i].used_at, "1000000\n");
        if (*rows[i].stat)
            put_file(dir, rows[i].stat, "anon 5\nfile 500000\nfile_mapped 7\nshmem 100000\n");
        left = pd_memory_available(dir, &total);
        if (left != rows[i].left || total != rows[i].total)
            fail_msg("%s: %llu of %llu", rows[i].name, (unsigned long long)left,
                     (unsigned long long)total);
        pd_rm_tree(dir, NULL);
    }
}

/* The step's first process is 10, a child of slurmstepd; 12 is this one, 13 its sibling. */
static void memory_of_a_slurm_allocation_counts(void **state) {
    (void)state;
    static const struct {
        const char *name, *node, *cpu, *cpus, *where;
        uint64_t left, total;
    } rows[] = {
        {"no step", "4", NULL, "1", NULL, 6144000, 8192000},
        {"of the node", "4", NULL, "1", "sn0", (4 << 20) - 1024 * (100 + 200 + 300 + 1000),
         4 << 20},
        {"of a CPU", NULL, "2", "2", "sn0", (4 << 20) - 1024 * 1600, 4 << 20},
        {"a CPU, but how many", NULL, "2", NULL, "sn0", 6144000, 8192000},
        {"all of the node", "0", NULL, "1", "sn0", 6144000, 8192000},
        {"used up", "1", NULL, "1", "sn0", 0, 1 << 20},
        {"more than the machine", "9000", NULL, "1", "sn0", 6144000, 8192000},
    };
    char dir[] = "/tmp/paddle-memory-XXXXXX";
    assert_non_null(mkdtemp(dir));
    put_file(dir, "proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 5000 kB\nSwapFree: 1000 kB\n");
    put_file(dir, "proc/self/cgroup", "0::/\n");
    put_file(dir, "proc/self/stat", "12 (a) b) S 10 12\n");
    put_file(dir, "proc/10/stat", "10 (sh) S 9 10\n");
    put_file(dir, "proc/9/stat", "9 (slurmstepd) S 1 9\n");
    put_file(dir, "proc/10/status", "RssAnon: 100 kB\nRssShmem: 0 kB\n");
    put_file(dir, "proc/12/status", "RssAnon: 200 kB\nRssShmem: 1000 kB\n");
    put_file(dir, "proc/13/status", "RssAnon: 300 kB\nRssShmem: 900 kB\n");
    put_file(dir, "proc/10/task/10/children", "12 13 \n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const set[][2] = {{"SLURM_MEM_PER_NODE", rows[i].node},
                                      {"SLURM_MEM_PER_CPU", rows[i].cpu},
                                      {"SLURM_CPUS_ON_NODE", rows[i].cpus},
                                      {"SLURMD_NODENAME", rows[i].where}};
        uint64_t total;
        for (size_t k = 0; k < 4; k++)
            if (set[k][1])
                setenv(set[k][0], set[k][1], 1);
        const uint64_t left = pd_memory_available(dir, &total);
        for (size_t k = 0; k < 4; k++)
            unsetenv(set[k][0]);
        if (left != rows[i].left || total != rows[i].total)
            fail_msg("%s: %llu of %llu", rows[i].name, (unsigned long long)left,
                     (unsigned long long)total);
    }
    pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_are_applied_to_sums),
        cmocka_unit_test(samples_divide_and_differences_add),
        cmocka_unit_test(what_is_not_finite_is_named),
        cmocka_unit_test(rows_come_and_go),
        cmocka_unit_test(initial_slices_are_those_of_the_whole),
        cmocka_unit_test(what_the_machine_cannot_hold_is_refused),
        cmocka_unit_test(a_table_grows_while_the_machine_has_memory),
        cmocka_unit_test(a_table_stops_before_the_kernel_kills),
        cmocka_unit_test(limits_of_cgroups_count),
        cmocka_unit_test(memory_of_a_slurm_allocation_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
