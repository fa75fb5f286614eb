/* SPDX-License-Identifier: Apache-2.0 */
/* test_record.c - records of runs: which events they keep, their end, records of killed processes
 * and damaged ones, metrics.jsonl made anew of the nodes' events, and the index of runs. */
#include <setjmp.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "launcher/record/runs.h"

static char top[PATH_MAX];

static int make_top(void **state) {
    (void)state;
    snprintf(top, sizeof top, "/tmp/test_record-XXXXXX");
    return !mkdtemp(top);
}

static int remove_top(void **state) {
    (void)state;
    return pd_rm_tree(top, NULL);
}

static const char *in_top(const char *name) {
    static char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", top, name), 0);
    return path;
}

static void put(const char *name, const char *text) {
    assert_int_equal(pd_write_file_quick(in_top(name), text, strlen(text), 0644, NULL), 0);
}

static json_t *run_of(const char *name, const char *state, json_int_t started_ms) {
    return json_pack("{s:i, s:s, s:s, s:I, s:[{s:i, s:s}, {s:i, s:s}]}", "version", RECORD_VERSION,
                     "name", name, "state", state, "started_ms", started_ms, "hosts", "node", 0,
                     "host", "alpha", "node", 1, "host", "beta");
}

static void event(struct record *r, int node, const char *text) {
    record_event(r, node, "alpha", text, strlen(text));
}

static json_t *progress_at(json_int_t t) {
    return json_pack("{s:I, s:s}", "t", t, "ev", "progress");
}

static int keeps(struct record_thin *t, int node, json_t *o) {
    const int kept = record_keeps(t, node, o);
    json_decref(o);
    return kept;
}

/* Progress becomes rarer, other events stay. */
static void what_is_kept(void **state) {
    (void)state;
    struct record_thin t = {0};
    assert_true(keeps(&t, 0, progress_at(1000000)));
    assert_false(keeps(&t, 0, progress_at(1000249)));
    assert_true(keeps(&t, 1, progress_at(1000249))); /* another node */
    assert_true(keeps(&t, 0, progress_at(1000250)));
    /* After an hour: a line in 3.6 s. */
    assert_true(keeps(&t, 0, progress_at(4600000)));
    assert_false(keeps(&t, 0, progress_at(4603000)));
    assert_true(keeps(&t, 0, progress_at(4603700)));
    /* The pserver of the node has lines of its own. */
    assert_true(keeps(&t, 0, json_pack("{s:i, s:s}", "t", 4603701, "ev", "serving")));
    assert_false(keeps(&t, 0, json_pack("{s:i, s:s}", "t", 4603901, "ev", "serving")));
    assert_true(keeps(&t, 0, json_pack("{s:i, s:s}", "t", 4603951, "ev", "serving")));
    assert_true(keeps(&t, 0, json_pack("{s:s}", "ev", "test")));
    assert_false(keeps(&t, 0, json_pack("{s:s}", "ev", "doing")));
    assert_false(keeps(&t, 0, json_pack("{s:s}", "xx", "test")));
    assert_true(keeps(&t, 0, progress_at(1000))); /* the clock was set back */
    assert_true(keeps(&t, 2, progress_at(INT64_MAX)));
    keeps(&t, 2, progress_at(INT64_MIN));
    assert_true(keeps(&t, INT_MAX, progress_at(5))); /* no memory for such a node, and no harm */
    record_thin_release(&t);
    /* A week at four events a second: some ten thousand lines. */
    struct record_thin week = {0};
    int n = 0;
    for (json_int_t at = 1000000; at < 1000000 + 7 * 86400000LL; at += 1000)
        n += keeps(&week, 0, progress_at(at));
    assert_in_range(n, 1000, 12000);
    record_thin_release(&week);
}

static void count(void *arg, json_t *o) {
    (void)o;
    ++*(int *)arg;
}

static int lines_of(const char *dir) {
    int n = 0;
    assert_int_equal(record_read_metrics(dir, count, &n, NULL), 0);
    return n;
}

static const char first_pass[] =
    "{\"t\":2000,\"ev\":\"pass\",\"pass\":0,\"num_passes\":2,\"complete\":true,\"samples\":10,"
    "\"unit\":\"words\",\"rate\":50.5,\"cost\":1.25,\"metrics\":{\"auc\":0.5}}";

