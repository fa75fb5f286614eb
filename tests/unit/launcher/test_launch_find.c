/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_find.c - selects the job that a user names: by id, beginning or end of an id, the
 * only running job. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/job/find.h"

static struct found_job jobs[] = {
    /* newest first */
    {.id = "JOB20260102030405-ab12", .n_running = 1},
    {.id = "JOB20260102030400-cd34"},
    {.id = "JOB20260101000000-ab99"},
};

static const struct {
    const char *name, *want;
    enum find_which which;
    int n_jobs, code, index;
    const char *text;
} rows[] = {
    {"the only one that runs", NULL, FIND_RUNNING, 3, 0, 0, ""},
    {"the newest", NULL, FIND_NEWEST, 3, 0, 0, ""},
    {"latest", "latest", FIND_RUNNING, 3, 0, 0, ""},
    {"whole id", "JOB20260101000000-ab99", FIND_RUNNING, 3, 0, 2, ""},
    {"its beginning", "JOB20260101", FIND_RUNNING, 3, 0, 2, ""},
    {"without JOB", "20260101", FIND_RUNNING, 3, 0, 2, ""},
    {"its end", "34", FIND_RUNNING, 3, 0, 1, ""},
    {"four letters", "ab12", FIND_RUNNING, 3, 0, 0, ""},
    {"the beginning of two", "JOB2026010203", FIND_RUNNING, 3, PD_EUSAGE, 0,
     "'JOB2026010203' matches 2 jobs: JOB20260102030405-ab12 JOB20260102030400-cd34"},
    {"the middle is none", "0102", FIND_RUNNING, 3, PD_ENOENT, 0,
     "no host of conf.ini has a job 0102: 'paddlectl ps' lists the jobs"},
    {"empty", "", FIND_RUNNING, 3, PD_EUSAGE, 0, "'' is not a job id"},
    {"none there", NULL, FIND_NEWEST, 0, PD_ENOENT, 0,
     "no host of conf.ini has a job: 'paddlectl run' starts one"},
    {"none there, latest", "latest", FIND_NEWEST, 0, PD_ENOENT, 0,
     "no host of conf.ini has a job: 'paddlectl run' starts one"},
    {"none runs", NULL, FIND_RUNNING, 0, PD_ENOENT, 0,
     "no job is running: 'paddlectl ps' lists the jobs"},
};

static void test_choose(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct found f = {.v = jobs, .n = (size_t)rows[i].n_jobs};
        const struct found_job *job = NULL;
        struct pd_err err = {0};
        int rc = find_choose(&f, rows[i].want, rows[i].which, &job, &err);
        if (rc != rows[i].code || strcmp(err.msg, rows[i].text) ||
            (!rc && job != &jobs[rows[i].index]))
            fail_msg("%s: %d '%s'", rows[i].name, rc, err.msg);
    }
}

/* A host that did not answer may have jobs, so the messages speak only of those that did. */
static void test_unreachable(void **state) {
    (void)state;
    struct found f = {.n_unreachable = 1};
    const struct found_job *job = NULL;
    struct pd_err err = {0};
    assert_int_equal(find_choose(&f, NULL, FIND_NEWEST, &job, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "no reachable host of conf.ini has a job"));
    pd_err_clear(&err);
    assert_int_equal(find_choose(&f, NULL, FIND_RUNNING, &job, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "no job is running on the reachable hosts"));
}

