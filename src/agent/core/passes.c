/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c - see passes.h. */
#include "agent/core/passes.h"

#include "agent/core/msg.h"

static const char file_name[] = "passes";

void passes_release(struct passes *s) {
    json_decref(s->test);
    json_decref(s->best);
    s->test = s->best = NULL;
}

static int is_test(const json_t *event) { return !strcmp(msg_str(event, "ev"), "test"); }

/* 1: the event is the test of a complete pass that compares with others. */
static int compares(const json_t *event) {
    return is_test(event) && *msg_str(event, "by") && *msg_str(event, "better") &&
           json_is_integer(json_object_get(event, "pass")) &&
           json_is_number(json_object_get(event, "value"));
}

static int is_better(const json_t *event, const json_t *than) {
    const double x = json_number_value(json_object_get(event, "value")),
                 y = json_number_value(json_object_get(than, "value"));
    if (!than || strcmp(msg_str(event, "by"), msg_str(than, "by")) ||
        json_equal(json_object_get(event, "pass"), json_object_get(than, "pass")))
        return 1;
    return strcmp(msg_str(event, "better"), "higher") ? x < y : x > y;
}

static void keep(json_t **to, const json_t *event) {
    json_t *copy = json_deep_copy(event);
    if (!copy)
        return;
    json_decref(*to);
    *to = copy;
}

void passes_take(struct passes *s, const json_t *event) {
    if (is_test(event))
        keep(&s->test, event);
    if (compares(event) && is_better(event, s->best))
        keep(&s->best, event);
    if (!strcmp(msg_str(event, "ev"), "saved")) {
        pd_fmt(s->saved, sizeof s->saved, "%s", msg_str(event, "path"));
        s->no_state = json_is_false(json_object_get(event, "state"));
    }
}

int passes_append(const struct node_paths *p, const json_t *event, struct pd_err *err) {
    char path[PATH_MAX], *text = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(9));
    struct pd_buf line = {0};
    pd_put_fmt(&line, "%s\n", text ? text : "");
    int rc = !text || line.failed ? pd_oom(err, "a report of a pass")
                                  : node_paths_join(p->dir, file_name, path, err);
    int fd = rc ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (!rc && (fd < 0 || pd_write_all(fd, line.data, line.len)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write to %s", path);
    pd_close(fd);
    free(text);
    pd_buf_release(&line);
    return rc;
}

int passes_saved_state(const struct passes *s) { return *s->saved && !s->no_state; }

void passes_describe(const struct passes *s, json_t *result) {
    json_object_set_new(result, "saved", wire_text(s->saved, strlen(s->saved)));
    json_object_set_new(result, "saved_state", json_boolean(passes_saved_state(s)));
    if (s->test)
        json_object_set(result, "test", s->test);
    if (s->best)
        json_object_set(result, "best", s->best);
}

/* Adds [pass, value]. The members of `seen` are the passes. */
static void add_value(json_t *seen, const json_t *event) {
    char key[32];
    const json_t *pass = json_object_get(event, "pass");
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(pass));
    json_object_set_new(
        seen, key, json_pack("[I, O]", json_integer_value(pass), json_object_get(event, "value")));
}

json_t *passes_values(const struct node_paths *p, char by[80], char better[8]) {
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    FILE *f = node_paths_join(p->dir, file_name, path, NULL) ? NULL : fopen(path, "re");
    json_t *seen = json_object(), *out = NULL, *v;
    const char *key;
    *by = *better = 0;
    while (f && seen && getline(&line, &cap, f) > 0) {
        json_t *event = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (compares(event)) {
            if (strcmp(by, msg_str(event, "by"))) /* train.ini has changed: other figures */
                json_object_clear(seen);
            pd_fmt(by, 80, "%s", msg_str(event, "by"));
            pd_fmt(better, 8, "%s", msg_str(event, "better"));
            add_value(seen, event);
        }
        json_decref(event);
    }
    if (f)
        fclose(f);
    free(line);
    if (json_object_size(seen) && (out = json_array()))
        json_object_foreach (seen, key, v)
            json_array_append(out, v);
    json_decref(seen);
    return out;
}
