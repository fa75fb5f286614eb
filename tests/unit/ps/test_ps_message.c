/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_message.c - every body of the parameter-server messages:
 * - get_ returns what put_ has written.
 * - A body that is cut short, out of bounds or of another type is refused.
 * - docs/protocol.md has the same fields.
 *
 * Samples, comparisons and the text of each body are made from the field lists of message.h, so a
 * new field or body is tested as soon as it is listed there. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/ps_bodies.h"
#include "wire/msg.h"

#define DEFINE_ELEMENT(element)                                 \
    static void append_##element(struct pd_buf *list) {         \
        struct ps_msg_##element sample, *m = &sample;           \
        PS_FIELDS_##element(FILL) ps_append_##element(list, m); \
    }
PS_ELEMENTS(DEFINE_ELEMENT)

#define DEFINE_TEST(body, label)                                                 \
    static void fill_##body(struct ps_msg_##body *m) {                           \
        (void)m;                                                                 \
        PS_FIELDS_##body(FILL)                                                   \
    }                                                                            \
    static void sample_##body(struct ps_body *out) {                             \
        static struct ps_msg_##body m;                                           \
        fill_##body(&m);                                                         \
        ps_put_##body(out, &m);                                                  \
    }                                                                            \
    static int same_again_##body(void) {                                         \
        static struct ps_msg_##body before, after;                               \
        const struct ps_msg_##body *a = &before, *b = &after;                    \
        struct pd_buf head = {0};                                                \
        struct ps_body wire = {.head = &head};                                   \
        struct pd_err err = {0};                                                 \
        int same = 1;                                                            \
        fill_##body(&before);                                                    \
        ps_put_##body(&wire, a);                                                 \
        if (ps_get_##body(&wire, &after, &err))                                  \
            fail_msg("%s", err.msg);                                             \
        (void)a;                                                                 \
        (void)b;                                                                 \
        PS_FIELDS_##body(SAME) pd_buf_release(&head);                            \
        return same;                                                             \
    }                                                                            \
    static int break_##body(struct ps_body *out, int which) {                    \
        static struct ps_msg_##body m_##body;                                    \
        struct ps_msg_##body *m = &m_##body;                                     \
        fill_##body(m);                                                          \
        const int any = break_fields_##body(m, which);                           \
        ps_put_##body(out, m);                                                   \
        return any;                                                              \
    }                                                                            \
    static int get_##body(const struct ps_body *in, struct pd_err *err) {        \
        static struct ps_msg_##body m;                                           \
        return ps_get_##body(in, &m, err);                                       \
    }                                                                            \
    static int put_again_##body(const struct ps_body *in, struct ps_body *out) { \
        static struct ps_msg_##body m;                                           \
        const int rc = ps_get_##body(in, &m, NULL);                              \
        if (!rc)                                                                 \
            ps_put_##body(out, &m);                                              \
        return rc;                                                               \
    }

#define DEFINE_BREAK(body, label)                                        \
    static int break_fields_##body(struct ps_msg_##body *m, int which) { \
        (void)m;                                                         \
        (void)which;                                                     \
        PS_FIELDS_##body(BREAK) return 0;                                \
    }
PS_BODIES(DEFINE_BREAK)
PS_BODIES(DEFINE_TEST)

