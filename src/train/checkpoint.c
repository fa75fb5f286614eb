/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - saving; see checkpoint.h. resume.c is the other half. */
#include "train/checkpoint_internal.h"

int train_checkpoints_new(struct train_checkpoints **out, const char *config, int may_copy,
                          struct pd_err *err) {
    struct train_checkpoints *k = pd_calloc(1, sizeof *k);
    if (!k)
        return pd_oom(err, "a checkpoint");
    k->config = config;
    k->may_copy = may_copy;
    pd_buf_init(&k->note);
    *out = k;
    return 0;
}

void train_checkpoints_free(struct train_checkpoints *k) {
    if (!k)
        return;
    pd_buf_release(&k->note);
    model_resume_release(&k->from);
    free(k);
}

void train_checkpoints_online(struct train_loop *l, const struct train_online_saves *online) {
    l->checkpoints->online = *online;
}

void train_checkpoints_data(struct train_loop *l, const char *data, int base) {
    (void)pd_fmt(l->checkpoints->data, sizeof l->checkpoints->data, "%s", data);
    l->checkpoints->chain = base ? PS_CHAIN_BASE : PS_CHAIN_DELTA;
}

/* --- notes: positions of the streams --- */

static int send_note(struct train_loop *l, const struct train_streams *streams,
                     double (*sums)[N_SUMS], uint64_t after, int unused, struct pd_err *err) {
    if (l->options->data == PD_DATA_QUEUE) /* streams do not belong to trainers */
        return 0;
    struct pd_buf *b = &l->checkpoints->note;
    uint32_t n_parts = train_n_parts(l);
    pd_buf_clear(b);
    for (uint32_t i = 0; i < l->stream_hi - l->stream_lo; i++) {
        char pos[TRAIN_POS_TEXT];
        int own = n_parts > 1 || i == 0;
        train_streams_tell(streams, i, unused, pos);
        /* The batch read ahead has samples of this stream. */
        const int more = unused == 1 && l->next.n && l->next.counts[i];
        pd_put_fmt(b, "%s %a %.0f %.3f %d\n", pos, own ? sums[i][SUM_COST] : 0.0,
                   own ? sums[i][SUM_SAMPLES] : 0.0, train_report_seconds(l->report), more);
    }
    if (b->failed)
        return pd_fail(err, PD_ENOMEM, "out of memory for a note");
    return train_client_error(l, ps_note(l->client, after, (const char *)b->data, b->len), err);
}

/* 1 if a checkpoint follows step number `batches` of the pass. Only trainer 0 may ask, except under
 * update = sync: with other rules trainers are at different steps. */
static int is_due(const struct train_loop *l, uint64_t batches) {
    uint64_t period = (uint64_t)l->options->saving_period_by_batches;
    return period && batches % period == 0;
}

int train_checkpoint_keeps_pace(const struct train_loop *l) {
    return l->options->saving_period_by_batches && l->options->update == PD_UPDATE_SYNC &&
           !l->report->trainer_id;
}

int train_checkpoint_note(struct train_loop *l, const struct train_streams *streams,
                          double (*sums)[N_SUMS], int unused, struct pd_err *err) {
    int sync = l->options->update == PD_UPDATE_SYNC;
    if (!l->options->saving_period_by_batches || !l->options->save_state ||
        (sync && !is_due(l, l->batches + 1)))
        return 0;
    return send_note(l, streams, sums, ps_step(l->client) + 1, unused, err);
}

/* A trainer's first step may take longer than trainer 0 needs to reach a save. Note and reduction
 * use the same connection, so after the barrier every note of this pass is at the server. Under
 * update = sync no barrier is needed: a save waits for every trainer's step and note. */
int train_checkpoint_note_begin(struct train_loop *l, const struct train_streams *streams,
                                double (*sums)[N_SUMS], struct pd_err *err) {
    const struct pd_options *o = l->options;
    if (!o->saving_period_by_batches || !o->save_state || o->update == PD_UPDATE_SYNC ||
        o->data == PD_DATA_QUEUE)
        return 0;
    /* In a repeated barrier, the lost process has sent its note, and possibly newer ones. */
    int rc = ps_repeated(l->client) ? 0 : send_note(l, streams, sums, ps_step(l->client), 0, err);
    return rc ? rc : train_client_error(l, ps_barrier(l->client), err);
}

int train_checkpoint_note_end(struct train_loop *l, const struct train_streams *streams,
                              double (*sums)[N_SUMS], int unused, struct pd_err *err) {
    return l->options->save_state ? send_note(l, streams, sums, ps_step(l->client), unused, err)
                                  : 0;
}

