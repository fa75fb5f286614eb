/* worker_main.c - main of paddle_worker: calls the main function of the role. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "conf/options.h"
#include "worker/worker.h"

static int usage(FILE *to, unsigned who) {
    struct pd_buf b;
    pd_buf_init(&b);
    pd_options_help(who, NULL, NULL, 100, &b);
    fprintf(to,
            "usage: paddle_worker pserver|trainer [--option=value ...]\n       paddle_worker infer "
            "--help\n       paddle_worker model [--check] [--set ...] TRAIN.INI\n\n"
            "Every option can also be set by PADDLE_INIT_<OPTION>; options of [train] also in "
            "train.ini.\n--set SECTION.KEY=VALUE sets a key of train.ini, such as "
            "layer.hidden.size=512.\n%.*s",
            (int)b.len, (char *)b.data);
    pd_buf_release(&b);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        unsigned who;
        int (*run)(int argc, char **argv);
    } roles[] = {{"pserver", PD_PSERVER, pserver_main},
                 {"trainer", PD_TRAINER, trainer_main},
                 {"infer", 0, infer_main},
                 {"model", 0, model_main}};
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return usage(stderr, PD_WORKER);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return usage(stdout, PD_WORKER);
    if (!strcmp(argv[1], "--version")) {
        puts("paddle_worker " PD_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name))
            continue;
        if (roles[i].who && argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")))
            return usage(stdout, roles[i].who);
        return roles[i].run(argc - 2, argv + 2);
    }
    fprintf(stderr, "paddle_worker: unknown role '%s'\n", argv[1]);
    return usage(stderr, PD_WORKER);
}
