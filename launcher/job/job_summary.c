/* SPDX-License-Identifier: Apache-2.0 */
/* job_summary.c - the last lines of a job: what it has reached, where the model lies, how to go on.
 * Node 0 reports the last test and the best pass (AG_RESULT, src/agent/core/passes.h). */
#include "base/json_text.h"
#include "conf/ini_file.h"
#include "launcher/job/job_internal.h"
#include "launcher/outputs/saved_name.h"
#include "launcher/text/when.h"

enum { BRACKETS = SAVED_PASS_TEXT + 4 };

static void put_number(struct pd_buf *b, const char *before, const char *name, const json_t *v) {
    if (json_is_number(v))
        pd_put_fmt(b, "%s%s %.5g", before, name, json_number_value(v));
}

/* The names are keys, which the link does not make printable (link.c). */
static void put_metric(struct pd_buf *b, const char *before, const char *name, const json_t *v) {
    char *copy = pd_strdup(pd_starts_with(name, "test.") ? name + 5 : name);
    put_number(b, before, copy ? pd_make_printable(copy) : "?", v);
    free(copy);
}

/* "test after pass 40/40: cost 0.4312, auc 0.7812" */
static void put_test(struct pd_buf *b, const json_t *test) {
    const char *name;
    json_t *v;
    pd_put_fmt(b, "; test %s:", pd_json_text(test, "when"));
    const size_t begin = b->len;
    put_number(b, " ", "cost", json_object_get(test, "cost"));
    json_object_foreach (json_object_get(test, "metrics"), name, v)
        put_metric(b, b->len > begin ? ", " : " ", name, v);
}

/* The local folder of a saved model "output/NAME". 0: it is not there. */
static int local_model(const struct job *j, const char *name, char out[PATH_MAX]) {
    char manifest[PATH_MAX];
    return *name && j->fetched && !pd_fmt(out, PATH_MAX, "%s/%s", j->out.dir, name) &&
           !pd_fmt(manifest, sizeof manifest, "%s/manifest.json", out) && !access(manifest, F_OK);
}

/* The path of a model in the job's output folder, "x/pass-00001" with save_dir = output/x; "" if
 * save_dir is another folder. */
static const char *output_name(const char *saved) {
    return pd_starts_with(saved, "output/") ? saved + strlen("output/") : "";
}

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* " (pass 4)"; "": the name is another. */
static const char *pass_in_brackets(const char *path, char out[BRACKETS]) {
    char pass[SAVED_PASS_TEXT];
    *out = 0;
    if (*saved_pass_text(last_name(path), pass))
        pd_fmt(out, BRACKETS, " (%s)", pass);
    return out;
}

/* 1: the job runs programs of the user's own, whose files paddlectl does not know. */
static int has_own_programs(const struct job *j) {
    return *j->opts->trainer_command || *j->opts->pserver_command;
}

/* 1: "paddlectl run --resume=JOB/NAME" finds the model (job_resume.c) and can continue from it. */
static int can_resume(const struct job *j) {
    struct saved_name n;
    return !has_own_programs(j) && !j->no_state && !saved_name_parse(output_name(j->saved), &n);
}

/* ", FOLDER" or ", not saved" about the model of a pass. It was saved beside the last model. `by`:
 * the value that makes it the best. */
static void put_saved_pass(const struct job *j, long long pass, const char *by, struct pd_buf *b) {
    const char *last = output_name(j->saved);
    char name[sizeof j->saved + 40], folder[PATH_MAX];
    if (!j->fetched || (*j->saved ? !*last : has_own_programs(j)))
        return;
    pd_fmt(name, sizeof name, "%.*spass-%05lld", (int)(last_name(last) - last), last, pass);
    if (local_model(j, name, folder))
        pd_put_fmt(b, ", %s", folder);
    else if (has_own_programs(j))
        pd_put_fmt(b, ", not saved");
    else
        pd_put_fmt(b, ", not saved (--keep_best=test.%s saves it)", by);
}

static void put_best(const struct job *j, struct pd_buf *b) {
    const char *when = pd_json_text(j->best, "when");
    if (!*when)
        return;
    pd_put_fmt(b, "paddlectl | best %s:", pd_starts_with(when, "after ") ? when + 6 : when);
    put_number(b, " ", pd_json_text(j->best, "by"), json_object_get(j->best, "value"));
    put_saved_pass(j, (long long)json_integer_value(json_object_get(j->best, "pass")),
                   pd_json_text(j->best, "by"), b);
    pd_put_u8(b, '\n');
}

static void put_duration(const struct job *j, struct pd_buf *b) {
    char span[40];
    if (j->took_ms <= 0)
        return;
    when_span(span, sizeof span, (uint64_t)j->took_ms * 1000);
    pd_put_fmt(b, " in %s", span);
}

