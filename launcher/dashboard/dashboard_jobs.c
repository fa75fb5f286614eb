/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard_jobs.c - the runs that the dashboard shows; see dashboard.h. */
#include "base/version.h"
#include "launcher/dashboard/dashboard.h"
#include "launcher/record/runs.h"

/* Numbers of the page: half of them for the processes of rank 0. With up to 100 trainers the page
 * stays below 300 kB. */
enum { NUMBERS = 16000, CHIEF_MIN = 8, CHIEF_MAX = 200, OTHERS_MIN = 3, OTHERS_MAX = 100 };
enum { SHARE = 125 }; /* reading takes 1/125 of a core */
enum { WAIT_MIN_US = 2000000, WAIT_MAX_US = 60000000 };

static void remove_job(struct dashboard_jobs *d, size_t i) {
    report_job_release(&d->v[i]->job);
    free(d->v[i]);
    memmove(&d->v[i], &d->v[i + 1], (--d->n - i) * sizeof *d->v);
}

static int add_job(struct dashboard_jobs *d, const struct run *run, struct pd_err *err) {
    char dir[PATH_MAX];
    struct dashboard_job *j = pd_calloc(1, sizeof *j);
    if (!j)
        return pd_oom(err, "the dashboard");
    if (pd_fmt(dir, sizeof dir, "%s/%s", d->outputs, run->job)) {
        free(j);
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", d->outputs);
    }
    pd_fmt(j->id, sizeof j->id, "%s", run->job);
    d->v[d->n++] = j;
    d->changed = 1;
    const int64_t before = pd_thread_cpu_us();
    const int rc = report_job_read(&j->job, dir, err);
    d->once_us += pd_thread_cpu_us() - before;
    return rc;
}

static struct dashboard_job *find_job(const struct dashboard_jobs *d, const char *id) {
    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->v[i]->id, id))
            return d->v[i];
    return NULL;
}

static int is_shown(const struct runs *all, size_t i) {
    return i < DASHBOARD_NEWEST || !strcmp(all->v[i].state, "running");
}

static int newer(const void *a, const void *b) {
    const struct dashboard_job *x = *(struct dashboard_job *const *)a;
    const struct dashboard_job *y = *(struct dashboard_job *const *)b;
    return x->started_ms != y->started_ms ? (x->started_ms < y->started_ms ? 1 : -1)
                                          : strcmp(y->id, x->id);
}

static int read_jobs(struct dashboard_jobs *d, const struct runs *all, struct pd_err *err) {
    size_t shown = 0;
    int rc = 0, more;
    for (size_t i = 0; i < d->n; i++)
        d->v[i]->stays = 0;
    for (size_t i = 0; i < all->n && shown < DASHBOARD_MAX; i++) {
        struct dashboard_job *j = find_job(d, all->v[i].job);
        shown += is_shown(all, i) != 0;
        if (j)
            j->stays = is_shown(all, i);
    }
    for (size_t i = d->n; i--;)
        if (!d->v[i]->stays) {
            remove_job(d, i);
            d->changed = 1;
        }
    for (size_t i = 0; i < all->n && !rc; i++) {
        const struct run *run = &all->v[i];
        struct dashboard_job *j = find_job(d, run->job);
        if (!is_shown(all, i) || (!j && d->n == DASHBOARD_MAX))
            continue;
        more = 0;
        rc = j ? report_job_update(&j->job, &more, err) : add_job(d, run, err);
        if (rc || !(j = find_job(d, run->job)))
            break;
        d->changed |= more || strcmp(j->state, run->state) != 0;
        pd_fmt(j->state, sizeof j->state, "%s", run->state);
        j->started_ms = run->started_ms;
    }
    qsort(d->v, d->n, sizeof *d->v, newer);
    d->changed |= d->n_runs != all->n;
    d->n_runs = all->n;
    return rc;
}

static size_t between(size_t lo, size_t v, size_t hi) { return v < lo ? lo : v > hi ? hi : v; }

