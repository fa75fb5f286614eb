/* SPDX-License-Identifier: Apache-2.0 */
/* test_train_allocs.c - after the first batches, a step allocates no memory. The linker redirects
 * every call of malloc and similar functions in our code to this test (--wrap, see the Makefile),
 * on every thread. Once a step the trainer asks whether to stop; the test counts at that moment.
 * Data is read without extra threads, because these allocate at times of their own. */
#include <setjmp.h>

#include <cmocka.h>

#include "train/trainer.h"

enum {
    BATCH = 24,
    BATCHES = 60,
    WARM = 20 /* the servers keep buffers for 8 steps and use them in turn */,
    STREAMS = 2
};

static atomic_ulong n_allocs;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n) {
    atomic_fetch_add(&n_allocs, 1);
    return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    atomic_fetch_add(&n_allocs, 1);
    return __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n) {
    atomic_fetch_add(&n_allocs, 1);
    return __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n) {
    atomic_fetch_add(&n_allocs, 1);
    return __real_aligned_alloc(align, n);
}

static const struct model {
    const char *name, *data, *layers, *optimizer;
    const char *line; /* a line of data; %d is a different number each time */
    int vocabulary;
} models[] = {
    {"dense",
     "format = csv\ncolumns = a b c y\nfields = x:dense y:label\n[field x]\ncolumns = a b c\n",
     "[layer h]\ntype = fc\ninputs = x\nsize = 8\nact = relu\n[layer p]\ntype = fc\ninputs = "
     "h\nsize = 2\nact = softmax\n",
     "adam", "%d,%d,%d,1\n", 5},
    {"a table", "format = ids\nfields = a b c y\nvocabulary = 40\n",
     "[layer e]\ntype = embedding\ninputs = a b c\nsize = 6\nsparse_update = true\n[layer p]\ntype "
     "= fc\ninputs = e\nsize = 40\nact = softmax\n",
     "adagrad", "%d %d %d %d\n", 40},
    {"clicks",
     "format = tsv\ncolumns = a b c d y\nfields = x:dense b:id c:list d:id y:label\n[field "
     "x]\ncolumns = a\n[field b]\nvocabulary = 30\n"
     "[field c]\nvocabulary = 30\nweights = true\nmax_ids = 4\n[field d]\nvocabulary = 30\n",
     "[layer wide]\ntype = embedding\ninputs = b c d\nsize = 1\ncombine = sum\nsparse_update = "
     "true\n"
     "[layer e]\ntype = embedding\ninputs = b c d\nsize = 5\nsparse_update = true\n"
     "[layer h]\ntype = fc\ninputs = e x\nsize = 8\nact = relu\n[layer deep]\ntype = fc\ninputs = "
     "h\nsize = 2\n"
     "[layer p]\ntype = fc\ninputs = wide deep\nsize = 2\nact = softmax\n",
     "adagrad", "%d\t%d\t%d:0.5|%d:2\t%d\t1\n", 30},
};

static void write_model(const char *dir, const struct model *m) {
    char path[200];
    struct pd_buf b;
    uint32_t r = 1;
    pd_buf_init(&b);
    pd_put_fmt(&b,
               "[data]\ntrain = %s/part-*\n%s%s[cost c]\ntype = cross_entropy\ninput = p\nlabel = "
               "y\n[optimizer]\ntype = %s\nlearning_rate = 0.01\n",
               dir, m->data, m->layers, m->optimizer);
    snprintf(path, sizeof path, "%s/train.ini", dir);
    assert_int_equal(pd_write_file_atomic(path, b.data, b.len, 0600, NULL), 0);
    for (int s = 0; s < STREAMS; s++) {
        pd_buf_clear(&b);
        for (int i = 0; i < BATCH * BATCHES / STREAMS; i++)
            for (const char *c = m->line; *c; c++)
                if (c[0] == '%') {
                    r = r * 1103515245 + 12345;
                    pd_put_fmt(&b, "%u", (r >> 16) % (unsigned)m->vocabulary);
                    c++;
                } else {
                    pd_put_fmt(&b, "%c", *c);
                }
        snprintf(path, sizeof path, "%s/part-%d", dir, s);
        assert_int_equal(pd_write_file_atomic(path, b.data, b.len, 0600, NULL), 0);
    }
    pd_buf_release(&b);
}

struct alloc_watch {
    int steps;
    unsigned long before, after; /* the range of the counted steps */
};

static int on_step(void *arg) {
    struct alloc_watch *w = arg;
    if (w->steps < BATCHES) /* the trainer asks once more after the pass */
        w->after = atomic_load(&n_allocs);
    if (w->steps++ == WARM)
        w->before = w->after;
    return 0;
}

static void train(const struct model *m, const char *threads) {
    char dir[] = "/tmp/test-allocs-XXXXXX", config[100], save[100], t[40], batch[40],
         local[] = "--local=1", streams[] = "--n_streams=2", passes[] = "--num_passes=1",
         saving[] = "--saving_period=0", readers[] = "--reader_threads=0";
    struct pd_options o;
    struct pd_err err = {0};
    struct pd_log log;
    struct alloc_watch w = {0};
    int n_rest = 0;
    assert_non_null(mkdtemp(dir));
    write_model(dir, m);
    snprintf(config, sizeof config, "--config=%s/train.ini", dir);
    snprintf(save, sizeof save, "--save_dir=%s/model", dir);
    snprintf(t, sizeof t, "--trainer_count=%s", threads);
    snprintf(batch, sizeof batch, "--batch_size=%d", BATCH);
    char *args[] = {config, save, t, readers, batch, local, streams, passes, saving, NULL};
    const char *rest[10];
    assert_int_equal(pd_options_init(&o, &err), 0);
    assert_int_equal(pd_options_args(&o, PD_TRAINER, 9, args, NULL, rest, &n_rest, &err), 0);
    FILE *out = tmpfile();
    assert_non_null(out);
    pd_log_init(&log, fileno(out), -1, PD_INFO);
    struct train_setup setup = {.options = &o,
                                .job_id = "",
                                .log = &log,
                                .out_fd = fileno(out),
                                .event_fd = -1,
                                .stop = on_step,
                                .stop_arg = &w};
    if (train_run(&setup, &err))
        fail_msg("%s: %s", m->name, err.msg);
    assert_true(w.steps >= BATCHES);
    if (w.after != w.before)
        fail_msg("%s, %s thread(s): %lu allocations in %d steps", m->name, threads,
                 w.after - w.before, BATCHES - 1 - WARM);
    fclose(out);
    pd_options_release(&o);
    pd_rm_tree(dir, NULL);
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        train(&models[i], "1");
        train(&models[i], "2");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
