/* SPDX-License-Identifier: Apache-2.0 */
/* test_base_log.c - a log in files of limited size, written by threads and processes at once. Every
 * record is in exactly one file, whole, and in the order of its writer. */
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>

enum { WRITERS = 4, RECORDS = 2000, FILES = 100 };

static void make_dir(char dir[64]) {
    pd_fmt(dir, 64, "/tmp/base-log-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

struct writer {
    const struct pd_log *log;
    int id;
};

static void *write_records(void *arg) {
    const struct writer *w = arg;
    for (int i = 0; i < RECORDS; i++)
        pd_info(w->log, "writer %d record %d.", w->id, i);
    return NULL;
}

/* Reads the files, oldest first. Checks that each record is a whole line and follows the last
 * record of its writer. */
static int count_records(const char *path, int last[2 * WRITERS], int *files, size_t *longest) {
    int n = 0;
    *files = 0;
    *longest = 0;
    for (int i = FILES; i >= 0; i--) {
        char p[200], *save = NULL;
        struct pd_buf b;
        pd_buf_init(&b);
        snprintf(p, sizeof p, i ? "%s.%d" : "%s", path, i);
        if (!pd_read_file(p, 1 << 26, &b, NULL)) {
            ++*files;
            *longest = b.len > *longest ? b.len : *longest;
            assert_true(!b.len || b.data[b.len - 1] == '\n');
            for (char *line = strtok_r((char *)b.data, "\n", &save); line;
                 line = strtok_r(NULL, "\n", &save), n++) {
                int id, number;
                const char *at = strstr(line, "] writer ");
                if (line[0] != 'I' || !at ||
                    sscanf(at, "] writer %d record %d.", &id, &number) != 2 ||
                    at[strlen(at) - 1] != '.')
                    fail_msg("not a record: %s", line);
                if (number <= last[id])
                    fail_msg("writer %d: record %d after %d", id, number, last[id]);
                last[id] = number;
            }
        }
        pd_buf_release(&b);
    }
    return n;
}

static void forget(int last[2 * WRITERS]) {
    for (int i = 0; i < 2 * WRITERS; i++)
        last[i] = -1;
}

static void run_threads(const struct pd_log *log, int first_id) {
    pthread_t t[WRITERS];
    struct writer w[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){log, first_id + i};
        assert_int_equal(pthread_create(&t[i], NULL, write_records, &w[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
}

static void a_name_cannot_look_like_a_record(void **state) {
    char dir[64], path[100], text[400];
    (void)state;
    make_dir(dir);
    snprintf(path, sizeof path, "%s/x.INFO", dir);
    struct pd_log log;
    assert_int_equal(pd_log_open(&log, path, -1, PD_INFO, NULL), 0);
    pd_warn(&log, "job %s", "a\nE1120 22:48:01.123456  4711 pass.c:88] forged\033[2J\xc2\x9b\xff");
    pd_log_close(&log);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    assert_non_null(strstr(text, "job a E1120 22:48:01.123456  4711 pass.c:88] forged [2J ?\n"));
    pd_rm_tree(dir, NULL);
}

static void threads_share_a_log(void **state) {
    char dir[64], path[100];
    int last[2 * WRITERS], files;
    size_t longest;
    (void)state;
    make_dir(dir);
    snprintf(path, sizeof path, "%s/x.INFO", dir);
    struct pd_log log;
    assert_int_equal(pd_log_open(&log, path, -1, PD_INFO, NULL), 0);
    pd_log_limit(&log, 20000, FILES);
    int fd = log.fd;
    run_threads(&log, 0);
    assert_int_equal(log.fd, fd); /* holders of the descriptor can continue */
    pd_log_close(&log);
    forget(last);
    assert_int_equal(count_records(path, last, &files, &longest), WRITERS * RECORDS);
    assert_true(files >
                1); /* the number depends on how long the rotating process waits for its turn */
    pd_rm_tree(dir, NULL);
}

static void processes_share_a_log(void **state) {
    char dir[64], path[100];
    int last[2 * WRITERS], files, st;
    size_t longest;
    (void)state;
    make_dir(dir);
    snprintf(path, sizeof path, "%s/x.INFO", dir);
    pid_t pid[2];
    for (int i = 0; i < 2; i++) {
        pid[i] = fork();
        if (!pid[i]) {
            struct pd_log log;
            if (pd_log_open(&log, path, -1, PD_INFO, NULL))
                _exit(1);
            pd_log_limit(&log, 30000, FILES);
            run_threads(&log, i * WRITERS);
            pd_log_close(&log);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        waitpid(pid[i], &st, 0);
        assert_int_equal(st, 0);
    }
    forget(last);
    /* One process may still write a record into PATH.1 that another process has just rotated: the
     * order holds, but files may be a bit longer. */
    assert_int_equal(count_records(path, last, &files, &longest), 2 * WRITERS * RECORDS);
    assert_true(files > 1);
    pd_rm_tree(dir, NULL);
}

static void only_so_many_are_kept(void **state) {
    static const unsigned keeps[] = {0, 1, 3};
    (void)state;
    for (size_t k = 0; k < sizeof keeps / sizeof keeps[0]; k++) {
        char dir[64], path[100];
        int last[2 * WRITERS], files;
        size_t longest;
        make_dir(dir);
        snprintf(path, sizeof path, "%s/x.INFO", dir);
        struct pd_log log;
        for (int round = 0; round < 2; round++) { /* a restarted process appends to the file */
            assert_int_equal(pd_log_open(&log, path, -1, PD_INFO, NULL), 0);
            pd_log_limit(&log, 1000, keeps[k]);
            for (int i = 0; i < 50; i++)
                pd_info(&log, "writer 0 record %d.", round * 50 + i);
            pd_log_close(&log);
        }
        forget(last);
        int n = count_records(path, last, &files, &longest);
        assert_int_equal(files, keeps[k] + 1);
        assert_true(longest <= 1000 && last[0] == 99 && n > (int)keeps[k] * 10 && n < 100);
        pd_rm_tree(dir, NULL);
    }
}

/* The folder becomes unwritable, or the file was moved away: records are still written. */
static void a_rotation_that_fails(void **state) {
    char dir[64], path[100], blocked[120];
    int last[2 * WRITERS], files;
    size_t longest;
    (void)state;
    make_dir(dir);
    snprintf(path, sizeof path, "%s/x.INFO", dir);
    snprintf(blocked, sizeof blocked, "%s.new", path);
    mkdir(blocked, 0755); /* the new file cannot be created */
    struct pd_log log;
    assert_int_equal(pd_log_open(&log, path, -1, PD_INFO, NULL), 0);
    pd_log_limit(&log, 1000, 2);
    for (int i = 0; i < 40; i++)
        pd_info(&log, "writer 0 record %d.", i);
    forget(last);
    assert_int_equal(count_records(path, last, &files, &longest), 40);
    assert_int_equal(files, 1);
    rmdir(blocked);
    for (int i = 40; i < 50; i++)
        pd_info(&log, "writer 0 record %d.", i);
    forget(last);
    assert_int_equal(count_records(path, last, &files, &longest), 50);
    assert_int_equal(files, 2);
    unlink(path);
    for (int i = 50; i < 80; i++)
        pd_info(&log, "writer 0 record %d.", i);
    pd_log_close(&log);
    forget(last);
    count_records(path, last, &files, &longest);
    assert_int_equal(last[0], 79);
    pd_rm_tree(dir, NULL);
}

static void sizes_with_suffixes(void **state) {
    static const struct {
        const char *text;
        uint64_t max;
        int64_t want; /* -1: refused */
        const char *back;
    } rows[] = {{"0", 10, 0, "0"},
                {"1000", 1 << 20, 1000, "1000"},
                {"64K", 1 << 20, 65536, "64K"},
                {"64k", 1 << 20, 65536, "64K"},
                {"1.5M", 1 << 30, 1572864, "1536K"},
                {"2G", UINT64_C(1) << 40, INT64_C(2) << 30, "2G"},
                {"1T", UINT64_C(1) << 40, INT64_C(1) << 40, "1T"},
                {"1025", 1024, -1, ""},
                {"2K", 1024, -1, ""},
                {"K", 1024, -1, ""},
                {"", 1024, -1, ""},
                {"-1", 1024, -1, ""},
                {"1.3", 1024, -1, ""},
                {"1KK", 1 << 30, -1, ""},
                {"1 K", 1 << 30, -1, ""},
                {"1X", 1024, -1, ""},
                {"nan", 1024, -1, ""},
                {"infK", 1 << 30, -1, ""}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t v = 0;
        char text[32];
        int rc = pd_parse_size(rows[i].text, rows[i].max, &v);
        if ((rc != 0) != (rows[i].want < 0) ||
            (!rc && ((int64_t)v != rows[i].want || strcmp(pd_size_text(v, text), rows[i].back))))
            fail_msg("'%s': %d, %llu", rows[i].text, rc, (unsigned long long)v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_cannot_look_like_a_record),
        cmocka_unit_test(threads_share_a_log),
        cmocka_unit_test(processes_share_a_log),
        cmocka_unit_test(only_so_many_are_kept),
        cmocka_unit_test(a_rotation_that_fails),
        cmocka_unit_test(sizes_with_suffixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
