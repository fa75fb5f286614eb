/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_folder.c - the saved-model folder: complete or absent, intact or refused, the same
 * values for any number of parts. */
#include <setjmp.h>
#include <cmocka.h>

#include "model/model.h"

static char root[200];

static int setup(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/test_model.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return pd_rm_tree(root, NULL);
}

enum { N = 1000, DIM = 3, ROWS = 20 };

static float value(uint64_t i) { return (float)i * 0.25f - 7; }

/* Part i of n: a range of the values of "w", and the rows of "emb" whose key is i modulo n. */
static int write_part(const char *folder, uint32_t i, uint32_t n, struct model_part *part,
                      struct pd_err *err) {
    char file[40];
    uint64_t keys[ROWS], rows = 0, first = N * i / n, count = N * (i + 1) / n - first;
    float w[N], x[ROWS * DIM];
    snprintf(file, sizeof file, "part-%05u-of-%05u.bin", i, n);
    for (uint64_t k = 0; k < ROWS; k++)
        if (k % n == i) {
            for (uint64_t d = 0; d < DIM; d++)
                x[rows * DIM + d] = value(k * 1000 + d);
            keys[rows++] = k;
        }
    for (uint64_t k = 0; k < count; k++)
        w[k] = value(first + k);
    struct model_entry e[2] = {
        {.name = "w", .kind = MODEL_DENSE, .dim = 1, .first = first, .count = count},
        {.name = "emb", .kind = MODEL_TABLE, .dim = DIM, .count = rows}};
    struct model_writer *wr = NULL;
    int rc = model_writer_new(&wr, folder, file, e, 2, err);
    if (rc)
        return rc;
    if (!rc && count)
        rc = model_writer_put(wr, w, 4, err); /* in pieces of any size */
    if (!rc && count)
        rc = model_writer_put(wr, w + 1, (count - 1) * 4, err);
    if (!rc)
        rc = model_writer_put(wr, keys, rows * 8, err);
    if (!rc)
        rc = model_writer_put(wr, x, rows * DIM * 4, err);
    if (rc) {
        model_writer_abort(wr);
        return rc;
    }
    return model_writer_end(wr, part, err);
}

static int manifest(uint32_t n, const struct model_part *parts, struct pd_buf *out,
                    struct pd_err *err) {
    struct model_param p[2] = {
        {.name = "w", .kind = MODEL_DENSE, .n_dims = 2, .shape = {10, N / 10}},
        {.name = "emb", .kind = MODEL_TABLE, .dim = DIM, .rows = ROWS, .n_rows = ROWS}};
    struct model_manifest m = {.step = 12,
                               .pass = 1,
                               .params = p,
                               .n_params = 2,
                               .parts = (struct model_part *)(uintptr_t)parts,
                               .n_parts = n,
                               .config = (char *)(uintptr_t) "[data]\nfields = \"a\"\n"};
    return model_manifest_write(&m, out, err);
}

/* Saves n parts, in one shared folder or in one folder each. */
static int save(const char *name, uint32_t n, int private, struct pd_err *err) {
    struct model_part parts[8];
    char dir[300], staged[PATH_MAX];
    int rc = 0;
    struct pd_buf text;
    pd_buf_init(&text);
    for (uint32_t i = 0; i < n && !rc; i++) {
        snprintf(dir, sizeof dir, "%s%s%.0u", root, private ? "/own" : "", private ? i + 1 : 0);
        rc = model_make_staging(dir, name, 99, staged, err);
        if (!rc)
            rc = write_part(staged, i, n, &parts[i], err);
    }
    if (!rc)
        rc = manifest(n, parts, &text, err);
    for (uint32_t i = 0; i < n && !rc;
         i++) { /* every server commits; servers that share the folder find it done */
        snprintf(dir, sizeof dir, "%s%s%.0u", root, private ? "/own" : "", private ? i + 1 : 0);
        rc = model_commit(dir, name, 99, text.data, text.len, err);
    }
    pd_buf_release(&text);
    return rc;
}

