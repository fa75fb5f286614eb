/* SPDX-License-Identifier: Apache-2.0 */
/* job_resume.c - run --resume=JOB[/PASS] and --resume=FOLDER: finds the checkpoint before the job
 * begins.
 *
 *     FOLDER ────────────────────────────────▶ sent to the hosts of the pservers (package "resume")
 *     JOB ─▶ hosts of the pservers have all parts ─▶ each host links its parts (AG_JOB_SETUP)
 *        └─▶ else fetched to output/JOB, and sent like FOLDER
 *
 * On the nodes the checkpoint is JOB/resume/NAME. Trainer 0 moves parts between the pservers that
 * need them (docs/checkpoints.md). Other values of `resume` are for the trainers. */
#include <libgen.h>

#include "launcher/job/find.h"
#include "launcher/job/job_internal.h"
#include "launcher/outputs/saved_models.h"
#include "wire/client_bodies.h"

enum { ANSWER_MS = 60000 };

/* --- a folder of this machine --- */

/* The earlier job's --set is used again, as far as this command line does not replace it. */
static int use_settings(struct job_checkpoint *r, struct pd_options *o, const char *config,
                        struct pd_err *err) {
    struct pd_buf taken;
    pd_buf_init(&taken);
    int rc = pd_settings_again(o, config ? config : "", &taken, err);
    if (!rc && taken.len)
        pd_fmt(r->settings, sizeof r->settings, "as in the earlier job:%.*s", (int)taken.len,
               (const char *)taken.data);
    pd_buf_release(&taken);
    return rc;
}

static int use_folder(struct job_checkpoint *r, struct pd_options *o, const char *folder,
                      const char *where, struct pd_err *err) {
    char first[MODEL_FILE_MAX + 1], copy[PATH_MAX];
    struct model_manifest m;
    struct saved_name n;
    int n_missing, bad = outputs_read_model(folder, &m, &n_missing, first);
    if (bad)
        pd_fail(err, PD_ECONF, "%s: %s is no saved model: it has no manifest.json", where, folder);
    else if (n_missing)
        pd_fail(err, PD_ECONF, "%s: %s is incomplete: %s%s missing", where, folder, first,
                n_missing > 1 ? " and other parts are" : " is");
    else if (!m.optimizer_state)
        pd_fail(err, PD_ECONF,
                "%s: %s was saved without the optimizer's state (save_state): training can start "
                "with its values (init_model_path), but cannot continue from it",
                where, folder);
    else
        (void)use_settings(r, o, m.config, err);
    model_manifest_release(&m);
    if (err->code)
        return err->code;
    pd_fmt(copy, sizeof copy, "%s", folder);
    const char *base = basename(copy);
    pd_fmt(r->name, sizeof r->name, "%s", saved_name_parse(base, &n) ? "pass-resumed" : base);
    pd_fmt(r->folder, sizeof r->folder, "%s", folder);
    return 0;
}

/* 1: `value` is a folder here with models in it. */
static int is_folder(const char *value) {
    char manifest[PATH_MAX];
    struct stat st;
    struct pd_err none = {0};
    if (stat(value, &st) || !S_ISDIR(st.st_mode))
        return 0;
    return (!pd_fmt(manifest, sizeof manifest, "%s/manifest.json", value) &&
            !access(manifest, F_OK)) ||
           !outputs_newest_model(value, manifest, sizeof manifest, &none);
}

/* The --set of a checkpoint, or of the newest one in a folder of outputs, that is also here. */
static int use_settings_here(struct job_checkpoint *r, struct pd_options *o, const char *folder,
                             struct pd_err *err) {
    char newest[PATH_MAX], first[MODEL_FILE_MAX + 1];
    struct model_manifest m;
    int n_missing, rc = 0;
    int found = !outputs_read_model(folder, &m, &n_missing, first);
    if (!found && !outputs_newest_model(folder, newest, sizeof newest, NULL)) {
        model_manifest_release(&m);
        found = !outputs_read_model(newest, &m, &n_missing, first);
    }
    if (found)
        rc = use_settings(r, o, m.config, err);
    else
        pd_fmt(r->settings, sizeof r->settings,
               "the keys that --set gave to the earlier job are known on its hosts");
    model_manifest_release(&m);
    return rc;
}

