/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_threads.c - see trainer_threads.h. */
#include "train/trainer_threads.h"

#include <pthread.h>

#include "base/spans.h"
#include "thread/latch.h"
#include "nn/kernels/kernel.h"

struct train_thread {
    struct train_threads *group;
    uint32_t index;
    int running; /* the thread was started */
    pthread_t thread;
    struct nn_exec *exec;
    struct nn_eval *eval;                 /* thread 0: owned by the caller */
    struct pd_latch_spin between, within; /* waits between runs; waits within a run */
    uint64_t n_barriers;                  /* barriers passed within runs */
    int rc;
    struct pd_err err;
};

struct train_threads {
    uint32_t n;
    const struct pd_cpus *cpus;
    struct pd_spans *spans; /* of the caller; NULL: none */
    struct train_piece *piece;
    struct pd_latch begun, done; /* runs begun; threads that have ended a run */
    struct pd_latch met;         /* threads that have reached a barrier */
    uint64_t n_runs;
    int quit;
    void (*job)(struct train_thread *m, void *arg);
    void *arg;
    struct train_thread threads[];
};

static void *work(void *arg) {
    struct train_thread *m = arg;
    struct train_threads *t = m->group;
    char name[20];
    pd_fmt(name, sizeof name, "thread %u", m->index);
    pd_spans_thread(t->spans, name);
    for (uint64_t k = 1;; k++) {
        pd_latch_wait(&t->begun, k, &m->between);
        if (t->quit)
            break;
        t->job(m, t->arg);
        pd_latch_add(&t->done, 1);
    }
    pd_spans_thread_end();
    return NULL;
}

/* Runs the job on all threads, the caller among them; returns when all are done. */
static void run(struct train_threads *t, void (*job)(struct train_thread *m, void *arg),
                void *arg) {
    if (t->n > 1) {
        t->job = job;
        t->arg = arg;
        t->n_runs++;
        pd_latch_add(&t->begun, 1);
    }
    job(&t->threads[0], arg);
    if (t->n > 1)
        pd_latch_wait(&t->done, t->n_runs * (t->n - 1), &t->threads[0].between);
}

/* Barrier within a run. */
static void wait_at_barrier(struct train_thread *m) {
    struct train_threads *t = m->group;
    pd_latch_add(&t->met, 1);
    pd_latch_wait(&t->met, ++m->n_barriers * t->n, &m->within);
}

static int start(struct train_thread *m, struct pd_err *err) {
    int rc = pthread_create(&m->thread, NULL, work, m);
    if (rc)
        return pd_fail_errno(err, PD_EHOST, rc, "cannot start thread %u of the trainer", m->index);
    m->running = 1;
    return 0;
}

static void pin(struct train_thread *m, void *arg) {
    const struct pd_cpus *cpus = arg;
    if (m->index && pd_pin_thread(cpus, m->index)) /* thread 0 is the caller, which pinned itself */
        m->rc = pd_fail_errno(&m->err, PD_EHOST, errno, "cannot pin thread %u of the trainer",
                              m->index);
}

static int first_error(struct train_threads *t, struct pd_err *err) {
    for (uint32_t i = 0; i < t->n; i++)
        if (t->threads[i].rc) {
            int rc = pd_err_copy(err, &t->threads[i].err);
            t->threads[i].rc = 0;
            t->threads[i].err = (struct pd_err){0};
            return rc;
        }
    return 0;
}

static int make_execs(struct train_threads *t, const struct nn_graph *g, uint32_t max_piece,
                      uint32_t max_batch, struct pd_err *err) {
    struct nn_exec *e[TRAIN_MAX_THREADS];
    int rc = nn_graph_admit(g, t->n, max_piece, max_batch ? max_batch : t->n * max_piece, err);
    if (rc)
        return rc;
    if (t->n > 1 && max_batch) {
        rc = nn_exec_new_beside(e, t->n, g, max_piece, max_batch, err);
        for (uint32_t i = 0; i < t->n && !rc; i++)
            t->threads[i].exec = e[i];
        return rc;
    }
    for (uint32_t i = 0; i < t->n && !rc; i++)
        rc = nn_exec_new(&t->threads[i].exec, g, max_piece, err);
    return rc;
}

int train_threads_new(struct train_threads **out, const struct nn_graph *g, uint32_t n_threads,
                      uint32_t max_piece, uint32_t max_batch, struct nn_eval *eval,
                      const struct pd_cpus *cpus, struct pd_err *err) {
    struct train_threads *t = pd_calloc(1, sizeof *t + n_threads * sizeof t->threads[0]);
    int rc = 0;
    if (!t)
        return pd_fail(err, PD_ENOMEM, "out of memory for %u threads", n_threads);
    pd_latch_init(&t->begun);
    pd_latch_init(&t->done);
    pd_latch_init(&t->met);
    t->n = n_threads;
    t->spans = pd_spans_here();
    t->piece = pd_calloc(n_threads, sizeof *t->piece);
    if (!t->piece)
        rc = pd_fail(err, PD_ENOMEM, "out of memory for %u threads", n_threads);
    if (!rc)
        rc = make_execs(t, g, max_piece, max_batch, err);
    if (!rc)
        rc = nn_gemm_room(n_threads, err);
    for (uint32_t i = 0; i < n_threads && !rc; i++) {
        struct train_thread *m = &t->threads[i];
        m->group = t;
        m->index = i;
        m->eval = eval;
        if (i) {
            m->eval = NULL;
            rc = nn_eval_new(&m->eval, g, err);
        }
    }
    for (uint32_t i = 1; i < n_threads && !rc; i++)
        rc = start(&t->threads[i], err);
    if (!rc && cpus) {
        run(t, pin, (void *)(uintptr_t)cpus);
        rc = first_error(t, err);
    }
    if (rc)
        train_threads_free(t);
    else
        *out = t;
    return rc;
}

