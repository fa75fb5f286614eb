/* SPDX-License-Identifier: Apache-2.0 */
/* host_sections.c - hosts_apply_sections of hosts.h: which hosts a [host PATTERN] section names,
 * and what it changes for them.
 *
 * A pattern is a host expression (expand.h) in which * and ? match any characters. It matches a
 * host's address, its label (local.2) or its whole entry in the list (root@10.0.0.7:2222). */
#include <fnmatch.h>

#include "launcher/hosts/hosts.h"

struct name {
    const char *text;
    size_t host;
};

struct names { /* of all hosts, sorted: a section may name thousands */
    struct name *v;
    size_t n;
};

static int by_text(const void *a, const void *b) {
    return strcasecmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int names_init(struct names *t, const struct hosts *h, struct pd_err *err) {
    t->n = 0;
    if (!(t->v = pd_malloc(3 * h->n * sizeof *t->v)))
        return pd_oom(err, "a host section");
    for (size_t i = 0; i < h->n; i++) {
        const struct host *host = &h->v[i];
        if (host->addr)
            t->v[t->n++] = (struct name){host->addr, i};
        if (!host->addr || strcmp(host->addr, host->label))
            t->v[t->n++] = (struct name){host->label, i};
        if (strcmp(host->spec, host->label) && (!host->addr || strcmp(host->spec, host->addr)))
            t->v[t->n++] = (struct name){host->spec, i};
    }
    qsort(t->v, t->n, sizeof *t->v, by_text);
    return 0;
}

/* Mark the hosts that `pattern` names. Returns the number of matches. */
static size_t mark(const struct names *t, const char *pattern, char *hit) {
    size_t lo = 0, hi = t->n, n = 0;
    if (strpbrk(pattern, "*?")) {
        for (size_t i = 0; i < t->n; i++)
            if (!fnmatch(pattern, t->v[i].text, FNM_CASEFOLD | FNM_NOESCAPE))
                n += hit[t->v[i].host] = 1;
        return n;
    }
    const struct name want = {pattern, 0};
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (by_text(&t->v[mid], &want) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < t->n && !by_text(&t->v[lo], &want); lo++)
        n += hit[t->v[lo].host] = 1;
    return n;
}

/* A name without user and port is compared as an address: [fe80::1] loses its brackets. */
static int match(const struct names *t, const char *text, const char *where, char *hit, size_t *n,
                 struct pd_err *err) {
    struct host_parts p;
    char addr[300];
    int rc = host_split(text, &p, 1, where, err);
    if (rc)
        return rc;
    pd_fmt(addr, sizeof addr, "%.*s", (int)p.n_addr, p.addr);
    *n += mark(t, p.n_user || p.port ? text : addr, hit);
    return 0;
}

/* --- what a section changes --- */

static int set_text(char **field, const char *value) {
    char *copy = pd_strdup(value);
    if (!copy)
        return -1;
    free(*field);
    *field = copy;
    return 0;
}

static int set_env(struct host *h, const struct pd_env_var *e) {
    for (size_t i = 0; i < h->n_env; i++)
        if (!strcmp(h->env[i]->name, e->name)) {
            h->env[i] = e;
            return 0;
        }
    const struct pd_env_var **v = pd_realloc(h->env, (h->n_env + 1) * sizeof *v);
    if (!v)
        return -1;
    h->env = v;
    v[h->n_env++] = e;
    return 0;
}

/* The command line has the highest priority. */
static int from_argv(const struct pd_options *o, const char *name) {
    return o->origin[pd_options_find(name, PD_LAUNCHER)].level == PD_FROM_ARGV;
}

static int is_overridden(const struct pd_options *o, const struct host *h, int key) {
    switch (key) {
    case PD_HOST_USER:
        return h->user && from_argv(o, "hosts");
    case PD_HOST_PORT:
        return h->port && from_argv(o, "hosts");
    case PD_HOST_IDENTITY_FILE:
        return from_argv(o, "identity_file");
    case PD_HOST_ROOT_DIR:
        return from_argv(o, "root_dir");
    default:
        return 0;
    }
}

static int apply(struct host *h, const struct pd_host_section *s, const struct pd_options *o) {
    char **field[PD_HOST_N_KEYS] = {
        [PD_HOST_USER] = &h->user,
        [PD_HOST_ADDRESS] = &h->address,
        [PD_HOST_IDENTITY_FILE] = &h->identity_file,
        [PD_HOST_ROOT_DIR] = &h->root_dir,
    };
    int bad = 0;
    for (int k = 0; k < PD_HOST_N_KEYS; k++) {
        int64_t port = 0;
        if (!s->value[k].text || is_overridden(o, h, k))
            continue;
        if (k == PD_HOST_PORT && !pd_parse_i64(s->value[k].text, 1, 65535, &port))
            h->port = (int)port;
        else
            bad |= set_text(field[k], s->value[k].text);
        h->from[k] = s->value[k].where;
    }
    for (size_t i = 0; i < s->n_env; i++)
        bad |= set_env(h, &s->env[i]);
    return bad;
}

/* For a local node the keys of ssh mean nothing: refuse them, since the user expects an effect. */
static int check_local(const struct host *h, const struct pd_host_section *s, struct pd_err *err) {
    for (int k = 0; k < PD_HOST_N_KEYS && h->local && !strpbrk(s->pattern, "*?"); k++)
        if (s->value[k].text && k != PD_HOST_ROOT_DIR)
            return pd_fail(err, PD_ECONF,
                           "%s: %s means nothing for %s, which is reached without ssh",
                           s->value[k].where, pd_host_keys[k].name, h->label);
    return 0;
}

static int apply_section(struct hosts *h, const struct names *t, const struct pd_host_section *s,
                         const struct pd_options *o, char *hit, struct pd_err *err) {
    struct expanded x;
    size_t n = 0;
    int rc = expand_hosts(&x, s->pattern, s->where, o, o->conf_dir, 1, err);
    if (rc)
        return rc;
    memset(hit, 0, h->n);
    for (size_t i = 0; i < x.n && !rc; i++)
        rc = match(t, x.v[i].text, s->where, hit, &n, err);
    expanded_release(&x);
    /* the command line may name some of conf.ini's hosts */
    if (!rc && !n && !from_argv(o, "hosts"))
        rc = pd_fail(err, PD_ECONF, "%s: [host %.200s]: there is no such host in the list of %s",
                     s->where, s->pattern, o->origin[pd_options_find("hosts", PD_LAUNCHER)].where);
    for (size_t i = 0; i < h->n && !rc; i++) {
        if (!hit[i])
            continue;
        rc = check_local(&h->v[i], s, err);
        if (!rc && apply(&h->v[i], s, o))
            rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", s->where);
    }
    return rc;
}

int hosts_apply_sections(struct hosts *h, const struct pd_options *o, struct pd_err *err) {
    struct names t = {0};
    char *hit = pd_malloc(h->n);
    int rc = hit ? names_init(&t, h, err) : pd_oom(err, "a host section");
    for (size_t i = 0; i < h->n && !rc; i++)
        if (set_text(&h->v[i].root_dir, o->root_dir))
            rc = pd_oom(err, "a host section");
    for (size_t i = 0; i < o->n_host_sections && !rc; i++)
        rc = apply_section(h, &t, &o->host_sections[i], o, hit, err);
    free(t.v);
    free(hit);
    return rc;
}
