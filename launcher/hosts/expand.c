/* SPDX-License-Identifier: Apache-2.0 */
/* expand.c - see expand.h.
 *
 * One pass from left to right. Brackets of an item are expanded by recursion. Each result is a host
 * or a reference; the text of a reference is expanded in its place. Hosts of an exclusion are
 * expanded behind the list, then taken out of it. */
#include "launcher/hosts/expand.h"

enum {
    MAX_RANGES = 4,
    MAX_DEPTH = 16,
    MAX_REFS = 20000,
    MAX_FILE = 4 << 20,
    MAX_TEXT = 1024,
    MAX_ADDR = 255
};

/* The group or file whose text is being read. `up` is the frame that refers to it. */
struct text_frame {
    const struct text_frame *up;
    const char *name;
    const struct pd_group *group; /* or: */
    dev_t dev;
    ino_t ino;
    const char *dir; /* folder that file names in its text are relative to */
    const char *where;
    int depth;
};

struct expansion {
    struct expanded *out;
    const struct pd_options *opts;
    int globs, n_refs;
    struct pd_err *err;
};

/* An item: a part of a frame's text. */
struct expand_item {
    const struct text_frame *f;
    const char *text;
    const struct expand_place *place;
};

void expanded_release(struct expanded *x) {
    for (size_t i = 0; i < x->n; i++)
        free(x->v[i].text);
    free(x->v);
    while (x->places) {
        struct expand_place *p = x->places;
        x->places = p->next;
        free(p->item);
        free(p->where);
        free(p);
    }
    memset(x, 0, sizeof *x);
}

static int no_memory(struct expansion *x, const char *where) {
    return pd_fail(x->err, PD_ENOMEM, "%s: out of memory", where);
}

static int add(struct expansion *x, const struct expand_item *it, const char *text) {
    struct expanded *out = x->out;
    if (out->n >= HOSTS_MAX)
        return pd_fail(x->err, PD_ECONF, "%s: more than %d hosts", it->f->where, HOSTS_MAX);
    if (out->n == out->cap) {
        size_t cap = out->cap ? 2 * out->cap : 16;
        struct expanded_host *v = pd_realloc(out->v, cap * sizeof *v);
        if (!v)
            return no_memory(x, it->f->where);
        out->v = v;
        out->cap = cap;
    }
    char *copy = pd_strdup(text);
    if (!copy)
        return no_memory(x, it->f->where);
    out->v[out->n++] = (struct expanded_host){copy, it->place};
    return 0;
}

/* --- one host --- */

static int valid(const char *s, size_t n, size_t max, const char *marks) {
    /* a leading dash would be taken for an option */
    if (!n || n > max || s[0] == '-')
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr(marks, s[i]))
            return 0;
    return 1;
}

int host_split(const char *text, struct host_parts *out, int globs, const char *where,
               struct pd_err *err) {
    const char *at = strrchr(text, '@'), *host = at ? at + 1 : text, *end, *colon = NULL;
    int v6 = *host == '[';
    if (v6) {
        end = strchr(host++, ']');
        if (!end)
            return pd_fail(err, PD_ECONF, "%s: ']' is missing in '%s'", where, text);
        if (end[1] == ':')
            colon = end + 1;
        else if (end[1])
            return pd_fail(err, PD_ECONF,
                           "%s: not a host: '%s'; hosts are written [user@]host[:port], with "
                           "commas between them",
                           where, text);
    } else {
        colon = strchr(host, ':');
        end = colon ? colon : host + strlen(host);
        if (colon && strchr(colon + 1, ':'))
            return pd_fail(err, PD_ECONF, "%s: write an IPv6 address in brackets: '[%s]', not '%s'",
                           where, host, text);
    }
    uint64_t port = 0;
    if (colon && (pd_parse_u64(colon + 1, 65535, &port) || !port))
        return pd_fail(err, PD_ECONF, "%s: port of %s is 1..65535, not '%s': as in host:22", where,
                       text, colon + 1);
    if (at && !valid(text, (size_t)(at - text), 64, "._-$+\\"))
        return pd_fail(err, PD_ECONF, "%s: not a user name in '%s'", where, text);
    if (!valid(host, (size_t)(end - host), MAX_ADDR, v6 ? ":.%" : globs ? "._-*?" : "._-"))
        return pd_fail(
            err, PD_ECONF,
            "%s: not a host: '%s'; hosts are written [user@]host[:port], with commas between them",
            where, text);
    *out = (struct host_parts){text, host, at ? (size_t)(at - text) : 0, (size_t)(end - host),
                               (int)port};
    return 0;
}