struct body {
    const char *name, *text;
    void (*sample)(struct ps_body *out);
    int (*same_again)(void);
    int (*break_field)(struct ps_body *out, int which);
    int (*get)(const struct ps_body *in, struct pd_err *err);
    int (*put_again)(const struct ps_body *in, struct ps_body *out); /* 0 or an error */
};
static const struct body bodies[] = {
#define ROW(body, label)                                                                    \
    {#body,      "" PS_FIELDS_##body(TEXT), sample_##body, same_again_##body, break_##body, \
     get_##body, put_again_##body},
    PS_BODIES(ROW)
#undef ROW
};
static const struct {
    const char *name, *text;
} elements[] = {
#define ROW(element) {#element, "" PS_FIELDS_##element(TEXT)},
    PS_ELEMENTS(ROW)
#undef ROW
};
static const struct {
    const char *name, *request, *answer;
} messages[] = {
#define ROW(message, request, answer) {#message, #request, #answer},
    PS_MESSAGES(ROW)
#undef ROW
};
enum {
    N_BODIES = sizeof bodies / sizeof bodies[0],
    N_ELEMENTS = sizeof elements / sizeof elements[0],
    N_MESSAGES = sizeof messages / sizeof messages[0],
};

static void what_is_put_is_got(void **state) {
    (void)state;
    for (int i = 0; i < N_BODIES; i++)
        for (int k = 0; k < 200; k++)
            if (!bodies[i].same_again())
                fail_msg("%s is not the same when it is read", bodies[i].name);
}

static int equal(const struct ps_body *a, const struct ps_body *b) {
    int same = 1;
    for (int i = 0; i < WIRE_SECTIONS; i++)
        same &= a->len[i] == b->len[i] && same_bytes(a->sec[i], b->sec[i], a->len[i]);
    return same;
}

/* An accepted body equals what put_ writes from it: each message has only one encoding. */
static int accepted(const struct body *body, const struct ps_body *b) {
    struct pd_buf head = {0};
    struct ps_body again = {.head = &head};
    const int rc = body->put_again(b, &again);
    if (!rc && !equal(b, &again))
        fail_msg("%s reads %zu bytes and puts %zu others", body->name, b->len[0], again.len[0]);
    pd_buf_release(&head);
    return !rc;
}

static void what_is_cut_short_or_too_long_is_refused(void **state) {
    (void)state;
    struct pd_buf head = {0};
    for (int i = 0; i < N_BODIES * 5; i++) {
        const struct body *body = &bodies[i % N_BODIES];
        struct ps_body b = {.head = &head};
        body->sample(&b);
        const int any =
            strstr(body->text, "[], ") != NULL; /* an array up to the end of the section */
        const size_t whole = b.len[0];
        uint8_t *longer = malloc(whole + 9);
        if (whole)
            memcpy(longer, b.sec[0], whole);
        memset(longer + whole, 0, 9);
        b.sec[0] = longer;
        assert_true(accepted(body, &b));
        for (b.len[0] = 0; b.len[0] < whole; b.len[0]++)
            if (accepted(body, &b) && !any)
                fail_msg("%s of %zu bytes takes %zu", body->name, whole, b.len[0]);
        for (b.len[0] = whole + 1; b.len[0] < whole + 8; b.len[0]++)
            if (accepted(body, &b))
                fail_msg("%s of %zu bytes takes %zu", body->name, whole, b.len[0]);
        b.len[0] = whole;
        for (uint32_t k = 1; k < WIRE_SECTIONS; k++) {
            const size_t n = b.len[k];
            char text[20];
            snprintf(text, sizeof text, "section %u:", k);
            if (strstr(body->text, text))
                continue;
            b.sec[k] = pool;
            b.len[k] = 8;
            if (accepted(body, &b))
                fail_msg("%s takes a section %u", body->name, k);
            b.len[k] = n;
        }
        free(longer);
    }
    pd_buf_release(&head);
}

static void sections_have_whole_elements(void **state) {
    (void)state;
    static const char *const kinds[] = {"u64", "f32", "u32"};
    static const size_t sizes[] = {8, 4, 4};
    struct pd_buf head = {0};
    int n = 0;
    for (int i = 0; i < N_BODIES * 3; i++) {
        const struct body *body = &bodies[i % N_BODIES];
        for (uint32_t k = 1; k < WIRE_SECTIONS; k++) {
            char text[40];
            snprintf(text, sizeof text, "section %u: %s", k, kinds[i / N_BODIES]);
            if (!strstr(body->text, text))
                continue;
            struct ps_body b = {.head = &head};
            body->sample(&b);
            b.sec[k] = pool;
            for (b.len[k] = 1; b.len[k] < 2 * sizes[i / N_BODIES]; b.len[k]++)
                if (accepted(body, &b) != (b.len[k] % sizes[i / N_BODIES] == 0))
                    fail_msg("%s: section %u of %zu bytes", body->name, k, b.len[k]);
            n++;
        }
    }
    assert_int_equal(n, 6); /* keys of 2, values of 3, seen */
    pd_buf_release(&head);
}

static void fields_beyond_their_bounds_are_refused(void **state) {
    (void)state;
    struct pd_buf head = {0};
    int n = 0;
    for (int i = 0; i < N_BODIES; i++)
        for (int which = 0;; which++, n++) {
            struct ps_body b = {.head = &head};
            struct pd_err err = {0};
            if (!bodies[i].break_field(&b, which))
                break;
            if (bodies[i].get(&b, &err) != PD_EPROTO || !err.msg[0])
                fail_msg("%s: field %d beyond its bound is accepted", bodies[i].name, which);
        }
    assert_true(n > 50);
    pd_buf_release(&head);
}

/* A string with a NUL inside would be cut for its reader. Padding is 0. */
static void strings_and_padding_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *body;
        size_t at;
    } padding[] = {{"push_dense", 28}, {"reduce", 4}, {"pull_dense", 12}, {"pull_rows", 20}};
    struct pd_buf head = {0};
    for (size_t k = 0; k < sizeof padding / sizeof padding[0]; k++)
        for (int i = 0; i < N_BODIES; i++) {
            struct ps_body b = {.head = &head};
            if (strcmp(bodies[i].name, padding[k].body))
                continue;
            bodies[i].sample(&b);
            assert_true(accepted(&bodies[i], &b));
            head.data[padding[k].at] = 1;
            assert_false(accepted(&bodies[i], &b));
        }
    struct ps_body b = {.head = &head};
    struct ps_msg_models m = {.dir = "some/folder", .name = "pass-00001"};
    ps_put_models(&b, &m);
    assert_int_equal(ps_get_models(&b, &m, NULL), 0);
    head.data[4 + 4] = 0;
    assert_int_equal(ps_get_models(&b, &m, NULL), PD_EPROTO);
    pd_buf_release(&head);
}

