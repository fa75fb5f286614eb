/* SPDX-License-Identifier: Apache-2.0 */
/* file_copies.c - on the head, with data_copies = 2: new copies of data files after a node is lost.
 *
 *     a node is lost ─▶ list the files that have one copy left ─▶ SETTLE_MS later, file by file:
 *     HD_FILE_COPY to a node of another machine ─▶ it fetches the file (file_want.c)
 *         ├─▶ HD_FILE_HERE: the next file
 *         └─▶ HD_FILE_COPY (it can't): another node; if that can't either, no node is asked again
 *
 * A node makes one copy at a time, and one copy at a time is made of its files; AT_ONCE in the job.
 * Each has a limited pace (FILE_COPY_RATE), so that training keeps most of the network. A file that
 * a trainer has fetched meanwhile counts as a copy. */
#include "agent/files/file_fetch_internal.h"
#include "agent/core/msg.h"

enum {
    SETTLE_MS = 2000, /* the job restarts first, and the nodes tell a new head what they have */
    REPEAT_MS = 10000,
    AT_ONCE = 8,
    LOOK_AHEAD = 256, /* files that are looked at for one that can be copied now */
    COPIES = 2,
    NOBODY = -1,
    SEVERAL = -2
};

struct file_copying {
    int used, from, to;
    size_t row;
    uint64_t asked_ns;
};

struct new_copies {
    uint64_t files, bytes;
};

struct file_copies {
    size_t n_lost; /* the lost nodes of the list */
    uint64_t listed_ns;
    char *lost, *left_out;   /* by node; left_out: it gets no copy now */
    char *tried;             /* by node: it cannot get the file of choose_node */
    unsigned *n_refused;     /* by node: files that it alone could not get */
    int *refused_by;         /* by row: the node that could not get the file, or NOBODY, SEVERAL */
    int *machine;            /* by node */
    unsigned *n_copies;      /* by node: copies of files of other nodes */
    struct new_copies *came; /* by node: not logged yet */
    size_t *row, n;          /* rows of the index that have one copy, and are not copied yet */
    int is_stale;            /* a file that had no holder has one now */
    int is_known;            /* `few` was told */
    struct file_few few;     /* those, and the files without any copy */
    struct file_copying now[AT_ONCE];
    char path[PATH_MAX]; /* of the last message */
};

void file_copies_free(struct file_copies *k) {
    if (!k)
        return;
    free(k->lost);
    free(k->left_out);
    free(k->tried);
    free(k->n_refused);
    free(k->refused_by);
    free(k->machine);
    free(k->n_copies);
    free(k->came);
    free(k->row);
    free(k);
}

static struct file_copies *new_copies(const struct file_fetch *d) {
    const struct spec *s = d->o.spec;
    const size_t n = (size_t)s->n_nodes;
    struct file_copies *k = pd_calloc(1, sizeof *k);
    if (!k || !(k->lost = pd_calloc(n, 1)) || !(k->left_out = pd_calloc(n, 1)) ||
        !(k->tried = pd_calloc(n, 1)) || !(k->n_refused = pd_calloc(n, sizeof *k->n_refused)) ||
        !(k->refused_by = pd_calloc(file_index_n(d->list), sizeof *k->refused_by)) ||
        !(k->machine = pd_calloc(n, sizeof *k->machine)) ||
        !(k->n_copies = pd_calloc(n, sizeof *k->n_copies)) ||
        !(k->came = pd_calloc(n, sizeof *k->came)) ||
        !(k->row = pd_calloc(file_index_n(d->list), sizeof *k->row))) {
        file_copies_free(k);
        return NULL;
    }
    for (int i = 0; i < s->n_nodes; i++)
        k->machine[i] = spec_machine(s, i);
    return k;
}

/* --- the list --- */

/* The live nodes that have the file. `any`: it was sent to a node at all. */
static size_t live_holders(const struct file_fetch *d, const struct file_holders *h,
                           int32_t node[FILE_HOLDERS], int *any) {
    const size_t n = file_holder_nodes(d, h, node);
    size_t live = 0;
    for (size_t i = 0; i < n; i++)
        if (!d->copies->lost[node[i]])
            node[live++] = node[i];
    *any = n > 0;
    return live;
}

/* The nodes have told what they have: none can be missing in the list. */
static int is_settled(const struct file_copies *k) {
    return !k->is_stale && pd_mono_ns() - k->listed_ns > SETTLE_MS * UINT64_C(1000000);
}

static void list_files(struct file_fetch *d) {
    struct file_copies *k = d->copies;
    int32_t node[FILE_HOLDERS];
    struct file_holders h;
    int any;
    k->n = 0;
    k->is_stale = 0;
    k->few = (struct file_few){0};
    memset(k->now, 0, sizeof k->now);
    memset(k->n_copies, 0, (size_t)d->o.spec->n_nodes * sizeof *k->n_copies);
    for (size_t i = 0; i < file_index_n(d->list); i++) {
        file_index_row(d->list, i, &h);
        const size_t live = live_holders(d, &h, node, &any);
        for (size_t c = 1; c < live; c++)
            k->n_copies[node[c]]++;
        if (live >= COPIES || !any)
            continue;
        k->few.files++;
        k->few.bytes += (int64_t)h.bytes;
        if (live && k->refused_by[i] != SEVERAL)
            k->row[k->n++] = i;
    }
}

