/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_passes.c - what trainers report of passes: the last test, the best pass, the file. */
#include <setjmp.h>

#include <cmocka.h>

#include "agent/core/msg.h"
#include "agent/core/passes.h"

static json_t *tested(int pass, const char *by, const char *better, double value) {
    return json_pack("{s:s, s:i, s:s, s:s, s:f}", "ev", "test", "pass", pass, "by", by, "better",
                     better, "value", value);
}

/* The pass of the best test after the tests of passes 0, 1, ... had these values. */
static int best_of(const char *by, const char *better, const double *values, int n) {
    struct passes s = {0};
    for (int i = 0; i < n; i++) {
        json_t *e = tested(i, by, better, values[i]);
        passes_take(&s, e);
        json_decref(e);
    }
    assert_int_equal(msg_int(s.test, "pass", 0, 99, 99), n - 1);
    const int best = (int)msg_int(s.best, "pass", 0, 99, 99);
    passes_release(&s);
    return best;
}

static void the_best_pass(void **state) {
    (void)state;
    const double auc[] = {0.5, 0.75, 0.75, 0.7}, cost[] = {4, 3, 2.5, 2.75};
    assert_int_equal(best_of("auc", "higher", auc, 4), 1); /* the first of equals */
    assert_int_equal(best_of("cost", "lower", cost, 4), 2);
    assert_int_equal(best_of("cost", "lower", cost, 1), 0);
}

/* Tests that compare no passes: before the first pass, without a value, of another figure. */
static void other_events(void **state) {
    (void)state;
    struct passes s = {0};
    json_t *before = json_pack("{s:s, s:s, s:s, s:f}", "ev", "test", "by", "auc", "better",
                               "higher", "value", 0.9),
           *none = json_pack("{s:s, s:i}", "ev", "test", "pass", 3),
           *one = tested(0, "auc", "higher", 0.5), *changed = tested(1, "cost", "lower", 7),
           *again = tested(1, "cost", "lower", 8),
           *saved =
               json_pack("{s:s, s:s, s:b}", "ev", "saved", "path", "output/pass-00001", "state", 0);
    passes_take(&s, before);
    assert_null(s.best);
    passes_take(&s, one);
    passes_take(&s, none);
    assert_true(json_equal(s.best, one) && json_equal(s.test, none));
    passes_take(&s, changed); /* a restart with another train.ini */
    assert_true(json_equal(s.best, changed));
    passes_take(&s, again); /* a restarted job tests the pass again */
    assert_true(json_equal(s.best, again));
    passes_take(&s, saved);
    assert_string_equal(s.saved, "output/pass-00001");
    json_t *result = json_object();
    passes_describe(&s, result);
    assert_string_equal(msg_str(result, "saved"), "output/pass-00001");
    assert_true(json_is_false(json_object_get(result, "saved_state")));
    json_object_set_new(saved, "state", json_true());
    passes_take(&s, saved);
    passes_describe(&s, result);
    assert_true(json_is_true(json_object_get(result, "saved_state")));
    assert_true(json_equal(json_object_get(result, "best"), again));
    json_t *all[] = {before, none, one, changed, again, saved, result};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        json_decref(all[i]);
    passes_release(&s);
}

static void the_file(void **state) {
    (void)state;
    char dir[] = "/tmp/test_passes-XXXXXX", by[80], better[8];
    struct node_paths p = {0};
    assert_non_null(mkdtemp(dir));
    pd_fmt(p.dir, sizeof p.dir, "%s", dir);
    assert_null(passes_values(&p, by, better));
    json_t *events[] = {tested(0, "auc", "higher", 0.5), tested(1, "auc", "higher", 0.625),
                        json_pack("{s:s, s:s}", "ev", "saved", "path", "output/pass-00001"),
                        tested(1, "auc", "higher", 0.75)};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(passes_append(&p, events[i], NULL), 0);
        json_decref(events[i]);
    }
    json_t *v = passes_values(&p, by, better),
           *want = json_pack("[[i, f], [i, f]]", 0, 0.5, 1, 0.75);
    assert_true(json_equal(v, want));
    assert_string_equal(by, "auc");
    assert_string_equal(better, "higher");
    json_decref(v);
    json_decref(want);
    pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_pass),
        cmocka_unit_test(other_events),
        cmocka_unit_test(the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
