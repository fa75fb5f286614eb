/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_graph.c - train.ini into a graph: accepted inputs, and the message for each refused
 * input. */
#include <setjmp.h>

#include <cmocka.h>

#include "nn/graph/graph.h"

static char dir[] = "/tmp/test-nn-XXXXXX";
static char ini[64], dict[64];

#define DATA                                                                                       \
    "[data]\nformat = ngram\ntrain = train/*\nfields = w1 w2 target\nvocabulary = 50\nstart_id = " \
    "1\nend_id = 2\n" /* 7 lines */
#define E1 \
    "[layer e1]\ntype = embedding\ninputs = w1\nparam = emb\nsize = 4\nsparse_update = true\n"
#define E2 \
    "[layer e2]\ntype = embedding\ninputs = w2\nparam = emb\nsize = 4\nsparse_update = true\n"
#define OUT "[layer out]\ntype = fc\ninputs = e1, e2\nsize = vocabulary\nact = softmax\n"
#define COST "[cost c]\ntype = cross_entropy\ninput = out\nlabel = target\n"
#define OPT "[optimizer]\ntype = adagrad\nlearning_rate = 0.03\nl2 = 1e-4\n"
#define GOOD DATA E1 E2 OUT COST OPT
#define ERROR "[evaluator v]\ntype = classification_error\ninput = out\nlabel = target\n"
#define GAUC "[evaluator v]\ntype = gauc\ninput = out\nlabel = target\n"

static int load(const char *text, struct nn_graph **g, struct pd_err *err) {
    assert_int_equal(pd_write_file_atomic(ini, text, strlen(text), 0600, NULL), 0);
    return nn_graph_load(g, ini, err);
}

static void a_good_file_becomes_a_graph(void **state) {
    (void)state;
    struct nn_graph *g;
    struct pd_err err = {0};
    if (load(GOOD "[train]\nwhatever = it says\n[evaluator ppl]\ntype = perplexity\ninput = c\n",
             &g, &err))
        fail_msg("%s", err.msg);
    static const struct {
        const char *name;
        enum nn_kind kind;
        uint64_t rows, cols;
        double std, l2;
    } want[] = {{"emb", NN_TABLE, 50, 4, 0.5, 1e-4},
                {"out.w0", NN_DENSE, 4, 50, 0.35355339, 1e-4},
                {"out.w1", NN_DENSE, 4, 50, 0.35355339, 1e-4},
                {"out.b", NN_DENSE, 1, 50, 0, 0}};
    assert_int_equal(nn_graph_n_params(g), 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct nn_param *p = nn_graph_param(g, i);
        assert_string_equal(p->name, want[i].name);
        assert_int_equal(p->kind, want[i].kind);
        assert_int_equal(p->rows, want[i].rows);
        assert_int_equal(p->cols, want[i].cols);
        assert_true(p->init_std - want[i].std < 1e-6 && want[i].std - p->init_std < 1e-6);
        assert_true(p->l2 == want[i].l2 && p->lr_factor == 1);
        assert_int_equal(nn_graph_find_param(g, want[i].name), (int)i);
    }
    assert_int_equal(nn_graph_find_param(g, "nix"), -1);
    const struct model_ini *m = nn_graph_model(g);
    assert_string_equal(m->data.format.text, "ngram");
    assert_string_equal(m->dir, dir);
    assert_string_equal(model_ini_setting(m, "learning_rate"), "0.03");
    assert_int_equal(nn_graph_n_evaluators(g), 1);
    nn_graph_free(g);
}

static void parameters_begin_as_they_are_told(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        double mean, std, lr;
    } rows[] = {
        {"default", "", 0, 0.5, 1},
        {"normal", "init_mean = 2\ninit_std = 0.25\nlr_factor = 3\n", 2, 0.25, 3},
        {"uniform", "init = uniform\n", 0, -0.8660254, 1},
        {"uniform, bounded", "init = uniform\ninit_max = 0.1\ninit_mean = 1\n", 1, -0.1, 1},
        {"xavier", "init = xavier\n", 0, 0.19245009, 1},
        {"static", "static = true\nlr_factor = 3\n", 0, 0.5, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2000];
        struct nn_graph *g;
        struct pd_err err = {0};
        snprintf(
            text, sizeof text,
            DATA E1
            "[layer out]\ntype = fc\ninputs = e1\nsize = vocabulary\nact = softmax\n%s" COST OPT,
            rows[i].text);
        if (load(text, &g, &err))
            fail_msg("%s: %s", rows[i].name, err.msg);
        const struct nn_param *w = nn_graph_param(g, 1), *b = nn_graph_param(g, 2);
        if (fabs(w->init_mean - rows[i].mean) > 1e-7 || fabs(w->init_std - rows[i].std) > 1e-7 ||
            w->lr_factor != rows[i].lr)
            fail_msg("%s: mean %.8g, std %.8g, lr_factor %g", rows[i].name, w->init_mean,
                     w->init_std, w->lr_factor);
        assert_true(b->init_mean == 0 && b->init_std == 0 && b->lr_factor == rows[i].lr);
        nn_graph_free(g);
    }
}

