/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_prepare.c - tokens, dictionary, shards, and the counts on WordNet's glosses (skipped
 * without them). */
#include <setjmp.h>

#include <cmocka.h>

#include "data/prepare/dict.h"
#include "data/input/lines.h"
#include "data/prepare/prepare.h"
#include "data/prepare/shards.h"
#include "data/prepare/tokens.h"
#include "tests/support/c/skip.h"

static char dir[] = "/tmp/test-prepare-XXXXXX";
static char in[64], out[64];

static void put(const char *text) {
    assert_int_equal(pd_write_file_atomic(in, text, strlen(text), 0600, NULL), 0);
}

/* The file's text; "" if the file does not exist. */
static const char *get(const char *name) {
    static char text[4][2000];
    static int turn;
    char path[200], *t = text[turn++ % 4];
    struct pd_buf b;
    pd_buf_init(&b);
    snprintf(path, sizeof path, "%s/%s", out, name);
    int rc = pd_read_file(path, 1999, &b, NULL);
    snprintf(t, 2000, "%s", rc ? "" : (char *)b.data);
    pd_buf_release(&b);
    return t;
}

static void words_are_found(void **state) {
    (void)state;
    static const struct {
        const char *tokenizer, *text, *want;
    } rows[] = {
        {"words", "The dog's  bone", "The|dog's|bone|"},
        {"words", "well-to-do 'quoted' end-", "well-to-do|quoted|end|"},
        {"words", "a4 in 1950s: 3.5-inch", "a|4|in|1950|s|3|5|inch|"},
        {"words", "caf\xc3\xa9; x--y o''k", "caf|x|y|o|k|"},
        {"words", "?! ...", ""},
        {"words", "", ""},
        {"blanks", "  The <unk>\tdog's\r", "The|<unk>|dog's|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct data_tokenizer *t = data_tokenizers;
        while (strcmp(t->name, rows[i].tokenizer))
            t++;
        char got[200] = "";
        const char *s = rows[i].text, *end = s + strlen(s);
        size_t n;
        for (const char *w; (w = t->next(s, end, &n)); s = w + n)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s|", (int)n, w);
        assert_string_equal(got, rows[i].want);
    }
}

static void a_dictionary_is_sorted_cut_and_read_back(void **state) {
    (void)state;
    static const char *const words[] = {"b",    "a", "b",     "ab",  "a",
                                        "rare", "b", "<unk>", "<s>", "ab"};
    struct data_dict *d, *back;
    struct pd_err err = {0};
    struct pd_buf text;
    pd_buf_init(&text);
    assert_int_equal(data_dict_new(&d, DATA_DICT_WORDS, &err), 0);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_int_equal(data_dict_count(d, words[i], strlen(words[i]), &err), 0);
    assert_int_equal(data_dict_finish(d, 2, &err), 0);
    data_dict_print(d, &text);
    pd_put_u8(&text, 0);
    assert_string_equal((char *)text.data, "<unk>\n<s>\n<e>\nb\na\nab\n");
    assert_int_equal(data_dict_size(d), 6);
    put((char *)text.data);
    assert_int_equal(data_dict_read(&back, in, &err), 0);
    const struct data_dict *both[] = {d, back};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(data_dict_id(both[i], "ab", 2), 5);
        assert_int_equal(data_dict_id(both[i], "rare", 4), 0);
        assert_int_equal(data_dict_id(both[i], "never", 5), 0);
        assert_int_equal(data_dict_unk(both[i]), 0);
    }
    data_dict_free(back);
    data_dict_free(d);
    put("a\n<s>\n<e>\n<unk>");
    assert_int_equal(data_dict_read(&back, in, &err), 0);
    assert_int_equal(data_dict_unk(back), 3);
    assert_int_equal(data_dict_id(back, "zzz", 3), 3);
    data_dict_free(back);
    pd_buf_release(&text);
}

static void a_broken_dictionary_names_its_line(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"twice", "<unk>\n<s>\n<e>\na\nb\na\n", ":6: 'a' is already in the dictionary"},
        {"blank line", "<unk>\n\n<s>\n", ":2: each line must hold one word"},
        {"two words", "<unk>\na b\n", ":2: each line must hold one word"},
        {"no end marker", "<unk>\n<s>\na\n", ": the line '<e>' is missing"},
        {"empty", "", ": the line '<unk>' is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct data_dict *d;
        struct pd_err err = {0};
        put(rows[i].text);
        if (data_dict_read(&d, in, &err) != PD_EDATA || !strstr(err.msg, rows[i].want))
            fail_msg("%s: '%s'", rows[i].name, err.msg);
    }
}

