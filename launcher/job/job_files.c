/* SPDX-License-Identifier: Apache-2.0 */
/* job_files.c - finds out before anything is sent whether the workspace has the files that
 * train.ini names: data for every stream, test data, dictionaries, the model to start from.
 *
 *     train.ini ─▶ patterns and names ─┐
 *     the package's entries ───────────┴▶ check_entries
 *
 * The package is listed for this check alone, without its contents. Not checked here, since the
 * nodes may have other files: names outside of the workspace, names that lead through a symbolic
 * link, a train.ini in a subfolder. */
#include "conf/ini_file.h"
#include "conf/settings.h"
#include "conf/train_check.h"
#include "data/read/file_list.h"
#include "launcher/dispatch/split.h"
#include "launcher/job/job_internal.h"

enum { MAX_NAMED = 64 };

static const char separators[] = " \t,";

struct named_text { /* a value of train.ini */
    char key[40];
    char *value; /* NULL: not given */
    int line;
};

struct job_files {
    const struct job_config *c;
    const struct pd_options *o; /* with those of train.ini */
    struct named_text train, test;
    struct named_text file[MAX_NAMED];
    size_t n_files;
    uint32_t train_needs, test_needs; /* number of files; 0: none */
    char why[400];                    /* where the number of streams comes from */
    int rc;                           /* the result of the check */
    struct pd_err err;
};

/* --- train.ini --- */

static int keep(struct named_text *t, const char *key, const char *value, int line) {
    free(t->value);
    pd_fmt(t->key, sizeof t->key, "%s", key);
    t->line = line;
    return (t->value = pd_strdup(value)) ? 0 : PD_ENOMEM;
}

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct job_files *f = arg;
    int data = !strcmp(section, "data"), rc = 0;
    if (data && !strcmp(name, "train"))
        rc = keep(&f->train, name, value, line);
    else if (data && !strcmp(name, "test"))
        rc = keep(&f->test, name, value, line);
    else if (((data && (!strcmp(name, "vocabulary_file") || !strcmp(name, "counts_file"))) ||
              (pd_starts_with(section, "layer") && !strcmp(name, "counts"))) &&
             f->n_files < MAX_NAMED)
        rc = keep(&f->file[f->n_files++], name, value, line);
    return rc ? pd_oom(err, "the files of a workspace") : 0;
}

static void release(struct job_files *f) {
    free(f->train.value);
    free(f->test.value);
    for (size_t i = 0; i < f->n_files; i++)
        free(f->file[i].value);
}

/* The number of files that each list needs. A node with data_layout = local needs a file for each
 * of its own streams; here each node has the same files. */
static void count_needed(struct job_files *f) {
    const struct pd_train_place place = {0};
    const struct pd_options *o = f->o;
    const uint32_t streams = pd_train_streams(o, &place);
    int local = o->data_layout == PD_DATA_LOCAL, row = pd_options_find("n_streams", PD_TRAINER);
    if (o->job == PD_JOB_TRAIN)
        f->train_needs = local || o->data == PD_DATA_QUEUE ? 1 : streams;
    if (f->test.value && (o->job == PD_JOB_TRAIN || o->job == PD_JOB_TEST))
        f->test_needs = local ? 1 : streams;
    if (o->n_streams && row >= 0)
        pd_fmt(f->why, sizeof f->why, "n_streams = %u, %s", streams, o->origin[row].where);
    else
        pd_fmt(f->why, sizeof f->why, "one for each trainer");
}

/* Errors of the values themselves. */
static int check_values(const struct job_files *f, struct pd_err *err) {
    const int64_t job = f->o->job;
    if (!f->train.value && (job == PD_JOB_TRAIN || job == PD_JOB_ONLINE))
        return pd_fail(err, PD_ECONF, "%s: [data] has no train, the pattern of the training files",
                       f->c->shown);
    if (!f->test.value && job == PD_JOB_TEST)
        return pd_fail(
            err, PD_ECONF,
            "%s: job = test, but [data] of %s has no test, the pattern of the test files",
            option_source(f->o, "job"), f->c->shown);
    if (job == PD_JOB_ONLINE && !data_files_in_folders(f->train.value))
        return pd_fail(err, PD_ECONF,
                       "%s:%d: train = %s: job = online takes one pattern of files in folders of a "
                       "day and a minute, like stream/*/*/part-*",
                       f->c->shown, f->train.line, f->train.value);
    return 0;
}

