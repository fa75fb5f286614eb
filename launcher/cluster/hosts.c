/* hosts.c - see hosts.h. A list is cut at commas outside brackets; each item is a pattern whose brackets are expanded
 * left to right by recursion, and each result is taken apart into user, address and port. */
#include "launcher/cluster/hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/str.h"

enum { NAME_MAX_BYTES = 255 };

struct parse {
    struct hosts *out;
    size_t cap;
    const char *where, *item;
    struct pd_err *err;
};

static void host_release(struct host *h) {
    free(h->spec);
    free(h->label);
    free(h->user);
    free(h->addr);
}

void hosts_release(struct hosts *h) {
    for (size_t i = 0; i < h->n; i++)
        host_release(&h->v[i]);
    free(h->v);
    h->v = NULL;
    h->n = 0;
}

static struct host *host_add(struct parse *p) {
    if (p->out->n >= HOSTS_MAX) {
        pd_fail(p->err, PD_ECONF, "%s: more than %d hosts", p->where, HOSTS_MAX);
        return NULL;
    }
    if (p->out->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 16;
        struct host *v = pd_realloc(p->out->v, cap * sizeof *v);
        if (!v) {
            pd_fail(p->err, PD_ENOMEM, "%s: out of memory", p->where);
            return NULL;
        }
        p->out->v = v;
        p->cap = cap;
    }
    struct host *h = &p->out->v[p->out->n++];
    memset(h, 0, sizeof *h);
    return h;
}

static int valid_name(const char *s, size_t n) {
    if (!n || n > NAME_MAX_BYTES || s[0] == '-') /* a leading dash would be taken for an option */
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-:%", s[i]))
            return 0;
    return 1;
}

static int valid_user(const char *s, size_t n) {
    if (!n || n > 64 || s[0] == '-')
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-$+\\", s[i]))
            return 0;
    return 1;
}

