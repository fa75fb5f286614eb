/* job_summary.c - the last lines of a job: what it has reached, where the model lies, how to go on.
 * Node 0 reports the last test and the best pass (AG_RESULT, src/agent/core/passes.h). */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "launcher/job/job_internal.h"
#include "launcher/outputs/saved_name.h"
#include "launcher/text/when.h"

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void put_number(struct pd_buf *b, const char *before, const char *name, const json_t *v) {
    if (json_is_number(v))
        pd_put_fmt(b, "%s%s %.5g", before, name, json_number_value(v));
}

/* "test after pass 40/40: cost 0.4312, auc 0.7812" */
static void put_test(struct pd_buf *b, const json_t *test) {
    const char *name;
    json_t *v;
    pd_put_fmt(b, "; test %s:", text_of(test, "when"));
    const size_t begin = b->len;
    put_number(b, " ", "cost", json_object_get(test, "cost"));
    json_object_foreach (json_object_get(test, "metrics"), name, v)
        put_number(b, b->len > begin ? ", " : " ", pd_starts_with(name, "test.") ? name + 5 : name,
                   v);
}

/* The local folder of a saved model "output/NAME". 0: it is not there. */
static int local_model(const struct job *j, const char *name, char out[PATH_MAX]) {
    char manifest[PATH_MAX];
    return *name && j->fetched && !pd_fmt(out, PATH_MAX, "%s/%s", j->out.dir, name) &&
           !pd_fmt(manifest, sizeof manifest, "%s/manifest.json", out) && !access(manifest, F_OK);
}

/* The name of a model in the job's output folder; "" if save_dir is another folder. */
static const char *output_name(const char *saved) {
    return pd_starts_with(saved, "output/") ? saved + strlen("output/") : "";
}

static void put_best(const struct job *j, struct pd_buf *b) {
    const char *when = text_of(j->best, "when");
    char name[40], folder[PATH_MAX];
    if (!*when)
        return;
    pd_fmt(name, sizeof name, "pass-%05lld",
           (long long)json_integer_value(json_object_get(j->best, "pass")));
    pd_put_fmt(b, "paddlectl | best %s:", pd_starts_with(when, "after ") ? when + 6 : when);
    put_number(b, " ", text_of(j->best, "by"), json_object_get(j->best, "value"));
    if (j->fetched)
        pd_put_fmt(b, ", %s", local_model(j, name, folder) ? folder : "not saved");
    pd_put_u8(b, '\n');
}

static void put_duration(const struct job *j, struct pd_buf *b) {
    char span[40];
    if (j->took_ms <= 0)
        return;
    when_span(span, sizeof span, (uint64_t)j->took_ms * 1000);
    pd_put_fmt(b, " in %s", span);
}

void job_summary_done(const struct job *j, struct pd_buf *b) {
    char model[PATH_MAX], pass[SAVED_PASS_TEXT];
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
    else if (local_model(j, name, model))
        pd_put_fmt(b,
                   "paddlectl | model: %s (%s)\n"
                   "paddlectl | next: paddlectl infer --model=%s --data=FILE\n",
                   model, saved_pass_text(name, pass), model);
    else
        pd_put_fmt(b, "paddlectl | the outputs are in %s\n", j->out.dir);
}

void job_summary_go_on(const struct job *j, struct pd_buf *b) {
    char pass[SAVED_PASS_TEXT];
    const char *name = output_name(j->saved);
    if (!*j->saved) {
        pd_put_fmt(b, "paddlectl: no model was saved\n");
        return;
    }
    pd_put_fmt(b, "paddlectl: saved: %s", j->saved);
    if (*saved_pass_text(*name ? name : j->saved, pass))
        pd_put_fmt(b, " (%s)", pass);
    if (*name)
        pd_put_fmt(b, "; to continue: paddlectl run --resume=%s/%s\n", j->id, name);
    else
        pd_put_u8(b, '\n');
}
