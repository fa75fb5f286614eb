/* SPDX-License-Identifier: Apache-2.0 */
/* online.c - see online.h. */
#include "train/online.h"

#include "math/rng.h"
#include "train/checkpoint.h"
#include "train/done_file.h"
#include "train/input/folder_watch.h"

/* The key travels in doubles: each holds 6 bytes exactly. The first double is the decision. */
enum { PER_DOUBLE = 6, MESSAGE_DOUBLES = 1 + (WATCH_KEY_MAX + PER_DOUBLE) / PER_DOUBLE };

/* Decisions that trainer 0 sends to the others. DECIDE_WAIT: no folder yet, trainer 0 is alive. */
enum { DECIDE_END = 1, DECIDE_FOLDER = 2, DECIDE_WAIT = 3 };
static const double ANNOUNCE_S = 4; /* trainer 0 sends a decision at least this often */

struct online {
    const struct train_online *o;
    struct train_loop *l;
    struct train_folder_watch *w;
    struct train_done_file done;
    char last[WATCH_KEY_MAX + 1]; /* the folder trained last; "": none */
    int has_base;                 /* this process has saved all rows */
    int unsaved;                  /* a folder was trained since the last save */
    /* Trainer 0: start of the wait for a folder, time of the last report; 0: not waiting. */
    uint64_t waits_ns, reported_ns;
};

static int is_first(const struct online *x) { return x->l->options->trainer_id == 0; }

/* --- which folder is next --- */

static void pause_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static int stop_file(const struct pd_options *o) {
    return *o->online_stop_file && !access(o->online_stop_file, F_OK);
}

/* 1 if the job is done: `last` is the last folder (online_until), or the next one (key, or "") is
 * behind it. */
static int is_the_end(const struct pd_options *o, const char *last, const char *key) {
    return *o->online_until && (!strcmp(last, o->online_until) ||
                                strncmp(key, o->online_until, strlen(o->online_until)) > 0);
}

static double seconds_since(uint64_t ns) { return (double)(pd_mono_ns() - ns) * 1e-9; }

/* Trainer 0: waits for the next folder or a reason to end. Returns after ANNOUNCE_S at the latest,
 * so that the other trainers do not take trainer 0 for lost. */
static int find_folder(struct online *x, int *decision, char key[WATCH_KEY_MAX + 1],
                       struct pd_err *err) {
    struct train_loop *l = x->l;
    const struct pd_options *o = l->options;
    const uint64_t began = pd_mono_ns();
    if (!x->waits_ns)
        x->waits_ns = x->reported_ns = began;
    for (;;) {
        int rc = train_folder_watch_next(x->w, x->last, key, err);
        if (rc < 0 && rc != PD_ENOENT)
            return rc;
        const char *why = NULL;
        if (l->stop && l->stop(l->stop_arg))
            why = "asked to stop";
        else if (stop_file(o))
            why = "the stop file exists";
        else if (is_the_end(o, x->last, key))
            why = "the last folder (online_until) is trained";
        else if (rc != 1 && o->online_idle > 0 && seconds_since(x->waits_ns) >= o->online_idle)
            why = "no folder was complete for online_idle";
        if (why || rc == 1) {
            if (why)
                train_report_print(l->report, "Ending after %s: %s",
                                   *x->last ? x->last : "no folder", why);
            *decision = why ? DECIDE_END : DECIDE_FOLDER;
            x->waits_ns = 0;
            return 0;
        }
        *decision = DECIDE_WAIT;
        if (seconds_since(began) >= ANNOUNCE_S)
            return 0;
        if (seconds_since(x->reported_ns) >= 60) {
            x->reported_ns = pd_mono_ns();
            train_report_print(l->report,
                               *key ? "Waiting for folder %s%s to be complete"
                                    : "Waiting for a folder after %s%s",
                               *key ? key : x->last, *key || *x->last ? "" : "none");
        }
        if ((rc = train_client_error(l, ps_flush(l->client), err)) ||
            (rc = train_checkpoint_poll(l, err)))
            return rc;
        train_report_doing(l->report, TRAIN_WATCHING);
        pause_ms(100);
    }
}

