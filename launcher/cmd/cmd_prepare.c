/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_prepare.c - paddlectl prepare: calls data_prepare (src/data/prepare/prepare.h) for texts,
 * data_records (records.h) for files of samples. */
#include "data/prepare/prepare.h"
#include "data/prepare/records.h"
#include "data/read/source.h"
#include "data/schema/format.h"
#include "launcher/cmd/cmd_data.h"
#include "model_ini/model_ini.h"

/* The options as texts of the command line; NULL: not given. */
struct given {
    const char *out, *format, *config, *conf, *shards, *holdout, *shuffle, *seed; /* both kinds */
    const char *tokens, *min_word_freq, *dict, *unknown, *share;                  /* of texts */
    const char *test, *holdout_last, *max_bad_lines, *pack, *encode, *min_count,
        *buckets; /* of samples */
    int json;
};

static int not_with(const char *name, const char *text, const char *format, struct pd_err *err) {
    return text ? pd_fail(err, PD_EUSAGE, "%s has no meaning with format %s", name, format) : 0;
}

static int n_shards(const struct given *g, uint64_t *shards, struct pd_err *err) {
    if (g->shards)
        return cmd_number("shards", g->shards, DATA_MAX_SHARDS, shards, err);
    int rc = cmd_n_streams_of(g->conf, shards, err);
    if (!rc && *shards > DATA_MAX_SHARDS)
        rc = pd_fail(err, PD_ECONF, "conf.ini has %llu streams of data, but --shards is at most %d",
                     (unsigned long long)*shards, DATA_MAX_SHARDS);
    return rc;
}

/* --- texts --- */

static int texts(const struct given *g, const char *const *input, size_t n, struct pd_err *err) {
    struct data_prepare_opts d;
    struct data_prepare_counts c;
    uint64_t shards;
    data_prepare_defaults(&d);
    shards = d.shards;
    d.input = input;
    d.n_inputs = n;
    d.dict = g->dict;
    d.test = g->test;
    d.out = g->out ? g->out : d.out;
    d.format = g->format ? g->format : d.format;
    d.tokens = g->tokens ? g->tokens : d.tokens;
    const struct {
        const char *name, *text;
    } foreign[] = {{"holdout_last", g->holdout_last},
                   {"max_bad_lines", g->max_bad_lines},
                   {"pack", g->pack},
                   {"encode", g->encode},
                   {"min_count", g->min_count},
                   {"buckets", g->buckets}};
    int rc = 0;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0] && !rc; i++)
        rc = not_with(foreign[i].name, foreign[i].text, d.format, err);
    if (rc ||
        (rc = cmd_number("min_word_freq", g->min_word_freq, UINT64_MAX, &d.min_word_freq, err)) ||
        (rc = n_shards(g, &shards, err)) ||
        (rc = cmd_number("holdout", g->holdout, UINT64_MAX, &d.holdout, err)) ||
        (rc = cmd_number("seed", g->seed, UINT64_MAX, &d.seed, err)) ||
        (rc = cmd_truth("shuffle", g->shuffle, &d.shuffle, err)))
        return rc;
    if (g->share && pd_parse_f64(g->share, 0, 1, &d.share))
        return pd_fail(err, PD_EUSAGE, "share must be more than 0 and at most 1, not '%s'",
                       g->share);
    if (g->unknown && strcmp(g->unknown, "keep") && strcmp(g->unknown, "drop"))
        return pd_fail(err, PD_EUSAGE, "unknown must be keep or drop, not '%s'", g->unknown);
    d.drop_unknown = g->unknown && !strcmp(g->unknown, "drop");
    d.shards = (uint32_t)shards;
    if ((rc = data_prepare(&d, &c, err)))
        return rc;
    const struct cmd_count counts[] = {
        {"lines", c.lines},
        {"words", c.words},
        {"vocabulary", c.vocabulary},
        {"train_lines", c.train_lines},
        {"train_words", c.train_words},
        {"train_unknown", c.train_unknown},
        {"test_lines", c.test_lines},
        {"test_words", c.test_words},
        {"test_unknown", c.test_unknown},
        {NULL, 0},
    };
    if (cmd_show_counts(counts, g->json) || fflush(stdout))
        return pd_fail(err, PD_EIO, "cannot write the counts");
    if (!g->dict && c.train_unknown > c.train_words / 2)
        fprintf(stderr,
                "paddlectl: %.0f %% of the training words are unknown, since they occur fewer than "
                "%llu times: give a smaller --min_word_freq\n",
                100.0 * (double)c.train_unknown / (double)c.train_words,
                (unsigned long long)d.min_word_freq);
    return 0;
}

/* --- samples --- */