static void many_words_keep_their_counts(void **state) {
    (void)state;
    enum { N = 30000 };
    struct data_dict *d;
    struct pd_err err = {0};
    char w[20];
    assert_int_equal(data_dict_new(&d, DATA_DICT_WORDS, &err), 0);
    for (int times = 0; times < 2; times++)
        for (int i = times ? N / 2 : 0; i < N; i++) {
            int n = snprintf(w, sizeof w, "w%06d", i);
            assert_int_equal(data_dict_count(d, w, (size_t)n, &err), 0);
        }
    assert_int_equal(data_dict_finish(d, 2, &err), 0);
    assert_int_equal(data_dict_size(d), 3 + N / 2);
    assert_int_equal(data_dict_id(d, "w015000", 7), 3);
    assert_int_equal(data_dict_id(d, "w029999", 7), 3 + N / 2 - 1);
    assert_int_equal(data_dict_id(d, "w014999", 7), 0);
    data_dict_free(d);
}

static struct data_prepare_opts opts(const char *const *input) {
    struct data_prepare_opts o;
    data_prepare_defaults(&o);
    o.input = input;
    o.n_inputs = 1;
    o.out = out;
    return o;
}

static const char *const input[] = {in};

static void text_becomes_dictionary_and_shards(void **state) {
    (void)state;
    struct data_prepare_opts o = opts(input);
    struct data_prepare_counts c;
    struct pd_err err = {0};
    o.shuffle = 0;
    o.shards = 2;
    o.holdout = 3;
    o.min_word_freq = 2;
    put("x | The cat\n no bar here\ny | the dog; the CAT\nz | cat elephant the\n|the "
        "mouse\n|\n|cat");
    o.format = "wordnet";
    assert_int_equal(pd_rm_tree(out, NULL), 0);
    if (data_prepare(&o, &c, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(get("dict.txt"), "<unk>\n<s>\n<e>\nthe\ncat\n");
    assert_string_equal(get("counts.txt"), "2\n0\n0\n4\n2\n");
    assert_string_equal(get("train_data_dir/train.txt-00000"), "3 4\n3 0\n");
    assert_string_equal(get("train_data_dir/train.txt-00001"), "3 0 3 4\n\n");
    assert_string_equal(get("test_data_dir/test.txt-00000"), "4 0 3\n");
    assert_string_equal(get("test_data_dir/test.txt-00001"), "4\n");
    assert_int_equal(c.lines, 6);
    assert_int_equal(c.words, 12);
    assert_int_equal(c.vocabulary, 5);
    assert_int_equal(c.train_lines, 4);
    assert_int_equal(c.train_words, 8);
    assert_int_equal(c.train_unknown, 2);
    assert_int_equal(c.test_lines, 2);
    assert_int_equal(c.test_words, 4);
    assert_int_equal(c.test_unknown, 1);
    /* Unknown words are dropped, and the remaining training lines are counted. */
    o.drop_unknown = 1;
    if (data_prepare(&o, &c, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(get("train_data_dir/train.txt-00000"), "3 4\n3\n");
    assert_string_equal(get("train_data_dir/train.txt-00001"), "3 3 4\n\n");
    assert_string_equal(get("test_data_dir/test.txt-00000"), "4 3\n");
    assert_string_equal(get("counts.txt"), "0\n0\n0\n4\n2\n");
    assert_int_equal(c.train_unknown, 2);
    o.drop_unknown = 0;
    /* Fewer shards and no held-out lines, with the old dictionary. No file of the old run may
     * remain. */
    char dict[200];
    snprintf(dict, sizeof dict, "%s/dict.txt", out);
    o.shards = 1;
    o.holdout = 0;
    o.dict = dict;
    if (data_prepare(&o, &c, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(get("train_data_dir/train.txt-00000"), "3 4\n3 0 3 4\n4 0 3\n3 0\n\n4\n");
    assert_string_equal(get("train_data_dir/train.txt-00001"), "");
    assert_string_equal(get("test_data_dir/test.txt-00000"), "");
    assert_string_equal(get("dict.txt"), "<unk>\n<s>\n<e>\nthe\ncat\n");
}

static void the_shuffle_is_a_function_of_the_seed(void **state) {
    (void)state;
    struct data_prepare_opts o = opts(input);
    struct data_prepare_counts c;
    struct pd_err err = {0};
    char text[400] = "", got[3][400];
    int seen[40] = {0};
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), 13, "%d\n", i);
    put(text);
    o.tokens = "blanks";
    static const uint64_t seeds[] = {1, 2, 1};
    for (int k = 0; k < 3; k++) {
        o.seed = seeds[k];
        assert_int_equal(data_prepare(&o, &c, &err), 0);
        snprintf(got[k], sizeof got[k], "%s", get("train_data_dir/train.txt-00000"));
    }
    assert_string_equal(got[0], got[2]);
    assert_string_not_equal(got[0], got[1]);
    char *s = got[0];
    for (int i = 0; i < 40; i++)
        seen[strtol(s, &s, 10) - 3]++;
    for (int i = 0; i < 40; i++)
        assert_int_equal(seen[i], 1);
    o.share = 0.25;
    assert_int_equal(data_prepare(&o, &c, &err), 0);
    assert_int_equal(c.train_lines, 10);
    assert_int_equal(c.lines, 40);
    assert_int_equal(c.vocabulary, 13);
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    struct data_prepare_counts c;
    static const struct {
        const char *name;
        struct data_prepare_opts o;
        const char *want;
    } rows[] = {
        {"no input", {.format = "lines", .tokens = "words", .shards = 1, .share = 1}, "which file"},
        {"format",
         {.n_inputs = 1, .format = "csv", .tokens = "words", .shards = 1, .share = 1},
         "format is lines or wordnet, not 'csv'"},
        {"tokens",
         {.n_inputs = 1, .format = "lines", .tokens = "bytes", .shards = 1, .share = 1},
         "tokens is words or blanks"},
        {"shards",
         {.n_inputs = 1, .format = "lines", .tokens = "words", .shards = 0, .share = 1},
         "shards is 1..100000, not 0"},
        {"holdout",
         {.n_inputs = 1,
          .format = "lines",
          .tokens = "words",
          .shards = 1,
          .share = 1,
          .holdout = 1},
         "holdout 1"},
        {"share",
         {.n_inputs = 1, .format = "lines", .tokens = "words", .shards = 1, .share = 0},
         "share is above 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_err err = {0};
        struct data_prepare_opts o = rows[i].o;
        o.input = input;
        o.out = out;
        if (data_prepare(&o, &c, &err) != PD_EUSAGE || !strstr(err.msg, rows[i].want))
            fail_msg("%s: '%s'", rows[i].name, err.msg);
    }
    struct pd_err err = {0};
    static const char *const missing[] = {"/tmp/there-is-no-such-file"};
    struct data_prepare_opts o = opts(missing);
    assert_int_equal(data_prepare(&o, &c, &err), PD_ENOENT);
    err.code = 0;
    o.input = input;
    put("\n");
    o.format = "wordnet";
    assert_int_equal(data_prepare(&o, &c, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "there is no text in"));
}

/* A header in every shard, every third line held out, packed, shuffled: no line is lost or
 * repeated. */
static void split_holds_out_packs_and_shuffles(void **state) {
    (void)state;
    struct data_split_opts o;
    struct data_split_counts c;
    struct pd_err err = {0};
    data_split_defaults(&o);
    o.input = input;
    o.n_inputs = 1;
    o.out = out;
    o.shards = 2;
    o.header = 1;
    o.holdout = 3;
    o.prefix = "h";
    o.test_prefix = "ht";
    put("head\na\nb\nc\nd\ne\nf\n");
    assert_int_equal(data_split(&o, &c, &err), 0);
    assert_string_equal(get("h-00000"), "head\na\nd\n");
    assert_string_equal(get("h-00001"), "head\nb\ne\n");
    assert_string_equal(get("ht-00000"), "head\nc\n");
    assert_string_equal(get("ht-00001"), "head\nf\n");
    assert_int_equal(c.lines, 6);
    assert_int_equal(c.test_lines, 2);
    for (int p = 1; p < 3; p++) { /* packed shards replace the unpacked ones */
        static const char *const pack[] = {"none", "gzip", "zstd"}, *const name[] = {"",
                                                                                     "h-00001.gz",
                                                                                     "h-00001.zst"};
        char path[300];
        struct data_lines l;
        char *line, text[40] = "";
        size_t n;
        o.pack = pack[p];
        assert_int_equal(data_split(&o, &c, &err), 0);
        assert_string_equal(get("h-00001"), "");
        snprintf(path, sizeof path, "%s/%s", out, name[p]);
        assert_int_equal(data_lines_init(&l, &err), 0);
        if (data_lines_open(&l, path, path, 0, 0, &err))
            fail_msg("%s", err.msg);
        while (data_lines_next(&l, &line, &n, &err) == 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s;", (int)n, line);
        assert_string_equal(text, "head;b;e;");
        data_lines_release(&l);
    }
    o.pack = "none";
    o.header = 0;
    o.holdout = 0;
    o.shards = 1;
    o.shuffle = 1;
    put("1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert_int_equal(data_split(&o, &c, &err), 0);
    int seen = 0;
    const char *all = get("h-00000");
    assert_int_equal(strlen(all), 18);
    assert_true(strcmp(all, "1\n2\n3\n4\n5\n6\n7\n8\n9\n") != 0);
    for (const char *s = all; *s; s += 2)
        seen |= 1 << (*s - '0');
    assert_int_equal(seen, 0x3fe);
    o.pack = "rar";
    assert_int_equal(data_split(&o, &c, &err), PD_EUSAGE);
}

static void split_deals_lines_in_turn(void **state) {
    (void)state;
    struct data_split_opts o = {
        .input = input, .n_inputs = 1, .out = out, .prefix = "part", .shards = 3};
    struct data_split_counts c;
    struct pd_err err = {0};
    put("a\nb\n\nd\ne");
    assert_int_equal(data_split(&o, &c, &err), 0);
    assert_string_equal(get("part-00000"), "a\nd\n");
    assert_string_equal(get("part-00001"), "b\ne\n");
    assert_string_equal(get("part-00002"), "\n");
    assert_int_equal(c.lines, 5);
    assert_int_equal(c.bytes, 9);
    o.shards = 2;
    assert_int_equal(data_split(&o, &c, &err), 0);
    assert_string_equal(get("part-00000"), "a\n\ne\n");
    assert_string_equal(get("part-00002"), "");
    /* After a failed write only the old shards remain. */
    put("x\ny\nz\n");
    pd_fault_arm("shards.write:2");
    assert_int_equal(data_split(&o, &c, &err), PD_ENOSPC);
    pd_fault_arm(NULL);
    assert_string_equal(get("part-00000"), "a\n\ne\n");
    assert_string_equal(get(".part-00000.tmp"), "");
    err.code = 0;
    o.prefix = "a/b";
    assert_int_equal(data_split(&o, &c, &err), PD_EUSAGE);
}

static void many_shards_need_few_descriptors(void **state) {
    (void)state;
    enum { N = 3000 };
    struct data_split_opts o = {
        .input = input, .n_inputs = 1, .out = out, .prefix = "many", .shards = N};
    struct data_split_counts c;
    struct pd_err err = {0};
    char *text = malloc(10 * N);
    size_t n = 0;
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, 10 * N - n, "%d\n", i);
    put(text);
    free(text);
    if (data_split(&o, &c, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(get("many-02999"), "2999\n");
    assert_int_equal(data_shards_clear(out, "many", &err), 0);
    assert_string_equal(get("many-02999"), "");
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    put("the cat and the dog\nthe cow\n");
    for (int n = 1;; n++) {
        struct data_prepare_opts o = opts(input);
        struct data_prepare_counts c;
        struct pd_err err = {0};
        char arm[32];
        o.holdout = 2;
        snprintf(arm, sizeof arm, "alloc:%d", n);
        pd_fault_arm(arm);
        int rc = data_prepare(&o, &c, &err);
        pd_fault_arm(NULL);
        if (!rc) {
            assert_true(n > 15);
            return;
        }
        if (rc != PD_ENOMEM || err.code != PD_ENOMEM)
            fail_msg("allocation %d: %d '%s'", n, rc, err.msg);
    }
}

/* The reference: [0-9]+|[a-z]+(['-][a-z]+)* over the lower-cased glosses, by Python's re. */
static void wordnet_has_its_known_counts(void **state) {
    (void)state;
    static const char *const files[] = {
        "/usr/share/wordnet/data.noun", "/usr/share/wordnet/data.verb",
        "/usr/share/wordnet/data.adj", "/usr/share/wordnet/data.adv"};
    static const struct { uint64_t min_word_freq, words; } rows[] = {{50, 3332}, {10, 11988}};
    if (access(files[0], R_OK))
        SKIP("%s is not there (package wordnet-base)", files[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct data_prepare_opts o = opts(files);
        struct data_prepare_counts c;
        struct pd_err err = {0};
        o.n_inputs = 4;
        o.format = "wordnet";
        o.min_word_freq = rows[i].min_word_freq;
        if (data_prepare(&o, &c, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(c.lines, 117659);
        assert_int_equal(c.words, 1467032);
        assert_int_equal(c.vocabulary, rows[i].words + 3);
        assert_int_equal(c.train_words, 1467032);
    }
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(in, sizeof in, "%s/in.txt", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_found),
        cmocka_unit_test(a_dictionary_is_sorted_cut_and_read_back),
        cmocka_unit_test(a_broken_dictionary_names_its_line),
        cmocka_unit_test(many_words_keep_their_counts),
        cmocka_unit_test(text_becomes_dictionary_and_shards),
        cmocka_unit_test(the_shuffle_is_a_function_of_the_seed),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(split_deals_lines_in_turn),
        cmocka_unit_test(split_holds_out_packs_and_shuffles),
        cmocka_unit_test(many_shards_need_few_descriptors),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(wordnet_has_its_known_counts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
