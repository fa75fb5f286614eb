/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - resuming a training job from a checkpoint; see checkpoint.h.
 *
 *     all         ps_models: the same list of checkpoints
 *     trainer 0   choose a whole checkpoint, copy missing parts to where they are needed
 *     all         the number of the checkpoint and the contents of its manifest
 *     trainer 0   ps_resume
 *     all         ps_continue; streams go to their positions
 */
#include "train/checkpoint_internal.h"

/* The checkpoint that the options ask for. */
struct wanted_checkpoint {
    char dir[PATH_MAX], name[256]; /* name "": the newest in dir */
    int older;                     /* 1: an older one may be used instead */
    int may_lack;                  /* 1: without a checkpoint, training starts from the beginning */
    int torn_is_absent;            /* 1: a checkpoint that some server lacks was never completed */
    const char *lost_nodes;        /* NULL: none */
};

static int read_wanted(const struct train_loop *l, uint64_t restarts, struct wanted_checkpoint *w,
                       struct pd_err *err) {
    const struct pd_options *o = l->options;
    const char *from = o->resume, *slash;
    *w = (struct wanted_checkpoint){.older = o->resume_older || restarts, .may_lack = 1};
    /* Restarted: the newest checkpoint; without one, train_resume tries where the job first began.
     */
    if (restarts)
        from = "latest";
    if (!*from && !o->start_pass)
        return 0;
    if (!*from || !strcmp(from, "latest")) {
        w->may_lack = *from != 0;
        if (!*from &&
            pd_fmt(w->name, sizeof w->name, "pass-%05llu", (unsigned long long)o->start_pass - 1))
            return pd_fail(err, PD_ECONF, "start_pass is too large");
        return pd_fmt(w->dir, sizeof w->dir, "%s", o->save_dir)
                   ? pd_fail(err, PD_ECONF, "save_dir is too long")
                   : 1;
    }
    size_t n = strlen(from);
    char folder[PATH_MAX];
    while (n > 1 && from[n - 1] == '/')
        n--;
    w->may_lack = 0;
    if (pd_fmt(folder, sizeof folder, "%.*s", (int)n, from))
        return pd_fail(err, PD_ECONF, "resume is too long");
    slash = strrchr(folder, '/');
    if (pd_fmt(w->dir, sizeof w->dir, "%.*s",
               slash ? (int)(slash - folder) + (slash == folder) : (int)strlen(o->save_dir),
               slash ? folder : o->save_dir) ||
        pd_fmt(w->name, sizeof w->name, "%s", slash ? slash + 1 : folder))
        return pd_fail(err, PD_ECONF, "resume is too long");
    return 1;
}

/* 1 if the job first began from a checkpoint. A job restarted before its first save begins there
 * again. */
static int began_elsewhere(const struct pd_options *o) {
    return (*o->resume && strcmp(o->resume, "latest")) || o->start_pass;
}

static void no_whole_checkpoint(const struct wanted_checkpoint *w, const struct pd_err *last,
                                struct pd_err *err) {
    if (w->lost_nodes)
        pd_fail(
            err, PD_EDATA,
            "there is no whole checkpoint %s/pass-*: %.500s; lost: %.200s, with its parts of the "
            "checkpoints (checkpoint_copies = 2 keeps each part on a second pserver)",
            w->dir, last->msg, w->lost_nodes);
    else
        pd_fail(err, PD_EDATA, "there is no whole checkpoint %s/%s: %.500s", w->dir,
                *w->name ? w->name : "pass-*", last->msg);
}

/* Servers give a checkpoint its name one after the other, so a failure between them leaves it at
 * some servers only, and its parts are missing. Older ones are removed only after that. If each
 * checkpoint is so, none was ever completed, and the job begins as the first time. A lost node also
 * makes a server without the checkpoint: then this is concluded only if there were two copies, of
 * which at most one is lost.
 *
 * Trainer 0: returns the index in the list of the checkpoint to resume from. -1: none exists and
 * none is required, or *err says why it failed. */