static int from_folder(struct job *j, struct pd_options *o, const char *value, struct pd_err *err) {
    const char *where = option_source(j->opts, "resume");
    char manifest[PATH_MAX], newest[PATH_MAX];
    if (!pd_fmt(manifest, sizeof manifest, "%s/manifest.json", value) && !access(manifest, F_OK))
        return use_folder(&j->checkpoint, o, value, where, err);
    if (outputs_newest_model(value, newest, sizeof newest, err))
        return err->code;
    return use_folder(&j->checkpoint, o, newest, where, err);
}

/* --- a job on the nodes --- */

struct resume_search {
    struct job *j;
    struct pd_options *o;
    char *config; /* train.ini of the checkpoint */
    struct found found;
    const struct found_job *job;
    struct saved_models models;
    json_t *files; /* names of the parts that hosts of pservers have: an object */
    json_t *all;   /* those that any host has */
    size_t n_parts;
    struct outputs out; /* if the parts have to come here */
};

static int runs_pserver(const struct job *j, int place) {
    for (size_t i = 0; i < j->c.n_pservers; i++)
        if (j->c.pservers[i] == place)
            return 1;
    return 0;
}

static int take_files(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct resume_search *s = n->g->arg;
    struct ag_models_answer m;
    struct listed_model model = {0};
    const json_t *v;
    size_t i;
    int rc = wire_get(&wire_ag_models_answer, &m, body, err);
    if (!rc && json_array_size(m.models))
        rc = wire_get(&wire_listed_model, &model, json_array_get(m.models, 0), err);
    if (rc)
        return rc;
    s->n_parts = model.n_parts > (int64_t)s->n_parts ? (size_t)model.n_parts : s->n_parts;
    if (!s->config && model.config && *model.config)
        s->config = pd_strdup(model.config);
    json_array_foreach (model.files, i, v)
        if (json_is_string(v)) {
            json_object_set_new(s->all, json_string_value(v), json_true());
            if (runs_pserver(s->j, n->id))
                json_object_set_new(s->files, json_string_value(v), json_true());
        }
    ask_all_keep(n);
    return 0;
}

static void ask_files(struct ask_all_node *n) {
    const struct resume_search *s = n->g->arg;
    ask_all_request(n, WIRE_AG_MODELS,
                    wire_put(&wire_ag_models, &(struct ag_models){.name = s->j->checkpoint.name}),
                    ANSWER_MS, "listing the parts of a checkpoint", take_files);
}

static void on_fetched(void *arg, const struct package_fetched *r, const struct pd_err *err) {
    struct ask_all_node *n = arg;
    (void)r;
    if (err)
        ask_all_fail(n, err);
    else
        ask_all_done(n);
}

static void fetch_parts(struct ask_all_node *n) {
    struct resume_search *s = n->g->arg;
    struct pd_err err = {0};
    if (package_fetch(&s->out.fetches, n->link, &n->g->c->loop, "output", s->j->checkpoint.name,
                      s->job->host[n->id].node, on_fetched, n)) {
        pd_fail(&err, PD_EIO, "cannot write below %.600s", s->out.aside);
        ask_all_fail(n, &err);
    }
}

