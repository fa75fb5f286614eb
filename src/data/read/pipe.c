/* SPDX-License-Identifier: Apache-2.0 */
/* pipe.c - see pipe.h. One mutex per pool suffices: it is taken only a few times for each block of
 * 128 KiB. */
#include "data/read/pipe.h"

struct data_workers {
    pthread_mutex_t mutex;
    pthread_cond_t work, done; /* work: there is something to do; done: a block was finished */
    struct data_pipe *pipes;
    pthread_t *thread;
    uint32_t n;
    int quit;
};

static void parse_slot(struct data_pipe *p, struct data_slot *s) {
    const char *name =
        s->block.file < p->source.files->n ? p->source.files->path[s->block.file] : "";
    if (!s->block.is_end)
        data_block_parse(&s->block, &s->parser, name);
}

static void fill_slot(struct data_pipe *p, struct data_slot *s) {
    data_block_clear(&s->block);
    data_source_fill(&p->source, &s->block);
}

/* --- the pool's threads --- */

static struct data_slot *to_parse(struct data_pipe *p) {
    for (uint64_t i = p->taken; i < p->filled; i++)
        if (p->slot[i % p->n_slots].state == SLOT_FILLED)
            return &p->slot[i % p->n_slots];
    return NULL;
}

static int can_fill(const struct data_pipe *p) {
    return p->running && !p->filling && !p->ended &&
           p->slot[p->filled % p->n_slots].state == SLOT_FREE;
}

/* Does one piece of work of this pipe; the mutex is held before and after. 0: nothing to do. */
static int work_on(struct data_workers *w, struct data_pipe *p) {
    struct data_slot *s = p->running ? to_parse(p) : NULL;
    if (s) {
        s->state = SLOT_PARSING;
        p->parsing++;
        pthread_mutex_unlock(&w->mutex);
        parse_slot(p, s);
        pthread_mutex_lock(&w->mutex);
        s->state = SLOT_DONE;
        p->parsing--;
        pthread_cond_broadcast(&w->done);
        return 1;
    }
    if (!can_fill(p))
        return 0;
    s = &p->slot[p->filled % p->n_slots];
    p->filling = 1;
    pthread_mutex_unlock(&w->mutex);
    fill_slot(p, s);
    pthread_mutex_lock(&w->mutex);
    p->filling = 0;
    p->filled++;
    p->ended = s->block.is_end || s->block.rc;
    s->state = SLOT_FILLED;
    pthread_cond_broadcast(&w->work); /* other threads may fill the next block or parse this one */
    pthread_cond_broadcast(&w->done);
    return 1;
}

static void *run(void *arg) {
    struct data_workers *w = arg;
    pthread_mutex_lock(&w->mutex);
    while (!w->quit) {
        int any = 0;
        for (struct data_pipe *p = w->pipes; p && !any; p = p->next)
            any = work_on(w, p);
        if (!any && !w->quit)
            pthread_cond_wait(&w->work, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

int data_workers_new(struct data_workers **out, uint32_t n, struct pd_err *err) {
    struct data_workers *w = pd_calloc(1, sizeof *w);
    sigset_t all, before;
    int rc = 0;
    if (!w || !(w->thread = pd_calloc(n + 1, sizeof *w->thread))) {
        free(w);
        return pd_fail(err, PD_ENOMEM, "out of memory for reader threads");
    }
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; !rc && w->n < n; w->n += !rc)
        if ((rc = pthread_create(&w->thread[w->n], NULL, run, w)))
            pd_fail_errno(err, PD_EFAIL, rc, "cannot start a reader thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        data_workers_free(w);
        return PD_EFAIL;
    }
    *out = w;
    return 0;
}

void data_workers_free(struct data_workers *w) {
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->quit = 1;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->mutex);
    for (uint32_t i = 0; i < w->n; i++)
        pthread_join(w->thread[i], NULL);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->mutex);
    free(w->thread);
    free(w);
}

/* --- a pipe --- */

