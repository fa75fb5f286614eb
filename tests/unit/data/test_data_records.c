/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_records.c - files of samples prepared for training. The trainer reads the same samples
 * from them as from the originals. tests/integration/data/prepare.sh tests the command line, and
 * compares with Python. */
#include <setjmp.h>

#include <cmocka.h>

#include "data/read/reader.h"
#include "data/prepare/records.h"

static char dir[] = "/tmp/test-records-XXXXXX";
static char in[64], out[64];
static const char *const input[] = {in};

static void put(const char *text) {
    assert_int_equal(pd_write_file_atomic(in, text, strlen(text), 0600, NULL), 0);
}

static struct data_schema *schema(const char *fields, const char *vocabulary) {
    const struct data_setting set[] = {
        {"", "format", "csv", 1},           {"", "columns", "a b n", 1},
        {"", "fields", fields, 1},          {"a", "vocabulary", vocabulary, 1},
        {"b", "vocabulary", vocabulary, 1}, {"b", "salt", "a", 1}};
    struct data_schema *s;
    struct pd_err err = {0};
    int line;
    if (data_schema_make(&s, set, strstr(fields, "category") ? 6 : 5, 0, 0, 0, &line, &err))
        fail_msg("%s", err.msg);
    return s;
}

/* Reads the ids of all samples in the shards that match `pattern`. Returns the number of samples.
 */
static uint32_t read_ids(const struct data_schema *s, const char *pattern, uint64_t ids[][2]) {
    struct data_spec spec = {.schema = s};
    struct data_files files = {0};
    struct data_reader *r;
    struct pd_batch b;
    struct pd_field f[3];
    struct pd_err err = {0};
    for (uint32_t k = 0; k < 3; k++)
        f[k] = s->field[k].batch;
    if (data_files_expand(&files, dir, pattern, &err) ||
        data_reader_new(&r, &spec, dir, &files, 0, 1, &err) || pd_batch_init(&b, f, 3, 64) ||
        data_reader_next(r, 64, &b, &err) < 0)
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < b.n; i++) {
        ids[i][0] = b.ids[0][i];
        ids[i][1] = b.ids[1][i];
    }
    uint32_t n = b.n;
    pd_batch_release(&b);
    data_reader_free(r);
    data_files_release(&files);
    return n;
}

/* The hashes in the shards are the ids that a reader computes from the texts, for every vocabulary.
 * A salt may be shared. */
