/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - see status.h. */
#include "agent/report/status.h"

#include <pwd.h>

#include "agent/host/facts.h"
#include "agent/core/msg.h"
#include "agent/process/process_tree.h"
#include "agent/core/spec.h"

enum { PASSWD_MAX = 8 << 20, EVENTS_BYTES = 65536 };

/* --- the processes --- */

/* The processes of `list` with the kernel's values (memory, CPU time) of the running ones, a new
 * reference. If the agent is gone, it did not see the end of the processes. */
static json_t *processes(const json_t *list, int agent_is_gone) {
    json_t *out = json_array(), *v;
    size_t i;
    json_array_foreach (list, i, v) {
        struct node_process p;
        struct process_tree_usage u = {0};
        if (wire_get(&wire_node_process, &p, v, NULL))
            continue;
        if (agent_is_gone)
            p.state = "exited";
        if (!strcmp(p.state, "running") && p.pid > 0) {
            process_tree_usage((pid_t)p.pid, &u);
            p.stopped = process_tree_stopped((pid_t)p.pid);
        }
        p.cpus = u.cpus;
        p.rss_bytes = (int64_t)u.rss_bytes;
        p.cpu_ms = (int64_t)u.cpu_ms;
        p.threads = (int64_t)u.threads;
        json_array_append_new(out, wire_put(&wire_node_process, &p));
    }
    return out;
}

/* --- state.json --- */

/* The user's name. A static program can't ask the name service, so the name comes from /etc/passwd,
 * else from the environment; else the uid is used. */
json_t *status_user_name(uid_t id) {
    char uid[24] = "", *save = NULL;
    struct pd_buf b = {0};
    json_t *name = NULL;
    snprintf(uid, sizeof uid, "%u", (unsigned)id);
    if (!pd_read_file("/etc/passwd", PASSWD_MAX, &b, NULL) && b.len)
        for (char *line = strtok_r((char *)b.data, "\n", &save); line && !name;
             line = strtok_r(NULL, "\n", &save)) {
            char *word = strchr(line, ':'), *number = word ? strchr(word + 1, ':') : NULL;
            size_t n = number ? strcspn(number + 1, ":") : 0;
            if (number && n == strlen(uid) && !strncmp(number + 1, uid, n))
                name = wire_text(line, (size_t)(word - line));
        }
    pd_buf_release(&b);
    const char *login = id == getuid() ? getenv("USER") : NULL;
    return name ? name : login && *login ? wire_text(login, strlen(login)) : json_string(uid);
}

static json_t *user_name(const struct node_paths *p) {
    struct stat st;
    return stat(p->dir, &st) ? json_string("") : status_user_name(st.st_uid);
}

json_t *status_state(const struct agent_core *core, const struct status_job *j) {
    char boot[64], host[HOST_NAME_MAX + 1];
    pd_boot_id(boot);
    facts_host(host);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:b, s:o, s:I, s:I, s:i, s:o, s:s, s:I, s:o, s:o, s:I, s:I}",
        "job", core->paths.job, "name", j->name, "node", j->node, "n_nodes", j->n_nodes, "head",
        j->head, "attached", j->attached, "user", user_name(&core->paths), "started_us",
        (json_int_t)j->started_us, "ended_us", (json_int_t)j->ended_us, "restarts",
        (int)j->restarts, "host", wire_text(host, strlen(host)), "boot", boot, "since",
        (json_int_t)process_tree_start_ticks(getpid()), "processes", j->processes, "lost", j->lost,
        "few_copies", (json_int_t)j->few_copies, "few_bytes", (json_int_t)j->few_bytes);
}

/* Writes and renames, but does not sync: the file is not needed after a power cut, and the loop
 * must not wait for a disk. */
static int write_aside(const struct node_paths *p, const char *text, struct pd_err *err) {
    char path[PATH_MAX], tmp[PATH_MAX];
    int rc = node_paths_join(p->dir, ".agent/state.json", path, err);
    if (!rc)
        rc = node_paths_join(p->dir, ".agent/state.json.tmp", tmp, err);
    if (rc)
        return rc;
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    int e = fd < 0 || pd_write_all(fd, text, strlen(text)) ? errno : 0;
    if (fd >= 0 && close(fd) && !e)
        e = errno;
    if (!e && rename(tmp, path))
        e = errno;
    return e ? pd_fail_errno(err, PD_EIO, e, "cannot write %s", path) : 0;
}

