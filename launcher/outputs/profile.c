/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c - see profile.h. The format: "Trace Event Format" (JSON object format; events X and M).
 */
#include "launcher/outputs/profile.h"

#include <jansson.h>

#include "base/json_text.h"

enum { VERSION = 1, LINE = 400, NAME = 60, PARTS_MAX = 100000 };

/* Times of other machines are below this, 36 years, so that their sums and differences fit. */
static const int64_t TIME_MAX_NS = (int64_t)1 << 60, COUNT_MAX = (int64_t)1 << 53;

/* Two clocks drift apart by up to 100 ppm, so the error of a ping grows by 1 ns in 10 us. */
enum { DRIFT_NS = 10000 };

void outputs_clock_ping(struct outputs_clock *c, int64_t sent_ns, int64_t now_ns,
                        int64_t received_ns, const char *boot) {
    const int64_t trip = received_ns - sent_ns;
    if (sent_ns <= 0 || now_ns <= 0 || now_ns > TIME_MAX_NS || trip < 0 ||
        (c->known && !strcmp(c->boot, boot) &&
         (trip + 1) / 2 >= c->error_ns + (received_ns - c->at_ns) / DRIFT_NS))
        return;
    *c = (struct outputs_clock){.known = 1,
                                .offset_ns = now_ns - (sent_ns + trip / 2),
                                .error_ns = (trip + 1) / 2,
                                .at_ns = received_ns};
    pd_fmt(c->boot, sizeof c->boot, "%.63s", boot);
}

/* --- the parts --- */

struct part {
    char path[PATH_MAX];
    json_t *head;
    int64_t node, rank, begin_ns;
    int is_trainer, is_whole; /* is_whole: the trace has all its spans */
};

struct parts {
    struct part *v;
    size_t n, cap;
};

static int64_t number_of(const json_t *o, const char *key) {
    return (int64_t)json_integer_value(json_object_get(o, key));
}

static int64_t count_of(const json_t *o, const char *key) {
    const int64_t n = number_of(o, key);
    return n < 0 || n > COUNT_MAX ? 0 : n;
}

static int damaged(const struct part *p, struct pd_err *err) {
    return pd_fail(err, PD_EDATA, "%s is damaged, or of another version of paddlectl", p->path);
}

/* A process that was killed leaves half a line. The trace goes on without the rest of its file. */
static void note_damage(struct outputs_profile *to, const struct part *p) {
    if (!to->n_damaged++)
        damaged(p, &to->damage);
}

static FILE *open_part(const struct part *p, struct pd_err *err) {
    struct stat st;
    const int fd = pd_open_regular(p->path, O_RDONLY, 0, &st);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        pd_fail_errno(err, PD_EIO, errno, "%s", p->path);
        pd_close(fd);
    }
    return f;
}

static int read_head(struct part *p, struct pd_err *err) {
    char line[LINE];
    FILE *f = open_part(p, err);
    if (!f)
        return err->code;
    p->head = fgets(line, sizeof line, f) ? json_loads(line, 0, NULL) : NULL;
    fclose(f);
    p->is_trainer = !strcmp(pd_json_text(p->head, "role"), "trainer");
    p->node = number_of(p->head, "node");
    p->rank = number_of(p->head, "rank");
    p->begin_ns = number_of(p->head, "begin_ns");
    return number_of(p->head, "version") == VERSION && p->node >= 0 && p->rank >= 0 &&
                   p->begin_ns >= 0 && p->begin_ns <= TIME_MAX_NS
               ? 0
               : damaged(p, err);
}

static int by_place(const void *a, const void *b) {
    const struct part *x = a, *y = b;
    return x->node != y->node   ? (x->node > y->node) - (x->node < y->node)
           : x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                                : x->is_trainer - y->is_trainer;
}

static void release_parts(struct parts *all) {
    for (size_t i = 0; i < all->n; i++)
        json_decref(all->v[i].head);
    free(all->v);
}

