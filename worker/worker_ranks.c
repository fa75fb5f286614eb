/* SPDX-License-Identifier: Apache-2.0 */
/* worker_ranks.c - the role of a rank: `mpirun -n 8 paddle_worker --config=train.ini ...`. The
 * first ranks are the servers of the list --pservers, the others are trainers. On one machine the
 * list may be left out: rank 0 is the server then. */
#include "worker/worker.h"

#define ONE_SERVER "127.0.0.1"

/* The first variable that is a number. Inside a Slurm allocation mpirun's ranks also have the
 * variables of its daemon, which come last. */
static int64_t number_of(const char *const *names, int64_t absent) {
    int64_t n;
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && !pd_parse_i64(text, 0, INT32_MAX, &n))
            return n;
    }
    return absent;
}

/* The value of --name=value, the last one counts; or NULL. */
static const char *argument(int argc, char **argv, const char *name) {
    const char *value = NULL;
    const size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (pd_starts_with(argv[i], "--") && !strncmp(argv[i] + 2, name, n) &&
            argv[i][2 + n] == '=')
            value = argv[i] + 3 + n;
    return value;
}

/* All ranks have one command line: a server leaves out what only trainers know, and the port, which
 * PADDLE_PORT has. */
static void drop_arguments_of_trainers(int *argc, char **argv) {
    int n = 1;
    for (int i = 1; i < *argc; i++) {
        char name[64] = "";
        if (pd_starts_with(argv[i], "--"))
            pd_fmt(name, sizeof name, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
        if (strcmp(name, "port") &&
            (pd_options_find(name, PD_PSERVER) >= 0 || pd_options_find(name, PD_TRAINER) < 0))
            argv[n++] = argv[i];
    }
    argv[ *argc = n] = NULL;
}

/* Item `i` of the list; returns the number of items. */
static int64_t item_of(const char *list, int64_t i, char *out, size_t cap) {
    int64_t n = 0;
    *out = 0;
    for (list += strspn(list, ", "); *list; list += strspn(list, ", ")) {
        const int len = (int)strcspn(list, ", ");
        if (n++ == i)
            pd_fmt(out, cap, "%.*s", len, list);
        list += len;
    }
    return n;
}

/* The server listens where the list tells the trainers: "10.0.0.1:7164", "[2001:db8::1]:7164", or
 * an address alone. */
static int become_server(const char *item, const char *port) {
    const int brackets = *item == '[';
    const char *from = item + brackets, *end = brackets ? strchr(from, ']') : strchr(from, ':');
    const char *colon = end ? strchr(end, ':') : NULL;
    char ip[100];
    pd_fmt(ip, sizeof ip, "%.*s", (int)(end ? end - from : (ptrdiff_t)strlen(from)), from);
    unsetenv("PADDLE_INIT_PORT");
    return setenv("PADDLE_PORT",
                  colon  ? colon + 1
                  : port ? port
                         : "7164",
                  1) ||
           setenv("POD_IP", ip, 1) || setenv("TRAINING_ROLE", "PSERVER", 1);
}

static int become_trainer(int64_t id) {
    char text[24];
    pd_fmt(text, sizeof text, "%" PRId64, id);
    return setenv("PADDLE_TRAINER_ID", text, 1) || setenv("TRAINING_ROLE", "TRAINER", 1);
}

static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
                                    NULL};

int worker_has_rank(void) { return number_of(ranks, -1) >= 0; }

int worker_take_rank(int *argc, char **argv, struct pd_err *err) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                                        NULL},
                             *const local[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                               NULL},
                             *const nodes[] = {"SLURM_STEP_NUM_NODES", NULL};
    const int64_t rank = number_of(ranks, -1), n = number_of(sizes, 0);
    const char *list = argument(*argc, argv, "pservers"), *port = argument(*argc, argv, "port");
    char item[300], trainers[24];
    if (rank < 0 || n < 1 || getenv("TRAINING_ROLE"))
        return 0;
    if (!list)
        list = getenv("PADDLE_INIT_PSERVERS");
    if (!list)
        list = getenv("PADDLE_PSERVERS_IP_PORT_LIST");
    if (!list && number_of(local, 0) != n && number_of(nodes, 0) != 1)
        return pd_fail(err, PD_EUSAGE,
                       "the %" PRId64
                       " ranks run on several hosts: give --pservers=ADDRESS:PORT,..., "
                       "the addresses of the first ranks, which are the servers",
                       n);
    if (!list)
        list = ONE_SERVER;
    const int64_t servers = item_of(list, rank, item, sizeof item);
    if (n <= servers)
        return pd_fail(err, PD_EUSAGE,
                       "%" PRId64 " ranks are too few: the list of pservers has %" PRId64
                       ", and there must be a trainer",
                       n, servers);
    pd_fmt(trainers, sizeof trainers, "%" PRId64, n - servers);
    if (setenv("PADDLE_PSERVERS_IP_PORT_LIST", list, 1) ||
        setenv("PADDLE_TRAINERS_NUM", trainers, 1) ||
        (rank < servers ? become_server(item, port) : become_trainer(rank - servers)))
        return pd_oom(err, "the role of a rank");
    if (rank < servers)
        drop_arguments_of_trainers(argc, argv);
    return 0;
}
