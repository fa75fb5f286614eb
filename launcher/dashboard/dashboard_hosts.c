/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard_hosts.c - see dashboard_hosts.h. */
#include "launcher/dashboard/dashboard_hosts.h"

#include "launcher/job/find.h"

enum {
    ASK_MS = 10000,
    TICK_MS = 250,
    ROUND_MIN_US = 2000000,
    ROUND_MAX_US = 60000000,
    RETRY_MIN_US = 5000000,
    RETRY_MAX_US = 60000000,
    OTHERS_US = 30000000,
    SHARE = 500,  /* a round takes 1/500 of a core */
    JOB_US = 5000 /* 100 times the CPU time in which an agent lists one job */
};

struct asked { /* a host */
    int64_t next_us;
    unsigned n_failed; /* in a row */
    int waits;         /* for an answer, or a connection */
    int64_t others_us; /* jobs of other users are asked for again then */
    int asks_others;   /* the question that is under way */
    json_t *others;    /* array of wire_other_job; NULL: none */
    int has_opened;    /* its first connection was made or has failed */
    char *error;
};

/* When the progress of a job was seen to move. */
struct moved {
    char id[64];
    int64_t pass, batch, changed_ms;
};

struct dashboard_hosts {
    struct client_env c;
    struct ask_all g;
    struct asked *v; /* index: host of conf.ini */
    pthread_t thread;
    uv_async_t stop;
    uv_timer_t tick;
    int is_stopping, is_changed;
    int64_t round_us;           /* time between two questions to a host */
    int64_t picture_us, cpu_us; /* of the last picture: when it was made, CPU time then */
    int is_opening;             /* a host's first connection was made since then */
    struct moved moved[DASHBOARD_HOST_JOBS];
    size_t n_moved;
    atomic_llong looked_us;
    pthread_mutex_t lock;
    struct hosts_picture *fresh; /* under lock */
};

static int64_t now_us(void) { return (int64_t)(pd_mono_ns() / 1000); }