static struct report_points points(const struct dashboard_jobs *d) {
    size_t chief = 1, others = 1;
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->v[i]->job.many.n; k++) {
            const struct report_series *s = d->v[i]->job.many.v[k];
            const char *key;
            double v;
            size_t n = 0;
            while (report_series_last(s, n, &key, &v))
                n++;
            *(report_series_who(s).rank ? &others : &chief) += n;
        }
    return (struct report_points){.chief = between(CHIEF_MIN, NUMBERS / 2 / chief, CHIEF_MAX),
                                  .others = between(OTHERS_MIN, NUMBERS / 2 / others, OTHERS_MAX)};
}

static int make_text(struct dashboard_jobs *d, const struct runs *all, struct pd_err *err) {
    json_t *jobs = json_array(), *notes = json_array();
    char text[120];
    for (size_t i = 0; i < d->n && !err->code; i++)
        json_array_append_new(jobs, report_job_json(&d->v[i]->job, d->v[i]->state, points(d), err));
    if (d->n < all->n &&
        !pd_fmt(text, sizeof text, "%zu of %zu runs are shown: those that run, and the newest",
                d->n, all->n))
        json_array_append_new(notes, json_string(text));
    for (size_t i = 0; i < all->n_bad; i++)
        json_array_append_new(notes, json_string(all->bad[i].text));
    json_t *data = json_pack("{s:s, s:I, s:b, s:o, s:o, s:O*}", "paddlectl", PD_VERSION, "made_ms",
                             (json_int_t)(pd_wall_us() / 1000), "live", 1, "jobs", jobs, "notes",
                             notes, "hosts", d->hosts);
    char *made = data && !err->code ? report_data_text(data) : NULL;
    json_decref(data);
    if (!made)
        return err->code ? err->code : pd_oom(err, "the dashboard");
    free(d->text);
    d->text = made;
    d->changed = 0;
    return 0;
}

/* The page changes only if what it shows of the hosts does. */
static void take_picture(struct dashboard_jobs *d) {
    struct hosts_picture *p = dashboard_hosts_take(d->asks);
    const int64_t least_us = (int64_t)(pd_mono_ns() / 1000) - HOSTS_LOOKED_US;
    const int is_old = d->picture && d->picture->made_us < least_us;
    if (!p && d->hosts && !is_old)
        return;
    if (p && p->made_us < least_us) {
        hosts_picture_release(p);
        p = NULL;
    }
    if (p || is_old) {
        hosts_picture_release(d->picture);
        d->picture = p;
    }
    json_t *hosts = dashboard_hosts_json(d);
    if (!hosts || json_equal(hosts, d->hosts)) {
        json_decref(hosts);
        return;
    }
    json_decref(d->hosts);
    d->hosts = hosts;
    d->changed = 1;
}

int dashboard_jobs_update(struct dashboard_jobs *d, struct pd_err *err) {
    const int64_t now = (int64_t)(pd_mono_ns() / 1000), before = pd_thread_cpu_us();
    struct runs all = {0};
    if (d->text && now < d->made_us + d->next_us)
        return 0;
    d->once_us = 0;
    take_picture(d);
    int rc = runs_list(&all, d->outputs, err);
    if (!rc)
        rc = read_jobs(d, &all, err);
    if (!rc && (d->changed || !d->text))
        rc = make_text(d, &all, err);
    runs_release(&all);
    const int64_t wait = (pd_thread_cpu_us() - before - d->once_us) * SHARE;
    d->made_us = now;
    d->next_us = wait < WAIT_MIN_US ? WAIT_MIN_US : wait > WAIT_MAX_US ? WAIT_MAX_US : wait;
    return rc;
}

void dashboard_jobs_release(struct dashboard_jobs *d) {
    while (d->n)
        remove_job(d, d->n - 1);
    hosts_picture_release(d->picture);
    json_decref(d->hosts);
    free(d->text);
    *d = (struct dashboard_jobs){0};
}