/* The other trainers: waits until the announced folder is complete here. A shared disk may show it
 * a little later; a local disk has a folder of its own. */
static int wait_until_complete(struct online *x, const char *key, struct pd_err *err) {
    struct train_loop *l = x->l;
    const double patience = 300 + l->options->online_quiet;
    for (uint64_t began = pd_mono_ns();;) {
        int rc = train_folder_watch_complete(x->w, key, err);
        if (rc == 1)
            return 0;
        if (rc < 0 && rc != PD_ENOENT)
            return rc;
        if (seconds_since(began) > patience)
            return pd_fail(err, PD_ENOENT,
                           "trainer 0 trains folder %s, which is not complete here after %.0f s",
                           key, patience);
        if ((rc = train_client_error(l, ps_flush(l->client), err)))
            return rc;
        train_report_doing(l->report, TRAIN_WATCHING);
        pause_ms(100);
    }
}

static int next_folder(struct online *x, int *decision, char key[WATCH_KEY_MAX + 1],
                       struct pd_err *err) {
    double v[MESSAGE_DOUBLES] = {0};
    int rc = is_first(x) ? find_folder(x, decision, key, err) : 0;
    if (!rc && is_first(x)) {
        v[0] = *decision;
        for (size_t i = 0; *decision == DECIDE_FOLDER && key[i]; i++)
            v[1 + i / PER_DOUBLE] = v[1 + i / PER_DOUBLE] * 256 + (unsigned char)key[i];
    }
    if (!rc)
        rc = train_client_error(x->l, ps_reduce(x->l->client, v, MESSAGE_DOUBLES), err);
    if (rc || is_first(x))
        return rc;
    *decision = (int)v[0];
    size_t n = 0;
    for (size_t i = 1; i < MESSAGE_DOUBLES; i++)
        for (int k = PER_DOUBLE - 1; k >= 0; k--) {
            uint64_t byte = (uint64_t)v[i] >> (8 * k) & 255;
            if (byte && n < WATCH_KEY_MAX) /* the last number has fewer bytes */
                key[n++] = (char)byte;
        }
    key[n] = 0;
    return *decision == DECIDE_FOLDER ? wait_until_complete(x, key, err) : 0;
}

/* --- files of a folder --- */

struct dealt {
    uint64_t rank;
    size_t file;
};

static int by_rank(const void *a, const void *b) {
    const struct dealt *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1)
                              : (x->file > y->file) - (x->file < y->file);
}

/* Deals the files: file i of the list goes to stream i mod n_streams, so the order decides. With
 * data_layout = local a trainer makes a list in which its own files fall on its own streams. */
static int deal_files(struct online *x, const char *key, uint64_t pass, struct data_files *out,
                      struct pd_err *err) {
    const struct train_loop *l = x->l;
    const uint32_t own = l->stream_hi - l->stream_lo;
    const int local = l->options->data_layout == PD_DATA_LOCAL;
    struct data_files f = {0};
    int rc = train_folder_watch_files(x->w, key, &f, err);
    struct dealt *d = pd_calloc(f.n + 1, sizeof *d);
    if (!rc && !d)
        rc = pd_oom(err, "online training");
    for (size_t i = 0; i < f.n && !rc; i++) {
        uint32_t u[4];
        pd_rng_u32x4(pd_rng_key((uint64_t)l->options->seed, PD_RNG_DEAL, pass, 0), 0, i, u);
        d[i] = (struct dealt){l->options->online_shuffle ? (uint64_t)u[0] << 32 | u[1] : i, i};
    }
    if (!rc)
        qsort(d, f.n, sizeof *d, by_rank);
    size_t n = local ? (f.n + own - 1) / own * l->n_streams : f.n;
    for (size_t i = 0; i < n && !rc; i++) {
        size_t stream = i % l->n_streams, at = i;
        if (local)
            at = stream < l->stream_lo || stream >= l->stream_hi
                     ? SIZE_MAX
                     : i / l->n_streams * own + stream - l->stream_lo;
        if (data_files_add(
                out,
                at < f.n
                    ? f.path[d[at].file]
                    : "")) /* "": a stream of another trainer, or no file left for an own stream */
            rc = pd_oom(err, "online training");
    }
    free(d);
    data_files_release(&f);
    return rc;
}