static int is_local(const char *text) {
    return !strcmp(text, "local") || pd_starts_with(text, "local*");
}

static int add_local(struct expansion *x, const struct expand_item *it, const char *text) {
    uint64_t n = 1;
    if (text[5] && (text[5] != '*' || pd_parse_u64(text + 6, HOSTS_MAX, &n) || !n))
        return pd_fail(x->err, PD_ECONF, "%s: write local*N with N from 1 to %d, not '%s'",
                       it->f->where, HOSTS_MAX, text);
    for (size_t i = 0; i < x->out->n; i++)
        if (!strcmp(x->out->v[i].text, "local"))
            return pd_fail(x->err, PD_ECONF,
                           "%s: local is given twice; write local*N for N nodes here",
                           it->f->where);
    int rc = 0;
    while (n-- && !rc)
        rc = add(x, it, "local");
    return rc;
}

/* --- groups and files --- */

static int expand_text(struct expansion *x, const char *text, const struct text_frame *f);

/* The error of a loop: "@a -> @b -> @a" */
static int say_loop(struct expansion *x, const struct expand_item *it,
                    const struct text_frame *first, const char *name) {
    const struct text_frame *chain[MAX_DEPTH + 2];
    char text[600] = "";
    int n = 0;
    for (const struct text_frame *f = it->f; f && n < MAX_DEPTH + 2; f = f->up) {
        chain[n++] = f;
        if (f == first)
            break;
    }
    while (n-- > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "@%s -> ", chain[n]->name);
    return pd_fail(x->err, PD_ECONF, "%s: @%s leads back to itself: %s@%s", it->f->where, name,
                   text, name);
}

static int ref_group(struct expansion *x, const struct expand_item *it, const struct pd_group *g) {
    for (const struct text_frame *f = it->f; f; f = f->up)
        if (f->group == g)
            return say_loop(x, it, f, g->name);
    struct text_frame f = {.up = it->f,
                           .name = g->name,
                           .group = g,
                           .dir = x->opts->conf_dir,
                           .where = g->where,
                           .depth = it->f->depth + 1};
    size_t before = x->out->n;
    int rc = expand_text(x, g->hosts, &f);
    if (!rc && x->out->n == before)
        rc = pd_fail(x->err, PD_ECONF, "%s: group %s has no hosts", g->where, g->name);
    return rc;
}

static int read_lines(struct expansion *x, struct text_frame *f, const char *path, char *text) {
    int rc = 0, line = 0;
    for (char *s = text, *next; s && !rc; s = next) {
        char where[PATH_MAX + 20];
        next = strchr(s, '\n');
        if (next)
            *next++ = 0;
        /* a # inside a word begins no comment elsewhere, but no valid word holds a # */
        for (char *c = s; *c; c++)
            if (*c == '#')
                *c = 0;
        snprintf(where, sizeof where, "%s:%d", path, ++line);
        f->where = where;
        s = pd_trim(s);
        if (*s)
            rc = expand_text(x, s, f);
    }
    return rc;
}

static const char *near_group(const struct expansion *x, const char *name) {
    const char *near = NULL;
    for (size_t i = 0, best = 3; x->opts && i < x->opts->n_groups; i++) {
        size_t d = pd_edit_distance(name, x->opts->groups[i].name);
        if (d < best) {
            best = d;
            near = x->opts->groups[i].name;
        }
    }
    return near;
}

