/* SPDX-License-Identifier: Apache-2.0 */
/* infer_main.c - `paddle_worker infer`: parses the --name=value words that `paddlectl infer` passes
 * on, and prints the predictions. */
#include "conf/infer_args.h"
#include "train/infer/infer.h"
#include "worker/worker.h"

enum { MAX_BATCH = 1 << 20, MAX_TOP = 1 << 20 };

struct args {
#define X(name, usage, text) const char *name;
    PD_INFER_ARGS(X)
#undef X
#define X(name, text) int name;
    PD_INFER_FLAGS(X)
#undef X
};

static int usage(FILE *to) {
    fputs("usage: paddle_worker infer --model=FOLDER --data=FILE [--option=value ...]\n\n", to);
#define X(name, usage, text) fprintf(to, "  --%-22s %s\n", usage, text);
    PD_INFER_ARGS(X)
#undef X
#define X(name, text) fprintf(to, "  --%-22s %s\n", #name, text);
    PD_INFER_FLAGS(X)
#undef X
    return to == stdout ? 0 : 2;
}

static int parse(int argc, char **argv, struct args *a, struct pd_err *err) {
    const struct {
        const char *name;
        const char **value;
    } known[] = {
#define X(name, usage, text) {#name "=", &a->name},
        PD_INFER_ARGS(X)
#undef X
    };
    for (int i = 0; i < argc; i++) {
#define X(name, text)                   \
    if (!strcmp(argv[i], "--" #name)) { \
        a->name = 1;                    \
        continue;                       \
    }
        PD_INFER_FLAGS(X)
#undef X
        size_t k = 0, n = sizeof known / sizeof known[0];
        while (k < n &&
               !(pd_starts_with(argv[i], "--") && pd_starts_with(argv[i] + 2, known[k].name)))
            k++;
        if (k == n)
            return pd_fail(err, PD_EUSAGE, "unknown option '%s'; see paddle_worker infer --help",
                           argv[i]);
        *known[k].value = argv[i] + 2 + strlen(known[k].name);
    }
    return a->model && a->data ? 0 : pd_fail(err, PD_EUSAGE, "give --model=FOLDER and --data=FILE");
}

static int number(const char *name, const char *text, uint64_t max, uint32_t *out,
                  struct pd_err *err) {
    uint64_t v;
    if (!text)
        return 0;
    if (pd_parse_u64(text, max, &v) || v < 1)
        return pd_fail(err, PD_EUSAGE, "%s is 1..%llu, not '%s'", name, (unsigned long long)max,
                       text);
    *out = (uint32_t)v;
    return 0;
}

int infer_main(int argc, char **argv) {
    struct args a = {0};
    struct pd_err err = {0};
    struct pd_log log;
    pd_log_init(&log, 2, -1, PD_WARN);
    signal(SIGPIPE, SIG_DFL); /* `| head` closes the pipe early, which is no failure */
    if (argc && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")))
        return usage(stdout);
    int rc = parse(argc, argv, &a, &err);
    struct train_infer x = {.model = a.model,
                            .data = a.data,
                            .tokens = a.tokens,
                            .workspace = a.workspace ? a.workspace : ".",
                            .config = a.train_ini,
                            .layer = a.layer,
                            .batch_size = 256,
                            .ids = a.ids,
                            .out_fd = 1,
                            .log = &log,
                            .trust = a.verify && !strcmp(a.verify, "false")};
    if (!rc)
        rc = number("batch_size", a.batch_size, MAX_BATCH, &x.batch_size, &err);
    if (!rc)
        rc = number("top", a.top, MAX_TOP, &x.top, &err);
    if (!rc && a.verify && strcmp(a.verify, "true") && strcmp(a.verify, "false"))
        rc = pd_fail(&err, PD_EUSAGE, "verify is true or false, not '%s'", a.verify);
    if (!rc)
        rc = train_infer(&x, NULL, &err);
    if (rc)
        fprintf(stderr, "infer: %s\n", err.msg);
    return rc ? pd_code_exit_status(rc) : 0;
}
