/* SPDX-License-Identifier: Apache-2.0 */
/* saved_models.c - see saved_models.h. */
#include "launcher/outputs/saved_models.h"

#include "wire/client_bodies.h"

enum { ANSWER_MS = 60000, LISTED = 6 };

/* --- the nodes' answers --- */

static int compare(const void *a, const void *b) {
    return saved_name_compare(&((const struct saved_model *)a)->at,
                              &((const struct saved_model *)b)->at);
}

static int add_model(struct saved_models *m, const struct listed_model *x, struct pd_err *err) {
    struct saved_model s = {.state = (int)x->state};
    if (pd_fmt(s.name, sizeof s.name, "%s", x->name) || saved_name_parse(x->name, &s.at))
        return 0; /* a name of the user's own has no place in the order */
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->v[i].name, s.name))
            return 0;
    if (pd_grow(m->v, m->cap, m->n + 1))
        return pd_oom(err, "a list of saved models");
    m->v[m->n++] = s;
    return 0;
}

static int add_answer(struct saved_models *m, const json_t *answer, struct pd_err *err) {
    struct ag_models_answer a;
    struct listed_model x;
    const json_t *v;
    size_t i;
    if (wire_get(&wire_ag_models_answer, &a, answer, err))
        return err->code;
    json_array_foreach (a.models, i, v)
        if (wire_get(&wire_listed_model, &x, v, err) || add_model(m, &x, err))
            return err->code;
    /* A node that was the head before another one may have an older list. */
    if (json_array_size(a.tests) > json_array_size(m->tests)) {
        json_decref(m->tests);
        m->tests = json_incref(a.tests);
        pd_fmt(m->by, sizeof m->by, "%s", a.by);
        m->higher = !strcmp(a.better, "higher");
    }
    return 0;
}

void saved_models_release(struct saved_models *m) {
    free(m->v);
    json_decref(m->tests);
    *m = (struct saved_models){0};
}

static int take_answer(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    int rc = add_answer(n->g->arg, body, err);
    if (!rc)
        ask_all_keep(n);
    return rc;
}

static void talk(struct ask_all_node *n) {
    ask_all_request(n, WIRE_AG_MODELS, wire_put(&wire_ag_models, &(struct ag_models){.name = ""}),
                    ANSWER_MS, "listing its saved models", take_answer);
}

int saved_models_ask(struct ask_all *g, struct saved_models *out, struct pd_err *err) {
    ask_all_run(g, talk, out);
    if (g->interrupted)
        return pd_fail(err, PD_ECANCELED, "interrupted");
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, compare);
    g->c->env.job = NULL; /* the links have joined it */
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (g->nodes[i].err.code)
            g->nodes[i].skip = 1;
    return 0;
}

/* --- the choice --- */

static int is_complete(const struct saved_model *s) { return !s->at.inside && !s->at.stopped; }

static void put_list(const struct saved_models *m, int resume, struct pd_buf *b) {
    size_t n = 0, left = 0;
    char pass[SAVED_PASS_TEXT];
    for (size_t i = m->n; i-- > 0;) {
        if (resume && !m->v[i].state)
            continue;
        if (n == LISTED)
            left++;
        else
            pd_put_fmt(b, "%s%s (%s)", n++ ? ", " : "", m->v[i].name,
                       saved_pass_text(m->v[i].name, pass));
    }
    if (left)
        pd_put_fmt(b, " and %zu more", left);
}

static int none(const struct saved_models *m, const char *job, const char *what, int resume,
                struct pd_err *err) {
    struct pd_buf list = {0};
    put_list(m, resume, &list);
    pd_put_u8(&list, 0);
    const char *text = list.failed ? "" : (const char *)list.data;
    if (*text)
        pd_fail(err, PD_ENOENT, "%s has not saved %s; saved: %s", job, what, text);
    else
        pd_fail(err, PD_ENOENT, "%s has saved no model%s in its output folder", job,
                resume ? " from which training can continue" : "");
    pd_buf_release(&list);
    return err->code;
}

static const struct saved_model *find(const struct saved_models *m, const char *name, int resume) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->v[i].name, name) && (!resume || m->v[i].state))
            return &m->v[i];
    return NULL;
}

static const struct saved_model *best(const struct saved_models *m, int resume, double *value) {
    const struct saved_model *out = NULL;
    for (size_t i = 0; i < m->n; i++) {
        const json_t *v;
        size_t k;
        json_array_foreach (m->tests, k, v) {
            const double x = json_number_value(json_array_get(v, 1));
            if (!is_complete(&m->v[i]) || (resume && !m->v[i].state) ||
                (uint64_t)json_integer_value(json_array_get(v, 0)) != m->v[i].at.pass)
                continue;
            if (!out || (m->higher ? x > *value : x < *value)) {
                out = &m->v[i];
                *value = x;
            }
        }
    }
    return out;
}

static int choose_best(const struct saved_models *m, const char *job, int resume,
                       const struct saved_model **out, char text[SAVED_CHOICE_TEXT],
                       struct pd_err *err) {
    char pass[SAVED_PASS_TEXT];
    double value = 0;
    if (!m->tests)
        return pd_fail(err, PD_ENOENT,
                       "%s: no test compares its passes: 'test' in [data] of train.ini names the "
                       "files that are tested after each pass",
                       job);
    if (!(*out = best(m, resume, &value)))
        return none(m, job, "a pass that was tested", resume, err);
    snprintf(text, SAVED_CHOICE_TEXT, "the best saved pass is %s (%s): %s %.6g",
             saved_pass_text((*out)->name, pass), (*out)->name, m->by, value);
    return 0;
}

int saved_models_choose(const struct saved_models *m, const char *job, const char *want, int resume,
                        const struct saved_model **out, char text[SAVED_CHOICE_TEXT],
                        struct pd_err *err) {
    char name[64], what[200], pass[SAVED_PASS_TEXT];
    const size_t digits = strspn(want, "0123456789");
    *out = NULL;
    if (!strcmp(want, "best"))
        return choose_best(m, job, resume, out, text, err);
    if (!strcmp(want, "latest")) {
        for (size_t i = m->n; i-- > 0 && !*out;)
            *out = !resume || m->v[i].state ? &m->v[i] : NULL;
        pd_fmt(what, sizeof what, "a model");
    } else {
        struct saved_name n;
        int bad = 0;
        if (digits && !want[digits] && digits < 10 && strtoul(want, NULL, 10) > 0)
            snprintf(name, sizeof name, "pass-%05lu", strtoul(want, NULL, 10) - 1);
        else
            bad = pd_fmt(name, sizeof name, "%s", want) || saved_name_parse(name, &n);
        if (bad)
            return pd_fail(err, PD_EUSAGE,
                           "'%.80s' is no pass: latest, best, a number from 1 (6 is the folder "
                           "pass-00005), or the name of a folder",
                           want);
        *out = find(m, name, resume);
        snprintf(what, sizeof what, "%s (%s)", saved_pass_text(name, pass), name);
    }
    if (!*out)
        return none(m, job, what, resume, err);
    snprintf(text, SAVED_CHOICE_TEXT, "%s (%s)", saved_pass_text((*out)->name, pass), (*out)->name);
    return 0;
}