/* With data = queue it is unknown which samples are in the model: resuming inside a pass begins the
 * pass again. */
static struct ps_progress inside(const struct train_loop *l, uint64_t pass) {
    return (struct ps_progress){pass, l->options->data == PD_DATA_QUEUE ? 0 : l->batches};
}

/* --- saves --- */

static void name_of_pass(char out[64], uint64_t pass) {
    snprintf(out, 64, "pass-%05llu", (unsigned long long)pass);
}

/* Removes checkpoints that are not newer than the complete one, but not the best pass; in an online
 * job, those older than `keep` passes. */
static int remove_older(struct train_loop *l, struct pd_err *err) {
    const struct train_checkpoints *k = l->checkpoints;
    char best[64] = "";
    struct ps_models *m = NULL;
    if (*l->best.best.metric)
        name_of_pass(best, l->best.best.pass);
    int rc = ps_models(l->client, l->options->save_dir, NULL, &m);
    for (size_t i = 0; !rc && i < ps_models_n(m); i++) {
        const struct ps_checkpoint *c = ps_models_at(m, i);
        int older = k->online.keep ? c->pass + k->online.keep <= k->progress.pass
                                   : c->pass < k->progress.pass || (c->pass == k->progress.pass &&
                                                                    c->batch <= k->progress.batch);
        if (strcmp(c->name, k->name) && strcmp(c->name, "pass-init") && strcmp(c->name, best) &&
            older)
            rc = ps_models_remove(l->client, l->options->save_dir, c->name);
    }
    ps_models_free(m);
    return train_client_error(l, rc, err);
}

/* The complete model is the best one: removes the one that was kept only for that. */
static int remove_former(struct train_loop *l, struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    int rc = *k->former ? ps_models_remove(l->client, l->options->save_dir, k->former) : 0;
    snprintf(k->former, sizeof k->former, "%s", k->best == ONLY_BEST ? k->name : "");
    return train_client_error(l, rc, err);
}

static int completed(struct train_loop *l, struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    const struct train_saved s = {k->name, k->saved_data, k->saved_pass};
    k->under_way = 0;
    train_report_saved(l->report, l->options->save_dir, k->name, k->what, l->options->save_state);
    (void)pd_fault("train.saved");
    int rc = k->online.saved ? k->online.saved(k->online.arg, &s, err) : 0;
    if (!rc && k->best)
        rc = remove_former(l, err);
    return !rc && (l->options->save_only_one || k->online.keep) ? remove_older(l, err) : rc;
}

int train_checkpoint_finish(struct train_loop *l, struct pd_err *err) {
    if (!l->checkpoints->under_way)
        return 0;
    train_report_doing(l->report, TRAIN_SAVING);
    int rc = train_client_error(l, ps_save_wait(l->client), err);
    train_report_doing(l->report, TRAIN_STEPS);
    return rc ? rc : completed(l, err);
}

/* Decides whether the next save holds all rows or only rows changed since the last save. */
static enum ps_chain next_in_chain(struct train_loop *l) {
    struct train_checkpoints *k = l->checkpoints;
    if (k->online.saved)
        return k->chain;
    if (!l->options->saving_deltas)
        return PS_CHAIN_NONE;
    if (!k->has_base || k->n_deltas == l->options->saving_deltas) {
        k->has_base = 1;
        k->n_deltas = 0;
        return PS_CHAIN_BASE;
    }
    k->n_deltas++;
    return PS_CHAIN_DELTA;
}

/* Starts a save. state = 1: with the optimizer's state if the options say so; 0: the initial model.
 */
static int start_save(struct train_loop *l, uint64_t pass, int create_rows, int state,
                      struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    struct ps_save_opts s = {
        .dir = l->options->save_dir,
        .name = k->next,
        .pass = pass,
        .config = k->config,
        .create_rows = create_rows,
        .resume = state && l->options->save_state ? &k->progress : NULL,
        .copies = k->may_copy ? (uint32_t)l->options->checkpoint_copies : 1,
        .chain = state ? next_in_chain(l) : PS_CHAIN_NONE,
        .data = *k->data ? k->data : NULL,
        .best = *l->best.best.metric ? &l->best.best : NULL,
        .unsaid = l->options->on_trainer_lost == PD_TRAINER_LOST_CONTINUE ? TRAIN_NO_NOTE : NULL};
    int rc = train_checkpoint_finish(l, err);
    if (rc)
        return rc;
    k->progress = k->next_progress;
    memcpy(k->name, k->next, sizeof k->name);
    memcpy(k->what, k->next_what, sizeof k->what);
    memcpy(k->saved_data, k->data, sizeof k->saved_data);
    k->saved_pass = pass;
    k->best = k->next_best;
    k->next_best = NOT_BEST;
    k->under_way = 1;
    return train_client_error(l, ps_save_start(l->client, &s), err);
}

