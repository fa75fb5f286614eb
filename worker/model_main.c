/* model_main.c - `paddle_worker model TRAIN.INI`: prints the network as a table, for `paddlectl
 * conf --model`. With --check before the file it only reports errors of the file, for `paddlectl
 * run`. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "nn/graph/describe.h"
#include "train/config.h"
#include "worker/worker.h"

static int print(const struct nn_graph *g, struct pd_err *err) {
    struct pd_buf out;
    pd_buf_init(&out);
    int rc = nn_graph_describe(g, &out);
    if (rc)
        pd_fail(err, rc, "out of memory");
    else if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout))
        rc = pd_fail(err, PD_EIO, "cannot write");
    pd_buf_release(&out);
    return rc;
}

int model_main(int argc, char **argv) {
    struct train_config c;
    struct pd_err err = {0};
    int only_check = argc > 1 && !strcmp(argv[0], "--check");
    if (argc != 1 + only_check) {
        fputs("usage: paddle_worker model [--check] TRAIN.INI\n", stderr);
        return 2;
    }
    int rc = train_config_load(&c, argv[only_check], &err);
    if (!rc && !only_check)
        rc = print(c.graph, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    train_config_release(&c);
    return rc ? pd_code_exit_status(rc) : 0;
}