/* The schema that follows from the format alone. For images the first file gives the size. */
static int own_schema(struct data_schema **out, const char *format, const char *first,
                      struct pd_err *err) {
    struct data_idx_shape shape = {0};
    char size[24];
    int line, images = !strcmp(format, "idx"), rc = images ? data_idx_shape(first, &shape, err) : 0;
    snprintf(size, sizeof size, "%llu", (unsigned long long)shape.size);
    const struct data_setting set[] = {{"", "format", format, 0}, {"image", "size", size, 0}};
    struct pd_err why = {0};
    if (!rc && data_schema_make(out, set, images ? 2 : 1, 0, 0, 0, &line, &why))
        rc = pd_fail(err, why.code == PD_ECONF ? PD_EUSAGE : why.code,
                     data_format_find(format)
                         ? "%s; for other files --config=train.ini describes the columns"
                         : "%s; texts: lines, wordnet",
                     why.msg);
    return rc;
}

static void show_bad(void *arg, const char *message) {
    (void)arg;
    fprintf(stderr, "paddlectl: %s\n", message);
}

static int samples(const struct given *g, const char *const *input, size_t n, struct pd_err *err) {
    struct model_ini *ini = NULL;
    struct data_schema *own = NULL;
    struct data_records_opts d = {.input = input,
                                  .n_inputs = n,
                                  .test = g->test,
                                  .dir = ".",
                                  .config = g->config,
                                  .out = g->out ? g->out : ".",
                                  .seed = 1,
                                  .pack = g->pack ? g->pack : "none",
                                  .on_bad = show_bad};
    struct data_records_counts c;
    uint64_t shards = 1;
    int rc = g->config ? model_ini_read(&ini, g->config, NULL, err)
                       : own_schema(&own, g->format, input[0], err);
    if (!rc && ini && !ini->schema)
        rc = pd_fail(err, PD_ECONF, "%s: [data] has no format", g->config);
    if (!rc && ini && g->format && strcmp(g->format, data_schema_format(ini->schema)))
        rc = pd_fail(err, PD_EUSAGE, "format is %s, but %s says %s", g->format, g->config,
                     data_schema_format(ini->schema));
    if (rc)
        goto out;
    d.schema = ini ? ini->schema : own;
    d.dir = ini ? ini->dir : ".";
    const char *format = data_schema_format(d.schema);
    int encode = data_encode_of(g->encode ? g->encode : "text");
    if (encode < 0)
        rc = pd_fail(err, PD_EUSAGE, "encode must be text, index or hash, not '%s'", g->encode);
    d.encode = encode < 0 ? DATA_ENCODE_TEXT : (enum data_encode)encode;
    if (rc || (rc = not_with("tokens", g->tokens, format, err)) ||
        (rc = not_with("min_word_freq", g->min_word_freq, format, err)) ||
        (rc = not_with("dict", g->dict, format, err)) ||
        (rc = not_with("unknown", g->unknown, format, err)) ||
        (rc = not_with("share", g->share, format, err)) || (rc = n_shards(g, &shards, err)) ||
        (rc = cmd_number("holdout", g->holdout, UINT64_MAX, &d.holdout, err)) ||
        (rc = cmd_number("holdout_last", g->holdout_last, INT64_MAX, &d.holdout_last, err)) ||
        (rc = cmd_number("max_bad_lines", g->max_bad_lines, INT64_MAX, &d.max_bad_lines, err)) ||
        (rc = cmd_number("min_count", g->min_count, INT64_MAX, &d.min_count, err)) ||
        (rc = cmd_number("buckets", g->buckets, INT64_MAX, &d.buckets, err)) ||
        (rc = cmd_number("seed", g->seed, UINT64_MAX, &d.seed, err)) ||
        (rc = cmd_truth("shuffle", g->shuffle, &d.shuffle, err)))
        goto out;
    d.shards = (uint32_t)shards;
    if ((rc = data_records(&d, &c, err)))
        goto out;
    const struct cmd_count counts[] = {{"lines", c.lines},
                                       {"bad_lines", c.bad_lines},
                                       {"train_lines", c.train_lines},
                                       {"test_lines", c.test_lines},
                                       {c.counted ? "categories" : NULL, c.categories},
                                       {"rare", c.rare},
                                       {NULL, 0}};
    if (cmd_show_counts(counts, g->json))
        rc = pd_fail(err, PD_EIO, "cannot write the counts");
out:
    model_ini_free(ini);
    data_schema_free(own);
    return rc;
}