/* Some parts are on hosts that run no pserver of the new job: they come here and are sent. */
static int bring_parts(struct resume_search *s, struct ask_all *g, struct pd_err *err) {
    struct job *j = s->j;
    const char *where = option_source(j->opts, "outputs");
    char folder[PATH_MAX];
    int most = 0, renamed;
    int rc = outputs_init(&s->out, j->opts->outputs, NULL, s->job->id, where, err);
    rc = rc ? rc : outputs_begin(&s->out, err);
    if (rc)
        return rc;
    ask_all_run(g, fetch_parts, s);
    for (size_t i = 0; i < g->c->hosts.n; i++)
        most = s->job->host[i].node >= most ? s->job->host[i].node + 1 : most;
    if (g->interrupted)
        return pd_fail(err, PD_ECANCELED, "interrupted");
    rc = outputs_place(&s->out, most, &renamed, err);
    if (!rc && pd_fmt(folder, sizeof folder, "%s/%s", s->out.dir, j->checkpoint.name))
        rc = pd_fail(err, PD_EIO, "the path is too long");
    return rc ? rc
              : use_folder(&j->checkpoint, s->o, folder, option_source(j->opts, "resume"), err);
}

/* The newest model of which all parts are there. A job that was killed while it saved may have
 * parts of a newer one. If a host did not answer, the missing parts may be there. */
static int choose_whole(struct resume_search *s, struct ask_all *g, const char *pass,
                        char text[SAVED_CHOICE_TEXT], struct pd_err *err) {
    struct job *j = s->j;
    const struct saved_model *m;
    char left_out[64] = "";
    for (;;) {
        int rc = saved_models_choose(&s->models, s->job->id, pass, 1, &m, text, err);
        if (rc && *left_out) {
            *err = (struct pd_err){0};
            return pd_fail(err, PD_ENOENT,
                           "parts of %s of %s are missing, and there is no model "
                           "before it",
                           left_out, s->job->id);
        }
        if (rc)
            return rc;
        pd_fmt(j->checkpoint.name, sizeof j->checkpoint.name, "%s", m->name);
        json_object_clear(s->files);
        json_object_clear(s->all);
        s->n_parts = 0;
        ask_all_run(g, ask_files, s);
        if (g->interrupted)
            return pd_fail(err, PD_ECANCELED, "interrupted");
        if (strcmp(pass, "latest") || ask_all_n_failed(g) || json_object_size(s->all) >= s->n_parts)
            break;
        pd_fmt(left_out, sizeof left_out, "%s", m->name);
        s->models.v[m - s->models.v].state = 0;
    }
    const size_t n = strlen(text);
    if (*left_out)
        snprintf(text + n, SAVED_CHOICE_TEXT - n, ", since %s is incomplete", left_out);
    return 0;
}

static int find_in_job(struct resume_search *s, struct ask_all *g, const char *want,
                       const char *pass, struct pd_err *err) {
    struct job *j = s->j;
    char text[SAVED_CHOICE_TEXT];
    int rc = find_jobs(g, 0, &s->found, err);
    rc = rc ? rc : find_choose(&s->found, want, FIND_NEWEST, &s->job, err);
    if (rc)
        return rc;
    find_join(g, s->job, 0);
    rc = saved_models_ask(g, &s->models, err);
    rc = rc ? rc : choose_whole(s, g, pass, text, err);
    if (rc)
        return rc;
    const int whole = s->n_parts && json_object_size(s->files) >= s->n_parts;
    if (whole)
        pd_fmt(j->checkpoint.job, sizeof j->checkpoint.job, "%s", s->job->id);
    if ((rc = whole ? use_settings(&j->checkpoint, s->o, s->config, err) : bring_parts(s, g, err)))
        return rc;
    pd_fmt(j->checkpoint.text, sizeof j->checkpoint.text, "resuming from %s: %s%s", s->job->id,
           text, whole ? "" : "; its parts come over this machine");
    return 0;
}

