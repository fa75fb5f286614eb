/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - the reference of train.ini's network, made of the tables of layers, activations,
 * costs, evaluators, optimizers and keys: docs/train-ini.md, `paddlectl help train.ini`. */
#include "worker/reference.h"

#include "conf/options.h"
#include "model_ini/model_ini.h"
#include "nn/graph/evaluator.h"
#include "nn/graph/graph_internal.h"
#include "ps/plan/optim.h"

enum { WIDTH = 100 };

const char reference_frame[] = "[data]\n"
                               "format = csv\n"
                               "train = data/*\n"
                               "columns = user_id item_id word tags age hours click\n"
                               "fields = user_id:category item_id:category word:id tags:list "
                               "numbers:dense click:label\n"
                               "\n"
                               "[field word]\n"
                               "vocabulary = 1000\n"
                               "\n"
                               "[field tags]\n"
                               "vocabulary = 1000\n"
                               "\n"
                               "[field numbers]\n"
                               "columns = age hours\n"
                               "\n"
                               "[layer user]\n"
                               "type = embedding\n"
                               "inputs = user_id\n"
                               "size = 16\n"
                               "sparse_update = true\n"
                               "\n"
                               "[layer item]\n"
                               "type = embedding\n"
                               "inputs = item_id\n"
                               "size = 16\n"
                               "sparse_update = true\n"
                               "\n"
                               "[layer hidden]\n"
                               "type = fc\n"
                               "inputs = user item numbers\n"
                               "size = 64\n"
                               "act = relu\n";

const char reference_rest[] = "[layer out]\n"
                              "type = fc\n"
                              "inputs = hidden\n"
                              "size = 1\n"
                              "act = sigmoid\n"
                              "\n"
                              "[cost cost]\n"
                              "type = binary_cross_entropy\n"
                              "input = out\n"
                              "label = click\n"
                              "\n"
                              "[evaluator auc]\n"
                              "type = auc\n"
                              "input = out\n"
                              "label = click\n"
                              "\n"
                              "[evaluator auc_of_users]\n"
                              "type = gauc\n"
                              "input = out\n"
                              "label = click\n"
                              "group = user_id\n"
                              "\n"
                              "[optimizer]\n"
                              "type = adagrad\n"
                              "learning_rate = 0.05\n"
                              "l2 = 1e-6\n";

/* Lines as a block of code. */
static void block(struct pd_buf *out, const char *lines) {
    for (const char *s = lines; *s; s += strcspn(s, "\n") + 1)
        pd_put_fmt(out, "%s%.*s\n", *s == '\n' ? "" : "    ", (int)strcspn(s, "\n"), s);
    pd_put_u8(out, '\n');
}

static void paragraph(struct pd_buf *out, const char *text) {
    pd_help_text(out, text, WIDTH);
    pd_put_u8(out, '\n');
}

/* The text of a cell of a table: bars would end it. */
static void cell(struct pd_buf *out, const char *text) {
    for (; *text; text++)
        pd_put_fmt(out, *text == '|' ? "\\|" : "%c", *text);
    pd_put_fmt(out, " |");
}

static void row(struct pd_buf *out, const char *name, const char *middle, const char *text) {
    pd_put_fmt(out, "| `%s` | ", name);
    if (middle) {
        cell(out, middle);
        pd_put_u8(out, ' ');
    }
    cell(out, text);
    pd_put_u8(out, '\n');
}

static void key_rows(struct pd_buf *out, const char *section) {
    struct model_ini_key k;
    for (size_t i = 0; !model_ini_key(i, &k); i++)
        if (!strcmp(k.section, section))
            row(out, k.name, k.value, k.text);
}

static void keys(struct pd_buf *out, const char *section) {
    pd_put_fmt(out, "| key | value | what it says |\n|---|---|---|\n");
    key_rows(out, section);
    pd_put_u8(out, '\n');
}

static void layer(struct pd_buf *out, const struct nn_layer *l) {
    struct pd_buf taken = {0};
    pd_put_fmt(out, "### %s\n\n", l->name);
    pd_put_fmt(&taken, "%c%s. Keys:", toupper((unsigned char)*l->text), l->text + 1);
    for (const char *const *t = l->takes; *t; t++)
        pd_put_fmt(&taken, "%s %s", t == l->takes ? "" : ",", *t);
    pd_put_u8(&taken, '.');
    if (l->source)
        pd_put_fmt(&taken, " Source: [sources.md](sources.md#%s).", l->source);
    pd_put_u8(&taken, 0);
    if (taken.failed)
        out->failed = 1;
    else
        paragraph(out, (char *)taken.data);
    pd_buf_release(&taken);
    block(out, l->formula);
    block(out, l->example);
}