static int64_t choose_checkpoint(struct train_loop *l, const struct wanted_checkpoint *w,
                                 struct ps_models *m, struct pd_err *err) {
    const struct ps_checkpoint *first = NULL;
    struct pd_err why = {0}, last = {0};
    int torn = w->torn_is_absent;
    for (size_t i = 0; i < ps_models_n(m); i++) {
        const struct ps_checkpoint *c = ps_models_at(m, i);
        if (!first && *w->name && strcmp(c->name, w->name))
            continue;
        if (!c->state && *w->name && !strcmp(c->name, w->name)) {
            pd_fail(err, PD_ECONF,
                    "%s/%s was saved without the optimizer's state (save_state): training can't "
                    "resume from it, but can start with its values (init_model_path)",
                    w->dir, c->name);
            return -1;
        }
        if (!c->state)
            continue;
        if (ps_models_fetch(l->client, m, i, w->dir, (uint32_t)l->options->checkpoint_copies,
                            &why)) {
            *err = *ps_client_err(l->client);
            return -1;
        }
        if (!why.code)
            return (int64_t)i;
        if (!w->older) {
            pd_fail(err, PD_EDATA,
                    "%s/%s: %s (resume_older = 1 resumes from the checkpoint before it)", w->dir,
                    c->name, why.msg);
            return -1;
        }
        train_report_print(l->report, "%s/%s cannot be used: %s", w->dir, c->name, why.msg);
        torn &= c->torn;
        last = why;
        first = c;
    }
    if (first && torn)
        return -1;
    if (first)
        no_whole_checkpoint(w, &last, err);
    else if (!w->may_lack)
        pd_fail(err, PD_ENOENT,
                "there is no checkpoint %s/%s on the pservers: --resume=JOB continues a job of "
                "'paddlectl ps'",
                w->dir, *w->name ? w->name : "pass-*");
    return -1;
}

/* Sends numbers from trainer 0 to all. */
static int broadcast_from_first(struct train_loop *l, double *v, size_t n, struct pd_err *err) {
    if (l->report->trainer_id)
        memset(v, 0, n * sizeof *v);
    return train_client_error(l, ps_reduce(l->client, v, n), err);
}

/* Resumes from checkpoint i of the list, which is whole and in place. */
static int resume_from(struct train_loop *l, const struct wanted_checkpoint *w,
                       const struct ps_models *m, size_t i, struct pd_err *err) {
    struct train_checkpoints *k = l->checkpoints;
    const struct ps_checkpoint *c = ps_models_at(m, i);
    char folder[PATH_MAX], text[TRAIN_PASS_TEXT];
    struct model_best best = {0};
    double at[2] = {0};
    int rc = train_client_error(l, ps_models_resume(l->client, m, i, w->dir, &k->from, &best), err);
    train_best_resume(&l->best, &best);
    if (!rc && k->from.batch && k->from.n_streams != l->n_streams)
        rc = pd_fail(err, PD_ECONF,
                     "%s/%s was saved inside a pass over %zu streams of data, but this job has %u: "
                     "set n_streams = %zu",
                     w->dir, c->name, k->from.n_streams, l->n_streams, k->from.n_streams);
    if (!rc && pd_fmt(folder, sizeof folder, "%s/%s", w->dir, c->name))
        rc = pd_fail(err, PD_ECONF, "path too long: %s", w->dir);
    if (!rc && !l->report->trainer_id) {
        uint64_t step, pass;
        rc = train_client_error(
            l,
            ps_resume(l->client, folder,
                      (enum ps_missing)l->options->load_missing_parameter_strategy, &step, &pass),
            err);
        at[0] = (double)step;
        at[1] = (double)pass;
    }
    if (!rc)
        rc = broadcast_from_first(l, at, 2, err);
    if (!rc)
        rc = train_client_error(l, ps_continue(l->client, (uint64_t)at[0], (uint64_t)at[1]), err);
    /* paddlectl brings a checkpoint beside the output folder */
    const char *shown = folder + (strncmp(folder, "output/../", 10) ? 0 : 10);
    if (!rc && !l->report->trainer_id)
        train_report_print(l->report, "Resuming from %s: pass %s, batch %llu", shown,
                           train_report_pass_text(l->report, k->from.pass, text),
                           (unsigned long long)k->from.batch);
    k->resumed = !rc;
    return rc;
}

static int resume(struct train_loop *l, uint64_t restarts, const char *lost_nodes, int *found,
                  struct pd_err *err) {
    struct wanted_checkpoint w;
    struct ps_models *m = NULL;
    int rc = read_wanted(l, restarts, &w, err);
    if (rc <= 0)
        return rc;
    w.lost_nodes = lost_nodes;
    w.torn_is_absent =
        restarts &&
        (!lost_nodes || (l->options->checkpoint_copies > 1 && !strchr(lost_nodes, ',')));
    rc = train_client_error(l, ps_models(l->client, w.dir, w.older || !*w.name ? NULL : w.name, &m),
                            err);
    if (!rc)
        rc = train_client_error(
            l, ps_barrier(l->client),
            err); /* all trainers have the list before trainer 0 changes anything */
    double which = 0;
    if (!rc && !l->report->trainer_id && !ps_repeated(l->client)) {
        which = (double)choose_checkpoint(l, &w, m, err) + 1;
        rc = err->code;
        if (!rc && !which && !restarts)
            train_report_no_checkpoint(l->report, w.dir);
        if (!rc && !which)
            train_report_print(l->report, "There is no checkpoint in %s: %s", w.dir,
                               began_elsewhere(l->options)
                                   ? "starting again from where the job first began"
                                   : "training starts from the beginning");
    }
    if (!rc)
        rc = broadcast_from_first(l, &which, 1, err);
    if (!rc && which > (double)ps_models_n(m))
        rc = pd_fail(err, PD_EFAIL, "the list of checkpoints changed while the trainers read it");
    *found = which > 0;
    if (!rc && *found)
        rc = resume_from(l, &w, m, (size_t)which - 1, err);
    ps_models_free(m);
    return rc;
}

