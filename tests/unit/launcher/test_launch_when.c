/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_when.c - points in time in the formats that users write. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/text/when.h"

#define S 1000000ull
#define NOW (1795255200ull * S) /* 2026-11-21T10:00:00Z */

static const struct {
    const char *text;
    uint64_t us; /* 0: refused */
} rows[] = {
    {"10m", NOW - 600 * S},
    {"1h30m", NOW - 5400 * S},
    {"45s", NOW - 45 * S},
    {"2d", NOW - 172800 * S},
    {"1w", NOW - 604800 * S},
    {"0s", NOW},
    {"@1795255200", NOW},
    {"@1795255200.25", NOW + 250000},
    {"2026-11-21", NOW - 10 * 3600 * S - 5 * 3600 * S - 1800 * S},
    {"2026-11-21T10:00", NOW - 5 * 3600 * S - 1800 * S},
    {"2026-11-21 10:00:07.5", NOW - 5 * 3600 * S - 1800 * S + 7500000},
    {"2026-11-21T10:00Z", NOW},
    {"2026-11-21T10:00:00.000001Z", NOW + 1},
    {"2026-11-21T11:00+01:00", NOW},
    {"2026-11-21T07:30-0230", NOW},
    {"15:30", NOW},
    {"15:30:01", NOW + S},
    {"", 0},
    {"10", 0},
    {"m", 0},
    {"10x", 0},
    {"-5m", 0},
    {"@", 0},
    {"@x", 0},
    {"2026-13-01", 0},
    {"2026-11-21T", 0},
    {"24:00", 0},
    {"2026-11-21T10:00X", 0},
    {"2026-11-21T10:00+1", 0},
    {"10:0x", 0},
    {"99999999999h", 0},
    {"2026-11-21T10:00Z ", 0},
};

static void test_parse(void **state) {
    (void)state;
    setenv("TZ", "XXX-5:30", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_err err = {0};
        uint64_t us = 7;
        int rc = when_parse(rows[i].text, "--since", NOW, &us, &err);
        if (rows[i].us ? rc || us != rows[i].us : rc != PD_EUSAGE)
            fail_msg("'%s': %d, %lld s off", rows[i].text, rc,
                     ((long long)us - (long long)rows[i].us) / 1000000);
        if (rc)
            assert_non_null(strstr(err.msg, "--since"));
    }
}

static void test_span(void **state) {
    (void)state;
    char out[40];
    static const struct {
        uint64_t s;
        const char *want;
    } spans[] = {{0, "0 s"},        {119, "119 s"},       {120, "2 min"},
                 {7199, "119 min"}, {7200, "2 h 00 min"}, {86400 * 3 + 3600, "3 d 1 h"}};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        when_span(out, sizeof out, spans[i].s * S);
        assert_string_equal(out, spans[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_span)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