static void a_run_from_beginning_to_end(void **state) {
    (void)state;
    struct record *r = NULL, *second = NULL;
    struct runs all;
    struct pd_err err = {0};
    assert_int_equal(record_new(&r, in_top("a/JOB-1"), run_of("one", "running", 1000), &err), 0);
    assert_int_equal(record_new(&second, in_top("a/JOB-1"), run_of("x", "running", 1), &err),
                     PD_EEXIST);
    assert_non_null(strstr(err.msg, "a/JOB-1: another paddlectl writes"));
    event(r, 0, first_pass);
    event(r, 1, "{\"t\":2001,\"ev\":\"pass\",\"pass\":0}"); /* trainer 1: nothing about the job */
    event(r, 0, "{\"ev\":\"saved\",\"path\":\"output/pass-00000\"}"); /* without a time */
    event(r, 0, "no JSON");
    event(r, 0, "[1]");
    record_note(r, json_pack("{s:s}", "ev", "state"));
    record_file(r, "conf.ini", "x", 1, 0600);
    /* While the record is written. */
    assert_int_equal(runs_load(&all, in_top("a"), &err), 0);
    assert_int_equal(all.n, 1);
    assert_string_equal(all.v[0].state, "running");
    assert_int_equal(all.v[0].n_passes, 1); /* of metrics.jsonl */
    runs_release(&all);
    const char test[] = "{s:s, s:[], s:I, s:i, s:f, s:{s:s, s:s, s:f, s:i, s:{s:f}}}";
    assert_int_equal(
        record_end(r,
                   json_pack(test, "state", "done", "lost", "ended_ms", (json_int_t)9000,
                             "exit_status", 0, "seconds", 7.5, "test", "by", "auc", "better",
                             "higher", "value", 0.75, "pass", 0, "metrics", "test.auc", 0.75),
                   &err),
        0);
    assert_int_equal(lines_of(in_top("a/JOB-1")), 5); /* the version, three events, the note */
    assert_int_equal(runs_load(&all, in_top("a"), &err), 0);
    const struct run *x = &all.v[0];
    assert_string_equal(x->state, "done");
    assert_int_equal(x->n_passes, 1);
    assert_true(run_number(x, "rate") == 50.5 && run_number(x, "cost") == 1.25);
    assert_true(run_number(x, "seconds") == 7.5 && run_number(x, "last") == 0.75);
    assert_true(run_number(x, "test.auc") == 0.75 && run_number(x, "auc") == 0.5);
    assert_true(isnan(run_number(x, "test.rmse")) && isnan(run_number(x, "best")));
    runs_release(&all);
}

/* Its paddlectl was killed: metrics.jsonl says what was reached, also with a line that is cut. */
static void a_run_without_an_end(void **state) {
    (void)state;
    struct record *r = NULL;
    struct runs all;
    struct pd_err err = {0};
    assert_int_equal(record_new(&r, in_top("b/JOB-2"), run_of("two", "running", 1000), &err), 0);
    assert_int_equal(record_end(r, json_pack("{s:s}", "state", "running"), &err), 0);
    put("b/JOB-2/metrics.jsonl",
        "{\"version\":1}\n"
        "{\"t\":1,\"ev\":\"test\",\"pass\":0,\"by\":\"rmse\",\"better\":\"lower\",\"value\":3}\n"
        "{\"t\":900,\"ev\":\"state\"}\n" /* paddlectl's own clock does not count */
        "{\"t\":2,\"ev\":\"test\",\"pass\":1,\"by\":\"rmse\",\"better\":\"lower\",\"value\":2}\n"
        "{\"t\":3,\"node\":0,\"ev\":\"test\",\"pass\":2,\"by\":\"rmse\",\"better\":\"lower\","
        "\"value\":2.5}\n"
        "{\"t\":3,\"ev\":\"test\",\"by\":\"rmse\",\"better\":\"lower\",\"value\":1}\n"
        "{\"t\":4,\"ev\":\"test\",\"pass\":3,\"by\":\"rm");
    assert_int_equal(runs_load(&all, in_top("b"), &err), 0);
    assert_string_equal(all.v[0].state, "unknown");
    assert_true(run_number(&all.v[0], "best") == 2); /* the last one is of no pass of this run */
    assert_true(run_number(&all.v[0], "last") == 1);
    runs_release(&all);
    /* attach: the record continues, and the next line begins on a line of its own. */
    assert_int_equal(record_open(&r, in_top("b/JOB-2"), &err), 0);
    event(r, 0, "{\"t\":3,\"ev\":\"saved\",\"path\":\"old\"}"); /* is in the record */
    event(r, 0, "{\"t\":5,\"ev\":\"saved\",\"path\":\"new\"}");
    event(r, 1, "{\"t\":2,\"ev\":\"saved\",\"path\":\"another node's\"}");
    assert_int_equal(record_end(r, json_pack("{s:s}", "state", "detached"), &err), 0);
    assert_int_equal(lines_of(in_top("b/JOB-2")), 8);
    assert_int_equal(record_open(&r, in_top("b/none"), &err), PD_ENOENT);
}

