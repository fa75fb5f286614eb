/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_bodies.c - the bodies of wire/bodies.h: every field of every body is written, read
 * back, bounded, and named in docs/protocol.md. */
#include <setjmp.h>
#include <cmocka.h>

#include "wire/client_bodies.h"

enum { STRUCT_MAX = 512 };

#define BODY(name, ROWS) &wire_##name,
static const struct wire_body *const bodies[] = {WIRE_BODIES(BODY) WIRE_CLIENT_BODIES(BODY)};
enum { N_BODIES = sizeof bodies / sizeof bodies[0] };

/* A value that the field allows. */
static json_t *valid(const struct wire_field *f) {
    switch (f->type) {
    case WIRE_BOOL:
        return json_true();
    case WIRE_INT:
        return json_integer(f->most);
    case WIRE_TEXT:
        return json_string("xyz");
    case WIRE_ARRAY:
        return json_pack("[s]", "xyz");
    default:
        return json_pack("{s:s}", "xyz", "xyz");
    }
}

/* A value of the right type beyond the field's bounds; NULL: every value is within them. */
static json_t *too_large(const struct wire_field *f) {
    if (f->type == WIRE_INT)
        return f->most == INT64_MAX ? NULL : json_integer(f->most + 1);
    if (f->type == WIRE_TEXT) {
        char *text = calloc(1, (size_t)f->most + 2);
        memset(text, 'x', (size_t)f->most + 1);
        json_t *v = json_string(text);
        free(text);
        return v;
    }
    json_t *v = f->type == WIRE_ARRAY ? json_array() : NULL;
    for (int64_t i = 0; v && i <= f->most; i++)
        json_array_append_new(v, json_null());
    return v;
}

static void refuses(const struct wire_body *b, const struct wire_field *f, json_t *v) {
    _Alignas(8) char out[STRUCT_MAX];
    char want[100];
    struct pd_err err = {0};
    json_t *o = json_object();
    json_object_set_new(o, f->key, v);
    assert_int_equal(wire_get(b, out, o, &err), PD_EPROTO);
    snprintf(want, sizeof want, "%s.%s", b->name, f->key);
    assert_ptr_equal(strstr(err.msg, want), err.msg);
    json_decref(o);
}

static void bodies_are_written_as_they_are_read(void **state) {
    (void)state;
    for (size_t i = 0; i < N_BODIES; i++) {
        _Alignas(8) char out[STRUCT_MAX];
        struct pd_err err = {0};
        json_t *o = json_object(), *again;
        for (size_t k = 0; k < bodies[i]->n; k++)
            json_object_set_new(o, bodies[i]->fields[k].key, valid(&bodies[i]->fields[k]));
        assert_int_equal(wire_get(bodies[i], out, o, &err), 0);
        again = wire_put(bodies[i], out);
        if (!json_equal(o, again))
            fail_msg("%s: %s became %s", bodies[i]->name, json_dumps(o, 0), json_dumps(again, 0));
        json_decref(again);
        json_decref(o);
    }
}

static void wrong_types_and_bounds_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < N_BODIES; i++)
        for (size_t k = 0; k < bodies[i]->n; k++) {
            const struct wire_field *f = &bodies[i]->fields[k];
            json_t *large = too_large(f);
            if (f->type != WIRE_OBJECT)
                refuses(bodies[i], f, json_null());
            refuses(bodies[i], f, f->type == WIRE_INT ? json_real(1) : json_integer(1));
            if (large)
                refuses(bodies[i], f, large);
            if (f->type == WIRE_INT && f->least > INT64_MIN)
                refuses(bodies[i], f, json_integer(f->least - 1));
        }
}

static void missing_fields_have_their_defaults(void **state) {
    (void)state;
    json_t *empty = json_object();
    struct failure f;
    struct hd_join join;
    assert_int_equal(wire_get(&wire_failure, &f, empty, NULL), 0);
    assert_int_equal(f.node, -1);
    assert_int_equal(f.exit_code, -1);
    assert_int_equal(f.signal, 0);
    assert_string_equal(f.reason, "");
    assert_int_equal(wire_get(&wire_hd_join, &join, empty, NULL), 0);
    assert_null(join.exited);
    assert_int_equal(wire_get(&wire_failure, &f, NULL, NULL), 0);
    assert_int_equal(f.rank, -1);
    json_decref(empty);
}