static void test_two_run(void **state) {
    (void)state;
    struct found_job two[] = {
        {.id = "JOB2-a", .n_running = 3}, {.id = "JOB1-b", .n_running = 1}, {.id = "JOB0-c"}};
    struct found f = {.v = two, .n = 3};
    const struct found_job *job = NULL;
    struct pd_err err = {0};
    assert_int_equal(find_choose(&f, NULL, FIND_RUNNING, &job, &err), PD_EUSAGE);
    assert_string_equal(err.msg, "2 jobs are running, name one of them: JOB2-a JOB1-b");
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *name, *want;
        int runs[4]; /* which of the jobs run */
        int code, index;
    } cases[] = {
        {"the newest of its name", "six", {0}, 0, 1},
        {"the one that runs", "six", {0, 0, 1, 0}, 0, 2},
        {"two of the name run", "six", {0, 1, 1, 0}, PD_EUSAGE, 0},
        {"a name that is the end of another job's id", "0-c", {0}, 0, 3},
        {"an id before a name", "JOB1-b", {0}, 0, 1},
        {"no such name", "seven", {0}, PD_ENOENT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct found_job v[] = {{.id = "JOB3-0-c", .name = "JOB1-b"},
                                {.id = "JOB1-b", .name = "six"},
                                {.id = "JOB0-c", .name = "six"},
                                {.id = "JOB0-d", .name = "0-c"}};
        struct found f = {.v = v, .n = 4};
        const struct found_job *job = NULL;
        struct pd_err err = {0};
        for (int k = 0; k < 4; k++)
            v[k].n_running = cases[i].runs[k];
        const int rc = find_choose(&f, cases[i].want, FIND_RUNNING, &job, &err);
        if (rc != cases[i].code || (!rc && job != &v[cases[i].index]))
            fail_msg("%s: %d '%s'", cases[i].name, rc, err.msg);
        if (rc == PD_EUSAGE)
            assert_string_equal(err.msg, "'six' matches 2 jobs that run: JOB1-b JOB0-c");
    }
}

/* `paddlectl fetch` creates a folder with the id as its name: a malicious host must not choose the
 * place of that folder. */
static void test_ids_that_lead_elsewhere(void **state) {
    static const char *const bad[] = {
        "",
        ".",
        "..",
        "../../.ssh",
        "/etc",
        "JOB1/../../x",
        ".hidden",
        "-rf",
        "JOB1 x",
        "JOB1\033[2J",
        "latest",
        "JOB1\n",
        "JOB1234567890123456789012345678901234567890123456789012345678901"};
    struct found f = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *list = json_pack("[{s:s, s:I}]", "job", bad[i], "started_us", (json_int_t)1 << 60);
        assert_int_equal(find_add(&f, list, 0, 2), 0);
        json_decref(list);
        if (f.n)
            fail_msg("'%s' is a job", bad[i]);
    }
    for (size_t host = 0; host < 2; host++) {
        json_t *list =
            json_pack("[{s:s, s:I}]", "job", "JOB20260102030405-ab12", "started_us", (json_int_t)7);
        assert_int_equal(find_add(&f, list, host, 2), 0);
        json_decref(list);
    }
    assert_int_equal(f.n, 1);
    assert_int_equal(f.v[0].n_having, 2);
    assert_string_equal(f.v[0].id, "JOB20260102030405-ab12");
    find_release(&f);
}

/* The state of an ended job is that of its last head, in whatever order the hosts answer. A node 0
 * that was lost may have an older result. */
static void test_head_of_three(void **state) {
    static const struct {
        int node, head;
        const char *state;
    } hosts[] = {{0, 0, "failed"}, {1, 1, "done"}, {2, 1, "stopped"}};
    (void)state;
    for (size_t first = 0; first < 3; first++) {
        struct found f = {0};
        for (size_t i = 0; i < 3; i++) {
            const size_t k = (first + i) % 3;
            json_t *list =
                json_pack("[{s:s, s:i, s:i, s:s, s:[{s:i, s:s, s:s}]}]", "job", "JOB1-a", "node",
                          hosts[k].node, "head", hosts[k].head, "state", hosts[k].state, "lost",
                          "node", k == 1 ? 0 : 7, "host", "a", "reason", "disk");
            assert_int_equal(find_add(&f, list, k, 3), 0);
            json_decref(list);
        }
        assert_string_equal(f.v[0].state, "done");
        assert_int_equal(f.v[0].head, 1);
        const json_t *lost = json_array_get(f.v[0].lost, 0); /* as the head says */
        assert_int_equal(json_integer_value(json_object_get(lost, "node")), 0);
        find_release(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choose),
                                       cmocka_unit_test(test_unreachable),
                                       cmocka_unit_test(test_two_run),
                                       cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_ids_that_lead_elsewhere),
                                       cmocka_unit_test(test_head_of_three)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
