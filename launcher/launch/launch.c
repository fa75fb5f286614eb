/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - the command of `launch`: started once, watched, and ended at last. See launch.h. */
#include <sodium.h>

#include "launcher/launch/launch_internal.h"

enum { TICK_MS = 20, BYE_MS = 3000, END_MS = 3000, MISSING_MAX = 3 };

/* --- the command --- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int launch_has_stdin(const struct launch *l) { return !strcmp(base_name(l->words[0]), "srun"); }

/* mpirun names the cause first, and advice follows; other commands name it last. */
static void on_command_stderr(const uint8_t *p, size_t n, void *arg) {
    struct launch *l = arg;
    const size_t room = sizeof l->said - 1 - l->n_said, take = n < room ? n : room;
    memcpy(l->said + l->n_said, p, take);
    l->n_said += take;
    l->n_more += n - take;
}

static void add_stderr(struct launch *l, struct pd_err *err) {
    enum { LAST = 200 };
    const size_t used = strlen(err->msg);
    char last[TRANSPORT_TAIL + 1] = "";
    l->said[l->n_said] = 0;
    const char *said = pd_trim(pd_make_printable(l->said));
    if (!*said)
        return;
    if (l->n_more && l->command)
        pd_fmt(last, sizeof last, "%s", transport_stderr(l->command));
    const char *end = pd_trim(last);
    const size_t n = strlen(end), most = l->n_more < LAST ? l->n_more : LAST;
    snprintf(err->msg + used, sizeof err->msg - used, ": %s%s%s", said,
             l->n_more > LAST ? " ... " : "", end + (n > most ? n - most : 0));
}

static void on_command_close(const struct pd_err *why, void *arg) {
    struct launch *l = arg;
    const int status = transport_status(l->command), code = l->complete ? PD_ECLOSED : PD_EHOST;
    const char *signal = transport_signal(l->command);
    struct pd_err end = {0};
    if (why->code && why->code != PD_ECLOSED)
        end = *why; /* it was not started */
    else if (signal)
        pd_fail(&end, code, "%s was ended by signal %s", l->words[0], signal);
    else
        pd_fail(&end, code, "%s ended with exit status %d", l->words[0], status);
    if (!why->code || why->code == PD_ECLOSED)
        add_stderr(l, &end);
    l->command = NULL;
    l->ended = 1;
    if (l->leaving)
        return;
    l->why = end;
    launch_fail_streams(l);
}

static void on_command_open(void *arg) {
    struct launch *l = arg;
    const struct launch_words *w = l->w;
    if (launch_has_stdin(l)) {
        transport_write(l->command, w->secret, strlen(w->secret));
        transport_write(l->command, "\n", 1);
        transport_write(l->command, w->input, w->n_input);
    }
    transport_eof(l->command);
}

static void on_command_bytes(const uint8_t *p, size_t n, void *arg) {
    (void)p; /* callbacks print nothing; what the command prints is no error */
    (void)n;
    (void)arg;
}

/* 1: the command has Open MPI's -x, which refuses to work beside the list of set_environment. */
static int has_x(const struct launch *l) {
    for (size_t i = 1; i < l->n_words; i++)
        if (!strcmp(l->words[i], "-x"))
            return 1;
    return 0;
}

/* Ranks of an outer job, of which paddlectl is a process, would be taken for those of the command.
 * Open MPI passes on only the variables that it is told. */
static int set_environment(const struct launch *l) {
    static const char *const ranks[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
        "SLURM_PROCID"};
    static const char list[] = "OMPI_MCA_mca_base_env_list";
    char names[4096];
    const char *given = getenv(list);
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        unsetenv(ranks[i]);
    if (launch_has_stdin(l))
        return 0;
    if ((given && strstr(given, l->w->name)) || has_x(l))
        given = NULL;
    else if (pd_fmt(names, sizeof names, "%s%s%s", given ? given : "", given && *given ? ";" : "",
                    l->w->name) ||
             setenv(list, names, 1))
        return -1;
    return setenv(l->w->name, l->w->secret, 1);
}

static int start_command(struct launch *l, struct pd_err *err) {
    static const struct transport_events events = {.on_open = on_command_open,
                                                   .on_bytes = on_command_bytes,
                                                   .on_close = on_command_close,
                                                   .on_stderr = on_command_stderr};
    size_t n = 0, n_own = l->n_words;
    char x[] = "-x";
    while (l->w->words[n])
        n++;
    char **argv = pd_calloc(l->n_words + n + 3, sizeof *argv);
    if (!argv || set_environment(l)) {
        free(argv);
        return pd_oom(err, "the words of launch");
    }
    memcpy(argv, l->words, l->n_words * sizeof *argv);
    if (has_x(l) && !launch_has_stdin(l)) {
        argv[n_own++] = x;
        argv[n_own++] = (char *)(uintptr_t)l->w->name;
    }
    memcpy(argv + n_own, l->w->words, n * sizeof *argv);
    int rc = transport_local(&l->command, l->loop, argv, &events, l, err);
    unsetenv(l->w->name);
    free(argv);
    if (!rc)
        transport_local_background(l->command);
    return rc;
}

