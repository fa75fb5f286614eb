/* SPDX-License-Identifier: Apache-2.0 */
/* job_place.c - selects the hosts of a job and their roles. Node ids have no gaps: if hosts are
 * left out (min_nodes), ids and roles are assigned again to the remaining hosts. */
#include "launcher/job/job_internal.h"
#include "wire/job_spec.h"

/* The most frequent architecture; on a tie, that of the first host. */
static const char *usual_arch(const struct job *j, int *n_usual) {
    const char *best = "";
    *n_usual = 0;
    for (int i = 0; i < j->n_hosts; i++) {
        if (j->nodes[i].step != NODE_STOCKED)
            continue;
        const char *arch = link_facts(j->nodes[i].link)->arch;
        int n = 0;
        if (!strcmp(arch, best))
            continue;
        for (int k = 0; k < j->n_hosts; k++)
            n += j->nodes[k].step == NODE_STOCKED &&
                 !strcmp(link_facts(j->nodes[k].link)->arch, arch);
        if (n > *n_usual) {
            best = arch;
            *n_usual = n;
        }
    }
    return best;
}

/* All nodes run the same program and must compute the same bits: refuse machines of another
 * architecture. */
static void refuse_other_archs(struct job *j) {
    int n_usual;
    const char *usual = usual_arch(j, &n_usual);
    for (int i = 0; i < j->n_hosts; i++) {
        struct job_node *n = &j->nodes[i];
        struct pd_err err = {0};
        if (n->step != NODE_STOCKED || !strcmp(link_facts(n->link)->arch, usual))
            continue;
        pd_fail(&err, PD_EHOST,
                "its architecture is %s, but %d of the hosts have %s: a job needs one architecture",
                link_facts(n->link)->arch, n_usual, usual);
        node_fail(n, &err);
    }
}

static void leave_out(struct job *j) {
    j->n_nodes = 0;
    for (int i = 0; i < j->n_hosts; i++) {
        struct job_node *n = &j->nodes[i];
        n->id = -1;
        if (n->step == NODE_LEFT_OUT)
            continue;
        if (n->step == NODE_STOCKED) {
            n->id = j->n_nodes;
            j->by_id[j->n_nodes++] = n;
            continue;
        }
        watch_node(n, "warning: ", 0, " is left out: %s", n->err.msg);
        node_enter(n, NODE_LEFT_OUT);
    }
    watch_print(j, "%d of %d hosts are used", j->n_nodes, j->n_hosts);
}

/* Assign a role to the remaining hosts. "nodes 0-3,7" names hosts of conf.ini; hosts left out drop
 * out of the list. "all" and "4" (the first four) count the remaining hosts. `all` keeps the
 * original list from the first call, for later calls after more hosts are left out. */
static int place_role(struct job *j, struct job_role *all, int *ids, size_t *n_ids,
                      const char *text, const char *what, struct pd_err *err) {
    size_t n = 0;
    const char *s = text + strspn(text, " \t");
    if (!all->hosts) {
        if (!(all->hosts = pd_calloc(*n_ids + 1, sizeof *ids)))
            return pd_oom(err, "the job's nodes");
        all->n = *n_ids;
        for (size_t i = 0; i < all->n; i++)
            all->hosts[i] = ids[i];
    }
    if (j->n_nodes == j->n_hosts || !all->n)
        return 0;
    if (pd_starts_with(s, "nodes")) {
        for (size_t i = 0; i < all->n; i++)
            if (j->nodes[all->hosts[i]].id >= 0)
                ids[n++] = j->nodes[all->hosts[i]].id;
    } else {
        for (; n < all->n && (int)n < j->n_nodes; n++)
            ids[n] = (int)n;
    }
    *n_ids = n;
    return n ? 0 : pd_fail(err, PD_EHOST, "no host is left for the %s (%s)", what, text);
}

static int place_roles(struct job *j, struct pd_err *err) {
    int rc = place_role(j, &j->pserver_hosts, j->c.pservers, &j->c.n_pservers, j->opts->pservers,
                        "pservers", err);
    return rc ? rc
              : place_role(j, &j->trainer_hosts, j->c.trainers, &j->c.n_trainers, j->opts->trainers,
                           "trainers", err);
}

/* --- copies of data files --- */

static int is_one_machine(const struct host *a, const struct host *b) {
    if (a->local || b->local)
        return a->local && b->local;
    return !strcasecmp(a->address ? a->address : a->addr, b->address ? b->address : b->addr);
}

/* By node: the lowest node of its machine. */
static void find_machines(const struct job *j) {
    for (int i = 0; i < j->n_nodes; i++) {
        j->machines[i] = 0;
        while (!is_one_machine(j->by_id[j->machines[i]]->host, j->by_id[i]->host))
            j->machines[i]++;
    }
}

int job_place_copies(struct job *j, struct pd_err *err) {
    free(j->copy_nodes);
    free(j->machines);
    j->copy_nodes = j->machines = NULL;
    j->n_exposed = 0;
    if (job_data_copies(j) < 2)
        return 0;
    unsigned *n_copies = pd_calloc((size_t)j->n_nodes, sizeof *n_copies);
    j->copy_nodes = pd_calloc(j->c.n_trainers + 1, sizeof *j->copy_nodes);
    j->machines = pd_calloc((size_t)j->n_nodes, sizeof *j->machines);
    if (!n_copies || !j->copy_nodes || !j->machines) {
        free(n_copies);
        return pd_oom(err, "the copies of data files");
    }
    find_machines(j);
    for (size_t r = 0; r < j->c.n_trainers; r++) {
        const int own = j->c.trainers[r],
                  id = wire_copy_node(j->machines, NULL, n_copies, j->n_nodes, own);
        j->n_exposed += id < 0;
        j->copy_nodes[r] = id < 0 ? (own + 1) % j->n_nodes : id;
        n_copies[j->copy_nodes[r]]++;
    }
    free(n_copies);
    return 0;
}

void job_copies_warning(const struct job *j, char *out, size_t cap) {
    *out = 0;
    if (j->n_exposed)
        pd_fmt(
            out, cap,
            "warning: data_copies = 2: %d of %zu trainers have both copies of their data files on "
            "one machine, since there is no other one",
            j->n_exposed, j->c.n_trainers);
}

int job_choose_nodes(struct job *j) {
    int n_ok = 0, want = (int)j->opts->min_nodes;
    refuse_other_archs(j);
    for (int i = 0; i < j->n_hosts; i++)
        n_ok += j->nodes[i].step == NODE_STOCKED;
    if (n_ok < j->n_hosts) {
        if (want && n_ok < want)
            pd_fail(&j->err, PD_EHOST, "%d of %d hosts can be used, min_nodes is %d", n_ok,
                    j->n_hosts, want);
        if (!want || n_ok < want)
            return 0;
        leave_out(j);
    }
    return !place_roles(j, &j->err) && !job_place_copies(j, &j->err) && !job_make_spec(j, &j->err);
}
