/* model_main.c - `paddle_worker model TRAIN.INI`: the network as a table; `paddlectl conf --model` runs it. */
#include <stdio.h>

#include "base/err.h"
#include "nn/describe.h"
#include "worker/worker.h"

int model_main(int argc, char **argv) {
    struct nn_graph *g = NULL;
    struct pd_err err = {0};
    struct pd_buf out;
    if (argc != 1) {
        fputs("usage: paddle_worker model TRAIN.INI\n", stderr);
        return 2;
    }
    pd_buf_init(&out);
    int rc = nn_graph_load(&g, argv[0], &err);
    if (!rc && (rc = nn_graph_describe(g, &out)))
        pd_fail(&err, rc, "out of memory");
    if (!rc && (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout)))
        rc = pd_fail(&err, PD_EIO, "cannot write");
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    pd_buf_release(&out);
    nn_graph_free(g);
    return rc ? pd_code_exit_status(rc) : 0;
}
