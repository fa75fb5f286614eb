/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_addrs.c - the IPv6 addresses that peers may use, and their order. */
#include <setjmp.h>

#include <cmocka.h>

#include "agent/host/facts.h"

static void ipv6_addresses_that_go(void **state) {
    static const char table[] = "fd770000000000000000000000000001 02 40 00 80     eth0\n"
                                "fd770000000000000000000000000002 02 40 00 01     eth0\n"
                                "fd770000000000000000000000000003 02 40 00 20     eth0\n"
                                "fd770000000000000000000000000004 02 40 00 40     eth0\n"
                                "fd770000000000000000000000000005 02 40 00 c8     eth0\n"
                                "fd770000000000000000000000000006 02 40 00 44     eth0\n"
                                "fd770000000000000000000000000007 02 40";
    static const enum facts_v6 want[] = {FACTS_V6_LASTING,  FACTS_V6_LASTING,  FACTS_V6_FLEETING,
                                         FACTS_V6_FLEETING, FACTS_V6_UNUSABLE, FACTS_V6_UNUSABLE,
                                         FACTS_V6_LASTING,  FACTS_V6_LASTING};
    (void)state;
    for (uint8_t i = 0; i < 8; i++) { /* 0 is not listed, 7 is incomplete */
        const uint8_t a[16] = {0xfd, 0x77, [15] = i};
        assert_int_equal(facts_v6_of(table, a), want[i]);
        assert_int_equal(facts_v6_of("", a), FACTS_V6_LASTING);
    }
}

static void what_is_there(void **state) {
    json_t *a = NULL;
    struct pd_err err = {0};
    (void)state;
    assert_int_equal(facts_addrs("127.0.0.0/8", &a, &err), 0);
    assert_string_equal(json_string_value(json_array_get(a, 0)), "127.0.0.1");
    json_decref(a);
    assert_int_equal(facts_addrs("no-such-nic", &a, &err), PD_EHOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv6_addresses_that_go),
        cmocka_unit_test(what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
