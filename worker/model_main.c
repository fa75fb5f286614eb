/* model_main.c - `paddle_worker model [--set SECTION.KEY=VALUE] TRAIN.INI`: prints the network as a
 * table, for `paddlectl conf --model`. With --check before the file it only reports errors of the
 * file, for `paddlectl run`. */
#include "nn/graph/describe.h"
#include "train/config.h"
#include "worker/worker.h"

static int print(const struct nn_graph *g, struct pd_err *err) {
    struct pd_buf out = {0};
    int rc = nn_graph_describe(g, &out);
    if (rc)
        pd_fail(err, rc, "out of memory");
    else if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout))
        rc = pd_fail(err, PD_EIO, "cannot write");
    pd_buf_release(&out);
    return rc;
}

int model_main(int argc, char **argv) {
    struct train_config c = {0};
    struct pd_options o;
    struct pd_err err = {0};
    int only_check = 0, n_rest = 0;
    const struct pd_extra_option extra[] = {{"check", &only_check, NULL, ""}, {0}};
    const char **rest = pd_calloc((size_t)argc + 1, sizeof *rest);
    int rc = rest ? pd_options_init(&o, &err) : pd_oom(&err, "the options");
    if (!rc) {
        rc = pd_options_args(&o, PD_TRAINER, argc, argv, extra, rest, &n_rest, &err);
        if (!rc && n_rest != 1)
            rc = pd_fail(&err, PD_EUSAGE,
                         "usage: paddle_worker model [--check] [--set SECTION.KEY=VALUE ...] "
                         "TRAIN.INI");
        if (!rc)
            rc = train_config_load(&c, &o, rest[0], &err);
        pd_options_release(&o);
    }
    if (!rc && !only_check)
        rc = print(c.graph, &err);
    if (rc)
        fprintf(stderr, "%s%s\n", only_check ? "" : "paddlectl: ", err.msg);
    train_config_release(&c);
    free(rest);
    return rc ? pd_code_exit_status(rc) : 0;
}