/* Each key of base/row_life.h, in a text with all keys. */
static void rows_come_and_go_as_they_are_told(void **state) {
    (void)state;
    struct nn_graph *g;
    struct pd_err err = {0};
    for (int by_chance = 0; by_chance < 2; by_chance++) {
        char text[3000] = "", keys[1000] = "";
        double want[PD_ROW_LIFE_N];
        for (size_t i = 0; i < PD_ROW_LIFE_N; i++) {
            const struct pd_row_life_setting *s = &pd_row_life_settings[i];
            const int other = i == (by_chance ? PD_ROW_LIFE_admit_count
                                              : PD_ROW_LIFE_admit_probability); /* one of them */
            want[i] = other ? s->def : s->most;
            if (!other)
                snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s = %.17g\n", s->name,
                         want[i]);
        }
        snprintf(text, sizeof text,
                 DATA "[field w2]\ntype = dense\n" E1
                      "%sclick = w2\n[layer out]\ntype = fc\ninputs = e1\nsize = vocabulary\nact = "
                      "softmax\n" COST OPT,
                 keys);
        if (load(text, &g, &err))
            fail_msg("%s", err.msg);
        const struct nn_param *p = nn_graph_param(g, 0);
        for (size_t i = 0; i < PD_ROW_LIFE_N; i++)
            if (pd_row_life_get(&p->life, i) != want[i])
                fail_msg("%s is %g, not %g", pd_row_life_settings[i].name,
                         pd_row_life_get(&p->life, i), want[i]);
        assert_true(pd_row_life_active(&p->life));
        assert_int_equal(p->click, 1);
        nn_graph_free(g);
    }
    if (load(GOOD, &g, &err))
        fail_msg("%s", err.msg);
    const struct nn_param *p = nn_graph_param(g, 0);
    for (size_t i = 0; i < PD_ROW_LIFE_N; i++)
        assert_true(pd_row_life_get(&p->life, i) == pd_row_life_settings[i].def);
    assert_false(pd_row_life_active(&p->life));
    assert_int_equal(p->click, -1);
    nn_graph_free(g);
}

static void a_vocabulary_file_is_counted(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want; /* want NULL: 5 words, <s> 3, <e> 4 */
    } rows[] = {
        {"ends in a newline", "<unk>\nthe\nof\n<s>\n<e>\n", NULL},
        {"does not", "<unk>\nthe\nof\n<s>\n<e>", NULL},
        {"empty", "", ":3: vocabulary_file"},
    };
    static const char text[] =
        "[data]\nformat = ngram\nvocabulary_file = dict.txt\nfields = w1 w2 target\n" E1 E2 OUT COST
            OPT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct nn_graph *g = NULL;
        struct pd_err err = {0};
        assert_int_equal(pd_write_file_atomic(dict, rows[i].text, strlen(rows[i].text), 0600, NULL),
                         0);
        int rc = load(text, &g, &err);
        if (rows[i].want ? rc != PD_ECONF || !strstr(err.msg, rows[i].want) : rc)
            fail_msg("%s: %d %s", rows[i].name, rc, err.msg);
        if (rc)
            continue;
        const struct data_ini *d = &nn_graph_model(g)->data;
        assert_int_equal(d->vocabulary.value, 5);
        assert_int_equal(d->start_id.value, 3);
        assert_int_equal(d->end_id.value, 4);
        nn_graph_free(g);
    }
    unlink(dict);
    struct pd_err err = {0};
    struct nn_graph *g = NULL;
    assert_int_equal(load(text, &g, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, ":3: cannot open vocabulary_file"));
}

