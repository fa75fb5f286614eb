/* SPDX-License-Identifier: Apache-2.0 */
/* job_data.c - sends data files separately from the rest of the workspace: each trainer gets the
 * files of its streams (data_layout = dispatched).
 *
 *     package "workspace": all other files and the list of data files; to all nodes, in the phase
 *                          prepare
 *     package "data":      the data files, one part per trainer; after the ranks are known. With
 *                          data_copies = 2 a node of another machine gets it, too (job_place.c)
 *
 * The entries of the package tell which files are data files (dispatch/split.h). Both packages
 * determine this separately, on the thread that hashes the package. Node 0 also gets a list of the
 * data files (AG_DATA_LIST). With it a trainer that needs another file later gets the file from a
 * node that has it, or from paddlectl (job_feed.c). */
#include "launcher/dispatch/split.h"
#include "pack/store/file_pieces.h"
#include "launcher/job/job_internal.h"

enum { ROWS_BYTES = 512 << 10 };

struct job_data {
    const struct pd_options *opts;
    struct split rest, data; /* the data files, as found by the scan of each package */
    int n_trainers;
    int *own, *copy;   /* index: trainer: the host that runs it, and that of its copy; -1: none */
    char *wants;       /* index: host */
    int (*readers)[2]; /* index: item of the scan of the data; see split_readers */
    /* index: place in data.apart */
    size_t *item;         /* item of the scan of the data */
    struct object_id *id; /* file_pieces_id */
    uint64_t *bytes;
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
    return rc || !t->rest.apart.n
               ? rc
               : scan_add_file(s, DATA_LIST, t->rest.list.data, t->rest.list.len, err);
}

static int on_data_listed(void *arg, struct scan *s, struct pd_err *err) {
    struct job_data *t = arg;
    return split_find(&t->data, s, t->opts, err);
}

int job_data_new(struct job *j, struct pd_err *err) {
    struct job_data *t = j->data = pd_calloc(1, sizeof *t);
    const size_t n = (size_t)j->n_hosts + 1; /* trainers, too */
    if (!t || !(t->own = pd_calloc(n, sizeof *t->own)) ||
        !(t->copy = pd_calloc(n, sizeof *t->copy)) || !(t->wants = pd_calloc(n, 1)))
        return pd_oom(err, "the list of data files");
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
    free(t->own);
    free(t->copy);
    free(t->wants);
    free(t->readers);
    free(t->item);
    free(t->id);
    free(t->bytes);
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

/* --- shares --- */

struct picking {
    const struct job_data *t;
    int host;
};

static int pick(void *arg, size_t item) {
    const struct picking *p = arg;
    const int *reader = p->t->readers[item];
    for (int k = 0; k < 2; k++)
        if (reader[k] >= 0 && (p->t->own[reader[k]] == p->host || p->t->copy[reader[k]] == p->host))
            return 1;
    return 0;
}

int job_data_copies(const struct job *j) {
    if (j->n_nodes < 2)
        return 1;
    if (j->opts->data_copies)
        return (int)j->opts->data_copies;
    return j->flags.detach && job_may_restart(j) ? 2 : 1;
}

/* Both scans read the same folder, but not at the same time: compare the lists of data files. */
static int check_same(const struct job_data *t, struct pd_err *err) {
    const struct pd_buf *a = &t->rest.list, *b = &t->data.list;
    if (a->failed || b->failed)
        return pd_oom(err, "the names of data files");
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len))
               ? 0
               : pd_fail(err, PD_EDATA, "data files in %s were added or removed during the scan",
                         t->opts->job_dispatch_package);
}

static int find_readers(struct job_data *t, const struct scan *scan, struct pd_err *err) {
    struct scan_item item;
    size_t n = scan_n_items(scan);
    if (!t->readers && !(t->readers = pd_calloc(n + 1, sizeof *t->readers)))
        return pd_oom(err, "the list of data files");
    for (size_t i = 0; i < n; i++) {
        scan_item(scan, i, &item);
        t->readers[i][0] = t->readers[i][1] = -1;
        if (item.type == MANIFEST_FILE && split_is_apart(&t->data, item.path))
            split_readers(&t->data, item.path, (uint32_t)t->n_trainers, t->readers[i]);
    }
    return 0;
}

