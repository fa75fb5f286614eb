/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_package.c - packages of a dispatch: hashed on a thread, then announced to the nodes; and
 * packages of which each node gets a part. */
#include "launcher/dispatch/dispatch_internal.h"

static void break_package(struct dpackage *p, const struct pd_err *err) {
    struct dispatch *d = p->d;
    if (d->over || p->broken)
        return;
    p->broken = 1;
    p->err = *err;
    if (d->c.on_broken)
        d->c.on_broken(d->c.arg, err);
    for (int i = 0; i < d->c.n_nodes && !d->over; i++)
        if (d->nodes[i].wants & 1u << (p - d->packages) &&
            d->nodes[i].m[p - d->packages].state != DONE)
            dispatch_fail_node(d, i, err);
}

static void on_feed_failed(void *arg, const struct pd_err *err) { break_package(arg, err); }

static void scan_work(uv_work_t *w) {
    struct dpackage *p = w->data;
    scan_run(p->scan, &p->err);
}

/* All objects of the package are known: it can be sent. 0: no. */
static int can_be_fed(struct dpackage *p) {
    struct dispatch *d = p->d;
    int relayed = d->c.relay && !p->is_parts;
    if (!p->err.code && (!(p->feed = feed_new(d->c.loop, p->scan, relayed && d->c.n_nodes > 1,
                                              FEED_CACHE, on_feed_failed, p)) ||
                         !(p->plan = relay_plan_new(d->c.n_nodes, relayed))))
        pd_oom(&p->err, "a package");
    if (p->err.code) {
        struct pd_err err = p->err;
        break_package(p, &err);
        return 0;
    }
    return 1;
}

/* --- parts --- */

static void parts_work(uv_work_t *w) {
    struct dpackage *p = w->data;
    for (int i = 0; i < p->d->c.n_nodes && !p->err.code; i++) {
        struct scan_root *r = pd_malloc(sizeof *r);
        int rc = r ? p->make(p->make_arg, p->scan, i, r, &p->err) : pd_oom(&p->err, "a package");
        if (rc == 1) {
            p->roots[i] = r;
            continue;
        }
        free(r);
        if (rc < 0 && !p->err.code)
            pd_fail(&p->err, rc, "cannot share out the data files");
    }
}

static void on_parts_made(uv_work_t *w, int status) {
    struct dpackage *p = w->data;
    struct dispatch *d = p->d;
    (void)status;
    d->n_scanning--;
    p->make = NULL;
    if (d->over || !can_be_fed(p))
        return;
    p->parts_ready = 1;
    for (int i = 0; i < d->c.n_nodes; i++)
        dispatch_begin(d, i, (int)(p - d->packages));
}

static void make_parts(struct dpackage *p) {
    struct dispatch *d = p->d;
    if (!p->make || !p->scanned || p->feed || d->over)
        return;
    if (!p->roots && !(p->roots = pd_calloc((size_t)d->c.n_nodes + 1, sizeof *p->roots))) {
        break_package(p, &(struct pd_err){.code = PD_ENOMEM, .msg = "out of memory"});
        return;
    }
    for (int i = 0; i < d->c.n_nodes; i++) {
        free(p->roots[i]);
        p->roots[i] = NULL;
    }
    d->n_scanning++;
    uv_queue_work(d->c.loop, &p->work, parts_work, on_parts_made);
}

static void on_old_feed_gone(void *arg) {
    struct dpackage *p = arg;
    p->d->n_feeds_going--;
    make_parts(p);
}

void dispatch_parts(struct dispatch *d, int package, dispatch_make make, void *arg) {
    struct dpackage *p = &d->packages[package];
    struct feed *old = p->feed;
    p->make = make;
    p->make_arg = arg;
    p->parts_ready = 0;
    for (int i = 0; i < d->c.n_nodes; i++) {
        dispatch_drop(&d->nodes[i].m[package]);
        d->nodes[i].done &= ~(1u << package);
    }
    relay_plan_free(p->plan);
    p->plan = NULL;
    p->feed = NULL;
    /* its threads read the scan, which is about to change */
    if (old) {
        p->sent_before += feed_sent(old);
        d->n_feeds_going++;
        feed_free(old, on_old_feed_gone, p);
    } else {
        make_parts(p);
    }
}

int dispatch_part_id(const struct dispatch *d, int node, int package, struct object_id *id) {
    const struct dpackage *p = &d->packages[package];
    if (!p->roots || !p->roots[node])
        return 0;
    *id = p->roots[node]->id;
    return 1;
}

/* --- scanning --- */

static void on_scanned(uv_work_t *w, int status) {
    struct dpackage *p = w->data;
    struct dispatch *d = p->d;
    (void)status;
    d->n_scanning--;
    if (d->over)
        return;
    if (p->err.code) {
        struct pd_err err = p->err;
        break_package(p, &err);
        return;
    }
    if (!p->is_parts && !can_be_fed(p))
        return;
    p->scanned = 1;
    make_parts(p);
    if (d->c.on_scanned)
        d->c.on_scanned(d->c.arg, (int)(p - d->packages));
    for (int i = 0; i < d->c.n_nodes; i++)
        dispatch_begin(d, i, (int)(p - d->packages));
    dispatch_changed(d);
}

int dispatch_add(struct dispatch *d, const char *kind, const char *name, struct scan *scan,
                 struct pd_err *err) {
    if (d->n_packages == DISPATCH_PACKAGES) {
        scan_free(scan);
        return pd_fail(err, PD_EFAIL, "too many packages");
    }
    struct dpackage *p = &d->packages[d->n_packages];
    p->d = d;
    p->scan = scan;
    p->work.data = p;
    pd_fmt(p->kind, sizeof p->kind, "%s", kind);
    pd_fmt(p->name, sizeof p->name, "%.99s", name);
    d->n_scanning++;
    uv_queue_work(d->c.loop, &p->work, scan_work, on_scanned);
    return d->n_packages++;
}

int dispatch_add_parts(struct dispatch *d, const char *kind, struct scan *scan,
                       struct pd_err *err) {
    int package = dispatch_add(d, kind, "", scan, err);
    if (package >= 0)
        d->packages[package].is_parts = 1;
    return package;
}