static int ref_file(struct expansion *x, const struct expand_item *it, const char *name) {
    char path[PATH_MAX], dir[PATH_MAX];
    const char *home = getenv("HOME"), *base = it->f->dir && *it->f->dir ? it->f->dir : NULL;
    struct stat st;
    struct pd_buf text = {0};
    int rc = pd_starts_with(name, "~/") && home ? pd_fmt(path, sizeof path, "%s%s", home, name + 1)
             : *name == '/' || !base            ? pd_fmt(path, sizeof path, "%s", name)
                                                : pd_fmt(path, sizeof path, "%s/%s", base, name);
    if (rc)
        return pd_fail(x->err, PD_ECONF, "%s: the path of @%s is too long", it->f->where, name);
    if (stat(path, &st)) {
        const char *near = near_group(x, name);
        return pd_fail(x->err, PD_ECONF,
                       "%s: @%s is neither a group of [groups] nor a file (%s)%s%s%s", it->f->where,
                       name, path, near ? "; did you mean @" : "", near ? near : "",
                       near ? "?" : "");
    }
    if (!S_ISREG(st.st_mode)) /* a pipe would block; a folder has no lines */
        return pd_fail(x->err, PD_ECONF, "%s: @%s: %s is not a file", it->f->where, name, path);
    for (const struct text_frame *f = it->f; f; f = f->up)
        if (!f->group && f->up && f->dev == st.st_dev && f->ino == st.st_ino)
            return say_loop(x, it, f, name);
    pd_fmt(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    dir[slash ? (slash == dir ? 1 : slash - dir) : 0] = 0;
    struct text_frame f = {.up = it->f,
                           .name = name,
                           .dev = st.st_dev,
                           .ino = st.st_ino,
                           .dir = dir,
                           .depth = it->f->depth + 1};
    size_t before = x->out->n;
    rc = pd_read_file(path, MAX_FILE, &text, x->err);
    if (rc)
        pd_err_prefix(x->err, "%s: @%s", it->f->where, name);
    else if (memchr(text.data ? (char *)text.data : "", 0, text.len))
        rc = pd_fail(x->err, PD_ECONF, "%s: @%s: %s is not a text file", it->f->where, name, path);
    else
        rc = read_lines(x, &f, path, text.data ? (char *)text.data : (char[1]){0});
    pd_buf_release(&text);
    if (!rc && x->out->n == before)
        rc = pd_fail(x->err, PD_ECONF, "%s: @%s: %s lists no hosts", it->f->where, name, path);
    return rc == PD_ENOMEM ? rc : rc ? PD_ECONF : 0;
}

static int add_ref(struct expansion *x, const struct expand_item *it, const char *name) {
    if (!*name)
        return pd_fail(x->err, PD_ECONF, "%s: a group's or file's name is missing behind @",
                       it->f->where);
    if (it->f->depth == MAX_DEPTH || ++x->n_refs > MAX_REFS)
        return pd_fail(x->err, PD_ECONF,
                       "%s: @%s: groups and files refer to each other too often or too deep",
                       it->f->where, name);
    for (size_t i = 0; x->opts && i < x->opts->n_groups; i++)
        if (!strcmp(x->opts->groups[i].name, name))
            return ref_group(x, it, &x->opts->groups[i]);
    return ref_file(x, it, name);
}

/* --- ranges --- */

static const char *blanks(const char *s) {
    while (isblank((unsigned char)*s))
        s++;
    return s;
}

/* Read at most 9 digits at *s. `width` is their number. */
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
            return s; /* a bracket without a colon is a range; with one it is an IPv6 address */
    }
    return NULL;
}

static int expand(struct expansion *x, const struct expand_item *it, const char *pattern,
                  int depth);

/* Read "lo[-hi[/step]]" at *s. */
static int read_range(struct expansion *x, const struct expand_item *it, const char **s, long *lo,
                      long *hi, long *step, int *width) {
    int width_hi, w;
    *step = 1;
    if (number(s, lo, width))
        return -1;
    *hi = *lo;
    if (**s != '-')
        return 0;
    ++*s;
    const char *digits = *s;
    if (number(s, hi, &width_hi))
        return -1;
    if (*width != width_hi &&
        ((*digits == '0' && width_hi > 1) || (*width > 1 && digits[-1 - *width] == '0')))
        return pd_fail(x->err, PD_ECONF,
                       "%s: both ends of a padded range have the same number of digits, as in "
                       "[01-12], not '%s'",
                       it->f->where, it->text);
    if (*hi < *lo)
        return pd_fail(x->err, PD_ECONF,
                       "%s: the range in '%s' runs backwards: write the smaller number first",
                       it->f->where, it->text);
    if (**s == '/') {
        ++*s;
        if (number(s, step, &w))
            return -1;
        if (!*step)
            return pd_fail(x->err, PD_ECONF, "%s: the step in '%s' is 0", it->f->where, it->text);
    }
    if ((*hi - *lo) / *step >= HOSTS_MAX)
        return pd_fail(x->err, PD_ECONF, "%s: more than %d hosts", it->f->where, HOSTS_MAX);
    return 0;
}