/* Bodies of other messages, and random bytes. */
static void other_types_are_refused(void **state) {
    (void)state;
    struct pd_buf head = {0};
    int refused = 0, taken = 0;
    for (int i = 0; i < N_BODIES; i++)
        for (int k = 0; k < N_BODIES; k++) {
            struct ps_body b = {.head = &head};
            bodies[i].sample(&b);
            if (i == k)
                continue;
            if (accepted(&bodies[k], &b))
                taken++;
            else
                refused++;
        }
    /* Some bodies have the same shape: two strings, one number. */
    assert_true(refused > 15 * taken);
    for (int i = 0; i < N_BODIES * 300; i++) {
        const struct ps_body b = {.n = 1, .sec = {some()}, .len = {at_most(120)}};
        (void)accepted(&bodies[i % N_BODIES], &b);
    }
    pd_buf_release(&head);
}

static void parts_of_a_step(void **state) {
    (void)state;
    double words[3 * 3];
    struct pd_buf head = {0};
    struct ps_body b = {.head = &head};
    struct ps_msg_step_end m = {.n_stats = 2, .n_parts = 3, .words = words}, got;
    for (uint32_t i = 0; i < 3; i++)
        ps_step_part_put(words, i, 2, (struct ps_step_part){10 * i, 10 * i + 5},
                         (const double[]){i, -0.5 * i});
    ps_put_step_end(&b, &m);
    assert_int_equal(ps_get_step_end(&b, &got, NULL), 0);
    for (uint32_t i = 0; i < 3; i++) {
        const double *stats;
        const struct ps_step_part part = ps_step_part_get(&got, i, &stats);
        assert_int_equal(part.stream_lo, 10 * i);
        assert_int_equal(part.stream_hi, 10 * i + 5);
        assert_true(stats[0] == i && stats[1] == -0.5 * i);
    }
    pd_buf_release(&head);
}

static const struct body *find(const char *name) {
    for (int i = 0; i < N_BODIES; i++)
        if (!strcmp(bodies[i].name, name))
            return &bodies[i];
    return NULL;
}