/* --- what to do with the model --- */

enum { WORD = 64 };

/* A network whose first cost is a layer itself (type = sum) predicts nothing: infer has no answer.
 */
struct vectors {
    char cost[WORD + 8], type[WORD], input[WORD]; /* of the first cost; its section is `cost` */
    char layer[WORD], param[WORD];                /* of that input: its type, its first parameter */
    char vocabulary[PATH_MAX];
};

static void take_word(char out[WORD], const char *value) {
    pd_fmt(out, WORD, "%.*s", (int)strcspn(value, ", \t"), value);
}

static int on_cost(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct vectors *v = arg;
    (void)line, (void)err;
    if (!strcmp(section, "data") && !strcmp(name, "vocabulary_file"))
        pd_fmt(v->vocabulary, sizeof v->vocabulary, "%s", value);
    if (!pd_starts_with(section, "cost ") || (*v->cost && strcmp(v->cost, section)))
        return 0;
    pd_fmt(v->cost, sizeof v->cost, "%s", section);
    if (!strcmp(name, "type"))
        take_word(v->type, value);
    else if (!strcmp(name, "input"))
        take_word(v->input, value);
    return 0;
}

static int on_layer(void *arg, const char *section, const char *name, const char *value, int line,
                    struct pd_err *err) {
    struct vectors *v = arg;
    (void)line, (void)err;
    if (!pd_starts_with(section, "layer ") || strcmp(section + strlen("layer "), v->input))
        return 0;
    if (!strcmp(name, "type"))
        take_word(v->layer, value);
    else if (!strcmp(name, "param"))
        take_word(v->param, value);
    return 0;
}

/* "export ..." or "infer ..." for the model in folder `model`. */
static void put_next(const struct job *j, const char *model, struct pd_buf *b) {
    struct vectors v = {0};
    struct pd_err none = {0};
    const char *text = (const char *)j->train_ini.data, *folder = j->opts->job_dispatch_package;
    char dict[PATH_MAX];
    if (j->train_ini.len) {
        pd_ini_read_text("train.ini", text, j->train_ini.len, NULL, on_cost, &v, &none);
        pd_ini_read_text("train.ini", text, j->train_ini.len, NULL, on_layer, &v, &none);
    }
    if (strcmp(v.type, "sum")) {
        pd_put_fmt(b, "infer --model=%s --data=FILE\n", model);
        return;
    }
    pd_put_fmt(b, "export --model=%s", model);
    if (strcmp(v.layer, "skip_gram") || !*v.param) {
        pd_put_fmt(b, " --out=model.npz\n");
        return;
    }
    folder += pd_starts_with(folder, "./") ? 2 : 0;
    pd_put_fmt(b, " --format=word2vec --param=%s", v.param);
    if (*v.vocabulary && *v.vocabulary != '/' &&
        !pd_fmt(dict, sizeof dict, "%s/%s", folder, v.vocabulary) && !access(dict, R_OK))
        pd_put_fmt(b, " --vocabulary=%s", dict);
    pd_put_fmt(b, " --out=words.txt\n");
}

void job_summary_done(const struct job *j, struct pd_buf *b) {
    char model[PATH_MAX], pass[BRACKETS];
    const char *name = output_name(j->saved);
    pd_put_fmt(b, "paddlectl | done");
    put_duration(j, b);
    if (j->test)
        put_test(b, j->test);
    pd_put_u8(b, '\n');
    put_best(j, b);
    if (j->joined)
        pd_put_fmt(b, "paddlectl | %s%snext: paddlectl fetch %s\n", *j->saved ? j->saved : "",
                   *j->saved ? " is on the nodes; " : "", j->id);
    else if (local_model(j, name, model)) {
        pd_put_fmt(b, "paddlectl | model: %s%s\npaddlectl | next: paddlectl ", model,
                   pass_in_brackets(name, pass));
        put_next(j, model, b);
    } else
        pd_put_fmt(b, "paddlectl | the outputs are in %s\n", j->out.dir);
}

void job_summary_go_on(const struct job *j, struct pd_buf *b) {
    char pass[BRACKETS];
    if (!*j->saved) {
        if (j->knows_saved && !has_own_programs(j))
            pd_put_fmt(b, "paddlectl: no model was saved\n");
        return;
    }
    pd_put_fmt(b, "paddlectl: saved: %s%s", j->saved, pass_in_brackets(j->saved, pass));
    if (can_resume(j))
        pd_put_fmt(b, "; to continue: paddlectl run --resume=%s/%s", j->id, last_name(j->saved));
    pd_put_u8(b, '\n');
}
