/* SPDX-License-Identifier: Apache-2.0 */
/* test_reference.c - the examples of train.ini's reference are networks that load, and its parts
 * are found by name. */
#include <setjmp.h>
#include <cmocka.h>

#include "nn/graph/evaluator.h"
#include "nn/graph/graph_internal.h"
#include "ps/plan/optim.h"
#include "worker/reference.h"

static void loads(const char *what, const char *text) {
    struct nn_graph *g = NULL;
    struct pd_err err = {0};
    if (nn_graph_load_text(&g, "train.ini", text, &err))
        fail_msg("%s: %s", what, err.msg);
    nn_graph_free(g);
}

static void test_example(void **state) {
    struct pd_buf b = {0};
    (void)state;
    pd_put_fmt(&b, "%s\n%s", reference_frame, reference_rest);
    pd_put_u8(&b, 0);
    assert_false(b.failed);
    loads("the whole example", (char *)b.data);
    pd_buf_release(&b);
}

/* A cost reads the layers that no cost of the example reads. */
static void test_layers(void **state) {
    (void)state;
    for (const struct nn_layer *const *l = nn_layers; *l; l++) {
        struct pd_buf b = {0};
        char type[100], name[64];
        int has_cost = strstr((*l)->example, "[cost ") != NULL;
        pd_fmt(type, sizeof type, "\ntype = %s\n", (*l)->name);
        if (!strstr((*l)->example, type) || sscanf((*l)->example, "[layer %63[a-z_]]", name) != 1)
            fail_msg("the example of %s does not begin with this layer", (*l)->name);
        pd_put_fmt(&b,
                   "%s\n%s\n[layer result]\ntype = fc\ninputs = hidden %s\nsize = 1\n"
                   "[cost other]\ntype = square_error\ninput = result\nlabel = click\n"
                   "[optimizer]\ntype = sgd\nlearning_rate = 0.1\n",
                   reference_frame, (*l)->example, has_cost ? "" : name);
        pd_put_u8(&b, 0);
        assert_false(b.failed);
        loads((*l)->name, (char *)b.data);
        pd_buf_release(&b);
    }
}

static void has(const char *part, const char *text) {
    struct pd_buf b = {0};
    struct pd_err err = {0};
    if (reference_print(part, &b, &err))
        fail_msg("%s: %s", part, err.msg);
    pd_put_u8(&b, 0);
    if (!strstr((char *)b.data, text))
        fail_msg("%s has no '%s':\n%s", part, text, (char *)b.data);
    pd_buf_release(&b);
}

/* Every row of every table is found by its name, with its text. */
static void test_parts(void **state) {
    struct pd_buf b = {0};
    struct pd_err err = {0};
    (void)state;
    for (const struct nn_layer *const *l = nn_layers; *l; l++)
        has((*l)->name, "### ");
    for (const struct nn_act *a = nn_acts; a->name; a++)
        has(a->name, a->text);
    for (const struct nn_cost_type *const *c = nn_cost_types; *c; c++)
        has((*c)->name, (*c)->text);
    for (const struct nn_evaluator *const *e = nn_evaluators; *e; e++)
        has((*e)->name, (*e)->text);
    for (size_t i = 0; ps_optim_at(i); i++)
        has(ps_optim_at(i)->name, "| `");
    has("lr_factor", "factor of the learning rate");
    has("warmup_steps", "rises");
    has("pass_manual", "pass");
    has("schedules", "| `cosine` |");
    assert_int_equal(reference_print("nonsense", &b, &err), PD_EUSAGE);
    assert_string_not_equal(err.msg, "");
    assert_int_equal(b.len, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
