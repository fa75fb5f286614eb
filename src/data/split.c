/* split.c - lines dealt round-robin to shards: paddlectl split. */
#include <string.h>

#include "data/lines.h"
#include "data/prepare.h"
#include "data/shards.h"

/* One file's lines. Unlike the readers of samples, longer lines than DATA_MAX_LINE are an error: a split loses nothing. */
static int split_file(struct data_lines *l, const char *path, struct data_shards *s, struct data_split_counts *c,
                      struct pd_err *err) {
    const char *shown = strcmp(path, "-") ? path : "standard input";
    int rc = data_lines_open(l, path, shown, 0, 0, err);
    while (!rc) {
        char *line;
        size_t n;
        rc = data_lines_next(l, &line, &n, err);
        if (rc == PD_EDATA)
            return pd_fail(err, PD_EDATA, "%s:%llu: the line is longer than 1 MiB", shown, (unsigned long long)l->line);
        if (rc <= 0)
            break;
        pd_put(data_shards_buf(s), line, n);
        c->lines++;
        c->bytes += n + 1;
        rc = data_shards_line(s, err);
    }
    return rc;
}

int data_split(const struct data_split_opts *o, struct data_split_counts *counts, struct pd_err *err) {
    struct data_split_counts c = {.shards = o->shards};
    struct data_shards s = {0};
    struct data_lines l;
    if (!o->n_inputs)
        return pd_fail(err, PD_EUSAGE, "which file is to be split?");
    if (o->shards < 1 || o->shards > DATA_MAX_SHARDS)
        return pd_fail(err, PD_EUSAGE, "shards is 1..%d, not %u", DATA_MAX_SHARDS, o->shards);
    if (!*o->prefix || strchr(o->prefix, '/'))
        return pd_fail(err, PD_EUSAGE, "prefix is a file name, not '%s'", o->prefix);
    int rc = data_lines_init(&l, err);
    if (rc)
        return rc;
    rc = data_shards_start(&s, o->out, o->prefix, o->shards, err);
    for (size_t i = 0; !rc && i < o->n_inputs; i++)
        rc = split_file(&l, o->input[i], &s, &c, err);
    if (!rc)
        rc = data_shards_flush(&s, err);
    if (!rc)
        rc = data_shards_commit(&s, err);
    data_shards_release(&s);
    data_lines_release(&l);
    if (!rc)
        *counts = c;
    return rc;
}