/* Fails if trainers have different lists: some files would be trained twice and others never. */
static int check_lists_agree(struct online *x, const char *key, uint64_t fingerprint,
                             struct pd_err *err) {
    const struct train_loop *l = x->l;
    const uint32_t n = (uint32_t)l->options->num_gradient_servers,
                   id = (uint32_t)l->options->trainer_id;
    if (n == 1 || l->options->data_layout == PD_DATA_LOCAL)
        return 0;
    double *all = pd_calloc(n, sizeof *all);
    if (!all)
        return pd_oom(err, "online training");
    all[id] = (double)(fingerprint >> 12);
    int rc = train_client_error(l, ps_reduce(l->client, all, n), err);
    for (uint32_t i = 0; i < n && !rc; i++)
        if (all[i] != all[id])
            rc = pd_fail(err, PD_ECONF,
                         "folder %s: trainer %u sees other files than trainer %u (data_layout = "
                         "shared: all see the same; local: each trains its own)",
                         key, i, id);
    free(all);
    return rc;
}

static int open_folder(struct online *x, const char *key, uint64_t pass,
                       struct train_streams **train, struct train_streams **test,
                       struct pd_err *err) {
    const struct train_online *o = x->o;
    const struct train_loop *l = x->l;
    struct data_files f = {0};
    const uint64_t batch = (uint64_t)l->options->batch_size;
    int rc = deal_files(x, key, pass, &f, err);
    if (!rc)
        rc = train_streams_of_list(train, o->train, o->dir, &f, l->n_streams, l->stream_lo,
                                   l->stream_hi, batch, o->own_batches, err);
    if (!rc && test)
        rc = train_streams_of_list(test, o->test, o->dir, &f, l->n_streams, l->stream_lo,
                                   l->stream_hi, batch, o->own_batches, err);
    data_files_release(&f);
    return rc ? rc : check_lists_agree(x, key, train_streams_fingerprint(*train), err);
}

/* --- a folder --- */

static int same_day(const char *a, const char *b) {
    char x[WATCH_KEY_MAX + 1], y[WATCH_KEY_MAX + 1];
    train_folder_watch_day(a, x);
    train_folder_watch_day(b, y);
    return !strcmp(x, y);
}

static int save_now(struct online *x, uint64_t pass, int base, struct pd_err *err) {
    base |= !x->has_base;
    x->has_base = 1;
    x->unsaved = 0;
    train_checkpoints_data(x->l, x->last, base);
    return train_save_pass(x->l, pass, x->l->leave, err);
}

/* first: the folder is the first of its day. */
static int save(struct online *x, uint64_t pass, int first, struct pd_err *err) {
    const struct pd_options *o = x->l->options;
    const uint64_t base_period = (uint64_t)o->online_base_period,
                   delta_period = (uint64_t)o->online_delta_period;
    int base = base_period ? (pass + 1) % base_period == 0 : first,
        due = base || (delta_period && (pass + 1) % delta_period == 0);
    x->unsaved = 1;
    return due || x->l->leave ? save_now(x, pass, base, err) : 0;
}

/* Ends the day after pass `pass`. The folder of a save decides what a resumed job trains: a save
 * made after the end of the day would end the day again. Therefore the last passes of the day are
 * saved first. */
static int end_day(struct online *x, uint64_t pass, struct pd_err *err) {
    struct train_loop *l = x->l;
    char day[WATCH_KEY_MAX + 1];
    struct ps_day d;
    int rc = x->unsaved ? save_now(x, pass, 0, err) : 0;
    if (!rc)
        rc = train_checkpoint_finish(l, err); /* before rows are removed */
    if (!rc && is_first(x)) {
        train_folder_watch_day(x->last, day);
        rc = train_client_error(l, ps_day_end(l->client, &d), err);
        if (!rc)
            train_report_print(
                l->report, "Day %s is over: %llu rows removed, %llu left, %llu ids wait for a row",
                day, (unsigned long long)d.removed, (unsigned long long)d.rows,
                (unsigned long long)d.candidates);
    }
    return rc ? rc : train_client_error(l, ps_barrier(l->client), err);
}

