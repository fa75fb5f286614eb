/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_prepare.c - `paddlectl prepare` and `paddlectl split` read the input as a text. Their
 * output files have as many lines as they report. A dictionary that was read is printed as it was,
 * except for the ends of its lines.
 *
 * Input: u8 flags (command, tokens, packing ...); the file. */
#include "data/prepare/dict.h"
#include "data/prepare/prepare.h"
#include "data/prepare/records.h"
#include "tests/support/fuzz/fuzz.h"

enum { SHARDS = 2 };

static uint64_t lines_of(const char *dir, const char *prefix) {
    uint64_t lines = 0;
    for (int i = 0; i < SHARDS; i++) {
        char path[PATH_MAX];
        struct pd_buf b = {0};
        pd_fmt(path, sizeof path, "%s/%s-%05d", dir, prefix, i);
        if (!pd_read_file(path, 1 << 26, &b, NULL))
            for (size_t k = 0; k < b.len; k++)
                lines += b.data[k] == '\n';
        pd_buf_release(&b);
    }
    return lines;
}

static void texts(const char *const *input, const char *out, unsigned flags) {
    struct pd_err err = {0};
    struct data_prepare_opts o;
    struct data_prepare_counts c = {0};
    char dir[PATH_MAX];
    data_prepare_defaults(&o);
    o.input = input;
    o.n_inputs = 1;
    o.out = out;
    o.shards = SHARDS;
    o.format = flags & 4 ? "wordnet" : "lines";
    o.tokens = flags & 8 ? "blanks" : "words";
    o.holdout = flags & 16 ? 2 : 0;
    o.drop_unknown = flags & 32;
    o.min_word_freq = flags & 64 ? 2 : 1;
    if (fuzz_rc(data_prepare(&o, &c, &err), &err))
        return;
    pd_fmt(dir, sizeof dir, "%s/train_data_dir", out);
    fuzz_check(lines_of(dir, "train.txt") == c.train_lines && c.vocabulary >= 3);
}

static void split(const char *const *input, const char *out, unsigned flags) {
    struct pd_err err = {0};
    struct data_split_opts o;
    struct data_split_counts c = {0};
    data_split_defaults(&o);
    o.input = input;
    o.n_inputs = 1;
    o.out = out;
    o.shards = SHARDS;
    o.header = flags & 4;
    o.shuffle = flags & 8;
    o.holdout = flags & 16 ? 2 : 0;
    if (!fuzz_rc(data_split(&o, &c, &err), &err) && !o.header)
        fuzz_check(lines_of(out, "train.txt") == c.lines - c.test_lines);
}

static void records(const char *const *input, const char *out, unsigned flags) {
    static const struct data_setting set[] = {
        {"", "format", "csv", 1},
        {"", "columns", "x y z", 2},
        {"", "fields", "x:dense y:category z:label", 3},
    };
    struct pd_err err = {0};
    struct data_schema *s;
    struct data_records_counts c = {0};
    char dir[PATH_MAX];
    int line;
    fuzz_check(!data_schema_make(&s, set, 3, 1000, 1, 2, &line, NULL));
    const struct data_records_opts o = {.input = input,
                                        .n_inputs = 1,
                                        .schema = s,
                                        .dir = ".",
                                        .out = out,
                                        .shards = SHARDS,
                                        .pack = "none",
                                        .max_bad_lines = 1 << 20,
                                        .holdout = flags & 16 ? 2 : 0,
                                        .holdout_last = flags & 32 && !(flags & 16),
                                        .encode = (enum data_encode)(flags >> 2 & 3) % 3,
                                        .min_count = flags & 64 ? 2 : 0};
    if (!fuzz_rc(data_records(&o, &c, &err), &err)) {
        pd_fmt(dir, sizeof dir, "%s/train_data_dir", out);
        fuzz_check(lines_of(dir, "train.txt") == c.train_lines);
    }
    data_schema_free(s);
}

static void dictionary(const char *const *input, const char *out, unsigned flags) {
    struct pd_err err = {0};
    struct data_dict *d = NULL;
    struct pd_buf file = {0}, text = {0};
    (void)out;
    (void)flags;
    fuzz_check(!pd_read_file(input[0], 1 << 20, &file, NULL));
    if (!fuzz_rc(data_dict_read(&d, input[0], &err), &err)) {
        fuzz_check(data_dict_id(d, "the", 3) < data_dict_size(d));
        data_dict_print(d, &text);
        fuzz_check(memchr(file.data, '\r', file.len) ||
                   (text.len >= file.len && !memcmp(text.data, file.data, file.len) &&
                    text.len <= file.len + 1));
        data_dict_print_counts(d, &text);
    }
    pd_buf_release(&file);
    pd_buf_release(&text);
    data_dict_free(d);
}

FUZZ(in) {
    static void (*const commands[])(const char *const *, const char *,
                                    unsigned) = {texts, split, records, dictionary};
    char out[PATH_MAX];
    const unsigned flags = fuzz_u8(in);
    const char *const input[] = {fuzz_file("input", in->p, fuzz_left(in))};
    pd_fmt(out, sizeof out, "%s/out", fuzz_folder());
    commands[flags & 3](input, out, flags);
    (void)pd_rm_tree(out, NULL);
}