void train_threads_free(struct train_threads *t) {
    if (!t)
        return;
    t->quit = 1;
    pd_latch_add(&t->begun, 1);
    for (uint32_t i = 0; i < t->n; i++) {
        struct train_thread *m = &t->threads[i];
        if (m->running)
            pthread_join(m->thread, NULL);
        nn_exec_free(m->exec);
        if (i)
            nn_eval_free(m->eval);
    }
    pd_latch_destroy(&t->begun);
    pd_latch_destroy(&t->done);
    pd_latch_destroy(&t->met);
    free(t->piece);
    free(t);
}

uint32_t train_threads_size(const struct train_threads *t) { return t->n; }
struct train_piece *train_threads_pieces(struct train_threads *t) {
    return t->piece;
}

/* --- pieces --- */

struct compute {
    const struct train_work *w;
    struct train_piece *piece;
    uint32_t n;
};

static void compute(struct train_thread *m, void *arg) {
    const struct compute *c = arg;
    for (uint32_t i = m->index; i < c->n && !m->rc; i += m->group->n) {
        struct train_piece *p = &c->piece[i];
        const uint64_t began = pd_mono_ns();
        train_params_bind(c->w->params, m->exec, p->grads);
        nn_exec_forward(m->exec, c->w->feed, p->first, p->n, p->grads ? NN_TRAIN : NN_TEST,
                        c->w->seed, c->w->pass, &p->cost);
        m->rc = nn_eval_add(m->eval, m->exec, &m->err);
        const uint64_t middle = pd_mono_ns();
        p->forward_ns = middle - began;
        pd_span_add("forward", began, middle);
        nn_exec_on_gradient(m->exec, c->w->on_gradient, c->w->arg);
        if (!m->rc && p->grads) {
            nn_exec_backward(m->exec);
            pd_span_end("backward", middle);
        }
    }
}

int train_threads_compute(struct train_threads *t, const struct train_work *w,
                          struct train_piece *piece, uint32_t n, struct pd_err *err) {
    struct compute c = {w, piece, n};
    if (n == 1)
        compute(&t->threads[0], &c);
    else
        run(t, compute, &c);
    return first_error(t, err);
}

static int failed(const struct train_threads *t) {
    int rc = 0;
    for (uint32_t i = 0; i < t->n && !rc; i++)
        rc = t->threads[i].rc;
    return rc;
}

static void compute_batch(struct train_thread *m, void *arg) {
    const struct compute *c = arg;
    compute(m, arg);
    uint64_t began = pd_span_begin();
    if (m->group->n > 1) {
        wait_at_barrier(m);
        pd_span_end("wait for threads", began);
        began = pd_span_begin();
    }
    if (failed(m->group))
        return;
    train_params_bind(c->w->params, m->exec, c->piece[0].grads);
    if (m->group->n > 1)
        nn_exec_joint_gradient(m->exec, c->w->feed, m->index, m->group->n);
    for (uint32_t i = 1; i < c->n; i++)
        train_grads_add_slice(c->w->params, c->piece[0].grads, c->piece[i].grads, m->index,
                              m->group->n);
    if (m->group->n > 1)
        pd_span_end("gradients", began);
}

int train_threads_compute_batch(struct train_threads *t, const struct train_work *w,
                                struct train_piece *piece, uint32_t n, struct pd_err *err) {
    struct compute c = {w, piece, n};
    run(t, compute_batch, &c);
    int rc = first_error(t, err);
    for (uint32_t i = 1; i < n && !rc; i++)
        train_grads_add_done(w->params, piece[0].grads, piece[i].grads);
    return rc;
}

struct add {
    struct train_params *p;
    struct train_grads *into, *from;
};

static void add(struct train_thread *m, void *arg) {
    const struct add *a = arg;
    train_grads_add_slice(a->p, a->into, a->from, m->index, m->group->n);
}

void train_threads_add(struct train_threads *t, struct train_params *p, struct train_grads *into,
                       struct train_grads *from) {
    struct add a = {p, into, from};
    run(t, add, &a);
    train_grads_add_done(p, into, from);
}

struct crew_job {
    pd_workers_job job;
    void *arg;
};

static void crew_job(struct train_thread *m, void *arg) {
    const struct crew_job *c = arg;
    c->job(c->arg, m->index, m->group->n);
}

static void crew_run(void *crew, pd_workers_job job, void *arg) {
    struct crew_job c = {job, arg};
    run(crew, crew_job, &c);
}

struct pd_workers train_threads_workers(struct train_threads *t) {
    return (struct pd_workers){t->n > 1 ? crew_run : NULL, t};
}

int train_threads_merge_eval(struct train_threads *t, struct pd_err *err) {
    int rc = 0;
    for (uint32_t i = 1; i < t->n && !rc; i++) {
        rc = nn_eval_merge(t->threads[0].eval, t->threads[i].eval, err);
        nn_eval_clear(t->threads[i].eval);
    }
    return rc;
}

void train_threads_clear_eval(struct train_threads *t) {
    for (uint32_t i = 0; i < t->n; i++)
        nn_eval_clear(t->threads[i].eval);
}
