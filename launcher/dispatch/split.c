/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - see split.h. */
#include "launcher/dispatch/split.h"

#include "conf/ini_file.h"
#include "conf/settings.h"

enum { CONFIG_MAX = 1 << 20 };

struct config {
    char *train, *test;
    uint32_t n_streams;
    int queue, online;       /* data = queue, job = online */
    struct data_files named; /* values of other keys; some are files */
};

void split_init(struct split *s) {
    memset(s, 0, sizeof *s);
    pd_buf_init(&s->list);
}

void split_release(struct split *s) {
    data_files_release(&s->train);
    data_files_release(&s->test);
    data_files_release(&s->apart);
    pd_buf_release(&s->list);
}

/* --- train.ini --- */

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct config *c = arg;
    int data = !strcmp(section, "data");
    uint64_t n;
    (void)line;
    if (data && (!strcmp(name, "train") || !strcmp(name, "test"))) {
        char **to = !strcmp(name, "train") ? &c->train : &c->test;
        free(*to);
        *to = pd_strdup(value);
        return *to ? 0 : pd_oom(err, "the list of data files");
    }
    if (!strcmp(section, "train") && !strcmp(name, "n_streams") &&
        !pd_parse_u64(value, UINT32_MAX, &n))
        c->n_streams = (uint32_t)n;
    if (!strcmp(section, "train") && !strcmp(name, "data"))
        c->queue = !strcmp(value, "queue");
    if (!strcmp(section, "train") && !strcmp(name, "job"))
        c->online = !strcmp(value, "online");
    return data_files_add(&c->named, value) ? pd_oom(err, "the list of data files") : 0;
}

static void config_release(struct config *c) {
    free(c->train);
    free(c->test);
    data_files_release(&c->named);
}

/* Read the workspace's train.ini. 1: read. 0: it cannot be used; the trainers will say why.
 * PD_ENOMEM: with a message. */
static int read_config(struct config *c, const struct scan *scan, const struct pd_options *o,
                       struct pd_err *err) {
    struct scan_item item;
    for (size_t i = 0, n = scan_n_items(scan); i < n; i++) {
        scan_item(scan, i, &item);
        if (strcmp(item.path, o->config) || item.type != MANIFEST_FILE)
            continue;
        struct pd_buf text = {0};
        struct pd_err why = {0};
        int ok = item.size && item.size <= CONFIG_MAX;
        if (ok && pd_buf_reserve(&text, item.size))
            pd_oom(&why, o->config);
        ok = ok && !why.code && !scan_item_read(scan, i, text.data, item.size, &why);
        text.len = ok ? item.size : 0;
        ok =
            ok && !pd_settings_apply(o, o->config, &text, NULL, &why) &&
            !pd_ini_read_text(o->config, (const char *)text.data, text.len, NULL, on_pair, c, &why);
        pd_buf_release(&text);
        return why.code == PD_ENOMEM ? pd_err_copy(err, &why) : ok && (c->train || c->test);
    }
    return 0;
}

/* --- lists --- */

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static long place_of(const struct data_files *f, const char *path) {
    char **found = f->n ? bsearch(&path, f->path, f->n, sizeof *f->path, by_bytes) : NULL;
    return found ? found - f->path : -1;
}

int split_can_list(const struct scan *scan, const char *patterns) {
    struct scan_item item;
    if (!data_files_inside(patterns))
        return 0;
    for (size_t i = 0, n = scan_n_items(scan); i < n; i++) {
        scan_item(scan, i, &item);
        if (item.type == MANIFEST_LINK &&
            (data_files_match(patterns, item.path, 0) || data_files_match(patterns, item.path, 1)))
            return 0;
    }
    return 1;
}