static void activations(struct pd_buf *out) {
    pd_put_fmt(out, "## Activations\n\n| act | y of x | gradient dx of dy |\n|---|---|---|\n");
    for (const struct nn_act *a = nn_acts; a->name; a++)
        row(out, a->name, a->text, a->gradient);
    pd_put_u8(out, '\n');
}

static void costs(struct pd_buf *out) {
    pd_put_fmt(out, "## Costs\n\n");
    paragraph(out, "A section [cost NAME] is a cost of a sample. A step uses the mean over its "
                   "samples, and the sum of all costs, each times its weight. y are the values of "
                   "the layer, x the values before its activation.");
    keys(out, "cost");
    pd_put_fmt(out, "| type | what it is | formula and gradient | activation of the layer |\n"
                    "|---|---|---|---|\n");
    for (const struct nn_cost_type *const *c = nn_cost_types; *c; c++) {
        pd_put_fmt(out, "| `%s` | ", (*c)->name);
        cell(out, (*c)->text);
        pd_put_u8(out, ' ');
        cell(out, (*c)->formula);
        pd_put_fmt(out, " %s |\n", (*c)->act ? (*c)->act : "any");
    }
    pd_put_u8(out, '\n');
}

static void evaluators(struct pd_buf *out) {
    pd_put_fmt(out, "## Evaluators\n\n");
    paragraph(out, "A section [evaluator NAME] is a figure that a pass prints for training and "
                   "test data, over the samples of all trainers. They do not change the training.");
    keys(out, "evaluator");
    pd_put_fmt(out, "| type | what it is | better |\n|---|---|---|\n");
    for (const struct nn_evaluator *const *e = nn_evaluators; *e; e++)
        row(out, (*e)->name, (*e)->text,
            (*e)->better > 0   ? "larger"
            : (*e)->better < 0 ? "smaller"
                               : "");
    pd_put_u8(out, '\n');
    paragraph(out, "With `slice`, each id of that field has values of its own, `NAME.ID`, beside "
                   "those of all samples. The field has type id or label and a vocabulary of at "
                   "most 64. `paddlectl prepare --encode=index` makes ids of texts such as a "
                   "country, and `--min_count` makes one id of all rare texts. auc, gauc, ndcg, "
                   "recall and perplexity have no slices. The values of slices come last. A line "
                   "of the log and an event have room for 4000 characters, about 140 values with "
                   "short names; the rest is left out.");
    paragraph(out, "gauc, ndcg and recall are means over groups. A group has the samples of all "
                   "trainers with one value of the field `group`, such as a user. A group of gauc "
                   "counts if it has samples of both classes, a group of ndcg or recall if it has "
                   "a positive sample. `NAME.share` is the share of the samples in groups that "
                   "count. Samples with equal outputs share their places. Source: "
                   "[sources.md](sources.md#evaluators).");
    paragraph(out,
              "These evaluators keep 16 bytes a sample in each thread. At the end of a pass "
              "each of several trainers sends 16 bytes and receives 16 bytes for each sample "
              "of all trainers. Beyond `max_samples` samples a part of the groups counts, "
              "with all of their samples. It is the same part for any number of trainers and "
              "threads, and in every pass over the same data. With on_trainer_lost = wait, a lost "
              "trainer can be replaced while these evaluators together have at most 4,000,000 "
              "samples of a pass and its tests.");
}