static void hashes_are_the_readers(void **state) {
    (void)state;
    static const char *const vocabulary[] = {"0", "97"};
    put("x,y,1\ny,x,2\n\"q,\"\"\",,3\nx,x,4\n");
    for (int v = 0; v < 2; v++) {
        struct data_schema *text = schema("a:category b:category n:dense", vocabulary[v]),
                           *number = schema("a:id b:id n:dense", vocabulary[v]);
        struct data_records_opts o = {.input = input,
                                      .n_inputs = 1,
                                      .schema = text,
                                      .dir = ".",
                                      .out = out,
                                      .shards = 1,
                                      .pack = "none",
                                      .encode = DATA_ENCODE_HASH,
                                      .buckets = v ? 97 : 0};
        struct data_records_counts c;
        struct pd_err err = {0};
        uint64_t want[64][2], got[64][2];
        if (data_records(&o, &c, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(c.train_lines, 4);
        assert_int_equal(read_ids(text, "in", want), 4);
        assert_int_equal(read_ids(number, "out/train_data_dir/train.txt-00000", got), 4);
        assert_memory_equal(got, want, 4 * sizeof *want);
        assert_int_equal(got[0][0], got[1][1]);
        data_schema_free(text);
        data_schema_free(number);
    }
}

/* Columns with one salt share a dictionary, too. */
static void columns_with_one_salt_share_numbers(void **state) {
    (void)state;
    struct data_schema *text = schema("a:category b:category n:dense", "0"),
                       *number = schema("a:id b:id n:dense", "4");
    struct data_records_opts o = {.input = input,
                                  .n_inputs = 1,
                                  .schema = text,
                                  .dir = ".",
                                  .out = out,
                                  .shards = 1,
                                  .pack = "none",
                                  .encode = DATA_ENCODE_INDEX,
                                  .min_count = 2,
                                  .holdout = 4};
    struct data_records_counts c;
    struct pd_err err = {0};
    static const uint64_t want[][2] = {{1, 2}, {2, 1}, {1, 1}, {0, 0}};
    uint64_t got[64][2];
    put("x,y,1\ny,x,2\nx,x,3\nz,z,4\nw,v,5\n"); /* z is only in the held-out lines */
    if (data_records(&o, &c, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(c.categories, 2);
    assert_int_equal(read_ids(number, "out/train_data_dir/train.txt-00000", got), 4);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(read_ids(number, "out/test_data_dir/test.txt-00000", got), 1);
    assert_int_equal(got[0][0], 0);
    char path[100];
    snprintf(path, sizeof path, "%s/vocabulary/a.tsv", out);
    assert_int_equal(access(path, R_OK), 0);
    snprintf(path, sizeof path, "%s/vocabulary/b.tsv", out);
    assert_int_not_equal(access(path, R_OK), 0);
    data_schema_free(text);
    data_schema_free(number);
}

static void a_column_of_two_fields_is_not_rewritten(void **state) {
    (void)state;
    const struct data_setting set[] = {{"", "format", "csv", 1},
                                       {"", "columns", "a", 1},
                                       {"", "fields", "n:dense c:category", 1},
                                       {"n", "columns", "a", 1},
                                       {"c", "columns", "a", 1}};
    struct data_schema *s;
    struct data_records_counts c;
    struct pd_err err = {0};
    int line;
    assert_int_equal(data_schema_make(&s, set, 5, 0, 0, 0, &line, &err), 0);
    struct data_records_opts o = {.input = input,
                                  .n_inputs = 1,
                                  .schema = s,
                                  .dir = ".",
                                  .out = out,
                                  .shards = 1,
                                  .pack = "none",
                                  .min_count = 2};
    put("1\n2\n");
    assert_int_equal(data_records(&o, &c, &err), PD_EUSAGE);
    assert_non_null(strstr(err.msg, "column 'a' is a category and also belongs to another field"));
    o.min_count = 1; /* with these options there is no conflict */
    err.code = 0;
    assert_int_equal(data_records(&o, &c, &err), 0);
    data_schema_free(s);
}

static void every_failed_allocation_and_write_is_reported(void **state) {
    (void)state;
    struct data_schema *s = schema("a:category b:category n:dense", "0");
    static const char *const what[] = {"alloc", "shards.write"};
    put("x,y,1\ny,x,2\nx,x,3\nz,z,4\n");
    for (int w = 0; w < 2; w++)
        for (int n = 1;; n++) {
            struct data_records_opts o = {.input = input,
                                          .n_inputs = 1,
                                          .schema = s,
                                          .dir = ".",
                                          .out = out,
                                          .shards = 2,
                                          .pack = "none",
                                          .encode = DATA_ENCODE_INDEX,
                                          .min_count = 2,
                                          .holdout = 2,
                                          .shuffle = 1};
            struct data_records_counts c;
            struct pd_err err = {0};
            char arm[32];
            snprintf(arm, sizeof arm, "%s:%d", what[w], n);
            pd_fault_arm(arm);
            int rc = data_records(&o, &c, &err);
            pd_fault_arm(NULL);
            if (!rc) {
                assert_true(n > (w ? 3 : 20));
                break;
            }
            if (rc != (w ? PD_ENOSPC : PD_ENOMEM) || err.code != rc)
                fail_msg("%s: %d '%s'", arm, rc, err.msg);
        }
    data_schema_free(s);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(in, sizeof in, "%s/in", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_the_readers),
        cmocka_unit_test(columns_with_one_salt_share_numbers),
        cmocka_unit_test(a_column_of_two_fields_is_not_rewritten),
        cmocka_unit_test(every_failed_allocation_and_write_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