static void forget_refusals(struct file_fetch *d) {
    struct file_copies *k = d->copies;
    memset(k->n_refused, 0, (size_t)d->o.spec->n_nodes * sizeof *k->n_refused);
    for (size_t i = 0; i < file_index_n(d->list); i++)
        k->refused_by[i] = NOBODY;
}

static const char *node_name(const struct file_fetch *d, int node, char out[100]) {
    json_t *p = d->o.io->peer(d->o.arg, node);
    pd_fmt(out, 100, "node %d (%.60s)", node, msg_str(p, "name"));
    json_decref(p);
    return out;
}

/* One line for each node that has new copies. */
static void log_copies(struct file_fetch *d) {
    struct file_copies *k = d->copies;
    char name[100];
    for (int i = 0; i < d->o.spec->n_nodes; i++)
        if (k->came[i].files) {
            pd_info(&d->o.core->log, "%s has new copies of %llu data files, %llu bytes",
                    node_name(d, i, name), (unsigned long long)k->came[i].files,
                    (unsigned long long)k->came[i].bytes);
            k->came[i] = (struct new_copies){0};
        }
    if (k->few.files)
        pd_warn(&d->o.core->log,
                "%lld data files, %lld bytes, have fewer copies than data_copies = %d",
                (long long)k->few.files, (long long)k->few.bytes, COPIES);
}

/* --- copying --- */

static struct file_copying *find_copying(struct file_copies *k, int node) {
    for (int i = 0; i < AT_ONCE; i++)
        if (k->now[i].used && (k->now[i].to == node || k->now[i].from == node))
            return &k->now[i];
    return NULL;
}

static int can_be_asked(const struct file_fetch *d, int node) {
    return !d->copies->lost[node] && d->o.io->is_here(d->o.arg, node);
}

static int is_copied_now(const struct file_copies *k, size_t row) {
    for (int i = 0; i < AT_ONCE; i++)
        if (k->now[i].used && k->now[i].row == row)
            return 1;
    return 0;
}

/* The node that gets the file, which `own` has. Without another machine, any other node; without
 * one that got all its files, one that could not get another file. -1: none can get it. */
static int choose_node(const struct file_fetch *d, size_t row, int own) {
    const struct file_copies *k = d->copies;
    const int n = d->o.spec->n_nodes;
    int id = wire_copy_node(k->machine, k->left_out, k->n_copies, n, own);
    if (id < 0)
        id = wire_copy_node(NULL, k->left_out, k->n_copies, n, own);
    if (id >= 0)
        return id;
    for (int i = 0; i < n; i++)
        k->tried[i] = !can_be_asked(d, i) || k->refused_by[row] == i;
    return wire_copy_node(NULL, k->tried, k->n_copies, n, own);
}

static void ask(struct file_fetch *d, struct file_copying *c) {
    struct file_copies *k = d->copies;
    struct file_holders h;
    pd_fmt(k->path, sizeof k->path, "%s", file_index_row(d->list, c->row, &h));
    c->asked_ns = pd_mono_ns();
    if (c->to == d->o.spec->node)
        file_want_copy(d, k->path);
    else
        d->o.io->ask_copy(d->o.arg, c->to, k->path);
}

/* Begins one more copy. 0: none can begin now. */
static int begin_copy(struct file_fetch *d) {
    struct file_copies *k = d->copies;
    struct file_copying *slot = NULL;
    int32_t node[FILE_HOLDERS];
    struct file_holders h;
    int any;
    for (int i = 0; i < AT_ONCE && !slot; i++)
        slot = k->now[i].used ? NULL : &k->now[i];
    for (size_t i = 0; slot && i < k->n && i < LOOK_AHEAD; i++) {
        if (is_copied_now(k, k->row[i]))
            continue;
        file_index_row(d->list, k->row[i], &h);
        if (!live_holders(d, &h, node, &any) || !d->o.io->is_here(d->o.arg, node[0]) ||
            find_copying(k, node[0]))
            continue;
        const int to = choose_node(d, k->row[i], node[0]);
        if (to < 0 || find_copying(k, to))
            continue;
        *slot = (struct file_copying){.used = 1, .from = node[0], .to = to, .row = k->row[i]};
        k->n_copies[to]++;
        ask(d, slot);
        return 1;
    }
    return 0;
}