static void damaged_records(void **state) {
    (void)state;
    struct runs all;
    struct pd_err err = {0};
    assert_int_equal(pd_mkdirs(in_top("c/cut"), 0755, NULL), 0);
    assert_int_equal(pd_mkdirs(in_top("c/later"), 0755, NULL), 0);
    assert_int_equal(pd_mkdirs(in_top("c/no_record"), 0755, NULL), 0);
    assert_int_equal(pd_mkdirs(in_top("c/good"), 0755, NULL), 0);
    assert_int_equal(pd_mkdirs(in_top("c/fifo"), 0755, NULL), 0);
    assert_int_equal(mkfifo(in_top("c/fifo/run.json"), 0644), 0); /* must not be waited for */
    put("c/cut/run.json", "{\"version\":1,\n\"job\":");
    put("c/later/run.json", "{\"version\":2}");
    put("c/good/run.json", "{\"version\":1,\"state\":7,\"hosts\":\"x\",\"test\":[]}");
    assert_int_equal(runs_load(&all, in_top("c"), &err), 0);
    assert_int_equal(all.n, 1);
    assert_string_equal(all.v[0].job, "good");
    assert_string_equal(all.v[0].state, "unknown");
    assert_int_equal(all.n_bad, 3);
    int seen = 0;
    for (size_t i = 0; i < all.n_bad; i++)
        seen |= (strstr(all.bad[i].text, "c/cut/run.json:2: ") != NULL) |
                (strstr(all.bad[i].text, "another version of paddlectl (2, not 1)") != NULL) << 1;
    assert_int_equal(seen, 3);
    runs_release(&all);
    assert_int_equal(runs_load(&all, in_top("nowhere"), &err), 0);
    assert_int_equal(all.n, 0);
}

static void one_run_by_its_name(void **state) {
    (void)state;
    static const char *const jobs[] = {"JOB1-00ab", "JOB2-01ab", "JOB3-02cd"};
    static const char *const names[] = {"wide", "deep", "deep"};
    struct runs all;
    struct record *r;
    const struct run *x;
    struct pd_err err = {0};
    for (int i = 0; i < 3; i++) {
        char dir[40];
        snprintf(dir, sizeof dir, "d/%s", jobs[i]);
        assert_int_equal(record_new(&r, in_top(dir), run_of(names[i], "running", i), &err), 0);
        assert_int_equal(record_end(r, json_pack("{s:s}", "state", "done"), &err), 0);
    }
    assert_int_equal(symlink("JOB1-00ab", in_top("d/latest")), 0); /* is no second record */
    assert_int_equal(runs_load(&all, in_top("d"), &err), 0);
    assert_int_equal(all.n, 3);
    assert_int_equal(runs_find(&all, "latest", &x, &err), 0);
    assert_string_equal(x->job, "JOB3-02cd");
    assert_int_equal(runs_find(&all, "wide", &x, &err), 0);
    assert_string_equal(x->job, "JOB1-00ab");
    assert_int_equal(runs_find(&all, "cd", &x, &err), 0);
    assert_string_equal(x->job, "JOB3-02cd");
    assert_int_equal(runs_find(&all, "deep", &x, &err), PD_EUSAGE);
    assert_non_null(strstr(err.msg, "2 runs are called 'deep'"));
    pd_err_clear(&err);
    assert_int_equal(runs_find(&all, "ab", &x, &err), PD_EUSAGE);
    pd_err_clear(&err);
    assert_int_equal(runs_find(&all, "", &x, &err), PD_ENOENT);
    runs_release(&all);
}