static int expand_range(struct expansion *x, const struct expand_item *it, const char *pattern,
                        const char *open, const char *close, int depth) {
    const char *s = open + 1;
    for (;;) {
        long lo, hi, step;
        int width, rc;
        s = blanks(s);
        if ((rc = read_range(x, it, &s, &lo, &hi, &step, &width)) == -1)
            break;
        for (long v = lo; v <= hi && !rc; v += step) {
            char one[MAX_TEXT];
            rc = pd_fmt(one, sizeof one, "%.*s%0*ld%s", (int)(open - pattern), pattern, width, v,
                        close + 1)
                     ? pd_fail(x->err, PD_ECONF, "%s: host name too long: '%.100s'", it->f->where,
                               it->text)
                     : expand(x, it, one, depth + 1);
        }
        if (rc)
            return rc;
        s = blanks(s);
        if (s == close)
            return 0;
        if (*s++ != ',')
            break;
    }
    return pd_fail(x->err, PD_ECONF,
                   "%s: not a range in '%.100s' (write [1-3,7], [01-12] or [0-30/10])",
                   it->f->where, it->text);
}

static int expand(struct expansion *x, const struct expand_item *it, const char *pattern,
                  int depth) {
    const char *open = range_open(pattern), *close = open ? strchr(open, ']') : NULL,
               *where = it->f->where;
    struct host_parts parts;
    if (open && (!close || depth == MAX_RANGES))
        return pd_fail(x->err, PD_ECONF, "%s: %s in '%.100s'", where,
                       close ? "too many ranges" : "']' is missing", it->text);
    if (open)
        return expand_range(x, it, pattern, open, close, depth);
    if (*pattern == '@' && !strchr(pattern + 1, '@'))
        return add_ref(x, it, pattern + 1);
    if (!strchr(pattern, '[') && strchr(pattern, ']'))
        return pd_fail(x->err, PD_ECONF, "%s: '%.100s' has a ']' without '['", where, it->text);
    if (is_local(pattern) && !x->globs)
        return add_local(x, it, pattern);
    int rc = host_split(pattern, &parts, x->globs, where, x->err);
    return rc ? rc : add(x, it, pattern);
}

/* --- exclusion --- */

/* Does the exclusion `a` name the host `b`? A part that `a` leaves out (user, port) matches
 * anything. */
static int names(const struct host_parts *a, const struct host_parts *b) {
    return a->n_addr == b->n_addr && !strncasecmp(a->addr, b->addr, a->n_addr) &&
           (!a->n_user || (a->n_user == b->n_user && !strncmp(a->user, b->user, a->n_user))) &&
           (!a->port || a->port == (b->port ? b->port : 22));
}

struct at {
    struct host_parts p;
    size_t i; /* index in the list */
};

static int by_addr(const void *a, const void *b) {
    const struct host_parts *x = &((const struct at *)a)->p, *y = &((const struct at *)b)->p;
    int c = strncasecmp(x->addr, y->addr, x->n_addr < y->n_addr ? x->n_addr : y->n_addr);
    return c ? c : (x->n_addr > y->n_addr) - (x->n_addr < y->n_addr);
}

