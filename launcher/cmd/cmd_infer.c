/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_infer.c - paddlectl infer: finds the workspace and the model that `paddlectl run` left here,
 * and runs `paddle_worker infer` on this machine with them, since only the worker has the code of
 * networks. */
#include "conf/infer_args.h"
#include "launcher/cmd/cmd.h"
#include "launcher/cmd/cmd_places.h"
#include "launcher/link/bootstrap.h"

enum { MAX_ARGS = 16 };

static int run_worker(char words[][PATH_MAX + 32], int n, struct pd_err *err) {
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
#define X(name, text) int name = 0;
    PD_INFER_FLAGS(X)
#undef X
    struct cmd_places p = {0};
    const struct pd_extra_option extra[] = {
#define X(name, usage, text) {usage, NULL, &name, text},
        PD_INFER_ARGS(X)
#undef X
#define X(name, text) {#name, &name, NULL, text},
            PD_INFER_FLAGS(X)
#undef X
                {"conf=FILE", NULL, &p.conf,
                 "the configuration that names workspace and outputs; default: ./conf.ini, if it "
                 "exists"},
        {0},
    };
    const struct cmd_line line = {
        .usage =
            "paddlectl infer --data=FILE [options]\n"
            "Prints the outputs of a saved model, one line per sample, on this machine and "
            "without a cluster. In the folder where 'paddlectl run' worked, it uses the newest "
            "model of its jobs.",
        .about =
            "The data must have the format of the training data. Labels are not used, and lines "
            "may lack them. The number of columns tells whether a line does, or the header that "
            "names the columns; in libsvm a first word with a colon. Images may lack their file "
            "of labels. Only if the printed layer reads a label itself, no line may lack it. A "
            "sentence that is too short for the network has no line, and a message names it, "
            "as training makes no samples of it.\n\n"
            "Tables are mapped and not loaded, so they may be larger "
            "than memory. An id without a row reads as a row of zeros.\n\n"
            "If the outputs are classes with names (the words of vocabulary_file, or values of "
            "a label), a line has the 5 most probable as word:value. --ids prints numbers.",
        .examples = "paddlectl infer --data='workspace/test_data_dir/*' --top=1\tthe most probable "
                    "word or label of each sample\n"
                    "paddlectl infer --model=output/pass-00001 --data=test.txt --ids >scores.txt\t"
                    "all outputs as numbers\n"
                    "echo 'the act of' | paddlectl infer --data=- --tokens=words | tail -1\tthe "
                    "words that follow a sentence\n"
                    "tail -f log | paddlectl infer --data=- --batch_size=1\tanswers each line at "
                    "once\n",
        .extra = extra,
    };
    char words[MAX_ARGS][PATH_MAX + 32];
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, n = 0, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    rc = 0;
    if (!data)
        rc = pd_fail(&err, PD_EUSAGE,
                     "no data given: use --data=FILE, or --data=- for standard input");
    else if (pd_fmt(p.model, sizeof p.model, "%s", model ? model : "") ||
             pd_fmt(p.workspace, sizeof p.workspace, "%s", workspace ? workspace : ""))
        rc = pd_fail(&err, PD_EUSAGE, "the path of --model or --workspace is too long");
    else
        rc = cmd_find_places(&p, &err);
    model = p.model;
    workspace = p.workspace;
#define X(name, usage, text)                                                        \
    if (name && !rc && pd_fmt(words[n++], sizeof words[0], "--" #name "=%s", name)) \
        rc = pd_fail(&err, PD_EUSAGE, #name " is too long");
    PD_INFER_ARGS(X)
#undef X
#define X(name, text) \
    if (name)         \
        pd_fmt(words[n++], sizeof words[0], "--" #name);
    PD_INFER_FLAGS(X)
#undef X
    if (!rc)
        rc = run_worker(words, n, &err);
    return cmd_fail(&err);
}
