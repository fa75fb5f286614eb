/* cmd_infer.c - paddlectl infer: runs `paddle_worker infer` on this machine with the same options,
 * since only the worker has the code of networks. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "conf/infer_args.h"
#include "launcher/link/bootstrap.h"
#include "launcher/cmd/cmd.h"

enum { MAX_ARGS = 16 };

static int run_worker(char words[][PATH_MAX], int n, struct pd_err *err) {
    char path[PATH_MAX], role[] = "infer", *argv[MAX_ARGS + 3] = {path, role};
    int rc = node_program_path("paddle_worker", path, sizeof path, err);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        argv[2 + i] = words[i];
    fflush(NULL);
    execv(path, argv);
    return pd_fail_errno(err, PD_EFAIL, errno, "cannot run %s", path);
}

int cmd_infer(int argc, char **argv) {
#define X(name, usage, text) const char *name = NULL;
    PD_INFER_ARGS(X)
#undef X
    const struct pd_extra_option extra[] = {
#define X(name, usage, text) {usage, NULL, &name, text},
        PD_INFER_ARGS(X)
#undef X
            {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl infer --model=FOLDER --data=FILE [options]\n"
                 "Prints the outputs of a saved model, one line per sample, on this machine and "
                 "without a cluster.",
        .about = "The data must have the format of the training data, labels included; the labels "
                 "are read and not used. Tables are mapped and not loaded, so they may be larger "
                 "than memory. An id without a row reads as a row of zeros.",
        .examples = "paddlectl infer --model=output/pass-00001 --data=test.txt >scores.txt\tone "
                    "output line per sample\n"
                    "tail -f log | paddlectl infer --model=output/pass-00001 --data=- "
                    "--batch_size=1\tanswers each line at once\n",
        .extra = extra,
    };
    char words[MAX_ARGS][PATH_MAX];
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, n = 0, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    rc = 0;
#define X(name, usage, text)                                                 \
    if (name && !rc && pd_fmt(words[n++], PATH_MAX, "--" #name "=%s", name)) \
        rc = pd_fail(&err, PD_EUSAGE, #name " is too long");
    PD_INFER_ARGS(X)
#undef X
    if (!rc && (!model || !data))
        rc = pd_fail(&err, PD_EUSAGE, "%s",
                     model ? "no data given: use --data=FILE, or --data=- for standard input"
                           : "no model given: use --model=FOLDER");
    if (!rc)
        rc = run_worker(words, n, &err);
    return cmd_fail(&err);
}