static int64_t between(int64_t lo, int64_t v, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

/* --- questions --- */

static struct asked *asked_of(const struct ask_all_node *n) {
    return &((struct dashboard_hosts *)n->g->arg)->v[n->id];
}

/* n->data is new, and `others`, which it keeps, if they were asked for. */
static void took_list(struct ask_all_node *n, json_t *others) {
    struct dashboard_hosts *h = n->g->arg;
    struct asked *a = asked_of(n);
    if (a->asks_others) {
        json_decref(a->others);
        a->others = others;
        a->others_us = now_us() + OTHERS_US;
    }
    free(a->error);
    a->error = NULL;
    a->n_failed = 0;
    a->waits = 0;
    a->has_opened = 1;
    a->next_us =
        now_us() + between(h->round_us, (int64_t)json_array_size(n->data) * JOB_US, ROUND_MAX_US);
    h->is_changed = 1;
}

static int take_list(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct ag_list_answer m;
    if (wire_get(&wire_ag_list_answer, &m, body, err))
        return err->code;
    json_decref(n->data);
    n->data = json_incref(m.jobs);
    took_list(n, asked_of(n)->asks_others ? json_incref(m.others) : NULL);
    return 0;
}

/* As `paddlectl ps` does: 1, or 0: paddle_agent has to look. */
static int look_here(struct ask_all_node *n) {
    struct asked *a = asked_of(n);
    json_t *others = NULL;
    a->asks_others = now_us() >= a->others_us;
    if (!find_here(n, 1, a->asks_others ? &others : NULL))
        return 0;
    took_list(n, others);
    return 1;
}

static void request_list(struct ask_all_node *n) {
    struct asked *a = asked_of(n);
    a->waits = 1;
    a->asks_others = now_us() >= a->others_us;
    const struct ag_list m = {.progress = 1, .others = a->asks_others};
    ask_all_request(n, WIRE_AG_LIST, wire_put(&wire_ag_list, &m), ASK_MS, "listing jobs",
                    take_list);
}

/* The host's jobs leave the picture: they are not those of now. */
static void host_failed(struct ask_all_node *n) {
    struct dashboard_hosts *h = n->g->arg;
    struct asked *a = asked_of(n);
    json_decref(n->data);
    json_decref(a->others);
    n->data = a->others = NULL;
    a->others_us = 0;
    a->waits = 0;
    a->has_opened = 1;
    a->next_us =
        now_us() +
        between(RETRY_MIN_US, (int64_t)RETRY_MIN_US << between(0, a->n_failed, 4), RETRY_MAX_US);
    a->n_failed++;
    free(a->error);
    a->error = pd_strdup(*n->err.msg ? n->err.msg : "the connection was closed");
    h->is_changed = 1;
}

static void on_closed(struct ask_all_node *n) {
    const struct dashboard_hosts *h = n->g->arg;
    if (!h->is_stopping)
        host_failed(n);
}

static void ask_host(struct dashboard_hosts *h, struct ask_all_node *n, int64_t now) {
    struct asked *a = asked_of(n);
    h->is_opening |= !a->has_opened;
    if (a->waits && n->over && !n->link) /* not even the attempt could be made */
        host_failed(n);
    if (a->waits || now < a->next_us)
        return;
    if (n->link && !n->over) {
        request_list(n);
    } else if (!n->link && !look_here(n)) {
        a->waits = 1;
        ask_all_begin(n);
    }
}

/* --- the picture --- */

static int64_t moved_ms(const struct dashboard_hosts *h, const struct host_job *j) {
    for (size_t i = 0; i < h->n_moved; i++)
        if (!strcmp(h->moved[i].id, j->id))
            return h->moved[i].pass == j->progress.pass && h->moved[i].batch == j->progress.batch
                       ? h->moved[i].changed_ms
                       : (int64_t)(pd_wall_us() / 1000);
    return 0;
}

static void take_job(const struct dashboard_hosts *h, struct host_job *to,
                     const struct found_job *j) {
    *to = (struct host_job){.n_running = j->n_running,
                            .n_having = j->n_having,
                            .n_nodes = j->n_nodes,
                            .n_lost = (int)json_array_size(j->lost),
                            .is_attached = j->attached && j->n_running,
                            .started_ms = j->started_us / 1000,
                            .ended_ms = j->ended_us / 1000};
    pd_fmt(to->id, sizeof to->id, "%s", j->id);
    pd_fmt(to->name, sizeof to->name, "%s", j->name);
    pd_fmt(to->user, sizeof to->user, "%s", j->user);
    pd_fmt(to->state, sizeof to->state, "%s", j->state);
    to->has_progress = j->progress && !progress_parse(&to->progress, j->progress);
    if (to->has_progress && !j->n_running)
        progress_over(&to->progress, j->state);
    to->changed_ms = to->has_progress ? moved_ms(h, to) : 0;
}

static int take_jobs(struct dashboard_hosts *h, struct hosts_picture *p, const struct found *f) {
    size_t n_running = 0, n_ended = 0;
    p->n_all = f->n;
    p->jobs = pd_calloc(DASHBOARD_HOST_JOBS, sizeof *p->jobs);
    for (size_t i = 0; i < f->n; i++)
        n_running += f->v[i].n_running > 0;
    const size_t most = n_running < DASHBOARD_HOST_JOBS ? DASHBOARD_HOST_JOBS - n_running : 0;
    for (size_t i = 0; p->jobs && i < f->n && p->n_jobs < DASHBOARD_HOST_JOBS; i++)
        if (f->v[i].n_running || (n_ended < most && n_ended++ < DASHBOARD_HOST_ENDED))
            take_job(h, &p->jobs[p->n_jobs++], &f->v[i]);
    h->n_moved = 0;
    for (size_t i = 0; i < p->n_jobs; i++) {
        const struct host_job *j = &p->jobs[i];
        struct moved *m = &h->moved[h->n_moved++];
        *m = (struct moved){.changed_ms = j->changed_ms};
        pd_fmt(m->id, sizeof m->id, "%s", j->id);
        m->pass = j->has_progress ? j->progress.pass : -1;
        m->batch = j->has_progress ? j->progress.batch : -1;
    }
    return p->jobs ? 0 : PD_ENOMEM;
}

/* Jobs without a place in the picture: several hosts may have the same one. */
struct left_out {
    char id[DASHBOARD_HOST_JOBS][64];
    size_t n;
};

static int is_new(struct left_out *left, const char *id) {
    for (size_t i = 0; i < left->n; i++)
        if (!strcmp(left->id[i], id))
            return 0;
    if (left->n == DASHBOARD_HOST_JOBS)
        return 0;
    pd_fmt(left->id[left->n++], sizeof left->id[0], "%s", id);
    return 1;
}

/* A job under another root_dir, of another user perhaps: the kernel's list of tickets has its name
 * and owner (agent/host/machine_jobs.h), and nobody but its own agents knows more. */
static void take_other(struct hosts_picture *p, const struct found *f, const struct other_job *o,
                       struct left_out *left) {
    struct host_job *to = NULL;
    char id[sizeof to->id];
    pd_fmt(id, sizeof id, "%.63s", o->job);
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->v[i].id, id))
            return;
    for (size_t i = 0; i < p->n_jobs && !to; i++)
        if (p->jobs[i].is_elsewhere && !strcmp(p->jobs[i].id, id))
            to = &p->jobs[i];
    if (!to && p->n_jobs == DASHBOARD_HOST_JOBS) {
        p->n_all += is_new(left, id);
        return;
    }
    p->n_all += !to;
    if (!to) {
        to = &p->jobs[p->n_jobs++];
        *to = (struct host_job){.is_elsewhere = 1, .started_ms = o->since_us / 1000};
        pd_fmt(to->id, sizeof to->id, "%s", id);
        pd_fmt(to->user, sizeof to->user, "%.63s", o->user);
        pd_make_printable(to->user);
        pd_fmt(to->state, sizeof to->state, "%s", o->waits ? "waiting" : "running");
    }
    to->n_having++;
    to->n_running += !o->waits;
}