void status_save(const struct agent_core *core, json_t *state) {
    struct pd_err err = {0};
    char *text = state ? json_dumps(state, JSON_INDENT(1)) : NULL;
    if (!text || write_aside(&core->paths, text, &err))
        pd_warn(&core->log, "%s", text ? err.msg : "out of memory");
    free(text);
    json_decref(state);
}

json_t *status_read(const struct node_paths *p) {
    return node_paths_load_json(p, ".agent/state.json");
}

/* The end time of a job. A killed agent could not write it; then the time of result.json counts,
 * which its guardian wrote right after the end. */
static json_int_t ended(const struct node_paths *p, const json_t *state) {
    char path[PATH_MAX];
    struct stat st;
    json_int_t us = (json_int_t)msg_int(state, "ended_us", 0, INT64_MAX, 0);
    if (us || node_paths_join(p->dir, "result.json", path, NULL) || stat(path, &st))
        return us;
    return (json_int_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
}

/* --- AG_LIST --- */

/* The last complete line of the text of events that is such an event; NULL if there is none. */
static json_t *find_event(char *text, size_t n, const char *ev) {
    char quoted[40];
    pd_fmt(quoted, sizeof quoted, "\"%s\"", ev);
    while (n) {
        char *end = memrchr(text, '\n', n);
        if (!end)
            return NULL;
        n = (size_t)(end - text);
        char *line = memrchr(text, '\n', n);
        line = line ? line + 1 : text;
        json_t *o = memmem(line, (size_t)(end - line), quoted, strlen(quoted))
                        ? json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL)
                        : NULL;
        if (json_is_object(o) && !strcmp(msg_str(o, "ev"), ev))
            return o;
        json_decref(o);
    }
    return NULL;
}

/* The last progress event, with the values of the last test: a test after the last batch has no
 * progress event behind it. */
static json_t *find_progress(char *text, size_t n) {
    json_t *o = find_event(text, n, "progress"), *test = o ? find_event(text, n, "test") : NULL;
    json_t *metrics = json_object_get(o, "metrics"), *value;
    const char *name;
    if (test && !metrics && !json_object_set_new(o, "metrics", json_object()))
        metrics = json_object_get(o, "metrics");
    json_object_foreach (json_object_get(test, "metrics"), name, value)
        if (pd_starts_with(name, "test."))
            json_object_set(metrics, name, value);
    json_decref(test);
    return o;
}

/* The last progress event in the file of a job that runs or is over; NULL: none. */
static json_t *last_progress(const struct node_paths *p) {
    char path[PATH_MAX], name[64], text[EVENTS_BYTES];
    pd_fmt(name, sizeof name, "log/%s", log_names[LOG_EVENTS]);
    if (node_paths_join(p->dir, name, path, NULL))
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1,
          at = size > EVENTS_BYTES ? size - EVENTS_BYTES : 0;
    ssize_t n = size > 0 ? pread(fd, text, sizeof text, at) : 0;
    pd_close(fd);
    return n > 0 ? find_progress(text, (size_t)n) : NULL;
}

/* The ticks since boot at which the job's agent began on this machine, since its last boot; else 0.
 */
static uint64_t began_here(const json_t *state) {
    char boot[64];
    pd_boot_id(boot);
    return strcmp(msg_str(state, "boot"), boot)
               ? 0
               : (uint64_t)msg_int(state, "since", 0, INT64_MAX, 0);
}

int status_agent_lives(const struct node_paths *p, uint64_t since) {
    if (since && process_tree_start_ticks((pid_t)node_paths_read_pid(p)) == since)
        return 1;
    return node_paths_has_listener(p);
}

static int has_socket(const struct node_paths *p) {
    char path[PATH_MAX];
    return !node_paths_join(p->dir, ".agent/sock", path, NULL) && !access(path, F_OK);
}