static void collect(void *arg, json_t *o) {
    char line[100];
    const char *host = json_string_value(json_object_get(o, "host"));
    const char *ev = json_string_value(json_object_get(o, "ev"));
    snprintf(line, sizeof line, "%lld %s %s;",
             (long long)json_integer_value(json_object_get(o, "t")), host ? host : "-",
             ev ? ev : "-");
    pd_put((struct pd_buf *)arg, line, strlen(line));
}

static void metrics_of_the_nodes_logs(void **state) {
    (void)state;
    struct record *r = NULL;
    struct pd_err err = {0};
    struct pd_buf got = {0};
    json_t *run = NULL;
    assert_int_equal(record_new(&r, in_top("e/JOB-3"), run_of("three", "running", 1000), &err), 0);
    assert_int_equal(record_complete(in_top("e/JOB-3"), json_object(), &err), PD_EEXIST);
    pd_err_clear(&err);
    assert_int_equal(record_end(r, json_pack("{s:s}", "state", "running"), &err), 0);
    put("e/JOB-3/metrics.jsonl", "{\"version\":1}\n"
                                 "{\"ev\":\"state\",\"state\":\"trainers\",\"t\":15}\n"
                                 "{\"t\":1,\"node\":0,\"host\":\"alpha\",\"ev\":\"saved\"}\n");
    assert_int_equal(pd_mkdirs(in_top("e/JOB-3/log/node-0"), 0755, NULL), 0);
    assert_int_equal(pd_mkdirs(in_top("e/JOB-3/log/node-1"), 0755, NULL), 0);
    assert_int_equal(pd_mkdirs(in_top("e/JOB-3/log/node-2"), 0755, NULL), 0); /* no trainer */
    put("e/JOB-3/log/node-0/events.2", "{\"t\":10,\"ev\":\"progress\"}\n");
    put("e/JOB-3/log/node-0/events.1", "{\"t\":20,\"ev\":\"progress\"}\n{\"ev\":\"saved\"}\n");
    put("e/JOB-3/log/node-0/events",
        "{\"t\":400,\"ev\":\"test\"}\n{\"t\":401,\"ev\":\"doing\"}\n{\"t\"");
    put("e/JOB-3/log/node-1/events",
        "{\"t\":12,\"ev\":\"progress\"}\n{\"t\":390,\"ev\":\"pass\"}\n");
    assert_int_equal(
        record_complete(in_top("e/JOB-3"), json_pack("{s:s}", "state", "failed"), &err), 0);
    assert_int_equal(record_read_metrics(in_top("e/JOB-3"), collect, &got, &err), 0);
    pd_put_u8(&got, 0);
    /* The progress at 20 is too close to that at 10. The saved model has the time before it. */
    assert_string_equal((char *)got.data, "0 - -;10 alpha progress;12 beta progress;15 - state;"
                                          "20 alpha saved;390 beta pass;400 alpha test;");
    assert_int_equal(record_read_run(in_top("e/JOB-3"), &run, &err), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "failed");
    assert_string_equal(json_string_value(json_object_get(run, "name")), "three");
    json_decref(run);
    /* A folder without a record gets one. */
    assert_int_equal(pd_mkdirs(in_top("e/JOB-4/log/node-0"), 0755, NULL), 0);
    put("e/JOB-4/log/node-0/events", "{\"t\":12,\"ev\":\"test\"}\n");
    assert_int_equal(record_complete(in_top("e/JOB-4"), json_pack("{s:s}", "state", "done"), &err),
                     0);
    assert_int_equal(record_read_run(in_top("e/JOB-4"), &run, &err), 0);
    json_decref(run);
    assert_int_equal(lines_of(in_top("e/JOB-4")), 2);
    pd_buf_release(&got);
}

