/* cmd_data.c - paddlectl prepare and split: options into src/data/prepare.h, counts out. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "data/prepare.h"
#include "launcher/cmd/cmd.h"

/* A count of a result, by name. */
struct count {
    const char *name;
    uint64_t value;
};

static int show(const struct count *c, int json) {
    json_t *all = json_object();
    for (; c->name; c++) {
        if (json)
            json_object_set_new(all, c->name, json_integer((json_int_t)c->value));
        else
            printf("%-14s %llu\n", c->name, (unsigned long long)c->value);
    }
    if (json)
        return cmd_print_json(all);
    json_decref(all);
    return 0;
}

static int number(const char *name, const char *text, uint64_t max, uint64_t *out, struct pd_err *err) {
    if (!text || !pd_parse_u64(text, max, out))
        return 0;
    return pd_fail(err, PD_EUSAGE, "%s is 0..%llu, not '%s'", name, (unsigned long long)max, text);
}

static int truth(const char *name, const char *text, int *out, struct pd_err *err) {
    if (!text)
        return 0;
    if (!strcmp(text, "true") || !strcmp(text, "1"))
        *out = 1;
    else if (!strcmp(text, "false") || !strcmp(text, "0"))
        *out = 0;
    else
        return pd_fail(err, PD_EUSAGE, "%s is true or false, not '%s'", name, text);
    return 0;
}

