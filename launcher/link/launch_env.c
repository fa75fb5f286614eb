/* SPDX-License-Identifier: Apache-2.0 */
/* launch_env.c - see launch_env.h. */
#include "launcher/link/launch_env.h"

enum { LEAST_MS = 60000 }; /* for all ranks to call back: a cluster may take its time */

int client_env_check_launch(const struct client_env *c, struct pd_err *err) {
    const struct pd_options *o = c->opts;
    const char *from = option_source(o, "launch");
    /* an engine may have set connect, which the user's launch replaces */
    if (*o->connect && o->origin[pd_options_find("connect", PD_LAUNCHER)].level != PD_FROM_DEFAULT)
        return pd_fail(err, PD_ECONF, "%s: both launch and connect are given: use one of them",
                       from);
    if (!c->hosts.n && strstr(o->launch, "%H"))
        return pd_fail(err, PD_ECONF, "%s: %%H stands for the hosts, but hosts = mpi has none",
                       from);
    for (size_t i = 0; i < c->hosts.n; i++) {
        const struct host *h = &c->hosts.v[i];
        if (h->local)
            return pd_fail(err, PD_ECONF, "%s: hosts has a local node, which launch does not start",
                           from);
        if (h->from[PD_HOST_ROOT_DIR])
            return pd_fail(err, PD_ECONF,
                           "%s: launch starts the same words on each node, so it needs the same "
                           "root_dir (%%n is the rank)",
                           h->from[PD_HOST_ROOT_DIR]);
        if (h->user || h->port)
            return pd_fail(err, PD_ECONF,
                           "%s: %s has a user or a port, which launch does not use: it would have "
                           "no effect",
                           from, h->label);
    }
    return 0;
}

/* One host a rank. Ranks that share a host get their number behind its name. */
static char *list_hosts(const struct launch *l) {
    struct pd_buf b = {0};
    const int n = launch_n_nodes(l);
    for (int i = 0; i < n; i++) {
        int shared = 0;
        for (int k = 0; k < n && !shared; k++)
            shared = k != i && !strcasecmp(launch_host(l, i), launch_host(l, k));
        pd_put_fmt(&b, "%s%s", i ? "," : "", launch_host(l, i));
        if (shared)
            pd_put_fmt(&b, ".%d", i);
    }
    pd_put_u8(&b, 0);
    if (!b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

/* The name of a host without its domain is the same. */
static int same_machine(const char *a, const char *b) {
    const size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && !strncasecmp(a, b, n);
}

/* mpirun puts its own machine first, whatever the list says. So ranks find their places by the
 * names of their machines, if these are those of the list: all of them, or none (addresses,
 * aliases), when node i is rank i. */
static int match_ranks(struct client_env *c, struct pd_err *err) {
    const int n = (int)c->hosts.n;
    int *rank_of = pd_malloc((size_t)n * sizeof *rank_of), found = 0, in_order = 1, other = -1,
        rc = 0;
    if (!rank_of)
        return pd_oom(err, "the nodes");
    for (int i = 0; i < n; i++)
        rank_of[i] = -1;
    for (int r = 0; r < n; r++) {
        int i = 0;
        while (i < n && (rank_of[i] >= 0 ||
                         !same_machine(c->hosts.v[i].addr, launch_host(c->env.launch, r))))
            i++;
        if (i < n) {
            rank_of[i] = r;
            found++;
            in_order &= i == r;
        } else {
            other = r;
        }
    }
    if (found == n)
        rc = launch_set_ranks(c->env.launch, rank_of, err);
    else if (found && !in_order)
        rc = pd_fail(err, PD_EHOST,
                     "rank %d runs on %s, which hosts does not name: give the names that the hosts "
                     "have for themselves (uname -n)",
                     other, launch_host(c->env.launch, other));
    free(rank_of);
    return rc;
}

/* %H: the hosts, separated by commas. NULL: no memory. */
static char *command_of(const struct client_env *c) {
    struct pd_buf b = {0};
    for (const char *s = c->opts->launch; *s; s++) {
        if (s[0] != '%' || s[1] != 'H') {
            pd_put_u8(&b, (uint8_t)*s);
            continue;
        }
        for (size_t i = 0; i < c->hosts.n; i++)
            pd_put_fmt(&b, "%s%s", i ? "," : "", c->hosts.v[i].addr);
        s++;
    }
    pd_put_u8(&b, 0);
    if (!b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

static uint64_t time_limit(const struct pd_options *o) {
    const uint64_t ms = (uint64_t)(o->connect_timeout * 1000);
    const int given =
        o->origin[pd_options_find("connect_timeout", PD_LAUNCHER)].level != PD_FROM_DEFAULT;
    return given || ms > LEAST_MS ? ms : LEAST_MS;
}

static int run(struct client_env *c, uint64_t timeout_ms, struct pd_err *err) {
    struct boot_launch boot;
    const char **labels = pd_calloc(c->hosts.n + 1, sizeof *labels);
    int rc = labels ? boot_launch(&boot, c->opts->root_dir, &c->agent, c->env.launch,
                                  (unsigned)timeout_ms, err)
                    : pd_oom(err, "the words of launch");
    for (size_t i = 0; i < c->hosts.n && labels; i++)
        labels[i] = c->hosts.v[i].label;
    if (!rc) {
        rc = launch_run(c->env.launch, &boot.words, (int)c->hosts.n, c->hosts.n ? labels : NULL,
                        err);
        boot_launch_release(&boot);
    }
    free(labels);
    return rc;
}

int client_env_launch(struct client_env *c, char **list, struct pd_err *err) {
    const struct pd_options *o = c->opts;
    char *command = command_of(c);
    const struct launch_opts opts = {.command = command,
                                     .timeout_ms = time_limit(o),
                                     .lease_ms = (uint64_t)(o->attach_lease * 1000),
                                     .payload = c->agent.seed ? c->agent.gzip : NULL,
                                     .payload_size = c->agent.gzip_size};
    int rc = command ? launch_new(&c->env.launch, &c->loop, &opts, err)
                     : pd_oom(err, "the words of launch");
    free(command);
    if (rc) {
        pd_err_prefix(err, "%s", option_source(o, "launch"));
        return rc;
    }
    rc = run(c, opts.timeout_ms, err);
    if (!rc && c->hosts.n)
        rc = match_ranks(c, err);
    else if (!rc && !(*list = list_hosts(c->env.launch)))
        rc = pd_oom(err, "the hosts of launch");
    return rc;
}
