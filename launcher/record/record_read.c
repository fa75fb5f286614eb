/* record_read.c - reads records; see record.h. */
#include "launcher/record/record_internal.h"

enum { RUN_MAX = 4 << 20, LINE_MAX_BYTES = 65536 };

int record_each_line(const char *path, record_line *take, void *arg, struct pd_err *err) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    struct stat st;
    const int fd = pd_open_regular(path, O_RDONLY, 0, &st);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        const int why = errno;
        pd_close(fd);
        return pd_fail_errno(err, why == ENOENT ? PD_ENOENT : PD_EIO, why, "%s", path);
    }
    while ((n = getline(&line, &cap, f)) > 0) {
        json_t *o =
            n <= LINE_MAX_BYTES ? json_loadb(line, (size_t)n, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
        if (json_is_object(o))
            take(arg, o);
        json_decref(o);
    }
    const int bad = ferror(f);
    free(line);
    fclose(f);
    return bad ? pd_fail(err, PD_EIO, "%s cannot be read", path) : 0;
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

int record_read_metrics(const char *dir, record_line *take, void *arg, struct pd_err *err) {
    char path[PATH_MAX];
    return record_path(dir, "metrics.jsonl", path, err) ? err->code
                                                        : record_each_line(path, take, arg, err);
}

int record_is_written(const char *dir) {
    struct pd_err err = {0};
    const int fd = record_lock_file(dir, 0, &err);
    pd_close(fd);
    return err.code == PD_EEXIST;
}