int cmd_prepare(int argc, char **argv) {
    struct given g = {0};
    const struct pd_extra_option extra[] = {
        {"out=FOLDER", NULL, &g.out,
         "the folder for train_data_dir, test_data_dir, dict.txt and counts.txt or vocabulary; "
         "default: the current folder"},
        {"format=lines|wordnet|criteo|movielens|libsvm|idx|csv|tsv", NULL, &g.format,
         "texts: lines (the default), or wordnet (the text after the first bar of each line). "
         "Samples: criteo, movielens, libsvm, idx (image files of MNIST); other formats with "
         "--config"},
        {"config=FILE", NULL, &g.config,
         "samples: read any format as [data] of this train.ini describes it"},
        {"shards=N", NULL, &g.shards,
         "number of files of training lines, and of held-out lines; default: n_streams of conf.ini "
         "or the number of its trainers; 1 without a conf.ini"},
        {"conf=FILE", NULL, &g.conf, "conf.ini for the number of shards; default: ./conf.ini"},
        {"holdout=K", NULL, &g.holdout, "hold out every K-th line for testing; 0: none"},
        {"shuffle=true|false", NULL, &g.shuffle,
         "shuffle the lines, in memory; default: true for texts, false for samples"},
        {"seed=N", NULL, &g.seed, "seed of the shuffle; default: 1"},
        {"tokens=words|blanks", NULL, &g.tokens,
         "texts: words (lower case, [0-9]+ or [a-z]+(['-][a-z]+)*) or blanks (any text between "
         "blanks)"},
        {"min_word_freq=N", NULL, &g.min_word_freq,
         "texts: the dictionary contains words that occur at least N times; default: 1"},
        {"dict=FILE", NULL, &g.dict, "texts: use this dictionary instead of building one"},
        {"unknown=keep|drop", NULL, &g.unknown,
         "texts: keep words that are not in the dictionary, as <unk>, or drop them; default: keep"},
        {"share=SHARE", NULL, &g.share,
         "texts: use this share of the lines, 0 < share <= 1; default: 1"},
        {"test=FILE", NULL, &g.test, "a file, or a pattern of files, with held-out lines only"},
        {"holdout_last=N", NULL, &g.holdout_last,
         "samples: hold out the last N lines, for files in the order of time; with --holdout=K at "
         "most a K-th of all lines"},
        {"max_bad_lines=N", NULL, &g.max_bad_lines,
         "samples: report and leave out up to N unreadable lines; default: 0"},
        {"pack=none|gzip|zstd", NULL, &g.pack, "samples: compression of the shards; default: none"},
        {"encode=text|index|hash", NULL, &g.encode,
         "samples: write categories as text, as line numbers in vocabulary/COLUMN.tsv, or as "
         "hashes"},
        {"min_count=N", NULL, &g.min_count,
         "samples: replace categories that occur in fewer than N training lines by <rare>; "
         "default: 1"},
        {"buckets=N", NULL, &g.buckets, "samples: take hashes modulo N; 0: keep 64 bits"},
        CMD_JSON(&g.json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl prepare [options] FILE...\n"
                 "Makes shards of data files. Texts (- is standard input) become a dictionary and "
                 "lines of word ids. Samples (click logs, ratings, tables, images) keep their "
                 "lines, and each line is checked with the parser of the trainer.",
        .about =
            "Files may be compressed with gzip or zstd. Training lines go round-robin to "
            "train_data_dir/train.txt-00000, ..., held-out lines to test_data_dir/test.txt-00000, "
            ".... Files of an earlier run are replaced.\n\n"
            "Texts: dict.txt contains one word per line; the number of the line, from 0, is the "
            "word's id. counts.txt contains the number of occurrences in the training lines.\n\n"
            "Samples: the command reports each unreadable line with its file and number. min_count "
            "and encode rewrite the columns of categories. The counts, of training lines only, are "
            "written to vocabulary/COLUMN.tsv, one text with its count per line. encode=index "
            "writes the number of that line, or 0 for rare and new categories; in train.ini such a "
            "column is a field of type id whose vocabulary is the number of lines. encode=hash "
            "writes the id that the trainer would make of the text. Files of images need their "
            "files of labels beside them, and become train-images-idx3-ubyte-00000 and "
            "train-labels-idx1-ubyte-00000, ...",
        .examples = "paddlectl prepare --out=workspace --holdout=20 corpus.txt\tword ids, a shard "
                    "for each trainer of ./conf.ini, every 20th line for testing\n"
                    "paddlectl prepare --format=criteo --out=workspace --shards=12 --pack=zstd "
                    "day_0.gz\tclick logs\n"
                    "paddlectl prepare --format=criteo --out=workspace --shards=12 --min_count=10 "
                    "--holdout_last=100000 train.txt\trare categories become <rare>\n"
                    "paddlectl prepare --config=workspace/train.ini --out=workspace --shards=4 "
                    "--test=adult.test adult.data\tcolumns as described in train.ini\n"
                    "paddlectl prepare --format=idx --out=workspace --shards=4 "
                    "--test=t10k-images-idx3-ubyte.gz train-images-idx3-ubyte.gz\tMNIST\n",
        .extra = extra,
        .max_rest = CMD_REST_MAX,
    };
    const char *rest[CMD_REST_MAX];
    struct pd_err err = {0};
    int n_rest, rc = cmd_data_parse(&line, argc, argv, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    int is_text =
        !g.config && (!g.format || !strcmp(g.format, "lines") || !strcmp(g.format, "wordnet"));
    rc = is_text ? texts(&g, rest, (size_t)n_rest, &err) : samples(&g, rest, (size_t)n_rest, &err);
    return rc ? cmd_fail(&err) : 0;
}
