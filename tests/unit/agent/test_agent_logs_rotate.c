/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_logs_rotate.c - rotated log files. Random pieces are written, and readers read at
 * different offsets. Each step of a rotation fails or is the agent's last step. The kept bytes must
 * always be the stream, complete and without repetitions. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "agent/logs/logs.h"

enum { MODEL = 1 << 18, READERS = 4, STEPS = 600 };

struct env {
    char dir[64];
    struct logs logs;
    uint64_t rng;
    char all[MODEL]; /* the expected stream */
    uint64_t when[MODEL], n;
};

static struct env *begin(uint64_t max, unsigned keep) {
    struct env *e = calloc(1, sizeof *e);
    char p[100];
    pd_fmt(e->dir, sizeof e->dir, "/tmp/agent-rotate-XXXXXX");
    assert_non_null(mkdtemp(e->dir));
    snprintf(p, sizeof p, "%s/log", e->dir);
    mkdir(p, 0755);
    snprintf(p, sizeof p, "%s/.agent", e->dir);
    mkdir(p, 0755);
    assert_int_equal(logs_open(&e->logs, e->dir, 0, NULL), 0);
    logs_limit(&e->logs, max, keep);
    e->rng = 88172645463325252u;
    return e;
}

static void finish(struct env *e) {
    logs_close(&e->logs);
    pd_fault_arm(NULL);
    pd_rm_tree(e->dir, NULL);
    free(e);
}

static unsigned roll(struct env *e, unsigned n) {
    e->rng ^= e->rng << 13;
    e->rng ^= e->rng >> 7;
    e->rng ^= e->rng << 17;
    return (unsigned)(e->rng >> 33) % n;
}

/* A piece as a pipe delivers it. Its first line may be the end of a line, and its last line may be
 * incomplete. */
static size_t make_piece(struct env *e, uint64_t time_us, unsigned longest) {
    size_t k = 1 + roll(e, roll(e, 8) ? 60 : 400);
    unsigned line = 1 + roll(e, longest);
    assert_true(e->n + k < MODEL);
    for (size_t i = 0; i < k; i++) {
        int ends = !roll(e, line);
        e->all[e->n + i] = ends ? '\n' : (char)('a' + (e->n + i) % 26);
        e->when[e->n + i] = time_us;
    }
    return k;
}

static void write_piece(struct env *e, uint64_t time_us, unsigned longest) {
    size_t k = make_piece(e, time_us, longest);
    struct pd_err err = {0};
    if (logs_append(&e->logs, LOG_TRAIN, time_us, e->all + e->n, k, &err))
        fail_msg("%s", err.msg);
    e->n += k;
}

/* Compares all kept bytes, as a reader gets them. Returns the offset of the first. */
static uint64_t check_kept(struct env *e, struct logs *l, const char *what) {
    const struct log_file *f = &l->f[LOG_TRAIN];
    uint64_t first = f->first, hint = 0, t;
    char buf[100];
    size_t got;
    if (f->size != e->n)
        fail_msg("%s: the stream has %llu bytes, not %llu", what, (unsigned long long)f->size,
                 (unsigned long long)e->n);
    for (uint64_t at = first; at < e->n; at += got) {
        struct pd_err err = {0};
        if (logs_read(l, LOG_TRAIN, at, buf, sizeof buf, &got, &t, &hint, &err) || !got)
            fail_msg("%s: byte %llu: %s", what, (unsigned long long)at, err.msg);
        for (size_t i = 0; i < got; i++)
            if (buf[i] != e->all[at + i] || t != e->when[at + i])
                fail_msg("%s: byte %llu is '%c' of %llu", what, (unsigned long long)(at + i),
                         buf[i], (unsigned long long)t);
    }
    return first;
}

/* Compares the files directly, as an editor would show them. */
static void check_files(struct env *e, unsigned keep, uint64_t max) {
    uint64_t end = e->n;
    unsigned found = 0;
    for (unsigned i = 0; i <= keep + 3; i++) {
        char p[120];
        struct pd_buf b;
        pd_buf_init(&b);
        snprintf(p, sizeof p, i ? "%s/log/train.log.%u" : "%s/log/train.log", e->dir, i);
        if (!pd_read_file(p, MODEL, &b, NULL)) {
            found++;
            assert_int_equal(found, i + 1); /* no gap */
            assert_true(b.len <= end && b.len <= 2 * max);
            end -= b.len;
            assert_memory_equal(b.data, e->all + end, b.len);
            if (i && b.len < 2 * max)
                assert_int_equal(b.data[b.len - 1], '\n');
        }
        pd_buf_release(&b);
    }
    assert_true(found <= keep + 1);
    assert_int_equal(end, e->logs.f[LOG_TRAIN].first);
}