static int list(struct data_files *f, const struct scan *scan, const char *patterns) {
    struct scan_item item;
    for (size_t i = 0, n = scan_n_items(scan); i < n; i++) {
        scan_item(scan, i, &item);
        if (item.type == MANIFEST_FILE && data_files_match(patterns, item.path, 0) &&
            data_files_add(f, item.path))
            return PD_ENOMEM;
    }
    data_files_sort(f);
    return 0;
}

static int add_apart(struct split *s, const struct data_files *from, const struct data_files *named,
                     const char *config) {
    for (size_t i = 0; i < from->n; i++)
        if (strcmp(from->path[i], config) && place_of(named, from->path[i]) < 0 &&
            data_files_add(&s->apart, from->path[i]))
            return PD_ENOMEM;
    return 0;
}

static int put_list(struct split *s) {
    struct data_files all = {0};
    int rc = 0;
    for (size_t i = 0; i < s->train.n + s->test.n && !rc; i++)
        rc = data_files_add(&all, i < s->train.n ? s->train.path[i] : s->test.path[i - s->train.n]);
    data_files_sort(&all);
    for (size_t i = 0; i < all.n; i++)
        pd_put(&s->list, all.path[i], strlen(all.path[i]) + 1);
    data_files_release(&all);
    return rc || s->list.failed ? PD_ENOMEM : 0;
}

int split_find(struct split *s, const struct scan *scan, const struct pd_options *o,
               struct pd_err *err) {
    struct config c = {0};
    int at = pd_options_find("n_streams", PD_LAUNCHER), data = pd_options_find("data", PD_LAUNCHER),
        job = pd_options_find("job", PD_LAUNCHER);
    int read = read_config(&c, scan, o, err), rc = read < 0 ? read : 0;
    if (data >= 0 && o->origin[data].level > PD_FROM_TRAIN_INI)
        c.queue = o->data == PD_DATA_QUEUE;
    if (job >= 0 && o->origin[job].level > PD_FROM_TRAIN_INI)
        c.online = o->job == PD_JOB_ONLINE;
    if (read <= 0 || c.online || (c.train && !split_can_list(scan, c.train)) ||
        (c.test && !split_can_list(scan, c.test)))
        goto out;
    s->queue = c.queue;
    s->n_streams =
        at >= 0 && o->origin[at].level > PD_FROM_TRAIN_INI ? (uint32_t)o->n_streams : c.n_streams;
    data_files_sort(&c.named);
    rc = c.train ? list(&s->train, scan, c.train) : 0;
    if (!rc && c.test)
        rc = list(&s->test, scan, c.test);
    if (!rc)
        rc = add_apart(s, &s->train, &c.named, o->config);
    if (!rc)
        rc = add_apart(s, &s->test, &c.named, o->config);
    data_files_sort(&s->apart);
    if (!rc)
        rc = put_list(s);
    if (rc)
        pd_fail(err, rc, "out of memory");
out:
    config_release(&c);
    return rc;
}

long split_place(const struct split *s, const char *path) { return place_of(&s->apart, path); }
int split_is_apart(const struct split *s, const char *path) { return split_place(s, path) >= 0; }

static int reader(const struct data_files *f, const char *path, uint32_t n_streams,
                  uint32_t n_trainers) {
    long i = place_of(f, path);
    if (i < 0 || !n_trainers)
        return -1;
    uint32_t n = n_streams ? n_streams : n_trainers, stream = data_stream_of((size_t)i, n), lo, hi;
    /* this stream, or the next */
    for (uint32_t t = (uint32_t)((uint64_t)stream * n_trainers / n); t < n_trainers; t++) {
        data_stream_range(n, n_trainers, t, &lo, &hi);
        if (stream >= lo && stream < hi)
            return (int)t;
    }
    return -1;
}

void split_readers(const struct split *s, const char *path, uint32_t n_trainers, int rank[2]) {
    rank[0] = reader(&s->train, path, s->queue ? 0 : s->n_streams, n_trainers);
    rank[1] = reader(&s->test, path, s->n_streams, n_trainers);
}