static void null_is_an_object_that_is_missing(void **state) {
    (void)state;
    struct ag_status_answer a = {.state = NULL}, back;
    struct pd_err err = {0};
    json_t *o = wire_put(&wire_ag_status_answer, &a), *list = json_array();
    assert_true(json_is_null(json_object_get(o, "progress")));
    assert_int_equal(json_array_size(json_object_get(o, "lost")), 0);
    assert_string_equal(json_string_value(json_object_get(o, "state")), "");
    assert_int_equal(wire_get(&wire_ag_status_answer, &back, o, NULL), 0);
    assert_null(back.progress);
    assert_int_equal(wire_get(&wire_ag_status_answer, &back, list, &err), PD_EPROTO);
    assert_string_equal(err.msg, "ag_status_answer is not an object");
    json_decref(list);
    json_decref(o);
}

/* Texts from a program's output: any bytes of any length. */
static void texts_are_made_valid_and_are_cut(void **state) {
    (void)state;
    char wrong[WIRE_MAX_REASON + 10];
    struct failure f = {.reason = "a\xff"
                                  "b\xc3\xa4"},
                   back;
    json_t *o = wire_put(&wire_failure, &f);
    assert_int_equal(wire_get(&wire_failure, &back, o, NULL), 0);
    assert_string_equal(back.reason, "a\xef\xbf\xbd"
                                     "b\xc3\xa4");
    json_decref(o);
    memset(wrong, 0xff, sizeof wrong);
    wrong[sizeof wrong - 1] = 0;
    f.reason = wrong;
    o = wire_put(&wire_failure, &f);
    assert_int_equal(wire_get(&wire_failure, &back, o, NULL), 0);
    assert_int_equal(strlen(back.reason), WIRE_MAX_REASON / 3 * 3);
    json_decref(o);
    /* The cut falls into a character of three bytes, or leaves no room for a U+FFFD. */
    static const char *const ends[] = {"x\xe2\x82\xac", "\xe2\x82\xac", "\xff", "x\xff"};
    for (size_t i = 0; i < 4; i++) {
        memset(wrong, 'a', sizeof wrong);
        memcpy(wrong + WIRE_MAX_REASON - 2, ends[i], strlen(ends[i]) + 1);
        o = wire_put(&wire_failure, &f);
        assert_int_equal(wire_get(&wire_failure, &back, o, NULL), 0);
        assert_int_equal(strspn(back.reason, "ax"), WIRE_MAX_REASON - 2 + (ends[i][0] == 'x'));
        assert_int_equal(strlen(back.reason), strspn(back.reason, "ax"));
        json_decref(o);
    }
    o = wire_text("a\0b", 3);
    assert_string_equal(json_string_value(o), "a\xef\xbf\xbd"
                                              "b");
    json_decref(o);
}

/* The table row of docs/protocol.md that begins with this message, or NULL. */
static char *row_of(const char *text, const char *message) {
    char start[60];
    snprintf(start, sizeof start, "\n| %s |", message);
    const char *row = strstr(text, start);
    return row ? strndup(row + 1, strcspn(row + 1, "\n")) : NULL;
}

/* Objects in the array or object of a message. */
static const struct {
    const char *body, *message;
} parts[] = {
    {"failure", "AG_RESULT"},          {"file_holder", "HD_FILE"},
    {"job_peer", "AG_JOB_PEERS"},      {"lost_node", "AG_STATE"},
    {"log_begin", "AG_LOG_SUBSCRIBE"}, {"listed_job", "AG_LIST"},
    {"node_process", "AG_STATUS"},     {"check_target", "AG_CHECK_PROBE"},
    {"listed_model", "AG_MODELS"},     {"other_job", "AG_TURN"},
    {"heard_pass", "AG_JOB_HEAD"},
};