/* The id of each data file, for the list that node 0 gets. */
static int find_ids(struct job_data *t, const struct scan *scan, struct pd_err *err) {
    struct file_pieces f = {0};
    struct scan_item item;
    size_t n = t->data.apart.n;
    int rc = 0;
    if (!t->item && (!(t->item = pd_calloc(n + 1, sizeof *t->item)) ||
                     !(t->id = pd_calloc(n + 1, sizeof *t->id)) ||
                     !(t->bytes = pd_calloc(n + 1, sizeof *t->bytes))))
        return pd_oom(err, "the list of data files");
    for (size_t i = 0, all = scan_n_items(scan); i < all && !rc; i++) {
        scan_item(scan, i, &item);
        long at = item.type == MANIFEST_FILE ? split_place(&t->data, item.path) : -1;
        if (at < 0)
            continue;
        rc = scan_item_pieces(scan, i, &f);
        rc = rc ? rc : file_pieces_id(&f, &t->id[at]);
        t->item[at] = i;
        t->bytes[at] = f.size;
        if (rc == PD_EDATA)
            pd_fail(err, rc, "%s/%s is too large to be sent apart (data_layout = dispatched)",
                    t->opts->job_dispatch_package, item.path);
        else if (rc)
            pd_fail(err, rc, "out of memory");
    }
    file_pieces_release(&f);
    return rc;
}

/* Make the part of a host. Runs on a thread of the pool; host 0 comes first. */
static int make(void *arg, struct scan *scan, int host, struct scan_root *out, struct pd_err *err) {
    struct job_data *t = arg;
    struct picking p = {t, host};
    int rc = host ? 0 : check_same(t, err);
    if (!rc && !host)
        rc = find_readers(t, scan, err);
    if (!rc && !host)
        rc = find_ids(t, scan, err);
    if (rc || !t->data.apart.n || !t->wants[host])
        return rc;
    rc = scan_pick(scan, pick, &p, out, err);
    return rc ? rc : 1;
}

void job_data_begin(struct job *j) {
    struct job_data *t = j->data;
    char warning[300];
    memset(t->wants, 0, (size_t)j->n_hosts);
    t->n_trainers = (int)j->c.n_trainers;
    for (int r = 0; r < t->n_trainers; r++) {
        t->own[r] = j->by_id[j->c.trainers[r]]->place;
        t->copy[r] = j->copy_nodes ? j->by_id[j->copy_nodes[r]]->place : -1;
        t->wants[t->own[r]] = 1;
        if (j->copy_nodes)
            t->wants[t->copy[r]] = 1;
    }
    job_copies_warning(j, warning, sizeof warning);
    if (*warning)
        watch_print(j, "%s", warning);
    dispatch_parts(j->dispatch, j->data_package, make, t);
}

size_t job_data_n(const struct job *j) { return j->data ? j->data->data.apart.n : 0; }

int job_data_item(const struct job *j, const char *path, size_t *item) {
    long at = job_data_n(j) ? split_place(&j->data->data, path) : -1;
    if (at >= 0)
        *item = j->data->item[at];
    return at >= 0;
}

size_t job_data_rows(const struct job *j, size_t first, struct pd_buf *out) {
    const struct job_data *t = j->data;
    size_t i = first;
    for (; i < t->data.apart.n && out->len < ROWS_BYTES; i++) {
        int rank[2];
        split_readers(&t->data, t->data.apart.path[i], (uint32_t)t->n_trainers, rank);
        pd_put_str(out, t->data.apart.path[i]);
        pd_put(out, t->id[i].b, OBJECT_ID);
        pd_put_u32(out, (uint32_t)rank[0]);
        pd_put_u32(out, (uint32_t)rank[1]);
        pd_put_u64(out, t->bytes[i]);
    }
    return i;
}

int job_data_wants(const struct job_node *n) { return n->job->data->wants[n->place]; }
