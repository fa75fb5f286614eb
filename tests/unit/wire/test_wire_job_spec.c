/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_job_spec.c - the table of a job's settings: bounds, defaults, types; it agrees with the
 * options of conf.ini and with docs/protocol.md. */
#include <setjmp.h>
#include <cmocka.h>

#include "conf/options.h"
#include "wire/job_spec.h"

#define FOR_EACH_ROW(f)                                     \
    for (const struct wire_field *f = wire_job_spec.fields; \
         f < wire_job_spec.fields + wire_job_spec.n; f++)

static struct job_spec spec;
static struct pd_err err;

static int get(const char *key, json_t *v) {
    json_t *o = json_object();
    if (v)
        json_object_set_new(o, key, v);
    memset(&spec, 0xff, sizeof spec);
    err = (struct pd_err){0};
    int rc = wire_get(&wire_job_spec, &spec, o, &err);
    json_decref(o);
    return rc;
}

static int64_t value_of(const struct wire_field *f) {
    return *(const int64_t *)((const char *)&spec + f->offset);
}

static void refused(const struct wire_field *f, json_t *v) {
    char want[80];
    snprintf(want, sizeof want, "spec.%s", f->key);
    assert_int_equal(get(f->key, v), PD_EPROTO);
    assert_non_null(strstr(err.msg, want));
}

static void every_row_has_bounds_a_default_and_a_type(void **state) {
    (void)state;
    FOR_EACH_ROW(f) {
        assert_int_equal(get(f->key, NULL), 0);
        if (f->type == WIRE_TEXT) {
            char *text = calloc(1, (size_t)f->most + 2);
            assert_string_equal(*(const char **)((char *)&spec + f->offset), "");
            memset(text, 'x', (size_t)f->most);
            assert_int_equal(get(f->key, json_string(text)), 0);
            text[f->most] = 'x';
            refused(f, json_string(text));
            refused(f, json_integer(1));
            free(text);
            continue;
        }
        assert_int_equal(value_of(f), f->absent);
        refused(f, json_string("1"));
        if (f->type == WIRE_BOOL) {
            assert_int_equal(get(f->key, json_true()), 0);
            assert_int_equal(value_of(f), 1);
            refused(f, json_integer(1));
            continue;
        }
        assert_int_equal(get(f->key, json_integer(f->least)), 0);
        assert_int_equal(value_of(f), f->least);
        assert_int_equal(get(f->key, json_integer(f->most)), 0);
        assert_int_equal(value_of(f), f->most);
        refused(f, json_integer(f->least - 1));
        refused(f, json_integer(f->most + 1));
    }
}

/* paddlectl sends each value that conf.ini may hold; the agent must not refuse it. */
static void bounds_contain_those_of_the_option(void **state) {
    (void)state;
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    FOR_EACH_ROW(f) {
        if (!f->option)
            continue;
        const int i = pd_options_find(f->option, PD_LAUNCHER);
        assert_true(i >= 0);
        const double scale = t[i].type == PD_F64 ? 1000 : 1;
        assert_int_equal(f->type == WIRE_TEXT, t[i].type == PD_STR || t[i].type == PD_CHOICE);
        if (f->type == WIRE_INT) {
            assert_true((double)f->least <= t[i].min * scale);
            assert_true((double)f->most >= t[i].max * scale);
        }
        for (const char *c = t[i].type == PD_CHOICE ? t[i].choices : ""; *c;) {
            const size_t word = strcspn(c, "|");
            assert_true(word <= (size_t)f->most);
            c += word + (c[word] == '|');
        }
    }
}

static void the_protocol_documents_every_row(void **state) {
    (void)state;
    static const char *const types[] = {"bool", "integer", "text"};
    FILE *f = fopen("docs/protocol.md", "r");
    assert_non_null(f);
    static char text[1 << 20];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    FOR_EACH_ROW(r) {
        char bounds[60] = "", absent[30] = "", option[60] = "", row[300];
        if (r->type == WIRE_INT) {
            snprintf(bounds, sizeof bounds, "%lld to %lld", (long long)r->least,
                     (long long)r->most);
            snprintf(absent, sizeof absent, "%lld", (long long)r->absent);
        } else if (r->type == WIRE_TEXT) {
            snprintf(bounds, sizeof bounds, "%lld bytes", (long long)r->most);
        }
        if (r->type == WIRE_BOOL && r->absent)
            snprintf(absent, sizeof absent, "true");
        if (r->option)
            snprintf(option, sizeof option, "`%s`", r->option);
        snprintf(row, sizeof row, "| `%s` | %s | %s | %s | %s |", r->key, types[r->type], bounds,
                 absent, option);
        assert_non_null(strstr(text, row));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_bounds_a_default_and_a_type),
        cmocka_unit_test(bounds_contain_those_of_the_option),
        cmocka_unit_test(the_protocol_documents_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