/* A full disk: the job's owner hears it at the end, and run.json stays whole. */
static void a_disk_that_is_full(void **state) {
    (void)state;
    struct record *r = NULL;
    struct pd_err err = {0};
    json_t *run = NULL;
    struct rlimit before, small;
    assert_int_equal(record_new(&r, in_top("f/JOB-5"), run_of("five", "running", 1), &err), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){1500, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 100; i++)
        event(r, 0, "{\"t\":1,\"ev\":\"saved\",\"path\":\"a path that takes some room\"}");
    const int rc = record_end(r, json_pack("{s:s}", "state", "done"), &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, PD_EIO);
    assert_non_null(strstr(err.msg, "f/JOB-5/metrics.jsonl: File too large"));
    assert_int_equal(record_read_run(in_top("f/JOB-5"), &run, &err), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "done");
    json_decref(run);
    assert_true(lines_of(in_top("f/JOB-5")) > 5);
}

/* --- the index --- */

/* What `runs` would show of all runs. */
static void describe(struct pd_buf *out) {
    struct runs all;
    struct pd_err err = {0};
    const char *metric;
    pd_buf_clear(out);
    assert_int_equal(runs_load(&all, in_top("g"), &err), 0);
    for (size_t i = 0; i < all.n; i++) {
        const struct run *r = &all.v[i];
        pd_put_fmt(out, "%s %s %s %lld best %g (%g) last %g cost %g;", r->job, run_text(r, "name"),
                   r->state, (long long)r->n_passes, run_number(r, "best"),
                   run_number(r, "best_pass"), run_number(r, "last"), run_number(r, "cost"));
        for (size_t k = 0; (metric = run_metric(r, k)); k++)
            pd_put_fmt(out, " %s=%g", metric, run_number(r, metric));
        pd_put_fmt(out, "\n");
    }
    pd_put_fmt(out, "%zu bad\n", all.n_bad);
    runs_release(&all);
    pd_put_u8(out, 0);
}

/* The answer with the index, as it is, is that without one. */
static void check_index(const char *what) {
    struct pd_buf with = {0}, without = {0};
    describe(&with);
    unlink(in_top("g/.runs.index"));
    describe(&without);
    if (strcmp((char *)with.data, (char *)without.data))
        fail_msg("%s: with the index\n%s\nwithout\n%s", what, with.data, without.data);
    pd_buf_release(&with);
    pd_buf_release(&without);
}

static void set_old(const char *name) { /* only settled files are indexed: see runs_index.c */
    const struct timespec t[2] = {{1700000000, 0}, {1700000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_top(name), t, 0), 0);
}

static void put_numbered(int i, double value, const char *state) {
    char name[64], text[600];
    snprintf(name, sizeof name, "g/JOB-%03d", i);
    assert_int_equal(pd_mkdirs(in_top(name), 0755, NULL), 0);
    snprintf(text, sizeof text,
             "{\"version\":1,\"name\":\"n%d\",\"state\":\"%s\",\"started_ms\":%d%s}", i, state, i,
             i % 2 ? ",\"pass\":{\"pass\":1,\"complete\":true,\"samples\":1,\"cost\":2}" : "");
    snprintf(name, sizeof name, "g/JOB-%03d/run.json", i);
    put(name, text);
    set_old(name);
    snprintf(text, sizeof text,
             "{\"version\":1}\n{\"t\":1,\"ev\":\"test\",\"pass\":0,\"by\":\"auc\",\"value\":%g,"
             "\"metrics\":{\"test.auc\":%g}}\n",
             value, value);
    snprintf(name, sizeof name, "g/JOB-%03d/metrics.jsonl", i);
    put(name, text);
    set_old(name);
}

enum { INDEXED = 60, CTIME_WAIT_S = 3 };

static off_t index_size(void) {
    struct stat st;
    return stat(in_top("g/.runs.index"), &st) ? -1 : st.st_size;
}