static void every_message_has_its_bodies(void **state) {
    (void)state;
    static const char *const all[] = {
#define X(name, number, text) #name,
        WIRE_MSG_TABLE(X)
#undef X
    };
    int n = 0, used[N_BODIES] = {0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int found = 0;
        if (strncmp(all[i], "PS_", 3))
            continue;
        for (int k = 0; k < N_MESSAGES; k++)
            found += !strcmp(messages[k].name, all[i]);
        if (found != 1)
            fail_msg("%s has %d pairs of put_ and get_ in PS_MESSAGES", all[i], found);
        n++;
    }
    assert_int_equal(n, N_MESSAGES);
    for (int k = 0; k < N_MESSAGES; k++) {
        assert_non_null(find(messages[k].request));
        used[find(messages[k].request) - bodies] = 1;
        if (!strcmp(messages[k].answer, "none"))
            continue;
        assert_non_null(find(messages[k].answer));
        used[find(messages[k].answer) - bodies] = 1;
    }
    for (int i = 0; i < N_BODIES; i++)
        if (!used[i])
            fail_msg("%s is of no message", bodies[i].name);
}

/* --- docs/protocol.md --- */

/* "u32 a, u32 b, " without the last comma; list elements with their fields. */
static void layout(const char *text, char *out, size_t cap) {
    size_t n = 0;
    while (*text && n + 1 < cap) {
        const char *brace = *text == '{' ? strchr(text, '}') : NULL;
        int element = -1;
        for (int i = 0; brace && i < N_ELEMENTS; i++)
            if (strlen(elements[i].name) == (size_t)(brace - text - 1) &&
                !strncmp(elements[i].name, text + 1, (size_t)(brace - text - 1)))
                element = i;
        if (element < 0) {
            out[n++] = *text++;
            continue;
        }
        n += (size_t)snprintf(out + n, cap - n, "{%s", elements[element].text);
        n += (size_t)snprintf(out + n - 2, cap - n, "}") - 2;
        text = brace + 1;
    }
    out[n > 1 ? n - 2 : 0] = 0;
}

static void expect_layout(const char *row, const char *message, int column, const char *body) {
    char fields[2000], want[2100];
    for (int i = 0; i < column && row; i++)
        row = strstr(row + 1, " | ");
    if (!row)
        fail_msg("%s has too few columns", message);
    if (!strcmp(body, "none") || !strcmp(body, "empty"))
        snprintf(want, sizeof want, " | %s", strcmp(body, "none") ? "nothing" : "none");
    else {
        layout(find(body)->text, fields, sizeof fields);
        snprintf(want, sizeof want, " | `%s`", fields);
    }
    if (strncmp(row, want, strlen(want)))
        fail_msg("docs/protocol.md, %s: not%s", message, want);
}

static void the_manual_has_the_same_fields(void **state) {
    (void)state;
    const char *paths[] = {"docs/protocol.md", "../docs/protocol.md"};
    struct pd_buf doc = {0};
    for (int i = 0; i < 2 && !doc.len; i++) {
        struct pd_err err = {0};
        (void)pd_read_file(paths[i], 1 << 20, &doc, &err);
    }
    pd_put_u8(&doc, 0);
    assert_true(doc.len > 1000);
    for (int k = 0; k < N_MESSAGES; k++) {
        char begin[60];
        snprintf(begin, sizeof begin, "\n| %s | ", messages[k].name);
        char *row = strstr((char *)doc.data, begin), *end = row ? strchr(row + 1, '\n') : NULL;
        if (!end)
            fail_msg("docs/protocol.md has no row of %s", messages[k].name);
        *end = 0;
        expect_layout(row, messages[k].name, 1, messages[k].request);
        expect_layout(row, messages[k].name, 2, messages[k].answer);
        *end = '\n';
    }
    pd_buf_release(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_got),
        cmocka_unit_test(what_is_cut_short_or_too_long_is_refused),
        cmocka_unit_test(sections_have_whole_elements),
        cmocka_unit_test(fields_beyond_their_bounds_are_refused),
        cmocka_unit_test(strings_and_padding_are_exact),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(parts_of_a_step),
        cmocka_unit_test(every_message_has_its_bodies),
        cmocka_unit_test(the_manual_has_the_same_fields),
    };
    return cmocka_run_group_tests(tests, fill_pool, NULL);
}