static int find_parts(struct parts *all, struct outputs_profile *to, const char *folder,
                      struct pd_err *err) {
    const struct dirent *e;
    int rc = 0;
    DIR *d = opendir(folder);
    if (!d)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "%s", folder);
    while (!rc && (e = readdir(d)))
        if (pd_ends_with(e->d_name, ".jsonl") && all->n < PARTS_MAX) {
            if (pd_grow(all->v, all->cap, all->n + 1)) {
                rc = pd_oom(err, "the profile");
                break;
            }
            struct part *p = &all->v[all->n++];
            *p = (struct part){.head = NULL};
            rc = pd_fmt(p->path, sizeof p->path, "%s/%s", folder, e->d_name)
                     ? pd_fail(err, PD_EUSAGE, "%s: the path is too long", folder)
                     : read_head(p, err);
            if (rc == PD_EDATA) {
                note_damage(to, p);
                json_decref(p->head);
                all->n--;
                *err = (struct pd_err){0};
                rc = 0;
            }
        }
    closedir(d);
    if (!rc && !all->n && !to->n_damaged)
        rc = pd_fail(err, PD_ENOENT, "%s has no spans", folder);
    if (!rc)
        qsort(all->v, all->n, sizeof *all->v, by_place);
    return rc;
}

/* --- the trace --- */

struct trace {
    FILE *f;
    struct outputs_profile *to;
    int64_t zero_ns; /* of paddlectl's clock */
    const char *comma;
    int no_memory;
};

static void put_event(struct trace *t, json_t *event) {
    fputs(t->comma, t->f);
    t->comma = ",\n";
    t->no_memory |= !event;
    if (event) /* write_trace finds an error of the file */
        json_dumpf(event, t->f, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(event);
}

static json_t *name_event(const char *what, int64_t pid, int tid, const char *name) {
    return json_pack("{s:s, s:s, s:I, s:i, s:{s:s}}", "ph", "M", "name", what, "pid",
                     (json_int_t)pid, "tid", tid, "args", "name", name);
}

static int is_name(const char *s) {
    for (; *s; s++)
        if ((unsigned char)*s < 32 || (unsigned char)*s > 126 || *s == '\\' || *s == '"')
            return 0;
    return 1;
}

/* ["step",BEGIN,DURATION] */
static int put_span(struct trace *t, const char *line, int64_t offset_ns, int64_t pid, int tid,
                    const char *role) {
    char name[NAME + 1];
    int64_t began, took;
    int end = 0;
    if (sscanf(line, "[\"%60[^\"]\",%" SCNd64 ",%" SCNd64 "]%n", name, &began, &took, &end) != 3 ||
        !end || !is_name(name) || took < 0 || took > TIME_MAX_NS || began < 0 ||
        began > TIME_MAX_NS)
        return -1;
    /* A thread that ended while the file was written may have begun before begin_ns. */
    int64_t at = began - offset_ns - t->zero_ns;
    at = at < 0 ? 0 : at;
    fprintf(t->f,
            "%s{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%d,"
            "\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64 ".%03d}",
            t->comma, name, role, pid, tid, at / 1000, (int)(at % 1000), took / 1000,
            (int)(took % 1000));
    t->comma = ",\n";
    t->to->n_spans++;
    return 0;
}

static int put_part(struct trace *t, struct part *p, int64_t pid, struct pd_err *err) {
    const char *role = p->is_trainer ? "trainer" : "pserver";
    const int64_t offset = t->to->clocks[p->node].offset_ns;
    char line[LINE], name[200];
    int tid = 0;
    FILE *f = open_part(p, err);
    if (!f)
        return err->code;
    pd_fmt(name, sizeof name, "%s %lld on %.100s", role, (long long)p->rank, t->to->hosts[p->node]);
    put_event(t, name_event("process_name", pid, 0, name));
    p->is_whole = fgets(line, sizeof line, f) != NULL; /* the head */
    while (p->is_whole && fgets(line, sizeof line, f)) {
        json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
        if (o) {
            put_event(t, name_event("thread_name", pid, ++tid, pd_json_text(o, "thread")));
            t->to->n_dropped += (uint64_t)count_of(o, "dropped");
        } else if (!tid || put_span(t, line, offset, pid, tid, role)) {
            p->is_whole = 0;
        }
        json_decref(o);
    }
    fclose(f);
    if (!p->is_whole)
        note_damage(t->to, p);
    t->to->n_processes++;
    return 0;
}

static int has_clock(const struct outputs_profile *to, const struct part *p) {
    return p->node < to->n_nodes && to->clocks[p->node].known;
}

static int is_boot(const char *boot) { return *boot && strcmp(boot, "?") != 0; }

