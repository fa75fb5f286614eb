/* SPDX-License-Identifier: Apache-2.0 */
/* model_main.c - `paddle_worker model [--set SECTION.KEY=VALUE] TRAIN.INI`: prints the network as a
 * table, for `paddlectl conf --model`. With --check before the file it only reports errors of the
 * file, for `paddlectl run`. `paddle_worker model --reference [--part=NAME]` prints the reference
 * of train.ini, for `paddlectl help train.ini`. */
#include "nn/graph/describe.h"
#include "train/config.h"
#include "worker/reference.h"
#include "worker/worker.h"

static int print(struct pd_buf *out, struct pd_err *err) {
    int rc = fwrite(out->data, 1, out->len, stdout) != out->len || fflush(stdout)
                 ? pd_fail(err, PD_EIO, "cannot write")
                 : 0;
    pd_buf_release(out);
    return rc;
}

static int print_graph(const struct nn_graph *g, struct pd_err *err) {
    struct pd_buf out = {0};
    if (!nn_graph_describe(g, &out))
        return print(&out, err);
    pd_buf_release(&out);
    return pd_oom(err, "the description");
}

static int print_reference(const char *name, struct pd_err *err) {
    struct pd_buf out = {0};
    int rc = reference_print(name, &out, err);
    if (!rc)
        return print(&out, err);
    pd_buf_release(&out);
    return rc;
}

int model_main(int argc, char **argv) {
    struct train_config c = {0};
    struct pd_options o;
    struct pd_err err = {0};
    int only_check = 0, reference = 0, n_rest = 0;
    const char *part = NULL;
    const struct pd_extra_option extra[] = {{"check", &only_check, NULL, ""},
                                            {"reference", &reference, NULL, ""},
                                            {"part=NAME", NULL, &part, ""},
                                            {0}};
    const char **rest = pd_calloc((size_t)argc + 1, sizeof *rest);
    int rc = rest ? pd_options_init(&o, &err) : pd_oom(&err, "the options");
    if (!rc) {
        rc = pd_options_args(&o, PD_TRAINER, argc, argv, extra, rest, &n_rest, &err);
        if (!rc && reference)
            rc = print_reference(part, &err);
        else if (!rc && n_rest != 1)
            rc = pd_fail(&err, PD_EUSAGE,
                         "usage: paddle_worker model [--check] [--set SECTION.KEY=VALUE ...] "
                         "TRAIN.INI");
        if (!rc && !reference)
            rc = train_config_load(&c, &o, rest[0], &err);
        pd_options_release(&o);
    }
    if (!rc && !only_check && !reference)
        rc = print_graph(c.graph, &err);
    if (rc)
        fprintf(stderr, "%s%s\n", only_check ? "" : "paddlectl: ", err.msg);
    train_config_release(&c);
    free(rest);
    return rc ? pd_code_exit_status(rc) : 0;
}
