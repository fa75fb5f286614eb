/* job_data.c - data files apart from the rest of the workspace: each trainer gets those of its streams (data_layout = dispatched).
 *
 *     package "workspace": all but the data files, and the list of them      to all nodes, while the job is prepared
 *     package "data":      the data files; each trainer has a part of it     once it is known who is which trainer
 *
 * Which files these are is found from the entries of the package (dispatch/split.h), for each of the two on the thread that hashes it. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "launcher/dispatch/split.h"
#include "launcher/job/job_impl.h"

struct job_data {
    const struct pd_options *opts;
    struct split rest, data;   /* as the scan of each of the packages found it */
    int n_trainers;
    int *rank;                 /* by host; -1: no trainer */
    int (*readers)[2];         /* by item of the data's scan: split_readers */
};

static int keep_rest(void *arg, const char *path, int is_folder) {
    const struct job_data *t = arg;
    return is_folder || !split_is_apart(&t->rest, path);
}

static int keep_data(void *arg, const char *path, int is_folder) {
    const struct job_data *t = arg;
    return is_folder || split_is_apart(&t->data, path);
}

static int on_rest_listed(void *arg, struct scan *s, struct pd_err *err) {
    struct job_data *t = arg;
    int rc = split_find(&t->rest, s, t->opts, err);
    return rc || !t->rest.apart.n ? rc : scan_add_file(s, DATA_LIST, t->rest.list.data, t->rest.list.len, err);
}

static int on_data_listed(void *arg, struct scan *s, struct pd_err *err) {
    struct job_data *t = arg;
    return split_find(&t->data, s, t->opts, err);
}

int job_data_new(struct job *j, struct pd_err *err) {
    struct job_data *t = j->data = pd_calloc(1, sizeof *t);
    if (!t || !(t->rank = pd_calloc((size_t)j->n_hosts + 1, sizeof *t->rank)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    t->opts = j->opts;
    split_init(&t->rest);
    split_init(&t->data);
    return 0;
}

void job_data_free(struct job_data *t) {
    if (!t)
        return;
    split_release(&t->rest);
    split_release(&t->data);
    free(t->rank);
    free(t->readers);
    free(t);
}

void job_data_leave_out(struct job_data *t, struct scan *rest) {
    scan_keep(rest, keep_rest, t);
    scan_on_listed(rest, on_rest_listed, t);
}

void job_data_keep(struct job_data *t, struct scan *data) {
    scan_keep(data, keep_data, t);
    scan_on_listed(data, on_data_listed, t);
}

/* --- shares ---------------------------------------------------------------------------------------------------------- */

struct picking {
    const struct job_data *t;
    int rank;
};

static int pick(void *arg, size_t item) {
    const struct picking *p = arg;
    return p->t->readers[item][0] == p->rank || p->t->readers[item][1] == p->rank;
}

/* Both scans looked at the same folder, one a moment after the other. */
static int check_same(const struct job_data *t, struct pd_err *err) {
    const struct pd_buf *a = &t->rest.list, *b = &t->data.list;
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len))
               ? 0
               : pd_fail(err, PD_EDATA, "the data files in %s came or went while they were listed", t->opts->job_dispatch_package);
}

static int find_readers(struct job_data *t, const struct scan *scan, struct pd_err *err) {
    struct scan_item item;
    size_t n = scan_n_items(scan);
    if (!t->readers && !(t->readers = pd_calloc(n + 1, sizeof *t->readers)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        scan_item(scan, i, &item);
        t->readers[i][0] = t->readers[i][1] = -1;
        if (item.type == MANIFEST_FILE && split_is_apart(&t->data, item.path))
            split_readers(&t->data, item.path, (uint32_t)t->n_trainers, t->readers[i]);
    }
    return 0;
}

/* On another thread; host 0 comes first. */
static int make(void *arg, struct scan *scan, int host, struct scan_root *out, struct pd_err *err) {
    struct job_data *t = arg;
    struct picking p = {t, t->rank[host]};
    int rc = host ? 0 : check_same(t, err);
    if (!rc && !host)
        rc = find_readers(t, scan, err);
    if (rc || !t->data.apart.n || p.rank < 0)
        return rc;
    rc = scan_pick(scan, pick, &p, out, err);
    return rc ? rc : 1;
}

void job_data_begin(struct job *j) {
    struct job_data *t = j->data;
    for (int i = 0; i < j->n_hosts; i++)
        t->rank[i] = -1;
    t->n_trainers = (int)j->c.n_trainers;
    for (int r = 0; r < t->n_trainers; r++)
        t->rank[j->by_id[j->c.trainers[r]]->place] = r;
    dispatch_parts(j->dispatch, j->data_package, make, t);
}

int job_data_wants(const struct node *n) { return n->job->data->rank[n->place] >= 0; }