/* The clock of the node is not the one of the spans. Parts of older versions do not name theirs. */
static int is_of_another_boot(const struct outputs_profile *to, const struct part *p) {
    const char *boot = pd_json_text(p->head, "boot");
    return has_clock(to, p) && is_boot(boot) && is_boot(to->clocks[p->node].boot) &&
           strcmp(boot, to->clocks[p->node].boot) != 0;
}

static int can_be_placed(const struct outputs_profile *to, const struct part *p) {
    return has_clock(to, p) && !is_of_another_boot(to, p);
}

static void leave_out(struct outputs_profile *to, const struct part *p) {
    if (!is_of_another_boot(to, p))
        to->n_left_out++;
    else if (!to->n_rebooted++)
        to->rebooted_on = to->hosts[p->node];
}

static json_t *clocks_json(const struct outputs_profile *to) {
    json_t *nodes = json_array();
    for (int64_t i = 0; i < to->n_nodes; i++)
        if (to->clocks[i].known)
            json_array_append_new(
                nodes, json_pack("{s:I, s:s, s:f, s:f}", "node", (json_int_t)i, "host",
                                 to->hosts[i], "offset_us", (double)to->clocks[i].offset_ns / 1000,
                                 "error_us", (double)to->clocks[i].error_ns / 1000));
    return nodes;
}

static int put_trace(struct trace *t, struct parts *all, struct pd_err *err) {
    int64_t busy = 0, pid = 0;
    int rc = 0;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", t->f);
    for (size_t i = 0; i < all->n && !rc; i++) {
        if (!can_be_placed(t->to, &all->v[i])) {
            leave_out(t->to, &all->v[i]);
            continue;
        }
        busy += count_of(all->v[i].head, "busy");
        rc = put_part(t, &all->v[i], ++pid, err);
    }
    fputs("\n],\n\"otherData\":", t->f);
    t->comma = "";
    put_event(t, json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I}", "job", t->to->job, "clocks",
                           clocks_json(t->to), "dropped_spans", (json_int_t)t->to->n_dropped,
                           "threads_without_spans", (json_int_t)busy, "processes_left_out",
                           (json_int_t)t->to->n_left_out, "processes_of_rebooted_hosts",
                           (json_int_t)t->to->n_rebooted, "damaged_files",
                           (json_int_t)t->to->n_damaged));
    fputs("}\n", t->f);
    if (!rc && !t->to->n_spans && t->to->n_damaged)
        return pd_fail(err, PD_EDATA, "%s", t->to->damage.msg);
    return rc;
}

static int64_t first_ns(const struct outputs_profile *to, const struct parts *all) {
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < all->n; i++)
        if (can_be_placed(to, &all->v[i]) && all->v[i].begin_ns) {
            const int64_t at = all->v[i].begin_ns - to->clocks[all->v[i].node].offset_ns;
            first = at < first ? at : first;
        }
    return first == INT64_MAX ? 0 : first;
}

static int write_trace(struct outputs_profile *to, struct parts *all, const char *path,
                       struct pd_err *err) {
    char new[PATH_MAX];
    if (pd_fmt(new, sizeof new, "%s.new", path))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", path);
    struct trace t = {.f = fopen(new, "we"), .to = to, .zero_ns = first_ns(to, all), .comma = ""};
    if (!t.f)
        return pd_fail_errno(err, PD_EIO, errno, "%s", new);
    int rc = put_trace(&t, all, err);
    if (!rc && t.no_memory)
        rc = pd_oom(err, "the trace");
    int failed = ferror(t.f);
    failed |= fclose(t.f);
    if (!rc && (failed || rename(new, path)))
        rc = pd_fail_errno(err, PD_EIO, errno, "%s", path);
    if (rc)
        unlink(new);
    return rc;
}

/* A part of which the trace lacks spans stays, and so do files of the user's programs. */
static void remove_parts(const struct parts *all, const char *folder) {
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].is_whole)
            unlink(all->v[i].path);
    rmdir(folder);
}

static int trace_path(const struct outputs_profile *p, char out[PATH_MAX], struct pd_err *err) {
    return (p->file && *p->file ? pd_fmt(out, PATH_MAX, "%s", p->file)
                                : pd_fmt(out, PATH_MAX, "%s/profile.json", p->dir))
               ? pd_fail(err, PD_EUSAGE, "%s: the path is too long", p->dir)
               : 0;
}