/* Remove the hosts v[start..n) from v[base..start), then drop v[start..n). */
static int exclude(struct expansion *x, const struct expand_item *it, size_t base, size_t start) {
    struct expanded *out = x->out;
    size_t n = 0, k = base;
    struct at *list = pd_malloc((start - base + 1) * sizeof *list);
    char *gone = pd_calloc(start - base + 1, 1);
    int rc = list && gone ? 0 : no_memory(x, it->f->where);
    for (size_t i = base; i < start && !rc; i++)
        if (strcmp(out->v[i].text, "local") &&
            !(rc = host_split(out->v[i].text, &list[n].p, 0, it->f->where, x->err)))
            list[n++].i = i;
    if (!rc)
        qsort(list, n, sizeof *list, by_addr);
    for (size_t e = start; e < out->n && !rc; e++) {
        struct at want;
        int found = 0;
        if ((rc = host_split(out->v[e].text, &want.p, 0, it->f->where, x->err)))
            break;
        size_t lo = 0, hi = n;
        while (lo < hi) { /* binary search: the first host that is not below */
            size_t mid = (lo + hi) / 2;
            if (by_addr(&list[mid], &want) < 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        for (; lo < n && !by_addr(&list[lo], &want); lo++)
            if (names(&want.p, &list[lo].p))
                gone[list[lo].i - base] = found = 1;
        if (!found)
            rc = pd_fail(
                x->err, PD_ECONF,
                "%s: %s removes %s, which is not in the list before it: write it behind its host",
                it->f->where, it->text, out->v[e].text);
    }
    for (size_t i = base; i < out->n && !rc; i++) {
        if (i >= start || gone[i - base])
            free(out->v[i].text);
        else
            out->v[k++] = out->v[i];
    }
    if (!rc)
        out->n = k;
    free(list);
    free(gone);
    return rc;
}

/* --- an expression --- */

static int add_place(struct expansion *x, struct expand_item *it) {
    struct expand_place *p = pd_calloc(1, sizeof *p);
    if (!p)
        return no_memory(x, it->f->where);
    p->next = x->out->places;
    x->out->places = p;
    p->item = pd_strdup(it->text);
    p->where = pd_strdup(it->f->where);
    it->place = p;
    return p->item && p->where ? 0 : no_memory(x, it->f->where);
}

/* The end of the item at s: a comma, blank or ! outside of brackets. */
static const char *item_end(const char *s) {
    int in = 0;
    for (const char *first = s; *s; s++) {
        in += *s == '[' ? 1 : *s == ']' && in ? -1 : 0;
        if (!in && (*s == ',' || isspace((unsigned char)*s) || (*s == '!' && s > first)))
            break;
    }
    return s;
}

static int one_item(struct expansion *x, const char *text, const struct text_frame *f,
                    size_t base) {
    struct expand_item it = {.f = f, .text = text};
    size_t start = x->out->n;
    int rc = add_place(x, &it), out = *text == '!';
    if (!rc && out && is_local(text + 1))
        rc = pd_fail(x->err, PD_ECONF, "%s: local cannot be removed; write local*N with fewer",
                     f->where);
    if (!rc)
        rc = expand(x, &it, text + out, 0);
    if (!rc && out)
        rc = exclude(x, &it, base, start);
    return rc;
}

static int expand_text(struct expansion *x, const char *text, const struct text_frame *f) {
    size_t base = x->out->n;
    int rc = 0, after_comma = 0, n_items = 0;
    for (const char *s = text; !rc;) {
        while (isspace((unsigned char)*s))
            s++;
        /* "a, ,b" and "a," are typing errors: report them */
        if ((!*s && after_comma) || (*s == ',' && (after_comma || !n_items)))
            return pd_fail(x->err, PD_ECONF, "%s: the host list has an empty item", f->where);
        if (!*s)
            break;
        if ((after_comma = *s == ',')) {
            s++;
            continue;
        }
        const char *from = *s == '!' ? blanks(s + 1) : s, *end = item_end(from);
        const size_t room = (size_t)(end - from) + 2;
        char *item = pd_malloc(room);
        if (!item)
            return no_memory(x, f->where);
        pd_fmt(item, room, "%s%.*s", from > s ? "!" : "", (int)(end - from), from);
        rc = end == from
                 ? pd_fail(x->err, PD_ECONF, "%s: '!' has no host behind it: write !host", f->where)
                 : one_item(x, item, f, base);
        free(item);
        s = end;
        n_items++;
    }
    if (!rc && n_items && x->out->n == base)
        rc = pd_fail(x->err, PD_ECONF, "%s: no host is left of '%.200s'", f->where, text);
    return rc;
}

int expand_hosts(struct expanded *out, const char *text, const char *where,
                 const struct pd_options *opts, const char *dir, int globs, struct pd_err *err) {
    struct pd_err own = {0};
    struct expansion x = {.out = out, .opts = opts, .globs = globs, .err = err ? err : &own};
    struct text_frame f = {.name = "", .dir = dir, .where = where};
    memset(out, 0, sizeof *out);
    int rc = expand_text(&x, text, &f);
    if (rc)
        expanded_release(out);
    return rc;
}
