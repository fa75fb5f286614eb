/* SPDX-License-Identifier: Apache-2.0 */
/* worker_main.c - main of paddle_worker: calls the main function of the role. */
#include "base/version.h"
#include "conf/options.h"
#include "wire/noise.h"
#include "worker/worker.h"

static int usage(FILE *to, unsigned who) {
    struct pd_buf b = {0};
    pd_options_help(who, NULL, NULL, 100, &b);
    fprintf(
        to,
        "usage: paddle_worker [pserver|trainer] [--option=value ...]\n       paddle_worker infer "
        "--help\n       paddle_worker model [--check] [--set ...] TRAIN.INI\n\n"
        "Without a role, TRAINING_ROLE=PSERVER or TRAINER decides, with PADDLE_TRAINERS_NUM,\n"
        "PADDLE_TRAINER_ID, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_CURRENT_ENDPOINT (or POD_IP and\n"
        "PADDLE_PORT) and CPU_NUM of the original system. As ranks of mpirun or srun the first\n"
        "ranks are the servers of --pservers=HOST:PORT,... (on one machine rank 0), and the "
        "others\n"
        "are trainers.\n"
        "Every option can also be set by PADDLE_INIT_<OPTION>; options of [train] also in "
        "train.ini.\n--set SECTION.KEY=VALUE sets a key of train.ini, such as "
        "layer.hidden.size=512.\n%.*s",
        (int)b.len, (char *)b.data);
    pd_buf_release(&b);
    return to == stdout ? 0 : 2;
}

/* Scripts of the original system start one program for both roles. */
static int run_role_of_environment(int argc, char **argv) {
    struct pd_err err = {0};
    if (worker_take_rank(&argc, argv, &err)) {
        fprintf(stderr, "paddle_worker: %s\n", err.msg);
        return pd_code_exit_status(err.code);
    }
    const char *role = getenv("TRAINING_ROLE");
    if (role && !strcmp(role, "PSERVER"))
        return pserver_main(argc - 1, argv + 1);
    if (role && !strcmp(role, "TRAINER"))
        return trainer_main(argc - 1, argv + 1);
    if (role)
        fprintf(stderr, "paddle_worker: TRAINING_ROLE is TRAINER or PSERVER, not '%s'\n", role);
    else
        fputs(
            "paddle_worker: no role: the first word is pserver or trainer, or the environment has "
            "TRAINING_ROLE=PSERVER or TRAINER\n",
            stderr);
    return 2;
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
    pd_no_core();
    wire_use_aes(&wire_openssl);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 && !getenv("TRAINING_ROLE") && !worker_has_rank())
        return usage(stderr, PD_WORKER);
    if (argc < 2)
        return run_role_of_environment(argc, argv);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return usage(stdout, PD_WORKER);
    if (!strcmp(argv[1], "--version")) {
        puts("paddle_worker " PD_VERSION);
        return 0;
    }
    if (argv[1][0] == '-')
        return run_role_of_environment(argc, argv);
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
