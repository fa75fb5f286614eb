/* SPDX-License-Identifier: Apache-2.0 */
/* record_read.c - reads records; see record.h. */
#include "launcher/record/record_internal.h"

enum { RUN_MAX = 4 << 20, LINE_MAX_BYTES = 65536 };

static void count_line(struct record_place *p, const json_t *o, FILE *f) {
    const json_t *version = json_object_get(o, "version");
    p->n_lines++;
    p->n_bad += !json_is_object(o);
    if (json_is_integer(version) && !json_object_get(o, "ev"))
        p->version = json_integer_value(version);
    p->at = (uint64_t)ftello(f);
}

int record_each_line(const char *path, struct record_place *p, record_line *on_line, void *arg,
                     struct pd_err *err) {
    char *line = pd_malloc(LINE_MAX_BYTES);
    int whole = 1, failed = 0;
    struct stat st;
    const int fd = line ? pd_open_regular(path, O_RDONLY, 0, &st) : -1, why = errno;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        pd_close(fd);
        if (!line)
            return pd_oom(err, "a record");
        free(line);
        return pd_fail_errno(err, why == ENOENT ? PD_ENOENT : PD_EIO, why, "%s", path);
    }
    if (p && p->at)
        failed = fseeko(f, (off_t)p->at, SEEK_SET);
    while (!failed && fgets(line, LINE_MAX_BYTES, f)) { /* parts of a longer line are left out */
        const size_t n = strlen(line);
        const int ends = n && line[n - 1] == '\n';
        json_t *o = whole && ends ? json_loadb(line, n, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
        if (json_is_object(o))
            on_line(arg, o);
        if (p && ends)
            count_line(p, o, f);
        json_decref(o);
        whole = ends;
    }
    failed |= ferror(f);
    free(line);
    fclose(f);
    return failed ? pd_fail(err, PD_EIO, "%s cannot be read", path) : 0;
}

int record_read_run(const char *dir, json_t **run, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf text = {0};
    *run = NULL;
    int rc = record_path(dir, "run.json", path, err);
    if (!rc)
        rc = pd_read_regular(path, RUN_MAX, &text, err);
    if (!rc) {
        json_error_t bad;
        *run = json_loadb((char *)text.data, text.len, JSON_REJECT_DUPLICATES, &bad);
        const json_t *version = json_object_get(*run, "version");
        if (!json_is_object(*run))
            rc = pd_fail(err, PD_EDATA, "%s:%d: %s", path, bad.line, bad.text);
        else if (json_integer_value(version) != RECORD_VERSION)
            rc = pd_fail(err, PD_EDATA, "%s is of another version of paddlectl (%lld, not %d)",
                         path, (long long)json_integer_value(version), RECORD_VERSION);
    }
    pd_buf_release(&text);
    if (rc) {
        json_decref(*run);
        *run = NULL;
    }
    return rc;
}

int record_read_metrics(const char *dir, record_line *on_line, void *arg, struct pd_err *err) {
    struct record_place all = {0};
    return record_read_more(dir, &all, on_line, arg, err);
}

int record_changed(const char *dir, struct record_place *p) {
    char path[PATH_MAX];
    struct stat st;
    if (record_path(dir, "metrics.jsonl", path, NULL) || stat(path, &st))
        return 0;
    const int is_other = p->inode && (p->inode != st.st_ino || (uint64_t)st.st_size < p->at);
    if (is_other)
        *p = (struct record_place){0};
    p->inode = st.st_ino;
    return is_other;
}

int record_read_more(const char *dir, struct record_place *p, record_line *on_line, void *arg,
                     struct pd_err *err) {
    char path[PATH_MAX];
    return record_path(dir, "metrics.jsonl", path, err)
               ? err->code
               : record_each_line(path, p, on_line, arg, err);
}

/* The paddlectl that writes a record may be in the middle of its last line. */
void record_damage(const char *dir, const struct record_place *p,
                   void (*say)(void *arg, const char *text), void *arg) {
    char path[PATH_MAX], text[300];
    struct stat st;
    if (p->version && p->version != RECORD_VERSION) {
        pd_fmt(text, sizeof text,
               "metrics.jsonl is of another version of paddlectl (%lld, this one knows %d): what "
               "this version knows is shown",
               (long long)p->version, RECORD_VERSION);
        say(arg, text);
    }
    const int cut = !record_path(dir, "metrics.jsonl", path, NULL) && !stat(path, &st) &&
                    (uint64_t)st.st_size > p->at && !record_is_written(dir);
    if (p->n_bad || cut) {
        pd_fmt(text, sizeof text,
               "%llu of %llu lines of metrics.jsonl cannot be read: they are damaged, or the "
               "record is cut off",
               (unsigned long long)p->n_bad + (cut ? 1 : 0),
               (unsigned long long)p->n_lines + (cut ? 1 : 0));
        say(arg, text);
    }
}