static int test_first(struct online *x, struct train_streams *test, const char *key, uint64_t pass,
                      struct pd_err *err) {
    char when[WATCH_KEY_MAX + TRAIN_PASS_TEXT + 60], number[TRAIN_PASS_TEXT];
    (void)pd_fmt(when, sizeof when, "before pass %s (%s)",
                 train_report_pass_text(x->l->report, pass, number), key);
    return train_evaluate(x->l, test, &(struct train_tested){.when = when}, err);
}

/* inside: an earlier process has trained part of the folder. */
static int train_folder(struct online *x, const char *key, uint64_t pass, int inside,
                        struct pd_err *err) {
    struct train_loop *l = x->l;
    struct train_streams *train = NULL, *test = NULL;
    const int first = !*x->last || !same_day(x->last, key);
    int rc =
        open_folder(x, key, pass, &train, l->options->online_test && !inside ? &test : NULL, err);
    l->report->n_passes = 0;
    if (!rc && first && *x->last)
        rc = end_day(x, pass - 1, err);
    if (!rc && test)
        rc = test_first(x, test, key, pass, err);
    if (!rc && !l->leave) {
        pd_fmt(x->last, sizeof x->last, "%s", key);
        train_checkpoints_data(l, key, 0);
        rc = train_pass(l, train, pass, err);
        if (!rc)
            rc = save(x, pass, first, err);
    }
    if (rc) /* name the folder: the error may come from it or from a running save */
        pd_err_prefix(err, "%s", key);
    train_streams_free(train);
    train_streams_free(test);
    return rc;
}

int train_online(const struct train_online *o, struct pd_err *err) {
    struct train_loop *l = o->loop;
    struct online x = {.o = o, .l = l};
    const struct train_folder_watch_opts w = {.dir = o->dir,
                                              .pattern = o->pattern,
                                              .done_file = l->options->online_done_file,
                                              .quiet = l->options->online_quiet};
    const struct train_online_saves saves = {
        .saved = train_done_file_write, .arg = &x.done, .keep = (uint64_t)l->options->online_keep};
    uint64_t pass = train_first_pass(l);
    int rc = train_folder_watch_new(&x.w, &w, err), inside = train_resumed_inside(l);
    if (!rc)
        rc = train_done_file_init(&x.done, l->client, l->options->save_dir, o->output_dir, err);
    if (!rc && pd_fmt(x.last, sizeof x.last, "%s", train_resumed_data(l)))
        rc = pd_fail(err, PD_EDATA, "the checkpoint's folder of data has too long a name");
    if (!rc && train_resumed(l) && !*x.last)
        rc = pd_fail(err, PD_ECONF,
                     "the checkpoint is not from an online job: use it with init_model_path");
    if (!rc && l->options->save_initial && !train_resumed(l))
        rc = train_save_initial(l, err);
    train_checkpoints_online(l, &saves);
    for (; !rc && !l->leave; inside = 0) {
        char key[WATCH_KEY_MAX + 1] = "";
        int decision = DECIDE_FOLDER;
        if (inside)
            pd_fmt(key, sizeof key, "%s", x.last);
        else
            rc = next_folder(&x, &decision, key, err);
        if (rc || decision == DECIDE_END)
            break;
        if (decision == DECIDE_WAIT)
            continue;
        rc = train_folder(&x, key, pass, inside, err);
        if (!rc && !strcmp(x.last, key))
            pass++;
    }
    if (!rc && x.unsaved) {
        train_checkpoints_data(l, x.last, !x.has_base);
        rc = train_save_pass(l, pass - 1, 1, err);
    }
    if (!rc)
        rc = train_checkpoint_finish(l, err);
    train_folder_watch_free(x.w);
    return rc;
}
