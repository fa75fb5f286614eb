/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_profile.c - the trace of a job: the offset of a node's clock from pings, within its
 * bound whatever the network does; the parts of nodes on one clock; damaged parts. */
#include <setjmp.h>

#include <cmocka.h>
#include <jansson.h>

#include "launcher/outputs/profile.h"
#include "math/hash.h"

/* --- the clock --- */

static void a_ping_gives_the_offset(void **state) {
    static const struct row {
        const char *name;
        int64_t sent, now, received;
        int known;
        int64_t offset, error;
    } rows[] = {
        {"symmetric: 100 each way", 1000, 5100, 1200, 1, 4000, 100},
        {"a node whose clock is behind", 9000, 110, 9020, 1, -8900, 10},
        {"an odd trip is rounded up", 1000, 5000, 1005, 1, 3998, 3},
        {"no time: an older agent", 1000, 0, 1200, 0, 0, 0},
        {"no echo: an older agent", 0, 5000, 1200, 0, 0, 0},
        {"answered before it was sent", 1000, 5000, 900, 0, 0, 0},
        {"no time of a clock", 1000, INT64_MAX, 1200, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct outputs_clock c = {0};
        outputs_clock_ping(&c, r->sent, r->now, r->received, "");
        if (c.known != r->known || c.offset_ns != r->offset || c.error_ns != r->error)
            fail_msg("%s: known %d, offset %lld, error %lld", r->name, c.known,
                     (long long)c.offset_ns, (long long)c.error_ns);
    }
}

static void the_fastest_ping_counts(void **state) {
    struct outputs_clock c = {0};
    (void)state;
    outputs_clock_ping(&c, 1000, 5000, 2000, "");
    outputs_clock_ping(&c, 3000, 7900, 4100, ""); /* slower */
    assert_int_equal(c.error_ns, 500);
    outputs_clock_ping(&c, 5000, 8560, 5100, "");
    assert_int_equal(c.error_ns, 50);
    assert_int_equal(c.offset_ns, 3510);
    /* An hour later a slower ping is better: the clocks may have drifted apart by 0.36 s. */
    const int64_t hour = 3600000000000;
    outputs_clock_ping(&c, hour, hour + 10000000, hour + 1000000, "");
    assert_int_equal(c.error_ns, 500000);
    assert_int_equal(c.offset_ns, 9500000);
}

/* Delays of each way on its own, from 1 us to 1 s, and clocks that drift apart by up to 100 ppm:
 * the true offset is always within the bound, which grows with the age of the ping. */
static void the_error_is_within_its_bound(void **state) {
    const int64_t begin = 1000000000000;
    uint64_t at = 0;
    (void)state;
    for (int k = 0; k < 200; k++) {
        const int64_t offset = (int64_t)(pd_mix64(++at) % UINT64_C(2000000000000)) - 900000000000;
        const int64_t ppm = (int64_t)(pd_mix64(++at) % 199) - 99;
        struct outputs_clock c = {0};
        int64_t now = begin, received = 0, true_offset = 0;
        for (int i = 0; i < 20; i++, now += 1000000000) {
            const int64_t there =
                1000 + (int64_t)(pd_mix64(++at) % 1000000000) / (1 + i % 7 * 1000);
            const int64_t back = 1000 + (int64_t)(pd_mix64(++at) % 1000000000) / (1 + i % 5 * 1000);
            const int64_t answered = now + there;
            outputs_clock_ping(&c, now, answered + offset + (answered - begin) / 1000000 * ppm,
                               received = answered + back, "");
            true_offset = offset + (received - begin) / 1000000 * ppm;
            assert_true(c.known);
            assert_true(c.error_ns <= (there + back + 1) / 2);
            const int64_t age = received - c.at_ns;
            assert_true(llabs(c.offset_ns - true_offset) <=
                        c.error_ns + age / 10000 + back / 10000 + 200);
        }
    }
}

/* --- the trace --- */

struct fixture {
    char dir[64];
    struct outputs_clock clocks[2];
    const char *hosts[2];
};

static void write_part(const struct fixture *f, const char *name, const char *text) {
    char path[200];
    struct pd_err err = {0};
    assert_int_equal(pd_fmt(path, sizeof path, "%s/profile", f->dir), 0);
    assert_int_equal(pd_mkdirs(path, 0700, &err), 0);
    assert_int_equal(pd_fmt(path, sizeof path, "%s/profile/%s", f->dir, name), 0);
    assert_int_equal(pd_write_file_quick(path, text, strlen(text), 0600, &err), 0);
}

static struct outputs_profile profile_of(struct fixture *f) {
    return (struct outputs_profile){
        .dir = f->dir, .job = "JOB1", .clocks = f->clocks, .hosts = f->hosts, .n_nodes = 2};
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *f = (struct fixture){.dir = "/tmp/launch-profile-XXXXXX",
                          .clocks = {{1, 0, 500}, {1, 1000000000, 2000}},
                          .hosts = {"here", "there"}};
    *state = f;
    return mkdtemp(f->dir) ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    pd_rm_tree(f->dir, NULL);
    free(f);
    return 0;
}

static const char server[] =
    "{\"version\":1,\"role\":\"pserver\",\"rank\":0,\"node\":0,\"begin_ns\":5000,\"busy\":0}\n"
    "{\"thread\":\"ps_dense0\",\"kept\":2,\"dropped\":4}\n"
    "[\"PS_PUSH\",5000,1500]\n[\"apply\",5001,7]\n";
static const char trainer[] =
    "{\"version\":1,\"role\":\"trainer\",\"rank\":1,\"node\":1,\"begin_ns\":1000006000,\"busy\":0}"
    "\n"
    "{\"thread\":\"trainer\",\"kept\":1,\"dropped\":0}\n[\"step\",1000006000,2500]\n"
    "{\"thread\":\"thread 1\",\"kept\":1,\"dropped\":0}\n[\"product\",1000006100,20]\n";

static json_t *read_trace(const struct fixture *f) {
    char path[200];
    json_error_t bad;
    assert_int_equal(pd_fmt(path, sizeof path, "%s/profile.json", f->dir), 0);
    json_t *o = json_load_file(path, 0, &bad);
    if (!o)
        fail_msg("%s:%d: %s", path, bad.line, bad.text);
    return o;
}

static void parts_of_two_nodes_on_one_clock(void **state) {
    static const struct {
        const char *name;
        double ts, dur;
    } want[] = {
        {"PS_PUSH", 0, 1.5}, {"apply", 0.001, 0.007}, {"step", 1, 2.5}, {"product", 1.1, 0.02}};
    struct fixture *f = *state;
    struct outputs_profile p = profile_of(f);
    struct pd_err err = {0};
    char path[200];
    json_t *e;
    size_t i, n = 0;
    write_part(f, "pserver-0.jsonl", server);
    write_part(f, "trainer-1.jsonl", trainer);
    if (outputs_profile_merge(&p, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(p.n_processes, 2);
    assert_int_equal(p.n_spans, 4);
    assert_int_equal(p.n_dropped, 4);
    json_t *o = read_trace(f);
    json_array_foreach (json_object_get(o, "traceEvents"), i, e) {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X"))
            continue;
        assert_true(n < 4);
        assert_string_equal(json_string_value(json_object_get(e, "name")), want[n].name);
        assert_true(fabs(json_number_value(json_object_get(e, "ts")) - want[n].ts) < 1e-9);
        assert_true(fabs(json_number_value(json_object_get(e, "dur")) - want[n].dur) < 1e-9);
        n++;
    }
    assert_int_equal(n, 4);
    const json_t *other = json_object_get(o, "otherData");
    e = json_array_get(json_object_get(other, "clocks"), 1);
    assert_true(json_number_value(json_object_get(e, "offset_us")) == 1e6);
    assert_true(json_number_value(json_object_get(e, "error_us")) == 2);
    assert_int_equal(json_integer_value(json_object_get(other, "dropped_spans")), 4);
    json_decref(o);
    pd_fmt(path, sizeof path, "%s/profile", f->dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_node_without_a_clock_is_left_out(void **state) {
    struct fixture *f = *state;
    struct outputs_profile p = profile_of(f);
    struct pd_err err = {0};
    f->clocks[1].known = 0;
    write_part(f, "pserver-0.jsonl", server);
    write_part(f, "trainer-1.jsonl", trainer);
    assert_int_equal(outputs_profile_merge(&p, &err), 0);
    assert_int_equal(p.n_processes, 1);
    assert_int_equal(p.n_left_out, 1);
    json_t *o = read_trace(f);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(o, "otherData"), "processes_left_out")),
        1);
    json_decref(o);
}

/* The monotonic clock begins anew with each boot: spans of the boot before cannot be placed. */
static void a_node_that_was_rebooted_is_left_out_and_named(void **state) {
    static const struct {
        const char *name, *of_part, *of_clock;
        size_t n_rebooted;
    } rows[] = {
        {"rebooted", "aa-1", "bb-2", 1},       {"not rebooted", "aa-1", "aa-1", 0},
        {"an agent of before", "aa-1", "", 0}, {"a part of before", "", "bb-2", 0},
        {"unreadable", "?", "bb-2", 0},        {"unreadable later", "aa-1", "?", 0},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char part[400], text[OUTPUTS_PROFILE_TEXT];
        struct outputs_profile p = profile_of(f);
        struct pd_err err = {0};
        pd_fmt(part, sizeof part,
               "{\"version\":1,\"role\":\"trainer\",\"rank\":1,\"node\":1,\"begin_ns\":2000000000,"
               "\"busy\":0,\"boot\":\"%s\"}\n{\"thread\":\"t\",\"kept\":1,\"dropped\":0}\n"
               "[\"step\",2000000000,2500]\n",
               rows[i].of_part);
        pd_fmt(f->clocks[1].boot, sizeof f->clocks[1].boot, "%s", rows[i].of_clock);
        write_part(f, "pserver-0.jsonl", server);
        write_part(f, "trainer-1.jsonl", part);
        assert_int_equal(outputs_profile_merge(&p, &err), 0);
        outputs_profile_text(&p, &err, text);
        json_t *o = read_trace(f), *other = json_object_get(o, "otherData");
        if (p.n_rebooted != rows[i].n_rebooted || p.n_processes != 2 - rows[i].n_rebooted ||
            p.n_left_out)
            fail_msg("%s: %s", rows[i].name, text);
        assert_int_equal(json_integer_value(json_object_get(other, "processes_of_rebooted_hosts")),
                         rows[i].n_rebooted);
        if ((strstr(text, "1 more are of hosts that were rebooted since (there)") != NULL) !=
            (rows[i].n_rebooted > 0))
            fail_msg("%s: %s", rows[i].name, text);
        json_decref(o);
        assert_int_equal(pd_fmt(part, sizeof part, "%s/profile", f->dir), 0);
        assert_int_equal(access(part, F_OK), rows[i].n_rebooted ? 0 : -1);
    }
}

static void the_clock_of_the_newest_boot_counts(void **state) {
    struct outputs_clock c = {0};
    (void)state;
    outputs_clock_ping(&c, 1000, 5000, 2000, "aa-1");
    outputs_clock_ping(&c, 3000, 400, 9000, "bb-2"); /* slower, but of another clock */
    assert_string_equal(c.boot, "bb-2");
    assert_int_equal(c.offset_ns, 400 - 6000);
}

static void a_damaged_part_is_an_error(void **state) {
    static const char head[] =
        "{\"version\":1,\"role\":\"pserver\",\"rank\":0,\"node\":0,\"begin_ns\":5000,\"busy\":0}\n";
    static const char thread[] = "{\"thread\":\"a\",\"kept\":1,\"dropped\":0}\n";
    static const struct {
        const char *head, *thread, *line;
    } rows[] = {
        {"", "", ""},
        {"{\"version\":2}\n", "", ""},
        {"{\"version\":1,\"node\":-1}\n", "", ""},
        {head, "", "[\"before a thread\",5000,1]\n"},
        {head, thread, "[\"cut off\",5000"},
        {head, thread, "[\"negative\",5000,-1]\n"},
        {head, thread, "[\"no time of a clock\",9223372036854775807,1]\n"},
        {head, thread, "[\"endless\",5000,9223372036854775807]\n"},
        {"{\"version\":1,\"node\":0,\"begin_ns\":9223372036854775807}\n", "", ""},
        {head, thread, "[\"a\\\\b\",5000,1]\n"},
        {head, thread, "[\"a\tb\",5000,1]\n"},
        {head, thread, "{\"thread\":\n"},
        {head, thread, "words\n"},
        {head, thread, "\n"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct outputs_profile p = profile_of(f);
        struct pd_err err = {0};
        char text[600], path[200];
        pd_fmt(text, sizeof text, "%s%s%s", rows[i].head, rows[i].thread, rows[i].line);
        write_part(f, "pserver-0.jsonl", text);
        if (outputs_profile_merge(&p, &err) != PD_EDATA)
            fail_msg("row %zu: %s", i, err.msg);
        assert_non_null(strstr(err.msg, "pserver-0.jsonl is damaged"));
        pd_fmt(path, sizeof path, "%s/profile/pserver-0.jsonl", f->dir);
        assert_int_equal(access(path, F_OK), 0);
        pd_fmt(path, sizeof path, "%s/profile.json", f->dir);
        assert_int_equal(access(path, F_OK), -1);
        pd_fmt(path, sizeof path, "%s/profile.json.new", f->dir);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void a_process_that_was_killed_while_it_wrote(void **state) {
    struct fixture *f = *state;
    struct outputs_profile p = profile_of(f);
    struct pd_err err = {0};
    char text[sizeof server + 40], path[200];
    pd_fmt(text, sizeof text, "%s[\"PS_PU", server);
    write_part(f, "pserver-0.jsonl", text);
    write_part(f, "pserver-1.jsonl", "");
    write_part(f, "trainer-1.jsonl", trainer);
    write_part(f, "notes.txt", "of the user");
    if (outputs_profile_merge(&p, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(p.n_processes, 2);
    assert_int_equal(p.n_spans, 4);
    assert_int_equal(p.n_damaged, 2);
    assert_non_null(strstr(p.damage.msg, "is damaged"));
    json_decref(read_trace(f));
    static const struct {
        const char *name;
        int stays;
    } files[] = {
        {"pserver-0.jsonl", 1}, {"pserver-1.jsonl", 1}, {"trainer-1.jsonl", 0}, {"notes.txt", 1}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pd_fmt(path, sizeof path, "%s/profile/%s", f->dir, files[i].name);
        assert_int_equal(!access(path, F_OK), files[i].stays);
    }
}

static void without_parts(void **state) {
    struct outputs_profile p = profile_of(*state);
    struct pd_err err = {0};
    assert_int_equal(outputs_profile_merge(&p, &err), PD_ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ping_gives_the_offset),
        cmocka_unit_test(the_fastest_ping_counts),
        cmocka_unit_test(the_error_is_within_its_bound),
        cmocka_unit_test_setup_teardown(parts_of_two_nodes_on_one_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_without_a_clock_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_that_was_rebooted_is_left_out_and_named, setup,
                                        teardown),
        cmocka_unit_test(the_clock_of_the_newest_boot_counts),
        cmocka_unit_test_setup_teardown(a_damaged_part_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_was_killed_while_it_wrote, setup, teardown),
        cmocka_unit_test_setup_teardown(without_parts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