/* --- the entries of the package --- */

enum entry_found { NOTHING, FOUND, UNKNOWN };

/* Looks for a file, or with `folder` for a folder. UNKNOWN: a symbolic link is in the way. */
static enum entry_found find_entry(const struct scan *scan, const char *path, int folder) {
    struct scan_item item;
    while (pd_starts_with(path, "./"))
        path += 2;
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    for (size_t i = 0; i < scan_n_items(scan); i++) {
        scan_item(scan, i, &item);
        size_t k = strlen(item.path);
        int is_link = item.type == MANIFEST_LINK;
        if (k == n && !strncmp(item.path, path, n) &&
            (is_link || (item.type == MANIFEST_FILE) == !folder))
            return is_link ? UNKNOWN : FOUND;
        if (is_link && k < n && !strncmp(item.path, path, k) && path[k] == '/')
            return UNKNOWN;
        if (folder && k > n && !strncmp(item.path, path, n) && item.path[n] == '/')
            return FOUND;
    }
    return NOTHING;
}

static size_t count_matches(const struct scan *scan, const char *patterns) {
    struct scan_item item;
    size_t found = 0;
    for (size_t i = 0; i < scan_n_items(scan); i++) {
        scan_item(scan, i, &item);
        found += item.type == MANIFEST_FILE && data_files_match(patterns, item.path, 0);
    }
    return found;
}

/* Appends the command that makes the files, if the workspace has it. */
static int add_hint(const struct job_files *f, const struct scan *scan, struct pd_err *err) {
    struct pd_err with = {0};
    char command[PATH_MAX];
    if (pd_fmt(command, sizeof command, "%s/prepare", f->c->package))
        return err->code;
    if (!f->c->archive && !access(command, X_OK))
        pd_fail(&with, err->code, "%.600s: run '%s%.300s' first, which makes the data", err->msg,
                strchr(command, '/') ? "" : "./", command);
    else if (f->c->archive && find_entry(scan, "prepare", 0) == FOUND)
        pd_fail(&with, err->code,
                "%.600s: run the workspace's 'prepare', which makes the data, before it is packed",
                err->msg);
    if (with.code)
        memcpy(err->msg, with.msg, sizeof err->msg);
    return err->code;
}

static int is_ignored(const struct job_files *f, const char *pattern) {
    struct data_files here = {0};
    int found = !f->c->archive && !data_files_expand(&here, f->c->package, pattern, NULL) && here.n;
    data_files_release(&here);
    return found;
}

/* The rest of a pattern that begins with the workspace's own name, else NULL. */
static const char *inside_workspace(const struct job_files *f, const char *pattern) {
    const char *slash = strrchr(f->c->package, '/'), *name = slash ? slash + 1 : f->c->package;
    const size_t n = strlen(name);
    return n && pd_starts_with(pattern, name) && pattern[n] == '/' ? pattern + n + 1 : NULL;
}

static int fail_none(const struct job_files *f, const struct scan *scan, const struct named_text *t,
                     const char *pattern, struct pd_err *err) {
    if (is_ignored(f, pattern)) {
        pd_fail(err, PD_ECONF,
                "%s:%d: the files that match %s = %s are left out of the workspace "
                "(.paddleignore; 'paddlectl dispatch --dry-run' lists them)",
                f->c->shown, t->line, t->key, pattern);
        return err->code;
    }
    const char *inside = inside_workspace(f, pattern);
    if (inside && count_matches(scan, inside))
        return pd_fail(err, PD_ECONF,
                       "%s:%d: no file of the workspace matches %s = %s: names are relative to the "
                       "workspace; write %s = %s",
                       f->c->shown, t->line, t->key, pattern, t->key, inside);
    pd_fail(err, PD_ECONF, "%s:%d: no file of the workspace matches %s = %s", f->c->shown, t->line,
            t->key, pattern);
    return add_hint(f, scan, err);
}