/* "JOB...", "JOB.../pass-00003", "JOB.../4" */
static int from_job(struct job *j, struct pd_options *o, const char *value, struct pd_err *err) {
    struct resume_search s = {.j = j, .o = o, .files = json_object(), .all = json_object()};
    struct ask_all g;
    const char *slash = strchr(value, '/');
    char want[80];
    int bad = 0, rc = 0;
    if (pd_fmt(want, sizeof want, "%.*s", (int)(slash ? (size_t)(slash - value) : strlen(value)),
               value))
        rc = pd_fail(err, PD_EUSAGE, "resume: '%.100s' is too long", value);
    if (!rc && !(rc = ask_all_init(&g, &j->c, err))) {
        rc = find_in_job(&s, &g, want, slash && slash[1] ? slash + 1 : "latest", err);
        bad = rc ? ask_all_n_failed(&g) : 0;
        if (bad && !g.interrupted) /* the checkpoint may be there */
            ask_all_report(&g);
        ask_all_release(&g);
    }
    j->c.env.job = NULL;
    if (*s.out.aside)
        outputs_drop(&s.out, rc != 0);
    find_release(&s.found);
    saved_models_release(&s.models);
    json_decref(s.files);
    json_decref(s.all);
    free(s.config);
    if (rc)
        pd_err_prefix(err, "%s", option_source(j->opts, "resume"));
    if (rc == PD_ENOENT && bad)
        err->code = rc = PD_EHOST;
    return rc;
}

/* JOB and its time, "-" and 4 hexadecimal digits; perhaps followed by "/PASS". */
static int is_whole_id(const char *value) {
    static const char form[] = "JOB00000000000000-xxxx";
    size_t i = 0;
    for (; form[i]; i++)
        if (form[i] == '0'   ? !isdigit((unsigned char)value[i])
            : form[i] == 'x' ? !isxdigit((unsigned char)value[i])
                             : value[i] != form[i])
            return 0;
    return !value[i] || value[i] == '/';
}

/* 1: `resume` may name a job or a folder of this machine. */
static int may_be_ours(const struct pd_options *o) {
    const int i = pd_options_find("resume", PD_LAUNCHER);
    return *o->resume && strcmp(o->resume, "latest") && i >= 0 &&
           o->origin[i].level > PD_FROM_TRAIN_INI && !*o->trainer_command && !*o->pserver_command;
}

/* "e439" or "e439/pass-00003": the end of an id, as other commands take it. */
static int is_end_of_id(const char *value) {
    const size_t n = strspn(value, "0123456789abcdef");
    return n == 4 && (!value[n] || value[n] == '/');
}

/* A folder here may have a name that begins with JOB. */
static int names_job(const char *value) {
    return is_whole_id(value) ||
           ((pd_starts_with(value, "JOB") || is_end_of_id(value)) && !is_folder(value));
}

/* Without a word to the hosts: what an earlier fetch has copied to this machine says. */
static int look_at_copy(struct job_checkpoint *r, struct pd_options *o, struct pd_err *err) {
    char copy[PATH_MAX];
    pd_fmt(r->text, sizeof r->text, "resuming from %s, which its hosts have", o->resume);
    return pd_fmt(copy, sizeof copy, "%s/%s", o->outputs, o->resume)
               ? 0
               : use_settings_here(r, o, copy, err);
}

int job_resume_settings(struct pd_options *o, char note[JOB_RESUME_NOTE], struct pd_err *err) {
    struct job_checkpoint r = {.name = ""};
    int rc = 0;
    if (may_be_ours(o) && names_job(o->resume))
        rc = look_at_copy(&r, o, err);
    else if (may_be_ours(o) && is_folder(o->resume))
        rc = use_settings_here(&r, o, o->resume, err);
    pd_fmt(note, JOB_RESUME_NOTE, "%s", r.settings);
    return rc;
}

int job_resume_find(struct job *j, struct pd_options *o, struct pd_err *err) {
    const char *value = o->resume;
    if (!may_be_ours(o))
        return 0;
    if (names_job(value))
        return j->flags.dry_run ? look_at_copy(&j->checkpoint, o, err) : from_job(j, o, value, err);
    if (!is_folder(value))
        return 0;
    int rc = from_folder(j, o, value, err);
    if (!rc)
        pd_fmt(j->checkpoint.text, sizeof j->checkpoint.text, "resuming from %s, which is sent",
               j->checkpoint.folder);
    return rc;
}