/* A row of AG_LIST, a new reference; NULL: out of memory. */
static json_t *brief(const struct node_paths *p, int progress, int *orphans) {
    char state[16];
    json_t *s = status_read(p);
    const uint64_t since = began_here(s);
    const int lives = has_socket(p) && status_agent_lives(p, since);
    node_paths_read_status(p, state); /* last: an agent that ends writes its result before */
    if (!*state) {
        *orphans |= since && !lives;
        pd_fmt(state, sizeof state, "%s",
               !lives                                          ? "lost"
               : msg_int(s, "started_us", 0, INT64_MAX, 0) > 0 ? "running"
                                                               : "preparing");
    }
    json_t *user = json_object_get(s, "user"), *event = progress ? last_progress(p) : NULL;
    user = json_is_string(user) ? json_incref(user) : user_name(p);
    json_t *o =
        wire_put(&wire_listed_job,
                 &(struct listed_job){.job = p->job,
                                      .name = msg_str(s, "name"),
                                      .node = node_paths_read_node(p),
                                      .state = state,
                                      .pid = lives ? node_paths_read_pid(p) : 0,
                                      .user = json_string_value(user),
                                      .started_us = msg_int(s, "started_us", 0, INT64_MAX, 0),
                                      .ended_us = ended(p, s),
                                      .attached = msg_bool(s, "attached"),
                                      .n_nodes = msg_int(s, "n_nodes", 0, SPEC_MAX_NODES, 0),
                                      .head = msg_int(s, "head", 0, SPEC_MAX_NODES, 0),
                                      .lost = json_object_get(s, "lost"),
                                      .few_copies = msg_int(s, "few_copies", 0, INT64_MAX, 0),
                                      .few_bytes = msg_int(s, "few_bytes", 0, INT64_MAX, 0),
                                      .progress = event});
    json_decref(event);
    json_decref(user);
    json_decref(s);
    return o;
}

json_t *status_list(const char *root, int progress, int *orphans) {
    json_t *jobs = json_array();
    DIR *d = opendir(root);
    struct dirent *e;
    while (d && (e = readdir(d)) && json_array_size(jobs) < WIRE_MAX_JOBS) {
        struct node_paths p;
        char inside[PATH_MAX];
        if (*e->d_name == '.' || node_paths_init(&p, root, e->d_name, NULL) ||
            node_paths_join(p.dir, ".agent", inside, NULL) || access(inside, F_OK))
            continue;
        json_array_append_new(jobs, brief(&p, progress, orphans));
    }
    pd_closedir(d);
    return jobs;
}

/* --- AG_STATUS --- */

static json_t *streams(const struct logs *l) {
    json_t *o = json_object();
    for (int i = 0; l && i < N_LOG_STREAMS; i++)
        json_object_set_new(o, log_names[i],
                            json_pack("{s:I, s:I}", "first", (json_int_t)l->f[i].first, "size",
                                      (json_int_t)l->f[i].size));
    return o;
}

/* The end of the events, at most `cap` bytes. */
static size_t last_events(struct logs *l, char *text, size_t cap) {
    uint64_t size = l ? l->f[LOG_EVENTS].size : 0, at = size > cap ? size - cap : 0, hint = 0,
             time_us;
    size_t n = 0, k = 1;
    if (l && at < l->f[LOG_EVENTS].first)
        at = l->f[LOG_EVENTS].first;
    while (at + n < size && k &&
           !logs_read(l, LOG_EVENTS, at + n, text + n, cap - n, &k, &time_us, &hint, NULL))
        n += k;
    return n;
}

json_t *status_full(const struct agent_core *core, struct status_now *now) {
    json_t *s = now->job ? now->job : status_read(&core->paths);
    char events[EVENTS_BYTES];
    const size_t n = last_events(now->logs, events, sizeof events);
    const struct ag_status_answer a = {
        .state = now->state,
        .text = now->text,
        .name = msg_str(s, "name"),
        .node = agent_node_id(core),
        .n_nodes = msg_int(s, "n_nodes", 0, SPEC_MAX_NODES, 0),
        .head = msg_int(s, "head", 0, SPEC_MAX_NODES, 0),
        .attached = msg_bool(s, "attached"),
        .started_us = msg_int(s, "started_us", 0, INT64_MAX, 0),
        .now_us = (int64_t)pd_wall_us(),
        .ended_us = ended(&core->paths, s),
        .restarts = msg_int(s, "restarts", 0, INT32_MAX, 0),
        .clients = now->clients,
        .processes = processes(json_object_get(s, "processes"), core->mode == AGENT_OVER),
        .streams = streams(now->logs),
        .progress = find_progress(events, n),
        .serving = find_event(events, n, "serving"),
        .lost = now->lost,
    };
    json_t *o = wire_put(&wire_ag_status_answer, &a);
    json_decref(a.processes);
    json_decref(a.streams);
    json_decref(a.progress);
    json_decref(a.serving);
    json_decref(a.lost);
    json_decref(s);
    return o;
}
