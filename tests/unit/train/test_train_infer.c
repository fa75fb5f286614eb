/* SPDX-License-Identifier: Apache-2.0 */
/* test_train_infer.c - inference with a table of half a gigabyte. The process needs only a fraction
 * of that memory, because rows are read in the mapped file. The model is built by hand as model.h
 * describes; its values are a hole in the file. */
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>

#include "model/model.h"
#include "train/infer/infer.h"
#include "tests/support/c/skip.h"

enum {
    ROWS = 1 << 21,
    DIM = 64,
    SAMPLES = 20000,
    SPECIAL = 101
}; /* the distance between rows that are not zero */
static const uint64_t TABLE_BYTES = (uint64_t)ROWS * DIM * sizeof(float);

static char dir[] = "/tmp/test-infer-XXXXXX";

static const char *path_of(const char *name) {
    static char path[2][200];
    static int k;
    k = !k;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

static uint64_t align(uint64_t n) { return (n + 63) / 64 * 64; }

static void put_entry(struct pd_buf *b, const char *name, uint32_t kind, uint32_t dim,
                      uint64_t count, uint64_t keys, uint64_t values) {
    char padded[128] = "", rest[12] = "";
    snprintf(padded, sizeof padded, "%s", name);
    pd_put(b, padded, sizeof padded);
    pd_put_u32(b, kind);
    pd_put_u32(b, dim);
    pd_put_u64(b, 0);
    pd_put_u64(b, count);
    pd_put_u64(b, keys);
    pd_put_u64(b, values);
    pd_put_u64(b, 0);
    pd_put_u32(b, 0);
    pd_put(b, rest, sizeof rest);
}

/* Table "emb" has keys 0, 2, 4, ... and rows of zeros. If SPECIAL divides i, row i begins with 2.
 * "p.w" is all ones, "p.b" is 0. */
static uint64_t write_part(const char *file) {
    const uint64_t keys = 64 + 3 * 192, values = align(keys + 8ull * ROWS),
                   w = align(values + TABLE_BYTES), bias = align(w + 4 * DIM),
                   end = align(bias + 4);
    uint64_t *key = calloc(ROWS, sizeof *key);
    float ones[DIM];
    const float two = 2;
    struct pd_buf b;
    pd_buf_init(&b);
    pd_put(&b, "PDMODEL1", 8);
    pd_put_u32(&b, 1);
    pd_put_u32(&b, 0);
    pd_put_u32(&b, 3);
    pd_put_u32(&b, 0);
    pd_put_u64(&b, end);
    for (int i = 0; i < 32; i++)
        pd_put_u8(&b, 0);
    put_entry(&b, "emb", MODEL_TABLE, DIM, ROWS, keys, values);
    put_entry(&b, "p.w", MODEL_DENSE, 1, DIM, 0, w);
    put_entry(&b, "p.b", MODEL_DENSE, 1, 1, 0, bias);
    assert_int_equal(b.len, keys);
    for (int i = 0; i < DIM; i++)
        ones[i] = 1;
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && key);
    for (uint64_t i = 0; i < ROWS; i++)
        key[i] = 2 * i;
    assert_int_equal(pwrite(fd, b.data, b.len, 0), b.len);
    assert_int_equal(pwrite(fd, key, 8ull * ROWS, (off_t)keys), 8ull * ROWS);
    assert_int_equal(pwrite(fd, ones, sizeof ones, (off_t)w), sizeof ones);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(pwrite(fd, &two, 4, (off_t)(values + i * SPECIAL * DIM * 4)), 4);
    assert_int_equal(ftruncate(fd, (off_t)end), 0);
    close(fd);
    free(key);
    pd_buf_release(&b);
    return end;
}