/* The words that are not options are input files; there must be one. */
static int parse(const struct cmd_line *line, int argc, char **argv, const char **rest, int *n_rest) {
    struct pd_options o;
    int rc = cmd_parse(line, argc, argv, &o, rest, n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    if (*n_rest)
        return CMD_GO_ON;
    fprintf(stderr, "paddlectl: which files? see 'paddlectl %s --help'\n", argv[0]);
    return pd_code_exit_status(PD_EUSAGE);
}

int cmd_prepare(int argc, char **argv) {
    int json = 0;
    const char *freq = NULL, *shards = NULL, *holdout = NULL, *share = NULL, *shuffle = NULL, *seed = NULL, *unknown = NULL;
    struct data_prepare_opts d;
    data_prepare_defaults(&d);
    const struct pd_extra extra[] = {
        {"out=FOLDER", NULL, &d.out, "where dict.txt, counts.txt, train_data_dir and test_data_dir go; default: the current folder"},
        {"format=lines|wordnet", NULL, &d.format, "lines, or wordnet: the text is what follows the first bar of a line"},
        {"tokens=words|blanks", NULL, &d.tokens, "words: lower case, [0-9]+ or [a-z]+(['-][a-z]+)*; or blanks: as they stand between blanks"},
        {"min_word_freq=N", NULL, &freq, "words seen at least so often are in the dictionary; default: 1"},
        {"dict=FILE", NULL, &d.dict, "use this dictionary instead of building one"},
        {"unknown=keep|drop", NULL, &unknown, "words that are not in the dictionary are kept, as <unk>, or left out; default: keep"},
        {"shards=N", NULL, &shards, "files of training lines, and as many of held-out lines; default: 1"},
        {"holdout=K", NULL, &holdout, "hold out every k-th line for testing; 0: none"},
        {"share=SHARE", NULL, &share, "use this share of the lines, 0 < share <= 1; default: 1"},
        {"shuffle=true|false", NULL, &shuffle, "shuffle the lines: true or false; default: true"},
        {"seed=N", NULL, &seed, "of the shuffle; default: 1"},
        CMD_JSON(&json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl prepare [options] FILE...\n"
                 "Makes a dictionary and shards of word ids from text files (- is standard input).",
        .examples = "paddlectl prepare --out=workspace --shards=8 --holdout=20 corpus.txt\t8 shards, every 20th line for testing\n",
        .extra = extra,
        .max_rest = CMD_REST_MAX,
    };
    const char *rest[CMD_REST_MAX];
    struct pd_err err = {0};
    struct data_prepare_counts c;
    uint64_t n_shards = d.shards;
    int n_rest, rc = parse(&line, argc, argv, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    if (!number("min_word_freq", freq, UINT64_MAX, &d.min_word_freq, &err) &&
        !number("shards", shards, DATA_MAX_SHARDS, &n_shards, &err) &&
        !number("holdout", holdout, UINT64_MAX, &d.holdout, &err) && !number("seed", seed, UINT64_MAX, &d.seed, &err) &&
        !truth("shuffle", shuffle, &d.shuffle, &err) && share && pd_parse_f64(share, 0, 1, &d.share))
        pd_fail(&err, PD_EUSAGE, "share is more than 0 and at most 1, not '%s'", share);
    if (!err.code && unknown && strcmp(unknown, "keep") && strcmp(unknown, "drop"))
        pd_fail(&err, PD_EUSAGE, "unknown is keep or drop, not '%s'", unknown);
    if (err.code)
        return cmd_fail(&err);
    d.drop_unknown = unknown && !strcmp(unknown, "drop");
    d.input = rest;
    d.n_inputs = (size_t)n_rest;
    d.shards = (uint32_t)n_shards;
    if (data_prepare(&d, &c, &err))
        return cmd_fail(&err);
    const struct count counts[] = {
        {"lines", c.lines},             {"words", c.words},           {"vocabulary", c.vocabulary},
        {"train_lines", c.train_lines}, {"train_words", c.train_words}, {"train_unknown", c.train_unknown},
        {"test_lines", c.test_lines},   {"test_words", c.test_words}, {"test_unknown", c.test_unknown},
        {NULL, 0},
    };
    return show(counts, json);
}

int cmd_split(int argc, char **argv) {
    int json = 0;
    const char *shards = NULL, *holdout = NULL, *seed = NULL;
    struct data_split_opts d;
    data_split_defaults(&d);
    const struct pd_extra extra[] = {
        {"shards=N", NULL, &shards, "how many; required"},
        {"out=FOLDER", NULL, &d.out, "folder for the shards; default: the current one"},
        {"prefix=PREFIX", NULL, &d.prefix, "shards are PREFIX-00000, PREFIX-00001, ...; default: train.txt"},
        {"header", &d.header, NULL, "the first line of each file is a header: every shard begins with it"},
        {"holdout=K", NULL, &holdout, "every k-th line goes to shards of its own, for testing; 0: none"},
        {"test_prefix=PREFIX", NULL, &d.test_prefix, "those are TEST_PREFIX-00000, ...; default: test.txt"},
        {"shuffle", &d.shuffle, NULL, "shuffle all lines first; this holds them in memory"},
        {"seed=N", NULL, &seed, "of the shuffle; default: 1"},
        {"pack=none|gzip|zstd", NULL, &d.pack, "what the shards are packed with; default: none"},
        CMD_JSON(&json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl split --shards=N [options] FILE...\n"
                 "Deals the lines of the files round-robin: line i goes to shard i mod N. Files may be packed\n"
                 "with gzip or zstd.",
        .examples = "paddlectl split --shards=8 --out=workspace/train_data_dir part-*\t8 shards of about equal size\n"
                    "paddlectl split --shards=8 --header --holdout=20 --shuffle clicks.csv.gz\tevery 20th line for testing, each shard with the header\n",
        .extra = extra,
        .max_rest = CMD_REST_MAX,
    };
    const char *rest[CMD_REST_MAX];
    struct pd_err err = {0};
    struct data_split_counts c;
    uint64_t n = 0;
    int n_rest, rc = parse(&line, argc, argv, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    if (!shards)
        pd_fail(&err, PD_EUSAGE, "how many shards? give --shards=N");
    if (!err.code)
        number("shards", shards, DATA_MAX_SHARDS, &n, &err);
    if (!err.code && !number("holdout", holdout, UINT64_MAX, &d.holdout, &err))
        number("seed", seed, UINT64_MAX, &d.seed, &err);
    if (err.code)
        return cmd_fail(&err);
    d.input = rest;
    d.n_inputs = (size_t)n_rest;
    d.shards = (uint32_t)n;
    if (data_split(&d, &c, &err))
        return cmd_fail(&err);
    const struct count counts[] = {{"lines", c.lines}, {"bytes", c.bytes}, {"shards", c.shards}, {"test_lines", c.test_lines}, {NULL, 0}};
    return show(counts, json);
}