static int check_row(void *arg, uint64_t key, const float *row, const float *state, uint32_t width,
                     struct pd_err *err) {
    uint64_t *seen = arg;
    (void)state;
    (void)width;
    if (key >= ROWS || *seen & UINT64_C(1) << key)
        return pd_fail(err, PD_EDATA, "key %llu", (unsigned long long)key);
    *seen |= UINT64_C(1) << key;
    for (uint64_t d = 0; d < DIM; d++)
        if (row[d] != value(key * 1000 + d))
            return pd_fail(err, PD_EDATA, "row %llu", (unsigned long long)key);
    return 0;
}

/* 0 when the folder is the model that save() writes. */
static int check(const char *folder, struct pd_err *err) {
    struct model *m = NULL;
    float w[N];
    uint64_t seen = 0;
    int rc = model_open(&m, folder, err);
    if (!rc)
        rc = model_verify(m, err);
    if (!rc)
        rc = model_read_dense(m, "w", 0, N, w, err);
    for (uint64_t i = 0; i < N && !rc; i++)
        if (w[i] != value(i))
            rc = pd_fail(err, PD_EDATA, "value %llu", (unsigned long long)i);
    if (!rc)
        rc = model_read_dense(m, "w", 333, 5, w, err);
    if (!rc && w[4] != value(337))
        rc = pd_fail(err, PD_EDATA, "a piece");
    if (!rc)
        rc = model_each_state(m, "emb", check_row, &seen, err);
    if (!rc && seen != (UINT64_C(1) << ROWS) - 1)
        rc = pd_fail(err, PD_EDATA, "rows are missing");
    if (!rc &&
        (model_info(m)->step != 12 || strcmp(model_info(m)->config, "[data]\nfields = \"a\"\n")))
        rc = pd_fail(err, PD_EDATA, "the manifest");
    model_close(m);
    return rc;
}

static int entries(const char *dir) { /* number of entries of a folder, hidden ones included */
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void test_any_number_of_parts(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 7; n += 2) {
        struct pd_err err = {0};
        char path[300];
        snprintf(path, sizeof path, "%s/m", root);
        if (save("m", n, 0, &err) || check(path, &err))
            fail_msg("%u parts: %s", n, err.msg);
        assert_int_equal(entries(path), (int)n + 1);
        /* no temporary folder is left, and the older model is gone */
        assert_int_equal(entries(root), 1);
    }
}

static void test_private_folders_are_merged(void **state) {
    (void)state;
    struct pd_err err = {0};
    char a[360], b[360], merged[300];
    assert_int_equal(save("m", 2, 1, &err), 0);
    snprintf(merged, sizeof merged, "%s/own1/m", root);
    assert_int_equal(check(merged, &err), PD_ENOENT); /* one part is in another folder */
    assert_non_null(strstr(err.msg, "part-00001-of-00002.bin is missing"));
    snprintf(a, sizeof a, "%s/own2/m/part-00001-of-00002.bin", root);
    snprintf(b, sizeof b, "%s/part-00001-of-00002.bin", merged);
    assert_int_equal(rename(a, b), 0);
    pd_err_clear(&err);
    if (check(merged, &err))
        fail_msg("%s", err.msg);
}

static void test_a_save_that_breaks_leaves_the_old_model(void **state) {
    (void)state;
    static const char *const faults[] = {"model.write:1", "model.write:2", "model.commit:1"};
    struct pd_err err = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/m", root);
    for (size_t i = 0; i < 3; i++) { /* no folder yet: none appears */
        pd_fault_arm(faults[i]);
        assert_true(save("m", 3, 0, &err) < 0);
        pd_fault_arm(NULL);
        assert_true(access(path, F_OK) != 0);
        pd_err_clear(&err);
    }
    assert_int_equal(save("m", 2, 0, &err), 0);
    for (size_t i = 0; i < 3; i++) {
        pd_fault_arm(faults[i]);
        assert_true(save("m", 3, 0, &err) < 0);
        pd_fault_arm(NULL);
        pd_err_clear(&err);
        if (check(path, &err))
            fail_msg("after %s: %s", faults[i], err.msg);
    }
    char stale[300];
    snprintf(stale, sizeof stale, "%s/.m.tmp-00000000000000aa",
             root); /* left by a run that was killed */
    assert_int_equal(mkdir(stale, 0755), 0);
    assert_int_equal(save("m", 3, 0, &err), 0);
    assert_int_equal(check(path, &err), 0);
    assert_int_equal(entries(root), 1);
}