static char *dup_range(const char *s, size_t n) {
    char *p = pd_malloc(n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

/* "[user@]host[:port]" or "[user@][v6]:port", brackets of ranges already gone. */
static int add_remote(struct parse *p, const char *spec) {
    const char *at = strrchr(spec, '@'), *host = at ? at + 1 : spec, *end, *colon = NULL;
    if (*host == '[') {
        end = strchr(host++, ']');
        if (end[1] == ':')
            colon = end + 1;
        else if (end[1])
            return pd_fail(p->err, PD_ECONF, "%s: not a host: '%s'", p->where, spec);
    } else {
        colon = strchr(host, ':');
        end = colon ? colon : host + strlen(host);
    }
    uint64_t port = 0;
    if (colon && (pd_parse_u64(colon + 1, 65535, &port) || !port))
        return pd_fail(p->err, PD_ECONF, "%s: port of %s is 1..65535, not '%s'", p->where, spec, colon + 1);
    if (at && !valid_user(spec, (size_t)(at - spec)))
        return pd_fail(p->err, PD_ECONF, "%s: not a user name in '%s'", p->where, spec);
    if (!valid_name(host, (size_t)(end - host)))
        return pd_fail(p->err, PD_ECONF, "%s: not a host: '%s'", p->where, spec);
    struct host *h = host_add(p);
    if (!h)
        return p->err ? p->err->code : PD_ENOMEM;
    h->port = (int)port;
    h->spec = pd_strdup(spec);
    h->addr = dup_range(host, (size_t)(end - host));
    h->user = at ? dup_range(spec, (size_t)(at - spec)) : NULL;
    if (!h->spec || !h->addr || (at && !h->user))
        return pd_fail(p->err, PD_ENOMEM, "%s: out of memory", p->where);
    return 0;
}

/* The next number of a bracket: digits at *s, at most 9 of them. Its width is how many there were. */
static int number(const char **s, long *v, int *width) {
    *v = 0;
    *width = 0;
    while (isdigit((unsigned char)**s) && *width < 9) {
        *v = *v * 10 + (*(*s)++ - '0');
        ++*width;
    }
    return *width ? 0 : -1;
}

static const char *range_open(const char *s) {
    for (; (s = strchr(s, '[')); s++) {
        const char *close = strchr(s, ']');
        if (!close || !memchr(s, ':', (size_t)(close - s)))
            return s; /* a bracket without a colon inside is a range; with one it is an IPv6 address */
    }
    return NULL;
}

static int expand(struct parse *p, const char *pattern, int depth);

static int expand_range(struct parse *p, const char *pattern, const char *open, const char *close, int depth) {
    const char *s = open + 1;
    for (;;) {
        long lo, hi;
        int width, width_hi;
        if (number(&s, &lo, &width))
            break;
        hi = lo;
        if (*s == '-') {
            s++;
            if (number(&s, &hi, &width_hi))
                break;
            if (hi < lo)
                return pd_fail(p->err, PD_ECONF, "%s: the range in '%s' runs backwards", p->where, p->item);
            if (hi - lo >= HOSTS_MAX)
                return pd_fail(p->err, PD_ECONF, "%s: more than %d hosts", p->where, HOSTS_MAX);
        }
        for (long v = lo; v <= hi; v++) {
            char one[1024];
            if (pd_fmt(one, sizeof one, "%.*s%0*ld%s", (int)(open - pattern), pattern, width, v, close + 1))
                return pd_fail(p->err, PD_ECONF, "%s: host name too long: '%s'", p->where, p->item);
            int rc = expand(p, one, depth + 1);
            if (rc)
                return rc;
        }
        if (s == close)
            return 0;
        if (*s++ != ',')
            break;
        while (*s == ' ')
            s++;
    }
    return pd_fail(p->err, PD_ECONF, "%s: not a range in '%s' (write [1-3,7] or [01-12])", p->where, p->item);
}

static int expand(struct parse *p, const char *pattern, int depth) {
    const char *open = range_open(pattern), *close = open ? strchr(open, ']') : NULL;
    if (!open && !strchr(pattern, '[') && strchr(pattern, ']'))
        return pd_fail(p->err, PD_ECONF, "%s: '%s' has a ']' too many", p->where, p->item);
    if (!open)
        return add_remote(p, pattern);
    if (!close || depth > 4)
        return pd_fail(p->err, PD_ECONF, "%s: %s in '%s'", p->where, close ? "too many ranges" : "']' is missing", p->item);
    return expand_range(p, pattern, open, close, depth);
}

static int add_local(struct parse *p, const char *item) {
    uint64_t n = 1;
    if (item[5] && (item[5] != '*' || pd_parse_u64(item + 6, HOSTS_MAX, &n) || !n))
        return pd_fail(p->err, PD_ECONF, "%s: write local*N with N from 1 to %d, not '%s'", p->where, HOSTS_MAX, item);
    for (size_t i = 0; i < p->out->n; i++)
        if (p->out->v[i].local)
            return pd_fail(p->err, PD_ECONF, "%s: local is given twice; write local*N for N nodes here", p->where);
    while (n--) {
        struct host *h = host_add(p);
        if (!h)
            return p->err ? p->err->code : PD_ENOMEM;
        h->local = 1;
        if (!(h->spec = pd_strdup("local")))
            return pd_fail(p->err, PD_ENOMEM, "%s: out of memory", p->where);
    }
    return 0;
}

/* Two entries are the same host when user, address and port agree; a missing port is 22. */
static int same_host(const struct host *a, const struct host *b) {
    return !a->local && !b->local && !strcasecmp(a->addr, b->addr) &&
           (a->port ? a->port : 22) == (b->port ? b->port : 22) && !strcmp(a->user ? a->user : "", b->user ? b->user : "");
}


static int by_address(const void *x, const void *y, void *arg) {
    const struct host *v = arg, *a = &v[*(const size_t *)x], *b = &v[*(const size_t *)y];
    int c = strcasecmp(a->addr ? a->addr : "", b->addr ? b->addr : "");
    if (!c)
        c = (a->port ? a->port : 22) - (b->port ? b->port : 22);
    if (!c)
        c = strcmp(a->user ? a->user : "", b->user ? b->user : "");
    return c ? c : (*(const size_t *)x > *(const size_t *)y) - (*(const size_t *)x < *(const size_t *)y);
}

/* Refuse duplicates and give every node its label: the address where that is unique, else the spec. */
static int finish(struct parse *p) {
    struct hosts *h = p->out;
    size_t *order = pd_malloc(h->n * sizeof *order);
    int rc = order ? 0 : pd_fail(p->err, PD_ENOMEM, "%s: out of memory", p->where);
    for (size_t i = 0; !rc && i < h->n; i++)
        order[i] = i;
    if (!rc)
        qsort_r(order, h->n, sizeof *order, by_address, h->v);
    for (size_t i = 0; !rc && i < h->n; i++) {
        struct host *a = &h->v[order[i]], *b = i + 1 < h->n ? &h->v[order[i + 1]] : NULL;
        struct host *before = i ? &h->v[order[i - 1]] : NULL;
        char label[NAME_MAX_BYTES + 400];
        if (b && same_host(a, b)) {
            rc = pd_fail(p->err, PD_ECONF, "%s: host %s is given twice", p->where, b->spec);
            break;
        }
        int shared = !a->local && ((b && !b->local && !strcasecmp(a->addr, b->addr)) ||
                                   (before && !before->local && !strcasecmp(a->addr, before->addr)));
        if (a->local)
            pd_fmt(label, sizeof label, "local.%zu", order[i]);
        else
            pd_fmt(label, sizeof label, "%s", shared ? a->spec : a->addr);
        if (!(a->label = pd_strdup(label)))
            rc = pd_fail(p->err, PD_ENOMEM, "%s: out of memory", p->where);
    }
    free(order);
    return rc;
}

int hosts_parse(struct hosts *out, const char *text, const char *where, struct pd_err *err) {
    struct pd_err own = {0};
    struct parse p = {.out = out, .where = where, .err = err ? err : &own};
    memset(out, 0, sizeof *out);
    char *copy = pd_strdup(text);
    int rc = copy ? 0 : pd_fail(p.err, PD_ENOMEM, "%s: out of memory", where);
    for (char *s = copy, *next; !rc && s; s = next) {
        int in = 0;
        char *e = s;
        for (; *e && (*e != ',' || in); e++)
            in += *e == '[' ? 1 : *e == ']' ? -1 : 0;
        next = *e ? e + 1 : NULL;
        *e = 0;
        p.item = s = pd_trim(s);
        if (!*s) {
            if (next || out->n) /* "a, ,b" and "a," are slips worth telling; an empty list is told below */
                rc = pd_fail(p.err, PD_ECONF, "%s: an empty place in the host list", where);
        } else if (!strcmp(s, "local") || pd_starts(s, "local*")) {
            rc = add_local(&p, s);
        } else {
            rc = expand(&p, s, 0);
        }
    }
    if (!rc && !out->n)
        rc = pd_fail(p.err, PD_ECONF, "%s: no hosts", where);
    if (!rc)
        rc = finish(&p);
    free(copy);
    if (rc)
        hosts_release(out);
    return rc;
}

static int add_id(int *ids, size_t *n, char *seen, uint64_t id) {
    if (seen[id])
        return -1;
    seen[id] = 1;
    ids[(*n)++] = (int)id;
    return 0;
}

/* "0-3,7" */
static int role_list(int *ids, size_t *n, char *seen, char *list, size_t n_nodes, const char *what, const char *where,
                     struct pd_err *err) {
    for (char *save = NULL, *s = strtok_r(list, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
        uint64_t lo, hi;
        s = pd_trim(s);
        char *dash = strchr(s, '-');
        if (dash)
            *dash = 0;
        if (pd_parse_u64(pd_trim(s), UINT32_MAX, &lo) || pd_parse_u64(dash ? pd_trim(dash + 1) : s, UINT32_MAX, &hi) || hi < lo)
            return pd_fail(err, PD_ECONF, "%s: %s: write all, a number, or nodes 0-3,7", where, what);
        if (hi >= n_nodes)
            return pd_fail(err, PD_ECONF, "%s: %s: there is no node %llu, the %zu hosts are nodes 0 to %zu", where, what,
                           (unsigned long long)hi, n_nodes, n_nodes - 1);
        for (uint64_t id = lo; id <= hi; id++)
            if (add_id(ids, n, seen, id))
                return pd_fail(err, PD_ECONF, "%s: %s: node %llu is given twice", where, what, (unsigned long long)id);
    }
    return *n ? 0 : pd_fail(err, PD_ECONF, "%s: %s: no nodes", where, what);
}

int hosts_roles(int **out, size_t *n_out, const char *text, size_t n_nodes, const char *what, const char *where,
                struct pd_err *err) {
    int *ids = pd_malloc(n_nodes * sizeof *ids), rc = 0;
    char *seen = pd_calloc(n_nodes, 1), *copy = pd_strdup(text);
    size_t n = 0;
    uint64_t count = n_nodes;
    if (!ids || !seen || !copy) {
        rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
        goto out;
    }
    char *s = pd_trim(copy);
    if (pd_starts(s, "nodes")) {
        rc = role_list(ids, &n, seen, s + 5, n_nodes, what, where, err);
        goto out;
    }
    if (strcmp(s, "all") && (pd_parse_u64(s, UINT32_MAX, &count) || !count))
        rc = pd_fail(err, PD_ECONF, "%s: %s: write all, a number, or nodes 0-3,7, not '%s'", where, what, s);
    else if (count > n_nodes)
        rc = pd_fail(err, PD_ECONF, "%s: %s: %llu nodes wanted, the list has %zu hosts", where, what,
                     (unsigned long long)count, n_nodes);
    for (uint64_t i = 0; !rc && i < count; i++)
        add_id(ids, &n, seen, i);
out:
    free(seen);
    free(copy);
    if (rc) {
        free(ids);
        return rc;
    }
    *out = ids;
    *n_out = n;
    return 0;
}