/* Readers at different speeds, from the oldest byte to the newest, while the stream grows. */
struct reader {
    uint64_t at, hint, skipped;
};

static void read_some(struct env *e, struct reader *r) {
    char buf[300];
    size_t got;
    uint64_t t, first = e->logs.f[LOG_TRAIN].first;
    if (r->at < first) {
        assert_int_equal(logs_read(&e->logs, LOG_TRAIN, r->at, buf, 1, &got, &t, &r->hint, NULL),
                         PD_ENOENT);
        r->skipped += first - r->at;
        r->at = first;
    }
    assert_int_equal(logs_read(&e->logs, LOG_TRAIN, r->at, buf, 1 + roll(e, sizeof buf), &got, &t,
                               &r->hint, NULL),
                     0);
    for (size_t i = 0; i < got; i++)
        assert_true(buf[i] == e->all[r->at + i] && t == e->when[r->at + i]);
    r->at += got;
}

static void nothing_lost_or_doubled(void **state) {
    static const struct {
        const char *name;
        uint64_t max;
        unsigned keep, longest;
    } rows[] = {{"lines", 1000, 3, 80},    {"long lines", 300, 2, 1500}, {"one kept", 500, 1, 50},
                {"none kept", 500, 0, 50}, {"tiny files", 7, 5, 20},     {"many", 200, 100, 60}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin(rows[k].max, rows[k].keep);
        struct reader r[READERS] = {{0}};
        uint64_t moved = 0;
        e->rng += k * 0x9e3779b97f4a7c15u;
        for (unsigned i = 0; i < STEPS; i++) {
            write_piece(e, 1000 + i, rows[k].longest);
            for (unsigned j = 0; j < READERS; j++)
                if (!roll(e, 1 + 2 * j))
                    read_some(e, &r[j]);
            if (i % 100 == 0) {
                moved = check_kept(e, &e->logs, rows[k].name);
                check_files(e, rows[k].keep, rows[k].max);
            }
        }
        assert_true(moved > 0 || rows[k].keep == 100);
        assert_true(r[READERS - 1].skipped > 0 || rows[k].keep == 100);
        struct logs disk; /* the same files, read after the agent's end */
        assert_int_equal(logs_open(&disk, e->dir, 1, NULL), 0);
        assert_int_equal(disk.f[LOG_TRAIN].first, e->logs.f[LOG_TRAIN].first);
        check_kept(e, &disk, rows[k].name);
        logs_close(&disk);
        finish(e);
    }
}

/* Lines of 30 bytes. With 100 bytes per file, the 4th append rotates, and then every third. */
static void make_line(struct env *e, unsigned i) {
    char line[40];
    snprintf(line, sizeof line, "line %08u %15s\n", i, "of the log");
    memcpy(e->all + e->n, line, 30);
    for (size_t b = 0; b < 30; b++)
        e->when[e->n + b] = 1000 + i;
}

static void write_line(struct env *e, unsigned i, struct pd_err *err) {
    make_line(e, i);
    logs_append(&e->logs, LOG_TRAIN, 1000 + i, e->all + e->n, 30, err);
}

/* The agent is killed at every step of the 1st to 6th rotation. The remaining files can be opened
 * and are complete. */