static void optimizers(struct pd_buf *out) {
    struct ps_optim_setting s;
    struct ps_schedule schedule;
    pd_put_fmt(out, "## Optimizers\n\n");
    paragraph(out, "The section [optimizer] is applied by the parameter servers. g is the mean "
                   "gradient of a step plus l2 w, w a value, lr the learning rate, t the number of "
                   "the update. Source: [sources.md](sources.md#optimizers).");
    pd_put_fmt(out, "| key | value | what it says |\n|---|---|---|\n");
    key_rows(out, "optimizer");
    for (size_t i = 0; !ps_optim_setting(i, &s); i++) {
        char value[100], def[40] = "by type";
        if (!isnan(s.def))
            pd_fmt(def, sizeof def, "%g", s.def);
        pd_fmt(value, sizeof value, "%.10g to %.10g", s.min, s.max);
        if (strcmp(s.name, "learning_rate")) /* train.ini must give it */
            pd_fmt(value + strlen(value), sizeof value - strlen(value), "; default %s", def);
        row(out, s.name, value, s.text);
    }
    row(out, "learning_rate_schedule", "name; default constant", "one of those below");
    row(out, "learning_rate_args", "where:factor, ...", "manual, pass_manual: their points");
    pd_put_fmt(out, "\n| type | rule | defaults |\n|---|---|---|\n");
    for (size_t i = 0; ps_optim_at(i); i++) {
        const struct ps_optim *o = ps_optim_at(i);
        char def[80] = "";
        if (o->decay > 0)
            pd_fmt(def, sizeof def, "epsilon %g, decay %g", o->epsilon, o->decay);
        else if (o->epsilon > 0)
            pd_fmt(def, sizeof def, "epsilon %g", o->epsilon);
        row(out, o->name, o->text, def);
    }
    pd_put_fmt(out, "\n## Schedules\n\n");
    paragraph(out, "The learning rate of an update is learning_rate times this factor. s are the "
                   "samples before the update, a and b are learning_rate_decay_a and "
                   "learning_rate_decay_b. Source: [sources.md](sources.md#learning-rate-schedules)"
                   ".");
    pd_put_fmt(out, "| learning_rate_schedule | factor |\n|---|---|\n");
    for (size_t i = 0; !ps_schedule(i, &schedule); i++)
        row(out, schedule.name, NULL, schedule.text);
}

static void whole(struct pd_buf *out) {
    pd_put_fmt(out, "# The network in train.ini\n\n");
    paragraph(out, "`paddlectl help train.ini` prints this page, which is made of the program's "
                   "tables, and `paddlectl help train.ini fc` a part of it. The sections [data] "
                   "and [field NAME] are described in [data.md](data.md), the options of [train] "
                   "by `paddlectl run --help`.");
    pd_put_fmt(out, "## Example\n\n");
    paragraph(out, "A whole train.ini. The examples of the layers below use its fields and its "
                   "layers user, item and hidden.");
    block(out, reference_frame);
    block(out, reference_rest);
    pd_put_fmt(out, "## Layers\n\n");
    paragraph(out, "A section [layer NAME] computes y from its inputs, which are fields of [data] "
                   "or layers. B is the number of samples. dy is the gradient of the costs before "
                   "the layer's activation; the gradients of a value that is used several times "
                   "are added up. A layer refuses keys that it does not list.");
    keys(out, "layer");
    for (const struct nn_layer *const *l = nn_layers; *l; l++)
        layer(out, *l);
    activations(out);
    costs(out);
    evaluators(out);
    optimizers(out);
}

/* The section with this heading, or the rows of tables with this name. 0: there is none. */
static int part(const char *text, const char *name, struct pd_buf *out) {
    char heading[100], cells[100];
    int level = 0;
    size_t before = out->len;
    pd_fmt(heading, sizeof heading, "# %s\n", name);
    pd_fmt(cells, sizeof cells, "| `%s` |", name);
    for (const char *s = text, *next; *s; s = next) {
        size_t n = strcspn(s, "\n") + 1, signs = strspn(s, "#");
        next = s + n;
        if (signs && signs <= (size_t)level)
            level = 0;
        if (signs && n == strlen(heading) + signs - 1 &&
            !strncasecmp(s + signs - 1, heading, strlen(heading)))
            level = (int)signs;
        if (level || pd_starts_with(s, cells))
            pd_put(out, s, n);
    }
    return out->len > before;
}

int reference_print(const char *name, struct pd_buf *out, struct pd_err *err) {
    struct pd_buf all = {0};
    int rc = 0;
    whole(&all);
    pd_put_u8(&all, 0);
    if (all.failed)
        rc = pd_oom(err, "the reference");
    else if (!name)
        pd_put(out, all.data, all.len - 1);
    else if (!part((char *)all.data, name, out))
        rc = pd_fail(err, PD_EUSAGE,
                     "train.ini has no layer, activation, cost, evaluator, optimizer or key "
                     "'%.100s'; 'paddlectl help train.ini' lists all",
                     name);
    pd_buf_release(&all);
    return rc ? rc : out->failed ? pd_oom(err, "the reference") : 0;
}