/* A shipped workspace must load. Tests run at the top of the repository, from which its path is
 * found. */
static void the_word2vec_workspace_loads(void **state) {
    (void)state;
    static const char words[] = "<unk>\n<s>\n<e>\nthe\nof\n";
    struct pd_buf text;
    struct pd_err err = {0};
    struct nn_graph *g;
    pd_buf_init(&text);
    if (pd_read_file("workspace_template/word2vec/train.ini", 100000, &text, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pd_write_file_atomic(dict, words, strlen(words), 0600, NULL), 0);
    if (load((char *)text.data, &g, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(nn_graph_n_params(g), 5);
    const struct nn_param *emb = nn_graph_param(g, (uint32_t)nn_graph_find_param(g, "emb"));
    assert_true(emb->kind == NN_TABLE && emb->rows == 5 && emb->cols == 32);
    const struct nn_param *w = nn_graph_param(g, (uint32_t)nn_graph_find_param(g, "predict.w"));
    assert_true(w->kind == NN_DENSE && w->rows == 256 && w->cols == 5);
    nn_graph_free(g);
    pd_buf_release(&text);
    unlink(dict);
}

static const struct {
    const char *name, *text, *want;
} broken[] = {
    {"no data", E1 OPT, ": there is no section [data]"},
    {"no vocabulary", "[data]\nformat = ids\nfields = a b\n" OPT, ":2: [data] needs vocabulary"},
    {"unknown section", DATA "[lager x]\ntype = fc\n",
     ":8: unknown section [lager x], did you mean 'layer'?"},
    {"layer without a name", DATA "[layer]\ntype = fc\n", ":8: section [layer] needs a name"},
    {"optimizer with a name", DATA "[optimizer x]\ntype = sgd\n",
     ":8: section [optimizer x] takes no name"},
    {"key before any section", "type = fc\n", ":1: 'type' stands before"},
    {"unknown key", DATA "[layer a]\ntype = fc\nbreadth = 3\n",
     ":10: unknown key 'breadth' in [layer] (known: type, inputs,"},
    {"column that is not there",
     "[data]\nformat = csv\ntrain = x\ncolumns = a y\nfields = x:dense y:dense\n[field x]\ncolumns "
     "= a b\n",
     ":7: field 'x': there is no column 'b' among the columns of [data]"},
    {"field that is no column",
     "[data]\nformat = csv\ntrain = x\ncolumns = a y\nfields = x:dense y:dense\n",
     ":5: field 'x': there is no column 'x'"},
    {"key twice", DATA "[layer a]\ntype = fc\nsize = 3\nsize = 4\n",
     ":11: size of [layer a] is given twice (first on line 10)"},
    {"layer twice", DATA "[layer a]\ntype = fc\n[layer b]\ntype = fc\n[layer a]\ntype = fc\n",
     ":13: type of [layer a] is given twice (first on line 9)"},
    {"size no number", DATA "[layer a]\ntype = fc\nsize = big\n",
     ":10: size is a whole number from 1 to 16777216 or the word vocabulary, not 'big'"},
    {"rate of 1", DATA "[layer a]\ntype = dropout\nrate = 1\n",
     ":10: rate is a number from 0 to 0.999, not '1'"},
    {"bool", DATA "[layer a]\ntype = fc\nbias = yes\n", ":10: bias is true or false, not 'yes'"},
    {"bad name", DATA "[layer a/b]\ntype = fc\n", ":9: section: a name is 1 to 63"},
    {"unknown type", DATA "[layer a]\ntype = fcc\ninputs = w1\n",
     ":9: unknown layer type 'fcc', did you mean 'fc'?"},
    {"unknown type, unlike any", DATA "[layer a]\ntype = dense\ninputs = w1\n",
     ":9: unknown layer type 'dense' (known: embedding, fc, concat, dropout,"},
    {"rate misspelt", DATA E1 E2 OUT COST "[optimizer]\ntype = sgd\nlearning_rat = 1\n",
     "an optimizer has no setting 'learning_rat', did you mean 'learning_rate'?"},
    {"no type", DATA "[layer a]\ninputs = w1\n", ":9: layer 'a' has no type"},
    {"unknown act", DATA E1 "[layer a]\ntype = fc\ninputs = e1\nsize = 3\nact = sigma\n",
     ":18: unknown activation 'sigma' (known: linear, sigmoid,"},
    {"no inputs", DATA "[layer a]\ntype = fc\nsize = 3\n", ":9: layer 'a' has no inputs"},
    {"unknown input",
     DATA E1 E2
     "[layer out]\ntype = fc\ninputs = e1, e3\nsize = vocabulary\nact = softmax\n" COST OPT,
     ":22: layer 'out': there is no layer or field called 'e3' (known: "},
    {"ids into fc", DATA "[layer a]\ntype = fc\ninputs = w1\nsize = 3\n",
     ":10: layer 'a': its input 'w1' is a field of ids"},
    {"values into an embedding", DATA E1 "[layer a]\ntype = embedding\ninputs = e1\nsize = 3\n",
     ":16: layer 'a': an embedding takes fields of ids or lists as its inputs, not layer 'e1'"},
    {"numbers into an embedding",
     DATA "[field w2]\ntype = dense\n[layer a]\ntype = embedding\ninputs = w1 w2\nsize = 3\n",
     ":12: layer 'a': an embedding takes fields of ids or lists as its inputs, not dense field "
     "'w2'"},
    {"a field of no kind", DATA "[field w2]\ntype = odd\n",
     ":9: field 'w2': type: it is id, list, dense, category, "},
    {"a section of no field", DATA "[field w3]\ntype = dense\n",
     ":9: [field w3]: 'fields' of [data] does not name this field"},
    {"a list has no size", DATA "[field w2]\ntype = list\nsize = 3\n",
     ":10: field 'w2': size: only a dense field has a size"},
    {"sizes that differ",
     DATA E1 "[layer e2]\ntype = embedding\ninputs = w2\nsize = 5\n[layer a]\ntype = addto\ninputs "
             "= e1 e2\n",
     ":20: layer 'a': its inputs must be of one size, but 'e1' is [batch x 4] and 'e2' is [batch x "
     "5]"},
    {"vectors that do not divide", DATA E1 "[layer a]\ntype = fm\ninputs = e1\ndim = 3\n",
     ":17: layer 'a': dim is 3, but its input 'e1' is [batch x 4], no multiple of it"},
    {"a wide score",
     DATA E1 "[layer a]\ntype = fc\ninputs = e1\nsize = 2\nact = sigmoid\n[cost c]\ntype = "
             "binary_cross_entropy\ninput = a\nlabel = target\n",
     ":21: cost 'c': binary_cross_entropy needs one value a sample, but its input 'a' (line 15) is "
     "[batch x 2]"},
    {"an init of no kind", DATA "[layer a]\ntype = embedding\ninputs = w1\nsize = 3\ninit = odd\n",
     ":12: layer 'a': init is normal, uniform or xavier, not 'odd'"},
    {"a bound of what has none",
     DATA "[layer a]\ntype = embedding\ninputs = w1\nsize = 3\ninit_max = 1\n",
     ":12: layer 'a': init_max is for init = uniform"},
    {"static here, but not there",
     DATA E1 "[layer a]\ntype = embedding\ninputs = w1\nparam = emb\nsize = 4\nsparse_update = "
             "true\nstatic = true\n",
     ":20: parameter 'emb' is static here, but not so on line 11"},
    {"no image", DATA E1 "[layer a]\ntype = conv\ninputs = e1\nsize = 2\nfilter = 2\n",
     ":15: layer 'a': its input 'e1' is [batch x 4], no image"},
    {"another image",
     DATA E1 "[layer a]\ntype = pool\ninputs = e1\nfilter = 2\nheight = 2\nwidth = 3\n",
     ":15: layer 'a': an image of 1 x 2 x 3 (channels, height, width) has 6 values, but its input "
     "'e1' is [batch x 4]"},
    {"a large window",
     DATA E1 "[layer a]\ntype = pool\ninputs = e1\nfilter = 3\nheight = 2\nwidth = 2\n",
     ":15: layer 'a': a window of 3 x 3 with padding 0 does not fit an image of 2 x 2"},
    {"one score",
     DATA E1 "[layer a]\ntype = fc\ninputs = e1\nsize = 1\n[cost c]\ntype = rank\ninput = a\nlabel "
             "= target\n",
     ":20: cost 'c': rank takes 2 inputs, not 1"},
    {"a class that is a number",
     DATA "[field target]\ntype = dense\n" E1
          "[layer a]\ntype = fc\ninputs = e1\nsize = 50\nact = softmax\n[cost c]\ntype = "
          "cross_entropy\ninput = a\nlabel = target\n",
     ":24: cost 'c': its label 'target' is a dense field, but it needs the id of a class"},
    {"a label of another width",
     DATA "[field target]\ntype = dense\nsize = 3\n" E1
          "[layer a]\ntype = fc\ninputs = e1\nsize = 2\n[cost c]\ntype = square_error\ninput = "
          "a\nlabel = target\n",
     ":22: cost 'c': label 'target' is [batch x 3], but its input 'a' (line 18) is [batch x 2]"},
    {"foreign key", DATA E1 "[layer a]\ntype = dropout\ninputs = e1\nrate = 0.5\nsize = 3\n",
     ":18: layer 'a': dropout takes no key 'size' (it takes: inputs, rate)"},
    {"dropout without rate", DATA E1 "[layer a]\ntype = dropout\ninputs = e1\n",
     ":15: layer 'a' needs a rate"},
    {"fc without size", DATA E1 "[layer a]\ntype = fc\ninputs = e1\n",
     ":15: layer 'a' needs a size"},
    {"cycle",
     DATA "[layer a]\ntype = fc\ninputs = b\nsize = 3\n[layer b]\ntype = fc\ninputs = c\nsize = "
          "3\n[layer c]\ntype = fc\ninputs = b\nsize = 3\n",
     ":14: the layers form a cycle: b <- c <- b"},
    {"own input", DATA "[layer a]\ntype = fc\ninputs = a\nsize = 3\n",
     ":10: the layers form a cycle: a <- a"},
    {"layer called like a field", DATA "[layer w1]\ntype = fc\ninputs = w2\nsize = 3\n",
     ":9: layer 'w1' has the name of a field (line 4)"},
    {"field twice", "[data]\nformat = ids\nvocabulary = 5\nfields = a b a\n",
     ":4: field 'a' is named twice"},
    {"shared parameter of another shape",
     DATA E1
     "[layer e2]\ntype = embedding\ninputs = w2\nparam = emb\nsize = 8\nsparse_update = true\n" OUT
         COST OPT,
     ":17: layer 'e2' takes parameter 'emb' as a table of 50 x 8, but on line 11 it is a table of "
     "50 x 4"},
    {"shared parameter of another kind",
     DATA E1 "[layer e2]\ntype = embedding\ninputs = w2\nparam = emb\nsize = 4\n" OUT COST OPT,
     ":17: layer 'e2' takes parameter 'emb' as a tensor of 50 x 4"},
    {"shared parameter of another std",
     DATA E1 "[layer e2]\ntype = embedding\ninputs = w2\nparam = emb\nsize = 4\nsparse_update = "
             "true\ninit_std = 3\n" OUT COST OPT,
     ":20: parameter 'emb' has init_std 3 here, but 0.5 on line 11"},
    {"too many parameter names",
     DATA E1 E2 "[layer out]\ntype = fc\ninputs = e1 e2\nparam = a b c d\nsize = vocabulary\nact = "
                "softmax\n" COST OPT,
     ":23: layer 'out' has 3 parameters, but param names 4"},
    {"no cost", DATA E1 E2 OUT OPT, ": there is no section [cost NAME]"},
    {"unknown cost", DATA E1 E2 OUT "[cost c]\ntype = hinge\ninput = out\nlabel = target\n" OPT,
     ":26: unknown cost type 'hinge' (known: cross_entropy,"},
    {"cost of a field",
     DATA E1 E2 OUT "[cost c]\ntype = cross_entropy\ninput = w1\nlabel = target\n" OPT,
     ":27: cost 'c': there is no layer called 'w1'"},
    {"no label", DATA E1 E2 OUT "[cost c]\ntype = cross_entropy\ninput = out\n" OPT,
     ":26: cost 'c' has no label"},
    {"label is no field",
     DATA E1 E2 OUT "[cost c]\ntype = cross_entropy\ninput = out\nlabel = e1\n" OPT,
     ":28: cost 'c': its label 'e1' is not a field"},
    {"not a softmax",
     DATA E1 E2 "[layer out]\ntype = fc\ninputs = e1, e2\nsize = vocabulary\n" COST OPT,
     ":26: cost 'c': cross_entropy needs an input with act = softmax, but 'out' (line 21) has "
     "linear"},
    {"fewer outputs than classes",
     DATA E1 E2 "[layer out]\ntype = fc\ninputs = e1, e2\nsize = 49\nact = softmax\n" COST OPT,
     ": cost 'c': label 'target' has 50 classes, but its input 'out' (line 21) is [batch x 49]"},
    {"unused layer", DATA E1 E2 OUT "[layer left]\ntype = fc\ninputs = e1\nsize = 3\n" COST OPT,
     ":26: layer 'left' is used by no other layer and no cost"},
    {"unknown evaluator", GOOD "[evaluator v]\ntype = gini\ninput = out\n",
     ":34: unknown evaluator type 'gini' (known: classification_error, auc, log_loss, "
     "normalized_entropy, perplexity, rmse, mae, precision_recall, calibration, gauc, ndcg, "
     "recall)"},
    {"rmse of many outputs", GOOD "[evaluator v]\ntype = rmse\ninput = out\nlabel = target\n",
     "evaluator 'v': rmse takes one output, but 'out' (line"},
    {"positive class that is none",
     GOOD "[evaluator v]\ntype = auc\ninput = out\nlabel = target\npositive = 10000000\n",
     ":37: evaluator 'v': positive is class 10000000, but 'out' (line"},
    {"perplexity of a layer", GOOD "[evaluator v]\ntype = perplexity\ninput = out\n",
     ":35: evaluator 'v': its input is the name of a cost, not 'out'"},
    {"error without label", GOOD "[evaluator v]\ntype = classification_error\ninput = out\n",
     ":34: evaluator 'v' has no label"},
    {"entropy of values that are no probabilities",
     GOOD "[evaluator v]\ntype = normalized_entropy\ninput = e1\nlabel = target\n",
     ":35: evaluator 'v': normalized_entropy needs an input with act = sigmoid or softmax, but "
     "'e1' "
     "(line 9) has linear"},
    {"gauc without groups", GOOD GAUC,
     ":34: evaluator 'v': gauc needs group = FIELD, the user or query of a sample"},
    {"groups of a layer", GOOD GAUC "group = e1\n",
     ":37: evaluator 'v': its group 'e1' is not a field (known: w1, w2, target)"},
    {"groups of a list",
     "[data]\nformat = csv\ntrain = d\ncolumns = t x y\nfields = t:list x:dense y:label\n"
     "[field t]\nvocabulary = 9\n[layer out]\ntype = fc\ninputs = x\nsize = 1\nact = sigmoid\n"
     "[cost c]\ntype = binary_cross_entropy\ninput = out\nlabel = y\n" OPT
     "[evaluator v]\ntype = gauc\ninput = out\nlabel = y\ngroup = t\n",
     ":25: evaluator 'v': its group 't' is a list field, but it needs one id a sample"},
    {"a weight that is none", GOOD GAUC "group = w1\ngroup_weight = clicks\n",
     ":38: evaluator 'v': group_weight is samples, positives or equal, not 'clicks'"},
    {"few samples", GOOD GAUC "group = w1\nmax_samples = 10\n",
     ":38: max_samples is a whole number from 1024 to 67108864, not '10'"},
    {"gauc of the first samples", GOOD GAUC "group = w1\nk = 3\n",
     ":38: evaluator 'v': gauc takes no key 'k'"},
    {"groups of auc", GOOD "[evaluator v]\ntype = auc\ninput = out\nlabel = target\ngroup = w1\n",
     ":37: evaluator 'v': auc takes no key 'group'"},
    {"groups of a cost", GOOD "[evaluator v]\ntype = perplexity\ninput = c\nmax_samples = 5000\n",
     ":36: evaluator 'v': perplexity takes no key 'max_samples'"},
    {"slices of a layer", GOOD ERROR "slice = e1\n",
     ":37: evaluator 'v': its slice 'e1' is not a field (known: w1, w2, target)"},
    {"many slices",
     "[data]\nformat = ngram\ntrain = t\nfields = w1 target\nvocabulary = 65\nstart_id = 1\nend_id "
     "= 2\n" E1
     "[layer out]\ntype = fc\ninputs = e1\nsize = vocabulary\nact = softmax\n" COST OPT ERROR
     "slice = w1\n",
     "evaluator 'v': its slice 'w1' has more ids, but it needs one id a sample below a vocabulary "
     "of at most 64"},
    {"slices of texts",
     "[data]\nformat = csv\ntrain = d\ncolumns = t x y\nfields = t:category x:dense y:label\n"
     "[field t]\nvocabulary = 9\n[layer out]\ntype = fc\ninputs = x\nsize = 1\nact = sigmoid\n"
     "[cost c]\ntype = binary_cross_entropy\ninput = out\nlabel = y\n" OPT
     "[evaluator v]\ntype = log_loss\ninput = out\nlabel = y\nslice = t\n",
     ":25: evaluator 'v': its slice 't' has hashes of texts, but it needs one id a sample"},
    {"slices of gauc", GOOD GAUC "group = w1\nslice = w1\n",
     ":38: evaluator 'v': gauc takes no key 'slice'"},
    {"a life of what is no row",
     DATA "[layer a]\ntype = embedding\ninputs = w1\nsize = 3\nageing = 1\n",
     ":12: layer 'a': only the rows of a table are admitted or age"},
    {"two admissions", DATA E1 "admit_count = 2\nadmit_probability = 0.5\n" E2 OUT COST OPT,
     ":14: layer 'e1': admit_count and admit_probability: one of them"},
    {"half a show", DATA E1 "admit_count = 1.5\n" E2 OUT COST OPT,
     "admit_count is a whole number from 0 to 65535, not"},
    {"a life of what is static", DATA E1 "static = true\nageing = 1\n" E2 OUT COST OPT,
     ":15: layer 'e1': rows that are static are neither admitted nor do they age"},
    {"growing", DATA E1 "ageing = 1\nshow_decay = 1.5\n" E2 OUT COST OPT,
     ":15: show_decay is a number from 0 to 1, not"},
    {"clicks of nothing", DATA E1 "ageing = 1\nclick = nix\n" E2 OUT COST OPT,
     ":15: layer 'e1': click is a field with one id or number a sample, not 'nix'"},
    {"a life said twice", DATA E1 "ageing = 1\n" E2 "ageing = 1\n" OUT COST OPT,
     ":21: parameter 'emb': how its rows come and go is said where it appears first, on line"},
    {"no optimizer", DATA E1 E2 OUT COST, ": there is no section [optimizer]"},
    {"optimizer without a rate", DATA E1 E2 OUT COST "[optimizer]\ntype = sgd\n",
     ":30: [optimizer] needs learning_rate"},
};

static void a_bad_file_is_refused_with_its_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct nn_graph *g = NULL;
        struct pd_err err = {0};
        int rc = load(broken[i].text, &g, &err);
        if (rc != PD_ECONF || !strstr(err.msg, broken[i].want) ||
            strncmp(err.msg, ini, strlen(ini)))
            fail_msg("%s: %d '%s', not '%s'", broken[i].name, rc, err.msg, broken[i].want);
    }
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    for (int n = 1;; n++) {
        struct nn_graph *g = NULL;
        struct nn_exec *e = NULL;
        struct nn_feed *f = NULL;
        struct pd_err err = {0};
        char spec[32];
        assert_int_equal(pd_write_file_atomic(ini, GOOD, strlen(GOOD), 0600, NULL), 0);
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = nn_graph_load(&g, ini, &err);
        if (!rc)
            rc = nn_exec_new(&e, g, 3, &err);
        if (!rc)
            rc = nn_feed_new(&f, g, 3, &err);
        pd_fault_arm(NULL);
        nn_feed_free(f);
        nn_exec_free(e);
        nn_graph_free(g);
        if (!rc) {
            assert_true(n > 30);
            return;
        }
        assert_int_equal(rc, PD_ENOMEM);
        assert_int_equal(err.code, PD_ENOMEM);
    }
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(ini, sizeof ini, "%s/train.ini", dir);
    snprintf(dict, sizeof dict, "%s/dict.txt", dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_becomes_a_graph),
        cmocka_unit_test(parameters_begin_as_they_are_told),
        cmocka_unit_test(rows_come_and_go_as_they_are_told),
        cmocka_unit_test(a_vocabulary_file_is_counted),
        cmocka_unit_test(the_word2vec_workspace_loads),
        cmocka_unit_test(a_bad_file_is_refused_with_its_line),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