static int parts_folder(const char *dir, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/profile", dir);
}

int outputs_profile_has_parts(const char *dir) {
    char folder[PATH_MAX];
    struct stat st;
    return !parts_folder(dir, folder) && !lstat(folder, &st) && S_ISDIR(st.st_mode);
}

int outputs_profile_check(const char *file, struct pd_err *err) {
    char folder[PATH_MAX];
    if (!*file)
        return 0;
    const char *slash = strrchr(file, '/');
    if (pd_fmt(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) + 1 : 1,
               slash ? file : "."))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", file);
    return access(folder, W_OK | X_OK)
               ? pd_fail_errno(err, PD_EUSAGE, errno, "the trace cannot be written to %s", file)
               : 0;
}

int outputs_profile_merge(struct outputs_profile *p, struct pd_err *err) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct parts all = {0};
    p->n_processes = p->n_left_out = p->n_damaged = p->n_rebooted = 0;
    p->n_spans = p->n_dropped = 0;
    p->damage = (struct pd_err){0};
    int rc = parts_folder(p->dir, folder)
                 ? pd_fail(err, PD_EUSAGE, "%s: the path is too long", p->dir)
                 : trace_path(p, path, err);
    if (!rc)
        rc = find_parts(&all, p, folder, err);
    if (!rc)
        rc = write_trace(p, &all, path, err);
    if (!rc)
        remove_parts(&all, folder);
    release_parts(&all);
    return rc;
}

void outputs_profile_text(const struct outputs_profile *p, const struct pd_err *err,
                          char out[OUTPUTS_PROFILE_TEXT]) {
    char left[80] = "", rebooted[400] = "", dropped[80] = "", path[PATH_MAX] = "";
    if (err->code) {
        pd_fmt(out, OUTPUTS_PROFILE_TEXT, "warning: no trace of the job: %s", err->msg);
        return;
    }
    (void)trace_path(p, path, NULL);
    if (p->n_left_out)
        pd_fmt(left, sizeof left, "; %zu more have no known clock and stay in profile/",
               p->n_left_out);
    if (p->n_rebooted)
        pd_fmt(rebooted, sizeof rebooted,
               "; %zu more are of hosts that were rebooted since (%.255s): no clock places their "
               "spans, which stay in profile/",
               p->n_rebooted, p->rebooted_on);
    if (p->n_dropped)
        pd_fmt(dropped, sizeof dropped, "; %llu earlier ones were dropped",
               (unsigned long long)p->n_dropped);
    pd_fmt(out, OUTPUTS_PROFILE_TEXT,
           "trace: %s, %llu spans of %zu processes%s%s%s; ui.perfetto.dev shows it", path,
           (unsigned long long)p->n_spans, p->n_processes, dropped, left, rebooted);
}

/* --- all of it --- */

int outputs_profile_nodes(struct outputs_profile *p, int64_t n_nodes) {
    p->clocks = pd_calloc((size_t)n_nodes, sizeof *p->clocks);
    p->hosts = pd_calloc((size_t)n_nodes, sizeof *p->hosts);
    p->n_nodes = p->clocks && p->hosts ? n_nodes : 0;
    for (int64_t i = 0; i < p->n_nodes; i++)
        p->hosts[i] = "?";
    return p->n_nodes == n_nodes ? 0 : PD_ENOMEM;
}

void outputs_profile_node(struct outputs_profile *p, int64_t node, const char *host,
                          const struct outputs_clock *clock) {
    if (node < 0 || node >= p->n_nodes)
        return;
    p->hosts[node] = host;
    p->clocks[node] = *clock;
}

int outputs_profile_make(struct outputs_profile *p, char text[OUTPUTS_PROFILE_TEXT],
                         char lacks[OUTPUTS_PROFILE_TEXT]) {
    struct pd_err err = {0};
    const int rc = p->n_nodes ? outputs_profile_merge(p, &err) : pd_oom(&err, "the trace");
    outputs_profile_text(p, &err, text);
    *lacks = 0;
    if (p->n_damaged && !rc)
        pd_fmt(lacks, OUTPUTS_PROFILE_TEXT, "warning: the trace lacks spans of %zu processes: %s",
               p->n_damaged, p->damage.msg);
    return rc;
}

void outputs_profile_release(struct outputs_profile *p) {
    free(p->clocks);
    free(p->hosts);
}
