/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_saved_name.c - names of saved models, and the text for people. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/outputs/saved_name.h"

static void texts(void **state) {
    static const struct {
        const char *name, *text; /* text "": no such name */
    } rows[] = {
        {"pass-00000", "pass 1"},
        {"pass-00005", "pass 6"},
        {"pass-123456", "pass 123457"},
        {"pass-00003-batch-000400", "pass 4, batch 400"},
        {"pass-00003-stopped", "pass 4, stopped"},
        {"pass-3", ""},
        {"pass-00003-", ""},
        {"pass-00003-batch-", ""},
        {"pass-00003-batch-000400x", ""},
        {"pass-0000000000000000000000001", ""},
        {"pass-init", ""},
        {"model", ""},
        {"", ""},
    };
    char text[SAVED_PASS_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(saved_pass_text(rows[i].name, text), rows[i].text))
            fail_msg("%s: '%s'", rows[i].name, text);
}

static void order(void **state) {
    static const char *const names[] = {
        "pass-00000", "pass-00001-batch-000002", "pass-00001-batch-000010", "pass-00001-stopped",
        "pass-00001", "pass-00002-stopped"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            struct saved_name a, b;
            assert_int_equal(saved_name_parse(names[i], &a), 0);
            assert_int_equal(saved_name_parse(names[k], &b), 0);
            const int c = saved_name_compare(&a, &b);
            if ((c > 0) - (c < 0) != (i > k) - (i < k))
                fail_msg("%s and %s: %d", names[i], names[k], c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
