/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - see hosts.h. expand.c expands the expression; this file takes its results apart, checks
 * and labels them. */
#include "launcher/hosts/hosts.h"

static void host_release(struct host *h) {
    free(h->spec);
    free(h->label);
    free(h->user);
    free(h->addr);
    free(h->address);
    free(h->identity_file);
    free(h->root_dir);
    free(h->env);
}

void hosts_release(struct hosts *h) {
    for (size_t i = 0; i < h->n; i++)
        host_release(&h->v[i]);
    free(h->v);
    h->v = NULL;
    h->n = 0;
}

static char *dup_range(const char *s, size_t n) {
    char *p = pd_malloc(n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

static int take_apart(struct host *h, const char *text, const char *where, struct pd_err *err) {
    struct host_parts p;
    if (!(h->spec = pd_strdup(text)))
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    if ((h->local = !strcmp(text, "local")))
        return 0;
    int rc = host_split(text, &p, 0, where, err);
    if (rc)
        return rc;
    h->port = p.port;
    h->addr = dup_range(p.addr, p.n_addr);
    h->user = p.n_user ? dup_range(p.user, p.n_user) : NULL;
    return h->addr && (h->user || !p.n_user) ? 0
                                             : pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
}

/* Two entries are the same host if user, address and port agree. A missing port is 22. */
static int compare(const struct host *a, const struct host *b) {
    int c = strcasecmp(a->addr ? a->addr : "", b->addr ? b->addr : "");
    if (!c)
        c = (a->port ? a->port : 22) - (b->port ? b->port : 22);
    return c ? c : strcmp(a->user ? a->user : "", b->user ? b->user : "");
}

static int by_address(const void *x, const void *y, void *arg) {
    const struct host *v = arg;
    size_t a = *(const size_t *)x, b = *(const size_t *)y;
    int c = compare(&v[a], &v[b]);
    return c ? c : (a > b) - (a < b);
}

static int say_twice(const struct expanded *x, const struct host *v, size_t a, size_t b,
                     const char *where, struct pd_err *err) {
    const struct expand_place *p = x->v[a].from, *q = x->v[b].from;
    if (strcmp(v[a].spec, v[b].spec) || strcmp(p->item, v[a].spec) || strcmp(q->item, v[b].spec) ||
        strcmp(p->where, q->where))
        return pd_fail(err, PD_ECONF,
                       "%s: host %s is given twice: by '%.100s' (%s) and by '%.100s' (%s)", where,
                       v[b].spec, p->item, p->where, q->item, q->where);
    return pd_fail(err, PD_ECONF,
                   "%s: host %s is given twice, as entries %zu and %zu of the list: remove one",
                   where, v[b].spec, a + 1, b + 1);
}

/* Refuse duplicates and label every node: its address if that is unique, otherwise its spec. */
static int finish(struct hosts *h, const struct expanded *x, const char *where,
                  struct pd_err *err) {
    size_t *order = pd_malloc(h->n * sizeof *order);
    int rc = order ? 0 : pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    for (size_t i = 0; !rc && i < h->n; i++)
        order[i] = i;
    if (!rc)
        qsort_r(order, h->n, sizeof *order, by_address, h->v);
    for (size_t i = 0; !rc && i < h->n; i++) {
        struct host *a = &h->v[order[i]], *b = i + 1 < h->n ? &h->v[order[i + 1]] : NULL;
        struct host *before = i ? &h->v[order[i - 1]] : NULL;
        char label[1200];
        if (b && !a->local && !b->local && !compare(a, b)) {
            rc = say_twice(x, h->v, order[i], order[i + 1], where, err);
            break;
        }
        int shared =
            !a->local && ((b && !b->local && !strcasecmp(a->addr, b->addr)) ||
                          (before && !before->local && !strcasecmp(a->addr, before->addr)));
        if (a->local)
            pd_fmt(label, sizeof label, "local.%zu", order[i]);
        else
            pd_fmt(label, sizeof label, "%s", shared ? a->spec : a->addr);
        if (!(a->label = pd_strdup(label)))
            rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    }
    free(order);
    return rc;
}

static int parse(struct hosts *out, const char *text, const char *where,
                 const struct pd_options *opts, const char *dir, struct pd_err *err) {
    struct expanded x;
    memset(out, 0, sizeof *out);
    int rc = expand_hosts(&x, text, where, opts, dir, 0, err);
    if (rc)
        return rc;
    if (!x.n)
        rc = pd_fail(err, PD_ECONF, "%s: no hosts", where);
    else if (!(out->v = pd_calloc(x.n, sizeof *out->v)))
        rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    for (size_t i = 0; i < x.n && !rc; i++) {
        rc = take_apart(&out->v[i], x.v[i].text, x.v[i].from->where, err);
        out->n = i + 1;
    }
    if (!rc)
        rc = finish(out, &x, where, err);
    expanded_release(&x);
    if (rc)
        hosts_release(out);
    return rc;
}

int hosts_parse(struct hosts *out, const char *text, const char *where, struct pd_err *err) {
    return parse(out, text, where, NULL, NULL, err);
}

int hosts_load(struct hosts *out, const struct pd_options *opts, struct pd_err *err) {
    return hosts_load_list(out, opts, opts->hosts, err);
}

int hosts_load_list(struct hosts *out, const struct pd_options *opts, const char *list,
                    struct pd_err *err) {
    const struct pd_origin *from = &opts->origin[pd_options_find("hosts", PD_LAUNCHER)];
    memset(out, 0, sizeof *out);
    if (!*list && from->level != PD_FROM_DEFAULT)
        return pd_fail(err, PD_ECONF,
                       "%s: hosts is empty: it names the nodes, as in hosts = "
                       "root@192.168.1.[10-17], or local",
                       from->where);
    if (!*list)
        return pd_fail(
            err, PD_ECONF,
            "there are no hosts: conf.ini needs [cluster] hosts = ..., or give --hosts=");
    int rc = parse(out, list, from->where, opts,
                   from->level == PD_FROM_CONF_INI ? opts->conf_dir : NULL, err);
    if (!rc)
        rc = hosts_apply_sections(out, opts, err);
    if (rc)
        hosts_release(out);
    return rc;
}
