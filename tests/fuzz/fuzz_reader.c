/* fuzz_reader.c - any bytes as a data file: read to the end in every format, plain or packed, and
 * again from a position in the middle, which must give what followed. The first byte chooses format
 * and buffer. */
#include <sys/mman.h>

#include "data/read/reader.h"

static const char *const schemas[][3] = {
    {"ids", "a b", ""},
    {"ngram", "a b c", ""},
    {"skipgram", "center context", ""},
    {"cbow", "center context:list", ""},
    {"csv", "x:dense y:category z:label", "x y z"},
    {"tsv", "x:list y:categories", "x y"},
    {"criteo", NULL, NULL},
    {"movielens", NULL, NULL},
    {"libsvm", NULL, NULL},
    {"csv", "x:id", NULL}, /* the header names the columns */
};
enum { N_SCHEMAS = sizeof schemas / sizeof schemas[0] };

static struct data_schema *make(unsigned k) {
    struct data_setting set[4];
    struct data_schema *s;
    int line, n = 0;
    set[n++] = (struct data_setting){"", "format", schemas[k][0], 1};
    if (schemas[k][1])
        set[n++] = (struct data_setting){"", "fields", schemas[k][1], 2};
    if (schemas[k][2] && *schemas[k][2])
        set[n++] = (struct data_setting){"", "columns", schemas[k][2], 3};
    if (k == N_SCHEMAS - 1)
        set[n++] = (struct data_setting){"", "header", "true", 3};
    int rc = data_schema_make(&s, set, (size_t)n, 1000, 1, 2, &line, NULL);
    assert(!rc);
    return s;
}

static void batch(struct pd_batch *b, const struct data_schema *s, uint32_t cap) {
    struct pd_field f[PD_MAX_FIELDS];
    for (uint32_t k = 0; k < s->n_fields; k++)
        f[k] = s->field[k].batch;
    if (pd_batch_init(b, f, s->n_fields, cap))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[40];
    struct data_files files = {0};
    struct data_reader *r = NULL, *other = NULL;
    struct pd_batch a, b;
    struct data_pos pos;
    if (size < 1 || size > 100000)
        return 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)size - 1)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct data_schema *s = make(data[0] % N_SCHEMAS);
    struct data_spec spec = {.schema = s,
                             .max_bad_lines = data[0] & 64 ? 1u << 20 : 2,
                             .shuffle_buffer = data[0] & 128 ? 5 : 0};
    if (data_files_add(&files, path))
        abort();
    if (!data_reader_new(&r, &spec, ".", &files, 0, 1, NULL) &&
        !data_reader_new(&other, &spec, ".", &files, 0, 1, NULL)) {
        batch(&a, s, 7);
        batch(&b, s, 7);
        int n, m;
        for (int step = 0; (data_reader_tell(r, &pos), n = data_reader_next(r, 7, &a, NULL)) > 0;
             step++) {
            if (step % 3 == 0) {
                int rc = data_reader_seek(other, &pos, NULL);
                assert(!rc);
                m = data_reader_next(other, 7, &b, NULL);
                assert(m == n && !memcmp(a.index, b.index, (size_t)n * sizeof *a.index));
                for (uint32_t k = 0; k < s->n_fields; k++)
                    assert(!a.ids[k] ||
                           !memcmp(a.ids[k], b.ids[k],
                                   (a.offset[k] ? a.offset[k][n] : (size_t)n) * sizeof **a.ids));
            }
            pd_batch_clear(&a);
            pd_batch_clear(&b);
        }
        pd_batch_release(&a);
        pd_batch_release(&b);
    }
    data_reader_free(r);
    data_reader_free(other);
    data_files_release(&files);
    data_schema_free(s);
    close(fd);
    return 0;
}