static void take_others(struct dashboard_hosts *h, struct hosts_picture *p, const struct found *f) {
    struct left_out left = {.n = 0};
    for (size_t i = 0; i < h->c.hosts.n; i++) {
        struct other_job o;
        const json_t *v;
        size_t k;
        json_array_foreach (h->v[i].others, k, v)
            if (k < DASHBOARD_HOST_JOBS && !wire_get(&wire_other_job, &o, v, NULL) &&
                find_is_id(o.job))
                take_other(p, f, &o, &left);
    }
}

static int take_hosts(const struct dashboard_hosts *h, struct hosts_picture *p) {
    const size_t n = h->c.hosts.n;
    int rc = 0;
    if (!(p->hosts = pd_calloc(n, sizeof *p->hosts)))
        return PD_ENOMEM;
    p->n_hosts = n;
    for (size_t i = 0; i < n; i++) {
        struct host_state *s = &p->hosts[i];
        s->name = pd_strdup(h->c.hosts.v[i].label);
        s->error = h->v[i].error ? pd_strdup(h->v[i].error) : NULL;
        s->has_answered = h->g.nodes[i].data != NULL;
        p->n_answered += s->has_answered != 0;
        rc |= !s->name || (h->v[i].error && !s->error);
    }
    return rc ? PD_ENOMEM : 0;
}

void hosts_picture_release(struct hosts_picture *p) {
    for (size_t i = 0; p && i < p->n_hosts; i++) {
        free(p->hosts[i].name);
        free(p->hosts[i].error);
    }
    if (p) {
        free(p->hosts);
        free(p->jobs);
    }
    free(p);
}

/* Without memory the last picture stays. */
static void make_picture(struct dashboard_hosts *h) {
    struct hosts_picture *p = pd_calloc(1, sizeof *p), *old = p;
    struct found found = {0};
    struct pd_err err = {0};
    if (p)
        p->made_us = now_us();
    if (p && !find_merge(&h->g, &found, &err) && !take_jobs(h, p, &found) && !take_hosts(h, p)) {
        take_others(h, p, &found);
        pthread_mutex_lock(&h->lock);
        old = h->fresh;
        h->fresh = p;
        pthread_mutex_unlock(&h->lock);
        h->is_changed = 0;
    }
    hosts_picture_release(old);
    find_release(&found);
}

/* A round ends. Its CPU time decides when the next one may be. A round in which hosts were
 * connected to for the first time does not count. */
static void end_round(struct dashboard_hosts *h, int64_t now) {
    const int64_t before = h->cpu_us;
    make_picture(h);
    h->cpu_us = pd_thread_cpu_us();
    h->round_us = h->is_opening ? ROUND_MIN_US
                                : between(ROUND_MIN_US, (h->cpu_us - before) * SHARE, ROUND_MAX_US);
    h->is_opening = 0;
    h->picture_us = now;
}