static void test_identical_saves_have_identical_bytes(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct pd_buf a, b;
    static const char *const files[] = {"manifest.json", "part-00000-of-00002.bin",
                                        "part-00001-of-00002.bin"};
    assert_int_equal(save("m1", 2, 0, &err), 0);
    assert_int_equal(save("m2", 2, 0, &err), 0);
    for (int i = 0; i < 3; i++) {
        char p[300], q[300];
        pd_buf_init(&a);
        pd_buf_init(&b);
        snprintf(p, sizeof p, "%s/m1/%s", root, files[i]);
        snprintf(q, sizeof q, "%s/m2/%s", root, files[i]);
        assert_int_equal(pd_read_file(p, 1 << 20, &a, &err), 0);
        assert_int_equal(pd_read_file(q, 1 << 20, &b, &err), 0);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        pd_buf_release(&a);
        pd_buf_release(&b);
    }
}

/* Writes `total` bytes of the sections in order, by model_writer_put or in place, in pieces of odd
 * sizes. */
static void write_bytes(struct model_writer *wr, const uint8_t *bytes, size_t total, int in_place) {
    struct pd_err err = {0};
    size_t room;
    void *to;
    for (size_t at = 0, k; at < total; at += k) {
        k = at * 7919 % 300007 + 1;
        k = k < total - at ? k : total - at;
        if (in_place) {
            assert_int_equal(model_writer_room(wr, &to, &room, &err), 0);
            assert_true(room > 0);
            k = k < room ? k : room;
            memcpy(to, bytes + at, k);
            assert_int_equal(model_writer_filled(wr, k, &err), 0);
        } else {
            assert_int_equal(model_writer_put(wr, bytes + at, k, &err), 0);
        }
    }
    assert_int_equal(model_writer_room(wr, &to, &room, &err), PD_EFAIL);
    assert_non_null(strstr(err.msg, "more bytes than announced"));
}