/* before_batch "": the pass is complete. */
static void name_for_people(struct train_loop *l, uint64_t pass, const char *before_batch) {
    char text[TRAIN_PASS_TEXT], batch[32] = "";
    if (*before_batch)
        snprintf(batch, sizeof batch, " %llu", (unsigned long long)l->batches);
    snprintf(l->checkpoints->next_what, sizeof l->checkpoints->next_what, "pass %s%s%s",
             train_report_pass_text(l->report, pass, text), before_batch, batch);
}

int train_checkpoint_poll(struct train_loop *l, struct pd_err *err) {
    if (!l->checkpoints->under_way)
        return 0;
    int busy = ps_save_busy(l->client);
    return busy < 0 ? train_client_error(l, busy, err) : busy ? 0 : completed(l, err);
}

int train_checkpoint_step(struct train_loop *l, uint64_t pass, struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    (void)pd_fault("train.step");
    if (l->report->trainer_id)
        return 0;
    int rc = train_checkpoint_poll(l, err);
    if (rc)
        return rc;
    if (!is_due(l, l->batches))
        return 0;
    snprintf(k->next, sizeof k->next, "pass-%05llu-batch-%06llu", (unsigned long long)pass,
             (unsigned long long)l->batches);
    name_for_people(l, pass, ", batch");
    k->next_progress = inside(l, pass);
    return start_save(l, pass, 0, 1, err);
}

/* Chooses the trainer that reports and saves for all: trainer 0, or the first that is alive. */
static int choose_reporter(struct train_loop *l, struct pd_err *err) {
    const uint32_t n = (uint32_t)l->options->num_gradient_servers,
                   id = (uint32_t)l->options->trainer_id;
    uint32_t who = 0;
    if (l->options->on_trainer_lost != PD_TRAINER_LOST_CONTINUE || n == 1)
        return 0;
    double *alive = pd_calloc(n, sizeof *alive);
    if (!alive)
        return pd_oom(err, "a checkpoint");
    alive[id] = 1;
    int rc = ps_reduce(l->client, alive, n);
    while (!rc && who + 1 < n && alive[who] == 0)
        who++;
    if (!rc && id == who)
        l->report->trainer_id = 0; /* this trainer now reports for the job */
    free(alive);
    return train_client_error(l, rc, err);
}

/* Under update = sync no step can come between trainer 0's request and its next push, so trainer 0
 * need not wait for the save, and neither need the others. */
int train_save_pass(struct train_loop *l, uint64_t pass, int last, struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    int wait = last || l->options->update != PD_UPDATE_SYNC ||
               l->options->on_trainer_lost == PD_TRAINER_LOST_WAIT;
    int rc = choose_reporter(l, err);
    if (!rc && !l->report->trainer_id && !ps_repeated(l->client)) {
        snprintf(k->next, sizeof k->next, "pass-%05llu%s", (unsigned long long)pass,
                 l->cut ? "-stopped" : "");
        name_for_people(l, pass, l->cut ? ", stopped after batch" : "");
        k->next_progress = l->cut ? inside(l, pass) : (struct ps_progress){pass + 1, 0};
        k->next_best = !l->best.is_best ? NOT_BEST : l->best.is_extra ? ONLY_BEST : BEST;
        rc = start_save(l, pass, 0, 1, err);
        if (!rc && wait)
            rc = train_checkpoint_finish(l, err);
    }
    return rc || !wait ? rc : train_client_error(l, ps_barrier(l->client), err);
}

int train_save_initial(struct train_loop *l, struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    int rc = choose_reporter(l, err);
    if (!rc && !l->report->trainer_id && !ps_repeated(l->client)) {
        snprintf(k->next, sizeof k->next, "pass-init");
        snprintf(k->next_what, sizeof k->next_what, "the initial values");
        k->next_progress = (struct ps_progress){0, 0};
        rc = start_save(l, 0, 1, 0, err);
        if (!rc)
            rc = train_checkpoint_finish(l, err);
    }
    return rc ? rc : train_client_error(l, ps_barrier(l->client), err);
}