static void an_index_never_changes_the_answer(void **state) {
    (void)state;
    struct pd_buf text = {0}, kept = {0};
    for (int i = 0; i < INDEXED; i++)
        put_numbered(i, 0.25, "done");
    describe(&text);
    assert_int_equal(index_size(), -1); /* the files have just been changed */
    sleep(CTIME_WAIT_S);
    check_index("none");
    assert_true(index_size() > INDEXED * 100);
    assert_int_equal(pd_read_file(in_top("g/.runs.index"), 1 << 20, &kept, NULL), 0);
    const mode_t mode = 0600;
    struct stat st;
    assert_int_equal(stat(in_top("g/.runs.index"), &st), 0);
    assert_int_equal(st.st_mode & 0777, mode);
    describe(&text);
    /* It is used: an entry that lies, under the right hash, is believed. */
    enum { HASH_AT = 12, HASH = 16, FROM = HASH_AT + HASH };
    uint8_t *name = memmem(kept.data, kept.len, "n2", 3);
    assert_non_null(name);
    *name = 'x';
    uint8_t was[HASH];
    memcpy(was, kept.data + HASH_AT, HASH);
    crypto_generichash(kept.data + HASH_AT, HASH, kept.data + FROM, kept.len - FROM, NULL, 0);
    pd_write_file_quick(in_top("g/.runs.index"), kept.data, kept.len, 0600, NULL);
    describe(&text);
    assert_non_null(strstr((char *)text.data, "JOB-002 x2 done"));
    *name = 'n';
    memcpy(kept.data + HASH_AT, was, HASH);
    const struct {
        const char *what;
        int i;
        double value;
        const char *run_state;
    } rows[] = {
        {"metrics.jsonl changed, with the same size and time", 2, 0.75, "done"},
        {"run.json changed", 3, 0.25, "lost"},
        {"a run was added", INDEXED, 0.5, "done"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        assert_int_equal(
            pd_write_file_quick(in_top("g/.runs.index"), kept.data, kept.len, 0600, NULL), 0);
        put_numbered(rows[k].i, rows[k].value, rows[k].run_state);
        check_index(rows[k].what);
    }
    describe(&text);
    assert_non_null(strstr((char *)text.data, "JOB-002 n2 done 0 best 0.75 (1) last 0.75"));
    assert_non_null(strstr((char *)text.data, "JOB-003 n3 lost 2"));
    /* A record whose end is taken away needs its metrics, as after fetch --log. */
    put("g/JOB-005/run.json",
        "{\"version\":1,\"name\":\"n5\",\"state\":\"done\",\"started_ms\":5}");
    pd_write_file_quick(in_top("g/.runs.index"), kept.data, kept.len, 0600, NULL);
    check_index("run.json lost its pass");
    assert_int_equal(unlink(in_top("g/JOB-004/metrics.jsonl")), 0);
    assert_int_equal(pd_rm_tree(in_top("g/JOB-006"), NULL), 0);
    put("g/JOB-007/run.json", "{\"version\":2}");
    pd_write_file_quick(in_top("g/.runs.index"), kept.data, kept.len, 0600, NULL);
    check_index("files were removed, a record is of another version");
    /* Cut, damaged, of another version, no file. */
    for (size_t n = 0; n < kept.len; n += n < 64 ? 1 : 997) {
        pd_write_file_quick(in_top("g/.runs.index"), kept.data, n, 0600, NULL);
        check_index("cut");
    }
    for (size_t n = 0; n < kept.len; n += n < 64 ? 1 : 997) {
        kept.data[n] ^= 0x41;
        pd_write_file_quick(in_top("g/.runs.index"), kept.data, kept.len, 0600, NULL);
        check_index("a damaged byte");
        kept.data[n] ^= 0x41;
    }
    unlink(in_top("g/.runs.index"));
    assert_int_equal(mkfifo(in_top("g/.runs.index"), 0600), 0); /* must not be waited for */
    check_index("a FIFO");
    pd_buf_release(&text);
    pd_buf_release(&kept);
}

/* Many at once: each sees an old index or a whole new one. */
static void indexes_written_at_once(void **state) {
    (void)state;
    struct pd_buf before = {0}, now = {0};
    describe(&before);
    for (int k = 0; k < 4; k++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid)
            continue;
        for (int i = 0; i < 25; i++) {
            if (i % 5 == k)
                unlink(in_top("g/.runs.index"));
            describe(&now);
            if (strcmp((char *)now.data, (char *)before.data))
                _exit(1);
        }
        _exit(0);
    }
    for (int k = 0; k < 4; k++) {
        int status = 1;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    pd_buf_release(&before);
    pd_buf_release(&now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept),
        cmocka_unit_test(a_run_from_beginning_to_end),
        cmocka_unit_test(a_run_without_an_end),
        cmocka_unit_test(damaged_records),
        cmocka_unit_test(one_run_by_its_name),
        cmocka_unit_test(metrics_of_the_nodes_logs),
        cmocka_unit_test(a_disk_that_is_full),
        cmocka_unit_test(an_index_never_changes_the_answer),
        cmocka_unit_test(indexes_written_at_once),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