static void write_model(void) {
    char config[] =
        "[data]\nformat = ids\nfields = x y\nvocabulary = 4194304\n[field y]\nvocabulary = 2\n"
        "[layer e]\ntype = embedding\ninputs = x\nsize = 64\nsparse_update = true\nparam = emb\n"
        "[layer p]\ntype = fc\ninputs = e\nsize = 1\nact = sigmoid\n"
        "[cost c]\ntype = binary_cross_entropy\ninput = p\nlabel = y\n[optimizer]\ntype = "
        "sgd\nlearning_rate = 1\n";
    struct model_param p[3] = {{.name = "emb",
                                .kind = MODEL_TABLE,
                                .dim = DIM,
                                .rows = ROWS,
                                .n_rows = 2 * (uint64_t)ROWS},
                               {.name = "p.w", .kind = MODEL_DENSE, .n_dims = 1, .shape = {DIM}},
                               {.name = "p.b", .kind = MODEL_DENSE, .n_dims = 1, .shape = {1}}};
    struct model_part part = {
        .file = "all.bin", .bytes = write_part(path_of("all.bin")), .rows = ROWS};
    struct model_manifest m = {
        .params = p, .n_params = 3, .parts = &part, .n_parts = 1, .config = config};
    struct pd_buf b;
    pd_buf_init(&b);
    assert_int_equal(model_manifest_write(&m, &b, NULL), 0);
    assert_int_equal(pd_write_file_quick(path_of("manifest.json"), b.data, b.len, 0600, NULL), 0);
    pd_buf_release(&b);
}

/* The id of sample i. The ids are spread over the table; half of them have no row, and some rows
 * are special. */
static uint64_t id_of(uint64_t i) {
    return i % 10 ? i * 2654435761u % (2 * (uint64_t)ROWS) : 2 * SPECIAL * (i / 10 % 100);
}

static double want(uint64_t i) {
    uint64_t id = id_of(i);
    return id % (2 * SPECIAL) == 0 && id / (2 * SPECIAL) < 100 ? 1 / (1 + exp(-2)) : 0.5;
}

static uint64_t rss_anon(void) {
    char line[200];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "RssAnon: %llu", &kb);
    if (f)
        fclose(f);
    return kb * 1024;
}

struct reading { /* reads the output of inference while it runs */
    int fd;
    uint64_t lines, wrong, most;
};

static void *read_scores(void *arg) {
    struct reading *r = arg;
    FILE *f = fdopen(r->fd, "r");
    char line[100];
    while (f && fgets(line, sizeof line, f)) {
        r->wrong += !(fabs(strtod(line, NULL) - want(r->lines)) < 1e-6);
        if (r->lines++ % 1000 == 0) {
            uint64_t now = rss_anon();
            r->most = now > r->most ? now : r->most;
        }
    }
    if (f)
        fclose(f);
    return NULL;
}

static void a_large_table_is_not_loaded(void **state) {
    (void)state;
    struct pd_buf b;
    struct pd_err err = {0};
    pthread_t thread;
    int fd[2];
    uint64_t n;
    write_model();
    pd_buf_init(&b);
    for (uint64_t i = 0; i < SAMPLES; i++)
        pd_put_fmt(&b, "%llu %u\n", (unsigned long long)id_of(i), (unsigned)(i % 2));
    assert_int_equal(pd_write_file_quick(path_of("data"), b.data, b.len, 0600, NULL), 0);
    pd_buf_release(&b);
    assert_int_equal(pipe(fd), 0);
    struct reading r = {.fd = fd[0]};
    const struct train_infer x = {.model = dir,
                                  .data = path_of("data"),
                                  .workspace = dir,
                                  .batch_size = 256,
                                  .trust = 1,
                                  .out_fd = fd[1]};
    const uint64_t before = rss_anon();
    if (!before)
        SKIP("this kernel does not tell how much memory a process has");
    assert_int_equal(pthread_create(&thread, NULL, read_scores, &r), 0);
    int rc = train_infer(&x, &n, &err);
    close(fd[1]);
    pthread_join(thread, NULL);
    if (rc)
        fail_msg("%s", err.msg);
    assert_int_equal(n, SAMPLES);
    assert_int_equal(r.lines, SAMPLES);
    assert_int_equal(r.wrong, 0);
    print_message("   %llu MB of its own, of a table of %llu MB\n",
                  (unsigned long long)((r.most - before) >> 20),
                  (unsigned long long)(TABLE_BYTES >> 20));
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* their own memory grows with the memory that is read */
    assert_true(r.most < before + TABLE_BYTES / 8);
#endif
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_table_is_not_loaded)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
