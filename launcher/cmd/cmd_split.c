/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_split.c - paddlectl split: passes its options to data_split (src/data/prepare/prepare.h) and
 * prints the counts. */
#include "data/prepare/prepare.h"
#include "launcher/cmd/cmd_data.h"

int cmd_split(int argc, char **argv) {
    int json = 0;
    const char *shards = NULL, *holdout = NULL, *seed = NULL;
    struct data_split_opts d;
    data_split_defaults(&d);
    const struct pd_extra_option extra[] = {
        {"shards=N", NULL, &shards, "number of shards; required"},
        {"out=FOLDER", NULL, &d.out, "folder for the shards; default: the current folder"},
        {"prefix=PREFIX", NULL, &d.prefix,
         "name the shards PREFIX-00000, PREFIX-00001, ...; default: train.txt"},
        {"header", &d.header, NULL,
         "the first line of each file is a header; copy the header to every shard"},
        {"holdout=K", NULL, &holdout,
         "put every K-th line into separate shards for testing; 0: none"},
        {"test_prefix=PREFIX", NULL, &d.test_prefix,
         "name the shards for testing TEST_PREFIX-00000, ...; default: test.txt"},
        {"shuffle", &d.shuffle, NULL, "shuffle all lines first; needs memory for all of them"},
        {"seed=N", NULL, &seed, "seed of the shuffle; default: 1"},
        {"pack=none|gzip|zstd", NULL, &d.pack, "compression of the shards; default: none"},
        CMD_JSON(&json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl split --shards=N [options] FILE...\n"
                 "Distributes the lines of the files round-robin: line i goes to shard i mod N. "
                 "The files may be compressed with gzip or zstd.",
        .examples = "paddlectl split --shards=8 --out=workspace/train_data_dir part-*\t8 shards of "
                    "about equal size\n"
                    "paddlectl split --shards=8 --header --holdout=20 --shuffle "
                    "clicks.csv.gz\tevery 20th line for testing, a header in each shard\n",
        .extra = extra,
        .max_rest = CMD_REST_MAX,
    };
    const char *rest[CMD_REST_MAX];
    struct pd_err err = {0};
    struct data_split_counts c;
    uint64_t n = 0;
    int n_rest, rc = cmd_data_parse(&line, argc, argv, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    if (!shards)
        pd_fail(&err, PD_EUSAGE, "number of shards missing: use --shards=N");
    if (!err.code)
        cmd_number("shards", shards, DATA_MAX_SHARDS, &n, &err);
    if (!err.code && !cmd_number("holdout", holdout, UINT64_MAX, &d.holdout, &err))
        cmd_number("seed", seed, UINT64_MAX, &d.seed, &err);
    if (err.code)
        return cmd_fail(&err);
    d.input = rest;
    d.n_inputs = (size_t)n_rest;
    d.shards = (uint32_t)n;
    if (data_split(&d, &c, &err))
        return cmd_fail(&err);
    const struct cmd_count counts[] = {{"lines", c.lines},
                                       {"bytes", c.bytes},
                                       {"shards", c.shards},
                                       {"test_lines", c.test_lines},
                                       {NULL, 0}};
    return cmd_show_counts(counts, json);
}
