/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_export.c - paddlectl export: writes a saved model in the format of numpy, word2vec or the
 * original system. */
#include "launcher/cmd/cmd.h"
#include "launcher/cmd/cmd_places.h"
#include "model/export.h"

int cmd_export(int argc, char **argv) {
    int json = 0;
    const char *model = NULL;
    struct cmd_places p = {0};
    struct model_export x = {.format = "npz"};
    const struct pd_extra_option extra[] = {
        {"model=FOLDER", NULL, &model,
         "the saved model, or a folder whose newest model is used; default: the newest model in "
         "the outputs of conf.ini, then in the workspace's output"},
        {"format=npz|word2vec|word2vec-binary|original", NULL, &x.format,
         "the output format; default: npz"},
        {"out=FILE", NULL, &x.out, "the file to write, for format original a folder; required"},
        {"param=NAME", NULL, &x.param,
         "word2vec: the embedding to write, if the model has several"},
        {"vocabulary=FILE", NULL, &x.vocabulary,
         "word2vec: a file with one word per line; default: row numbers serve as words"},
        {"conf=FILE", NULL, &p.conf,
         "the configuration that names workspace and outputs; default: ./conf.ini, if it exists"},
        CMD_JSON(&json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl export --out=FILE [options]\n"
                 "Writes a saved model in another format. In the folder where 'paddlectl run' "
                 "worked, it takes the newest model of its jobs.",
        .about = "npz is an archive for numpy.load: one array for each dense parameter, and two "
                 "for each table, NAME with the rows and NAME.ids with their ids in ascending "
                 "order. word2vec and word2vec-binary contain one embedding in the formats of the "
                 "word2vec tool, which gensim reads. original is a folder with one file per "
                 "parameter: int32 0, uint32 4, uint64 number of values, float32 values; rows that "
                 "the model lacks are zeros.",
        .examples = "paddlectl export --out=model.npz\tthe newest model, for numpy\n"
                    "paddlectl export --model=output/pass-00001 --format=word2vec "
                    "--vocabulary=dict.txt --out=words.txt\tfor gensim\n",
        .extra = extra,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    struct model *m = NULL;
    struct model_export_counts c;
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    rc = 0;
    if (!x.out)
        rc = pd_fail(&err, PD_EUSAGE, "no output given: use --out=FILE");
    else if (model && (pd_fmt(p.model, sizeof p.model, "%s", model) ||
                       pd_fmt(p.workspace, sizeof p.workspace, ".")))
        rc = pd_fail(&err, PD_EUSAGE, "the path of --model is too long");
    if (!rc)
        rc = cmd_find_places(&p, &err);
    if (!rc)
        rc = model_open(&m, p.model, &err);
    if (!rc)
        rc = model_export(m, &x, &c, &err);
    model_close(m);
    if (rc)
        return cmd_fail(&err);
    if (json)
        return cmd_print_json(json_pack("{s:s, s:I, s:I, s:I, s:I}", "out", x.out, "parameters",
                                        (json_int_t)c.params, "rows", (json_int_t)c.rows, "values",
                                        (json_int_t)c.values, "missing_rows",
                                        (json_int_t)c.missing));
    printf("%s: %llu parameter%s, %llu values", x.out, (unsigned long long)c.params,
           c.params == 1 ? "" : "s", (unsigned long long)c.values);
    if (c.missing)
        printf("; %llu rows that the model lacks are zeros", (unsigned long long)c.missing);
    printf("\n");
    return 0;
}