static int check_list(const struct job_files *f, const struct scan *scan,
                      const struct named_text *t, uint32_t needed, struct pd_err *err) {
    char one[PATH_MAX];
    if (!needed || !t->value || !split_can_list(scan, t->value))
        return 0;
    for (const char *p = t->value + strspn(t->value, separators); *p; p += strspn(p, separators)) {
        size_t n = strcspn(p, separators);
        if (!pd_fmt(one, sizeof one, "%.*s", (int)n, p) && !count_matches(scan, one))
            return fail_none(f, scan, t, one, err);
        p += n;
    }
    size_t n = count_matches(scan, t->value);
    return n >= needed ? 0
                       : pd_fail(err, PD_ECONF,
                                 "%s:%d: %s = %s matches %zu file%s for %u streams (%s); "
                                 "'paddlectl prepare' and 'paddlectl split' take "
                                 "--shards=%u",
                                 f->c->shown, t->line, t->key, t->value, n, n == 1 ? "" : "s",
                                 needed, f->why, needed);
}

static int check_file(const struct job_files *f, const struct scan *scan,
                      const struct named_text *t, struct pd_err *err) {
    if (!data_files_inside(t->value) || find_entry(scan, t->value, 0) != NOTHING)
        return 0;
    if (is_ignored(f, t->value))
        return pd_fail(err, PD_ECONF, "%s:%d: .paddleignore leaves out %s = %s", f->c->shown,
                       t->line, t->key, t->value);
    pd_fail(err, PD_ECONF, "%s:%d: %s = %s: the workspace has no such file", f->c->shown, t->line,
            t->key, t->value);
    return add_hint(f, scan, err);
}

static int check_entries(const struct job_files *f, const struct scan *scan, struct pd_err *err) {
    const char *model = f->o->init_model_path;
    int rc = check_list(f, scan, &f->train, f->train_needs, err);
    if (!rc)
        rc = check_list(f, scan, &f->test, f->test_needs, err);
    for (size_t i = 0; i < f->n_files && !rc; i++)
        rc = check_file(f, scan, &f->file[i], err);
    if (!rc && *model && data_files_inside(model) && find_entry(scan, model, 1) == NOTHING)
        rc = pd_fail(err, PD_ECONF,
                     "%s: the workspace has no folder %s (a folder of the nodes begins with /)",
                     option_source(f->o, "init_model_path"), model);
    return rc;
}

static int on_listed(void *arg, struct scan *scan, struct pd_err *err) {
    struct job_files *f = arg;
    f->rc = check_entries(f, scan, &f->err);
    return pd_fail(err, PD_ECANCELED, "listed"); /* nothing is hashed here */
}

/* Errors of the package itself are found when it is sent. */
static int check_package(struct job_files *f, struct pd_err *err) {
    struct scan *scan;
    if (scan_new(&scan, f->c->package, SCAN_NAMES, NULL))
        return 0;
    scan_on_listed(scan, on_listed, f);
    scan_run(scan, NULL);
    scan_free(scan);
    return f->rc ? pd_err_copy(err, &f->err) : 0;
}

int job_files_check(const struct job_config *c, const struct pd_options *o, struct pd_err *err) {
    struct job_files f = {.c = c, .o = o};
    struct pd_err own = {0};
    int rc = pd_ini_read_text(c->shown, (const char *)c->text.data, c->text.len, NULL, on_pair, &f,
                              &own);
    if (!rc)
        rc = check_values(&f, &own);
    count_needed(&f);
    if (!rc)
        rc = check_package(&f, &own);
    if (rc)
        pd_settings_blame(c->j->opts, c->shown, c->line, &own);
    release(&f);
    return rc ? pd_err_copy(err, &own) : 0;
}
