/* SPDX-License-Identifier: Apache-2.0 */
/* compare_files.c - see compare_internal.h. */
#include "launcher/runs/compare_internal.h"

#include <spawn.h>
#include <sys/wait.h>

#include "launcher/record/record_files.h"

struct side {
    const struct run *run;
    struct record_files files;
};

/* Prints what diff(1) says. Without that program, only the name. */
static void print_diff(const struct side *a, const struct side *b, const char *path,
                       const char *file_a, const char *file_b) {
    extern char **environ;
    char label_a[PATH_MAX], label_b[PATH_MAX];
    int status = -1;
    pid_t pid;
    snprintf(label_a, sizeof label_a, "%.80s/%.3900s", a->run->job, path);
    snprintf(label_b, sizeof label_b, "%.80s/%.3900s", b->run->job, path);
    const char *const argv[] = {"diff",  "-u", "--label", label_a, "--label",
                                label_b, "--", file_a,    file_b,  NULL};
    fflush(stdout);
    if (!posix_spawnp(&pid, "diff", NULL, NULL, (char *const *)(uintptr_t)argv, environ))
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        printf("%s: the contents differ\n", path);
}

static void compare_entry(const struct side *a, const struct side *b, const struct record_file *x,
                          const struct record_file *y, const char *outputs) {
    char file_a[PATH_MAX], file_b[PATH_MAX];
    if (x->type != y->type || strcmp(x->target, y->target))
        printf("%s: another type or target\n", x->path);
    else if (x->type == MANIFEST_FILE) {
        const int is_equal = record_file_is_equal(x, y);
        if (!is_equal && *x->id && *y->id && record_file_at_hand(x, outputs, NULL, file_a) &&
            record_file_at_hand(y, outputs, NULL, file_b))
            print_diff(a, b, x->path, file_a, file_b);
        else if (!is_equal)
            printf("%s: the contents differ (%" PRIu64 " and %" PRIu64
                   " bytes), and are not kept here\n",
                   x->path, x->size, y->size);
        else if (is_equal < 0)
            printf("%s: another time, and its contents are not known\n", x->path);
    }
    if (x->type == y->type && x->mode != y->mode)
        printf("%s: mode %04o, then %04o\n", x->path, x->mode, y->mode);
}

static void print_missing(const struct side *a, const struct side *b) {
    for (size_t i = 0; i < a->files.n; i++)
        if (!record_files_find(&b->files, a->files.v[i].path))
            printf("only in %s: %s\n", a->run->job, a->files.v[i].path);
}

static int read_side(struct side *s, const char *outputs, struct pd_err *err) {
    char dir[PATH_MAX];
    struct pd_err why = {0};
    if (pd_fmt(dir, sizeof dir, "%s/%s", outputs, s->run->job))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", outputs);
    const int rc = record_files_read(&s->files, dir, &why);
    if (rc == PD_ENOENT) {
        printf("%s: the record has no list of the workspace's files\n", s->run->job);
        return rc;
    }
    return rc ? pd_err_copy(err, &why) : 0;
}

static int has_data(const struct run *run) {
    return json_is_string(json_object_get(run->record, "data"));
}

/* A record of an earlier version does not tell the data from the workspace. */
static int knows_data(const struct run *run, const struct record_files *f) {
    if (!has_data(run))
        return 1;
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].is_data)
            return 1;
    return 0;
}

int cmd_compare_hashes(const struct run *run, const char *outputs,
                       char workspace[2 * OBJECT_ID + 1], char data[2 * OBJECT_ID + 1]) {
    char dir[PATH_MAX];
    struct record_files f = {0};
    struct pd_err none = {0};
    if (pd_fmt(dir, sizeof dir, "%s/%s", outputs, run->job) || record_files_read(&f, dir, &none))
        return -1;
    const int is_known = knows_data(run, &f);
    record_files_hash(&f, 0, workspace);
    record_files_hash(&f, 1, data);
    if (!has_data(run))
        *data = 0;
    record_files_release(&f);
    return is_known ? 0 : -1;
}

static int is_equal(const struct run *a, const struct run *b, const char *key) {
    const json_t *x = json_object_get(a->record, key), *y = json_object_get(b->record, key);
    return !x || !y || json_equal((json_t *)(uintptr_t)x, (json_t *)(uintptr_t)y);
}

int cmd_compare_files(const struct run *a, const struct run *b, const char *outputs,
                      struct pd_err *err) {
    struct side x = {.run = a}, y = {.run = b};
    if (is_equal(a, b, "workspace") && is_equal(a, b, "data"))
        return 0;
    int rc = read_side(&x, outputs, err);
    if (!rc)
        rc = read_side(&y, outputs, err);
    for (size_t i = 0; i < x.files.n && !rc; i++) {
        const struct record_file *other = record_files_find(&y.files, x.files.v[i].path);
        if (other)
            compare_entry(&x, &y, &x.files.v[i], other, outputs);
    }
    if (!rc) {
        print_missing(&x, &y);
        print_missing(&y, &x);
    }
    record_files_release(&x.files);
    record_files_release(&y.files);
    return rc == PD_ENOENT ? 0 : rc;
}