/* Takes the files off the list that have enough copies now. */
static void note_copied(struct file_fetch *d) {
    struct file_copies *k = d->copies;
    int32_t node[FILE_HOLDERS];
    struct file_holders h;
    size_t kept = 0, i;
    int any;
    for (i = 0; i < k->n && i < LOOK_AHEAD; i++) {
        file_index_row(d->list, k->row[i], &h);
        if (live_holders(d, &h, node, &any) < COPIES) {
            k->row[kept++] = k->row[i];
            continue;
        }
        k->few.files--;
        k->few.bytes -= (int64_t)h.bytes;
        for (int c = 0; c < AT_ONCE; c++)
            if (k->now[c].used && k->now[c].row == k->row[i]) {
                k->now[c].used = 0;
                k->came[k->now[c].to].files++;
                k->came[k->now[c].to].bytes += h.bytes;
            }
    }
    if (kept == i)
        return;
    memmove(k->row + kept, k->row + i, (k->n - i) * sizeof *k->row);
    k->n -= i - kept;
    if (!k->n)
        log_copies(d);
    d->o.io->few_changed(d->o.arg);
}

static void go_on(struct file_fetch *d) {
    struct file_copies *k = d->copies;
    const uint64_t now = pd_mono_ns();
    if (!k->n || d->closing || now - k->listed_ns < SETTLE_MS * UINT64_C(1000000))
        return;
    note_copied(d);
    for (int i = 0; i < d->o.spec->n_nodes; i++)
        k->left_out[i] = k->n_refused[i] || !can_be_asked(d, i);
    for (int i = 0; i < AT_ONCE; i++)
        if (k->now[i].used && now - k->now[i].asked_ns > REPEAT_MS * UINT64_C(1000000))
            ask(d, &k->now[i]); /* a message may be lost with its connection */
    while (begin_copy(d))
        ;
}

void file_copies_here(struct file_fetch *d) {
    if (!d->copies)
        return;
    go_on(d);
    d->copies->is_stale = d->copies->few.files > (int64_t)d->copies->n;
}

/* Other files come before it, or it is not copied at all. */
static void put_off(struct file_copies *k, size_t row, int for_ever) {
    size_t i = 0;
    while (i < k->n && k->row[i] != row)
        i++;
    if (i == k->n)
        return;
    memmove(k->row + i, k->row + i + 1, (k->n - i - 1) * sizeof *k->row);
    if (for_ever)
        k->n--;
    else
        k->row[k->n - 1] = row;
}

void file_copies_refused(struct file_fetch *d, int node, const char *path) {
    struct file_copies *k = d->copies;
    struct file_copying *c = k ? find_copying(k, node) : NULL;
    struct file_holders h;
    char name[100], text[300];
    if (!c || c->to != node || strcmp(file_index_row(d->list, c->row, &h), path))
        return;
    c->used = 0;
    k->n_copies[node]--;
    k->left_out[node] = 1; /* until go_on looks again */
    /* The first node is at fault, until a second can't get the file either. */
    int *by = &k->refused_by[c->row];
    if (*by >= 0 && *by != node)
        k->n_refused[*by]--;
    else if (*by < 0)
        k->n_refused[node]++;
    *by = *by >= 0 && *by != node ? SEVERAL : node;
    put_off(k, c->row, *by == SEVERAL);
    if (!k->n)
        log_copies(d);
    pd_warn(&d->o.core->log, "%s can't get a copy of data file %s; its log has the reason",
            node_name(d, node, name), file_shown_path(path, text));
}

/* --- the course --- */

/* After a new head has listed the files, nodes still tell it what they have. Copies under way are
 * waited for. */
static int is_to_list_again(const struct file_copies *k) {
    for (int i = 0; i < AT_ONCE; i++)
        if (k->now[i].used)
            return 0;
    return k->is_stale && pd_mono_ns() - k->listed_ns > SETTLE_MS * UINT64_C(1000000);
}

void file_copies_tick(struct file_fetch *d) {
    const json_t *v, *lost;
    struct lost_node l;
    size_t i;
    if (d->o.spec->job.data_copies < COPIES || !d->o.io->is_head(d->o.arg) || !file_has_list(d))
        return;
    lost = d->o.io->lost_nodes(d->o.arg);
    if (!json_array_size(lost) || (!d->copies && !(d->copies = new_copies(d))))
        return;
    const int is_new_loss = json_array_size(lost) != d->copies->n_lost;
    if (is_new_loss || is_to_list_again(d->copies)) {
        d->copies->n_lost = json_array_size(lost);
        json_array_foreach (lost, i, v)
            if (!wire_get(&wire_lost_node, &l, v, NULL) && l.node < d->o.spec->n_nodes)
                d->copies->lost[l.node] = 1;
        if (is_new_loss)
            forget_refusals(d);
        list_files(d);
        d->copies->listed_ns = pd_mono_ns();
        d->copies->is_known = 0;
        d->o.io->few_changed(d->o.arg);
    }
    go_on(d);
    if (!d->copies->is_known && is_settled(d->copies)) {
        d->copies->is_known = 1;
        d->o.io->few_changed(d->o.arg);
    }
}

struct file_few file_few_copies(const struct file_fetch *d) {
    const struct file_few none = {0}, unknown = {.files = -1};
    if (!d || d->o.spec->job.data_copies < COPIES || !d->o.io->is_head(d->o.arg) ||
        !json_array_size(d->o.io->lost_nodes(d->o.arg)))
        return none;
    if (!d->copies || (!d->copies->few.files && !is_settled(d->copies)))
        return unknown;
    return d->copies->few;
}