/* "hd_bind_answer" is described in the row of HD_BIND. */
static void message_of(const char *body, char *out, size_t cap) {
    size_t n = strlen(body);
    if (n > 7 && !strcmp(body + n - 7, "_answer"))
        n -= 7;
    assert_true(n < cap);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)toupper((unsigned char)body[i]);
    out[n] = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strcmp(body, parts[i].body))
            snprintf(out, cap, "%s", parts[i].message);
}

static char *protocol(void) {
    struct pd_buf b;
    struct pd_err err = {0};
    pd_buf_init(&b);
    if (pd_read_file("docs/protocol.md", 1 << 20, &b, &err))
        fail_msg("%s", err.msg);
    pd_put_u8(&b, 0);
    assert_false(b.failed);
    return (char *)b.data;
}

/* `key`, or a key of `{a, key (text), b}`. */
static int names(const char *row, const char *key) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyz_";
    const size_t n = strlen(key);
    for (const char *p = row; (p = strstr(p, key)) != NULL; p++)
        if (p > row && strchr("`{ ", p[-1]) && !strchr(word, p[n]))
            return 1;
    return 0;
}

static void protocol_md_names_every_field(void **state) {
    (void)state;
    char *text = protocol();
    for (size_t i = 0; i < N_BODIES; i++) {
        char message[40];
        message_of(bodies[i]->name, message, sizeof message);
        char *row = row_of(text, message);
        if (!row)
            fail_msg("docs/protocol.md has no row of %s", message);
        for (size_t k = 0; k < bodies[i]->n; k++) {
            if (!names(row, bodies[i]->fields[k].key))
                fail_msg("docs/protocol.md, %s: %s is missing", message, bodies[i]->fields[k].key);
        }
        free(row);
    }
    free(text);
}

/* Key `name` of a body of this message; of AG_ and DS_ messages, of any body: their rows refer to
 * other messages. */
static int is_key(const char *message, const char *name, size_t n) {
    for (size_t i = 0; i < N_BODIES; i++) {
        char of[40];
        message_of(bodies[i]->name, of, sizeof of);
        const int is_body = strncmp(message, "HD_", 3) || !strcmp(of, message);
        for (size_t k = 0; is_body && k < bodies[i]->n; k++)
            if (strlen(bodies[i]->fields[k].key) == n && !memcmp(bodies[i]->fields[k].key, name, n))
                return 1;
    }
    return 0;
}

/* Lower-case words in back quotes are keys. These messages have bodies without a table. */
static int has_no_table(const char *message) {
    static const char *const those[] = {"AG_CHECK", "AG_CHECK_PROBE", "AG_RESULT"};
    for (size_t i = 0; i < sizeof those / sizeof those[0]; i++)
        if (!strcmp(message, those[i]))
            return 1;
    return 0;
}

static void protocol_md_names_no_other_field(void **state) {
    (void)state;
    char *text = protocol();
    int n = 0;
    for (char *row = text; (row = strstr(row, "\n| ")) != NULL; row++) {
        char message[40];
        const char *end = row + 1 + strcspn(row + 1, "\n");
        snprintf(message, sizeof message, "%.*s", (int)strcspn(row + 3, " "), row + 3);
        if ((strncmp(message, "HD_", 3) && strncmp(message, "AG_", 3) &&
             strncmp(message, "DS_", 3)) ||
            has_no_table(message))
            continue;
        for (const char *p = row; (p = strchr(p, '`')) != NULL && p < end; p++) {
            const char *word = ++p;
            p += strcspn(p, "`");
            const size_t len_word = (size_t)(p - word);
            if (strspn(word, "abcdefghijklmnopqrstuvwxyz_") == len_word && len_word &&
                !is_key(message, word, len_word))
                fail_msg("docs/protocol.md, %s: `%.*s` is no key", message, (int)len_word, word);
            n++;
        }
    }
    assert_true(n > 100);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_written_as_they_are_read),
        cmocka_unit_test(wrong_types_and_bounds_are_named),
        cmocka_unit_test(missing_fields_have_their_defaults),
        cmocka_unit_test(null_is_an_object_that_is_missing),
        cmocka_unit_test(texts_are_made_valid_and_are_cut),
        cmocka_unit_test(protocol_md_names_every_field),
        cmocka_unit_test(protocol_md_names_no_other_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