int train_resume(struct train_loop *l, uint64_t restarts, const char *lost_nodes,
                 struct pd_err *err) {
    int found = 0, rc = resume(l, restarts, lost_nodes, &found, err);
    return !rc && !found && restarts && began_elsewhere(l->options)
               ? resume(l, 0, lost_nodes, &found, err)
               : rc;
}

int train_resumed(const struct train_loop *l) { return l->checkpoints->resumed; }
const char *train_resumed_data(const struct train_loop *l) {
    const struct train_checkpoints *k = l->checkpoints;
    return k->resumed && k->from.data ? k->from.data : "";
}
int train_resumed_inside(const struct train_loop *l) {
    return l->checkpoints->resumed && l->checkpoints->from.batch > 0;
}
uint64_t train_first_pass(const struct train_loop *l) {
    return l->checkpoints->resumed ? l->checkpoints->from.pass : 0;
}

struct note_line { /* a line of a note */
    char pos[TRAIN_POS_TEXT];
    double cost, samples, seconds;
    int more;
};

static int read_line(const char *line, struct note_line *out, struct pd_err *err) {
    int end = 0, more = 0;
    *out = (struct note_line){0};
    int ok = sscanf(line, "%255s %la %lf%n", out->pos, &out->cost, &out->samples, &end) == 3;
    if (ok && line[end])
        ok = sscanf(line + end, " %lf %d%n", &out->seconds, &out->more, &more) == 2 &&
             !line[end + more] && out->seconds >= 0;
    return ok ? 0
              : pd_fail(err, PD_EDATA,
                        "the checkpoint has an invalid line for a stream of data: '%.100s'", line);
}
_Static_assert(TRAIN_POS_TEXT == 256, "the width in read_line");

/* Restores the sums of the pass from the process that this one replaces. */
static void restore_sums(struct train_loop *l, uint64_t pass, double (*sums)[N_SUMS]) {
    struct ps_before before;
    l->before_batches = l->before_steps = 0;
    if (!ps_resumed_sums(l->client, pass, &before))
        return;
    l->before_batches = before.batches;
    l->before_steps = before.sums.steps;
    l->before_cost = sums[0][SUM_COST] = before.sums.stats[STEP_COST];
    l->before_samples = sums[0][SUM_SAMPLES] = (double)before.sums.samples;
    train_report_continue(l->report, 0, 0, 0, (double)before.ms / 1000);
}

int train_begin_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass,
                     double (*sums)[N_SUMS], struct pd_err *err) {
    const struct model_resume *from = &l->checkpoints->from;
    double all_cost = 0, all_samples = 0, took = 0;
    train_streams_rewind(streams, pass);
    l->batches = 0;
    l->others = 0;
    restore_sums(l, pass, sums);
    if (!l->checkpoints->resumed || pass != from->pass || !from->batch)
        return 0;
    for (uint32_t s = 0; s < l->n_streams; s++) {
        struct note_line line;
        int rc = read_line(from->streams[s], &line, err),
            own = s >= l->stream_lo && s < l->stream_hi;
        if (rc)
            return rc;
        took = line.seconds > took ? line.seconds : took;
        all_cost += line.cost;
        all_samples += line.samples;
        l->others += !own && line.more;
        if (!own)
            continue;
        uint32_t i = s - l->stream_lo, part = train_n_parts(l) > 1 ? i : 0;
        sums[part][SUM_COST] += line.cost;
        sums[part][SUM_SAMPLES] += line.samples;
        if (strcmp(line.pos, "-") && (rc = train_streams_seek(streams, i, line.pos, err)))
            return rc;
    }
    l->batches = from->batch;
    train_report_continue(l->report, from->batch, (uint64_t)all_samples, all_cost, took);
    return 0;
}