int data_pipe_init(struct data_pipe *p, struct data_workers *w, const struct data_schema *schema,
                   const struct data_parse_plan *plan, const char *dir,
                   const struct data_files *files, uint64_t seed, struct pd_err *err) {
    memset(p, 0, sizeof *p);
    p->n_slots = w && w->n ? w->n + 2 : 1;
    p->slot = pd_calloc(p->n_slots, sizeof *p->slot);
    int rc = p->slot && !data_source_init(&p->source, schema, dir, files) ? 0 : PD_ENOMEM;
    for (uint32_t i = 0; i < p->n_slots && !rc; i++) {
        p->slot[i].parser = (struct data_parser){.plan = plan, .schema = schema, .seed = seed};
        rc = data_block_init(&p->slot[i].block, schema);
    }
    if (rc) {
        data_pipe_release(p);
        return pd_fail(err, PD_ENOMEM, "out of memory for a data reader");
    }
    p->workers = w && w->n ? w : NULL;
    if (p->workers) {
        pthread_mutex_lock(&w->mutex);
        p->next = w->pipes;
        w->pipes = p;
        pthread_mutex_unlock(&w->mutex);
    }
    return 0;
}

/* Waits until no thread works for this pipe; the mutex is held. */
static void quiesce(struct data_pipe *p) {
    p->running = 0;
    while (p->filling || p->parsing)
        pthread_cond_wait(&p->workers->done, &p->workers->mutex);
}

void data_pipe_release(struct data_pipe *p) {
    if (p->workers) {
        struct data_pipe **at = &p->workers->pipes;
        pthread_mutex_lock(&p->workers->mutex);
        quiesce(p);
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
        pthread_mutex_unlock(&p->workers->mutex);
    }
    for (uint32_t i = 0; p->slot && i < p->n_slots; i++) {
        data_block_release(&p->slot[i].block);
        free(p->slot[i].parser.ids);
    }
    free(p->slot);
    data_source_release(&p->source);
    memset(p, 0, sizeof *p);
}

static void reset(struct data_pipe *p, uint64_t pass, uint32_t stream, struct data_place at,
                  uint64_t end) {
    data_source_goto(&p->source, at, end);
    for (uint32_t i = 0; i < p->n_slots; i++) {
        p->slot[i].state = SLOT_FREE;
        p->slot[i].parser.pass = pass;
        p->slot[i].parser.stream = stream;
    }
    p->filled = p->taken = 0;
    p->ended = 0;
    p->running = 1;
}

void data_pipe_start(struct data_pipe *p, uint64_t pass, uint32_t stream, struct data_place at,
                     uint64_t end) {
    if (!p->workers) {
        reset(p, pass, stream, at, end);
        return;
    }
    pthread_mutex_lock(&p->workers->mutex);
    quiesce(p);
    reset(p, pass, stream, at, end);
    pthread_cond_broadcast(&p->workers->work);
    pthread_mutex_unlock(&p->workers->mutex);
}

struct data_block *data_pipe_take(struct data_pipe *p) {
    struct data_slot *s = &p->slot[p->taken % p->n_slots];
    if (!p->workers) {
        fill_slot(p, s);
        parse_slot(p, s);
        return &s->block;
    }
    pthread_mutex_lock(&p->workers->mutex);
    while (s->state != SLOT_DONE || p->filled <= p->taken)
        pthread_cond_wait(&p->workers->done, &p->workers->mutex);
    pthread_mutex_unlock(&p->workers->mutex);
    return &s->block;
}

void data_pipe_give(struct data_pipe *p) {
    struct data_slot *s = &p->slot[p->taken % p->n_slots];
    if (!p->workers) {
        p->taken++;
        return;
    }
    pthread_mutex_lock(&p->workers->mutex);
    s->state = SLOT_FREE;
    p->taken++;
    pthread_cond_broadcast(&p->workers->work);
    pthread_mutex_unlock(&p->workers->mutex);
}