/* As if this process had got the signal: what runs is stopped in order. */
void launch_take_term(struct launch *l) {
    if (!l->terminated && !l->leaving && !l->ended)
        kill(getpid(), SIGTERM);
    l->terminated = 1;
}

/* --- waiting for the ranks --- */

static void on_tick(uv_timer_t *t) { (void)t; }

static void on_signal(uv_signal_t *s, int signum) {
    struct launch *l = s->data;
    l->interrupted = signum;
}

static void say_missing(struct launch *l, const char *const *labels, struct pd_err *err) {
    char text[400] = "";
    int n = 0;
    for (int i = 0; i < l->n_nodes; i++) {
        const char *host = labels ? labels[i] : NULL;
        const size_t used = strlen(text);
        if (l->nodes[i].enrolled || n++ >= MISSING_MAX)
            continue;
        snprintf(text + used, sizeof text - used, host ? "%srank %d (host %s)" : "%srank %d",
                 used ? ", " : "", i, host);
    }
    if (!l->n_nodes)
        pd_fail(err, PD_EHOST, "no rank of %s has called back within %.3g s", l->words[0],
                (double)l->o.timeout_ms / 1000);
    else if (n > MISSING_MAX)
        pd_fail(err, PD_EHOST, "%s and %d more have not called back within %.3g s", text,
                n - MISSING_MAX, (double)l->o.timeout_ms / 1000);
    else
        pd_fail(err, PD_EHOST, "%s %s not called back within %.3g s", text, n > 1 ? "have" : "has",
                (double)l->o.timeout_ms / 1000);
    add_stderr(l, err);
}

static void on_seed_closed(void *arg) { ((struct launch *)arg)->n_handles--; }

static void close_seed(struct launch *l) {
    if (l->seed)
        launch_seed_free(l->seed, on_seed_closed, l);
    l->seed = NULL;
}

static int wait_for_ranks(struct launch *l, const char *const *labels, struct pd_err *err) {
    const uint64_t end = uv_now(l->loop) + l->o.timeout_ms;
    while (!l->n_nodes || l->n_enrolled < l->n_nodes) {
        uv_run(l->loop, UV_RUN_ONCE);
        if (l->interrupted)
            return pd_fail(err, PD_ECANCELED, "stopped by %s", strsignal(l->interrupted));
        if (l->why.code) {
            *err = l->why;
            return err->code;
        }
        if (uv_now(l->loop) >= end) {
            say_missing(l, labels, err);
            return err->code;
        }
    }
    return 0;
}

int launch_run(struct launch *l, const struct launch_words *w, int n_nodes,
               const char *const *labels, struct pd_err *err) {
    static const int signums[] = {SIGINT, SIGTERM, SIGHUP};
    l->w = w;
    if (n_nodes && !l->nodes) {
        if (!(l->nodes = pd_calloc((size_t)n_nodes, sizeof *l->nodes)))
            return pd_oom(err, "the nodes");
        l->n_nodes = n_nodes;
    }
    uv_update_time(l->loop);
    int rc = start_command(l, err);
    if (rc)
        return rc;
    for (int i = 0; i < 3; i++)
        if (signums[i] != SIGHUP || !pd_signal_is_ignored(SIGHUP))
            uv_signal_start(&l->signals[i], on_signal, signums[i]);
    uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
    rc = wait_for_ranks(l, labels, err);
    l->complete = !rc;
    for (int i = 0; i < 3; i++)
        uv_signal_stop(&l->signals[i]);
    uv_timer_stop(&l->tick);
    /* the secret is worth nothing any more */
    launch_close_gate(l, 0);
    close_seed(l);
    sodium_memzero(&l->place.secret, sizeof l->place.secret);
    return rc;
}

int launch_n_nodes(const struct launch *l) { return l->n_nodes; }
const char *launch_host(const struct launch *l, int rank) { return l->nodes[rank].host; }

int launch_set_ranks(struct launch *l, const int *rank_of, struct pd_err *err) {
    const size_t n = (size_t)l->n_nodes;
    if (!(l->rank_of = pd_malloc(n * sizeof *l->rank_of)))
        return pd_oom(err, "the nodes");
    memcpy(l->rank_of, rank_of, n * sizeof *l->rank_of);
    return 0;
}