static void test_bytes_written_in_place(void **state) {
    (void)state;
    enum { LONG = 100001, SHORT = 7 };
    const struct model_entry e[] = {
        {.name = "long", .kind = MODEL_TABLE, .dim = 5, .count = LONG, .state_width = 3},
        {.name = "none", .kind = MODEL_TABLE, .dim = 5},
        {.name = "short", .kind = MODEL_TABLE, .dim = 1, .count = SHORT}};
    const size_t total = (size_t)LONG * (8 + 4 * 8) + SHORT * (8 + 4);
    uint8_t *bytes = malloc(total);
    struct model_part part[2];
    for (size_t i = 0; i < total; i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    for (int in_place = 0; in_place < 2; in_place++) {
        struct pd_err err = {0};
        struct model_writer *wr;
        assert_int_equal(model_writer_new(&wr, root, in_place ? "a.bin" : "b.bin", e, 3, &err), 0);
        write_bytes(wr, bytes, total, in_place);
        assert_int_equal(model_writer_end(wr, &part[in_place], &err), 0);
    }
    assert_true(part[0].bytes > total && part[0].bytes == part[1].bytes);
    assert_memory_equal(part[0].hash, part[1].hash, sizeof part[0].hash);
    free(bytes);
}

static void flip(const char *path, off_t at) {
    int fd = open(path, O_RDWR);
    char c;
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 4;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void test_damage_is_found(void **state) {
    (void)state;
    struct pd_err err = {0};
    char folder[300], part[360];
    struct stat st;
    assert_int_equal(save("m", 1, 0, &err), 0);
    snprintf(folder, sizeof folder, "%s/m", root);
    snprintf(part, sizeof part, "%s/part-00000-of-00001.bin", folder);
    assert_int_equal(stat(part, &st), 0);
    for (off_t at = 0; at < st.st_size; at += 13) {
        flip(part, at);
        pd_err_clear(&err);
        assert_int_equal(check(folder, &err), PD_EDATA);
        assert_non_null(strstr(err.msg, "is damaged"));
        flip(part, at);
    }
    pd_err_clear(&err);
    assert_int_equal(check(folder, &err), 0);
    assert_int_equal(truncate(part, st.st_size - 64), 0);
    assert_int_equal(check(folder, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "bytes instead of"));
}

/* A malicious manifest or part: every byte of both is changed, with checksums that fit. */
static void test_hostile_parts(void **state) {
    (void)state;
    struct pd_err err = {0};
    char folder[300];
    struct model_part part;
    assert_int_equal(save("m", 1, 0, &err), 0);
    snprintf(folder, sizeof folder, "%s/m", root);
    char path[360], mpath[360];
    snprintf(path, sizeof path, "%s/part-00000-of-00001.bin", folder);
    snprintf(mpath, sizeof mpath, "%s/manifest.json", folder);
    struct pd_buf orig;
    pd_buf_init(&orig);
    assert_int_equal(pd_read_file(path, 1 << 20, &orig, &err), 0);
    for (size_t at = 0; at < 64 + 2 * 192; at++)
        for (int v = 0; v < 2; v++) {
            uint8_t was = orig.data[at];
            orig.data[at] = v ? 0xff : (uint8_t)(was ^ 1);
            assert_int_equal(pd_write_file_atomic(path, orig.data, orig.len, 0644, &err), 0);
            model_hash(orig.data, orig.len, part.hash);
            snprintf(part.file, sizeof part.file, "part-00000-of-00001.bin");
            part.bytes = orig.len;
            part.rows = ROWS;
            struct pd_buf text;
            pd_buf_init(&text);
            assert_int_equal(manifest(1, &part, &text, &err), 0);
            assert_int_equal(pd_write_file_atomic(mpath, text.data, text.len, 0644, &err), 0);
            pd_buf_release(&text);
            pd_err_clear(&err);
            (void)check(folder, &err); /* any values, but inside the file: the sanitizers watch */
            orig.data[at] = was;
            pd_err_clear(&err);
        }
    pd_buf_release(&orig);
}

/* The second part claims the values of the first, with checksums that fit. The number of values is
 * right, but half of them are in no part. An earlier version accepted that and returned
 * uninitialized memory. */
static void test_parts_that_overlap_are_not_whole(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct model_part part[2] = {0};
    char folder[300], path[700], mpath[700];
    struct pd_buf b, text;
    const uint64_t zero = 0;
    assert_int_equal(save("m", 2, 0, &err), 0);
    snprintf(folder, sizeof folder, "%s/m", root);
    snprintf(mpath, sizeof mpath, "%s/manifest.json", folder);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(part[i].file, sizeof part[i].file, "part-%05u-of-00002.bin", i);
        snprintf(path, sizeof path, "%s/%s", folder, part[i].file);
        pd_buf_init(&b);
        assert_int_equal(pd_read_file(path, 1 << 20, &b, &err), 0);
        if (i) { /* its first entry is 'w': name, kind, dim, first */
            assert_memory_not_equal(b.data + 64 + 136, &zero, sizeof zero);
            memcpy(b.data + 64 + 136, &zero, sizeof zero);
            assert_int_equal(pd_write_file_atomic(path, b.data, b.len, 0644, &err), 0);
        }
        model_hash(b.data, b.len, part[i].hash);
        part[i].bytes = b.len;
        part[i].rows = ROWS / 2;
        pd_buf_release(&b);
    }
    pd_buf_init(&text);
    assert_int_equal(manifest(2, part, &text, &err), 0);
    assert_int_equal(pd_write_file_atomic(mpath, text.data, text.len, 0644, &err), 0);
    pd_buf_release(&text);
    assert_int_equal(check(folder, &err), PD_EDATA);
    char says[100];
    snprintf(says, sizeof says, "the parts hold %d of %d values of 'w'", N / 2, N);
    if (!strstr(err.msg, says))
        fail_msg("%s", err.msg);
}

static void test_hostile_manifests(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want;
    } row[] = {
        {"not JSON", "{", "line 1"},
        {"other format", "{\"format\": \"x\", \"version\": 1}", "not the manifest"},
        {"later version", "{\"format\": \"paddle-model\", \"version\": 2}", "version 2"},
        {"incomplete", "{\"format\": \"paddle-model\", \"version\": 1, \"step\": 1}", "lacks"},
        {"path in a part",
         "{\"format\": \"paddle-model\", \"version\": 1, \"step\": 1, \"pass\": 0, \"config\": "
         "\"\", \"parameters\": [], "
         "\"parts\": [{\"file\": \"../x\", \"bytes\": 1, \"rows\": 0, \"xxh3_128\": "
         "\"00000000000000000000000000000000\"}]}",
         "part 0 is malformed"},
        {"negative shape",
         "{\"format\": \"paddle-model\", \"version\": 1, \"step\": 1, \"pass\": 0, \"config\": "
         "\"\", \"parts\": [], "
         "\"parameters\": [{\"name\": \"a\", \"kind\": \"dense\", \"shape\": [-1]}]}",
         "parameter 0 is malformed"},
        {"shape overflow",
         "{\"format\": \"paddle-model\", \"version\": 1, \"step\": 1, \"pass\": 0, \"config\": "
         "\"\", \"parts\": [], "
         "\"parameters\": [{\"name\": \"a\", \"kind\": \"dense\", \"shape\": [4294967296, "
         "4294967296, 16]}]}",
         "parameter 0 is malformed"},
        {"best pass",
         "{\"format\": \"paddle-model\", \"version\": 1, \"step\": 1, \"pass\": 0, \"config\": "
         "\"\", \"parts\": [], \"parameters\": [], \"best\": {\"metric\": \"test.auc\", "
         "\"value\": \"1\", \"pass\": 0}}",
         "best is malformed"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct model_manifest m;
        struct pd_err err = {0};
        int rc = model_manifest_parse(&m, row[i].text, strlen(row[i].text), &err);
        if (rc != PD_EDATA || !strstr(err.msg, row[i].want))
            fail_msg("%s: %d '%s'", row[i].name, rc, err.msg);
    }
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    char folder[300];
    snprintf(folder, sizeof folder, "%s/m", root);
    int rc = -1;
    for (int n = 1; n < 60; n++) {
        struct pd_err err = {0};
        char spec[32];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        rc = save("m", 2, 0, &err);
        if (!rc)
            rc = check(folder, &err);
        pd_fault_arm(NULL);
        if (rc && rc != PD_ENOMEM)
            fail_msg("allocation %d: %s", n, err.msg);
    }
    assert_int_equal(rc, 0);
}

static void test_names_stay_inside(void **state) {
    (void)state;
    static const char *const bad[] = {"", ".", "..", ".x", "a/b", "/a"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pd_err err = {0};
        assert_int_equal(model_make_staging(root, bad[i], 1, path, &err), PD_EUSAGE);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_any_number_of_parts),
        T(test_private_folders_are_merged),
        T(test_a_save_that_breaks_leaves_the_old_model),
        T(test_identical_saves_have_identical_bytes),
        T(test_bytes_written_in_place),
        T(test_damage_is_found),
        T(test_hostile_parts),
        T(test_parts_that_overlap_are_not_whole),
        T(test_hostile_manifests),
        T(test_every_allocation_may_fail),
        T(test_names_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