static void killed_in_a_rotation(void **state) {
    (void)state;
    for (unsigned keep = 0; keep < 4; keep += 1 + keep) {
        int steps = 0, survived = 0;
        for (; !survived; steps++) {
            struct env *e = begin(100, keep);
            char arm[40];
            int pipe_[2];
            assert_int_equal(pipe(pipe_), 0);
            snprintf(arm, sizeof arm, "kill.logs.rotate:%d", steps + 1);
            pid_t pid = fork();
            if (!pid) { /* reports each line that it has written */
                pd_fault_arm(arm);
                for (unsigned i = 0; i < 20; i++, e->n += 30) {
                    write_line(e, i, NULL);
                    (void)!write(pipe_[1], "x", 1);
                }
                _exit(0);
            }
            close(pipe_[1]);
            int st;
            waitpid(pid, &st, 0);
            survived = WIFEXITED(st);
            char said[32];
            ssize_t lines = pd_read_full(pipe_[0], said, sizeof said);
            close(pipe_[0]);
            pd_fault_arm(NULL);
            logs_close(&e->logs);
            for (unsigned i = 0; i < (unsigned)lines; i++, e->n += 30)
                make_line(e, i);
            struct logs disk;
            assert_int_equal(logs_open(&disk, e->dir, 1, NULL), 0);
            char what[60];
            snprintf(what, sizeof what, "keep %u, killed at step %d", keep, steps + 1);
            uint64_t first =
                keep || survived ? check_kept(e, &disk, what) : disk.f[LOG_TRAIN].first;
            if (keep && first && e->n - first < 90 * keep) /* at most the oldest file is missing */
                fail_msg("%s: only %llu of %llu bytes are kept", what,
                         (unsigned long long)(e->n - first), (unsigned long long)e->n);
            logs_close(&disk);
            finish(e);
        }
        assert_true(steps > 20); /* the sweep has covered enough steps */
    }
}

/* A step fails, by a full disk for example. The stream continues and rotates later. */
static void failed_step_of_a_rotation(void **state) {
    (void)state;
    for (unsigned keep = 0; keep < 4; keep += 1 + keep)
        for (int step = 1; step < 30; step++) {
            struct env *e = begin(100, keep);
            char arm[40], what[60];
            int failed = 0;
            snprintf(arm, sizeof arm, "logs.rotate:%d", step);
            snprintf(what, sizeof what, "keep %u, step %d", keep, step);
            pd_fault_arm(arm);
            for (unsigned i = 0; i < 40 && !failed; i++) {
                struct pd_err err = {0};
                write_line(e, i, &err);
                failed = err.code;
                e->n += failed ? 0 : 30;
            }
            pd_fault_arm(NULL);
            /* Only the last two steps can't be undone, so they report an error. */
            assert_true(!failed || failed == PD_EIO);
            uint64_t first = check_kept(e, &e->logs, what);
            assert_true(failed || e->n - first <= 100 * (keep + 1) + 60);
            finish(e);
        }
}

static void a_file_that_somebody_removed(void **state) {
    (void)state;
    struct env *e = begin(100, 5);
    char p[120], buf[10];
    uint64_t t, hint = 0;
    size_t got;
    for (unsigned i = 0; i < 18; i++, e->n += 30)
        write_line(e, i, NULL);
    snprintf(p, sizeof p, "%s/log/train.log.3", e->dir);
    unlink(p);
    assert_int_equal(e->logs.f[LOG_TRAIN].first, 0);
    assert_int_equal(logs_read(&e->logs, LOG_TRAIN, 100, buf, 10, &got, &t, &hint, NULL),
                     0); /* .4 */
    assert_int_equal(logs_read(&e->logs, LOG_TRAIN, 200, buf, 10, &got, &t, &hint, NULL),
                     PD_ENOENT);
    assert_int_equal(e->logs.f[LOG_TRAIN].first, 270);
    for (unsigned i = 18; i < 40; i++, e->n += 30)
        write_line(e, i, NULL);
    check_kept(e, &e->logs, "afterwards");
    finish(e);
}

static void last_lines_reach_back_over_a_rotation(void **state) {
    (void)state;
    struct env *e = begin(100, 2);
    char buf[1000];
    for (unsigned i = 0; i < 10; i++, e->n += 30)
        write_line(e, i, NULL);
    logs_tail(&e->logs, LOG_TRAIN, 0, 5, buf, sizeof buf);
    assert_int_equal(strlen(buf), 150);
    assert_memory_equal(buf, e->all + e->n - 150, 150);
    logs_tail(&e->logs, LOG_TRAIN, 240, 5, buf, sizeof buf);
    assert_int_equal(strlen(buf), 60);
    logs_tail(&e->logs, LOG_TRAIN, 0, 100, buf, sizeof buf);
    assert_int_equal(strlen(buf), e->n - e->logs.f[LOG_TRAIN].first);
    finish(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_lost_or_doubled),
        cmocka_unit_test(killed_in_a_rotation),
        cmocka_unit_test(failed_step_of_a_rotation),
        cmocka_unit_test(a_file_that_somebody_removed),
        cmocka_unit_test(last_lines_reach_back_over_a_rotation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