const struct launch_place *launch_place(const struct launch *l) { return &l->place; }
int launch_has_ended(const struct launch *l) { return l && l->ended; }
const char *launch_end(const struct launch *l) { return l->why.msg; }

/* --- the beginning --- */

/* Addresses that other machines may reach first, then loopback. */
static void find_addrs(struct launch_place *p) {
    uv_interface_address_t *v;
    int n;
    if (uv_interface_addresses(&v, &n))
        n = 0;
    for (int internal = 0; internal < 2; internal++)
        for (int i = 0; i < n && p->n_addrs < LAUNCH_ADDRS_MAX; i++) {
            const int v6 = v[i].address.address4.sin_family == AF_INET6;
            char *out = p->addrs[p->n_addrs];
            if (v[i].is_internal != internal ||
                (v6 && IN6_IS_ADDR_LINKLOCAL(&v[i].address.address6.sin6_addr)))
                continue;
            if (!(v6 ? uv_ip6_name(&v[i].address.address6, out, sizeof p->addrs[0])
                     : uv_ip4_name(&v[i].address.address4, out, sizeof p->addrs[0])))
                p->n_addrs++;
        }
    if (n)
        uv_free_interface_addresses(v, n);
}

int launch_new(struct launch **out, uv_loop_t *loop, const struct launch_opts *o,
               struct pd_err *err) {
    struct launch *l = pd_secret_new(sizeof *l);
    if (!l)
        return pd_oom(err, "the command of launch");
    l->loop = loop;
    l->o = *o;
    randombytes_buf(l->place.secret, sizeof l->place.secret);
    randombytes_buf(l->place.seed_secret, sizeof l->place.seed_secret);
    randombytes_buf(l->key, sizeof l->key);
    find_addrs(&l->place);
    uv_timer_init(loop, &l->tick);
    l->tick.data = l;
    for (int i = 0; i < 3; i++) {
        uv_signal_init(loop, &l->signals[i]);
        l->signals[i].data = l;
    }
    l->n_handles = 4;
    int rc = transport_words(&l->words, &l->n_words, "launch", o->command, err);
    if (!rc && !l->n_words)
        rc = pd_fail(err, PD_ECONF, "launch is empty");
    if (!rc)
        rc = launch_listen(l, err);
    if (!rc && o->payload) {
        rc = launch_seed_new(&l->seed, loop, &l->o, l->place.seed_secret, &l->place.seed_port, err);
        l->n_handles += !rc;
    }
    if (rc)
        launch_free(l);
    else
        *out = l;
    return rc;
}

/* --- the end --- */

static void on_handle_closed(uv_handle_t *h) { ((struct launch *)h->data)->n_handles--; }

/* 1: every rank has answered the goodbye, or the command has ended. */
static int is_answered(const struct launch *l) {
    int n = 0;
    for (int i = 0; i < l->n_nodes; i++)
        n += l->nodes[i].answered;
    return n == l->n_nodes || l->ended;
}

static int is_ended(const struct launch *l) { return !l->command; }

static void run_until(struct launch *l, int (*done)(const struct launch *), uint64_t ms) {
    uv_update_time(l->loop);
    const uint64_t end = uv_now(l->loop) + ms;
    uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
    while (!done(l) && uv_now(l->loop) < end)
        uv_run(l->loop, UV_RUN_ONCE);
    uv_timer_stop(&l->tick);
}

static void end_command(struct launch *l) {
    int stays = 0;
    l->leaving = 1;
    if (l->complete && l->command) {
        for (int i = 0; i < l->n_nodes; i++)
            launch_say_bye(l, i);
        run_until(l, is_answered, BYE_MS);
        for (int i = 0; i < l->n_nodes; i++)
            stays |= l->nodes[i].stays;
        if (!stays)
            run_until(l, is_ended, END_MS);
    }
    if (!l->command)
        return;
    if (!stays)
        transport_local_end_group(l->command);
    transport_close(l->command);
}

static int is_closed(const struct launch *l) {
    return !l->n_calls && !l->command && l->n_handles <= 1;
}

static int is_all_closed(const struct launch *l) { return !l->n_handles; }

void launch_free(struct launch *l) {
    if (!l)
        return;
    end_command(l);
    for (int i = 0; i < 2; i++)
        launch_close_gate(l, i);
    close_seed(l);
    launch_close_calls(l);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&l->signals[i], on_handle_closed);
    run_until(l, is_closed, UINT32_MAX);
    uv_close((uv_handle_t *)&l->tick, on_handle_closed);
    while (!is_all_closed(l))
        uv_run(l->loop, UV_RUN_ONCE);
    transport_words_free(l->words);
    free(l->nodes);
    free(l->rank_of);
    pd_secret_free(l, sizeof *l);
}