static void on_tick(uv_timer_t *t) {
    struct dashboard_hosts *h = t->data;
    const int64_t now = now_us();
    if (now - atomic_load(&h->looked_us) > HOSTS_LOOKED_US)
        return;
    for (size_t i = 0; i < h->c.hosts.n; i++)
        ask_host(h, &h->g.nodes[i], now);
    if (h->is_changed && (!h->picture_us || now >= h->picture_us + h->round_us))
        end_round(h, now);
}

/* --- the thread --- */

static void on_stop(uv_async_t *a) {
    struct dashboard_hosts *h = a->data;
    h->is_stopping = 1;
    uv_timer_stop(&h->tick);
    ask_all_interrupt(&h->g);
    uv_stop(&h->c.loop);
}

static void *run_thread(void *arg) {
    struct dashboard_hosts *h = arg;
    for (size_t i = 0; i < h->c.hosts.n; i++) {
        struct ask_all_node *n = &h->g.nodes[i];
        n->skip = look_here(n);
        h->v[i].waits = !n->skip;
    }
    ask_all_run(&h->g, request_list, h);
    while (!h->is_stopping) /* all hosts have failed; the timer asks them again */
        uv_run(&h->c.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&h->tick, NULL);
    uv_close((uv_handle_t *)&h->stop, NULL);
    return NULL;
}

static void release(struct dashboard_hosts *h) {
    ask_all_release(&h->g); /* runs the loop until all is closed */
    for (size_t i = 0; h->v && i < h->c.hosts.n; i++) {
        json_decref(h->v[i].others);
        free(h->v[i].error);
    }
    free(h->v);
    hosts_picture_release(h->fresh);
    client_env_release(&h->c);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

int dashboard_hosts_start(struct dashboard_hosts **out, const struct pd_options *o,
                          struct pd_err *err) {
    if (*o->launch)
        return pd_fail(err, PD_EUSAGE,
                       "hosts that launch reaches are not asked: each question would be a run of "
                       "that command");
    struct dashboard_hosts *h = pd_calloc(1, sizeof *h);
    if (!h)
        return pd_oom(err, "the hosts");
    int rc = client_env_init(&h->c, o, err);
    if (rc) {
        free(h);
        return rc;
    }
    pthread_mutex_init(&h->lock, NULL);
    rc = ask_all_init(&h->g, &h->c, err);
    h->v = pd_calloc(h->c.hosts.n, sizeof *h->v);
    if (!rc && !h->v)
        rc = pd_oom(err, "the hosts");
    if (rc) {
        release(h);
        return rc;
    }
    h->g.on_closed = on_closed;
    h->g.arg = h;
    h->round_us = ROUND_MIN_US;
    h->is_opening = 1;
    atomic_store(&h->looked_us, now_us());
    int e = uv_async_init(&h->c.loop, &h->stop, on_stop);
    if (e) {
        release(h);
        return pd_fail_errno(err, PD_EFAIL, -e, "no thread for the hosts");
    }
    uv_timer_init(&h->c.loop, &h->tick);
    h->stop.data = h->tick.data = h;
    uv_timer_start(&h->tick, on_tick, TICK_MS, TICK_MS);
    e = pthread_create(&h->thread, NULL, run_thread, h);
    if (!e) {
        *out = h;
        return 0;
    }
    uv_close((uv_handle_t *)&h->tick, NULL);
    uv_close((uv_handle_t *)&h->stop, NULL);
    uv_run(&h->c.loop, UV_RUN_DEFAULT);
    release(h);
    return pd_fail_errno(err, PD_EFAIL, e, "no thread for the hosts");
}

void dashboard_hosts_stop(struct dashboard_hosts *h) {
    if (!h)
        return;
    uv_async_send(&h->stop);
    pthread_join(h->thread, NULL);
    release(h);
}

struct hosts_picture *dashboard_hosts_take(struct dashboard_hosts *h) {
    if (!h)
        return NULL;
    atomic_store(&h->looked_us, now_us());
    pthread_mutex_lock(&h->lock);
    struct hosts_picture *p = h->fresh;
    h->fresh = NULL;
    pthread_mutex_unlock(&h->lock);
    return p;
}
