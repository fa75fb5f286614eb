/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - see node.h: messages, starts, exits. node_bind.c has HD_BIND, port_ready.c the ready
 * checks, process_end.c the end, node_report.c the reports about processes. */
#include "agent/process/process_tree.h"
#include "agent/process/node.h"

#include <sys/wait.h>

#include "agent/process/env.h"
#include "agent/core/msg.h"
#include "agent/core/result.h"
#include "agent/process/node_internal.h"
#include "wire/msg.h"

enum { LAST_LINES = 20, LAST_BYTES = 8192 };

extern char **environ;

static enum log_stream stream_of(enum role r) { return r == ROLE_PSERVER ? LOG_SERVER : LOG_TRAIN; }

int node_new(struct ag_node **out, uv_loop_t *loop, const struct node_paths *p,
             const struct spec *s, struct logs *logs, const struct pd_log *log,
             const struct node_io *io, void *arg, struct pd_err *err) {
    struct ag_node *n = pd_calloc(1, sizeof *n);
    if (!n)
        return pd_oom(err, "the processes of a node");
    *n = (struct ag_node){
        .loop = loop, .paths = p, .spec = s, .logs = logs, .log = log, .io = *io, .arg = arg};
    for (int r = 0; r < N_ROLES; r++)
        n->role[r] = (struct node_role){.node = n, .role = (enum role)r};
    uv_timer_init(loop, &n->end_timer);
    n->end_timer.data = n;
    n->n_handles = 1;
    for (int r = 0; r < N_ROLES; r++)
        port_ready_init(&n->role[r]);
    if (*s->worker)
        process_program_begin(&n->worker, p->root, s->worker, s->worker_hash);
    *out = n;
    return 0;
}

static void on_handle_closed(uv_handle_t *h) { node_handle_closed(h->data); }

void node_free(struct ag_node *n) {
    if (!n)
        return;
    process_program_result(&n->worker, NULL);
    n->freeing = 1;
    for (int i = 0; i < N_ROLES; i++) {
        struct node_role *r = &n->role[i];
        node_close_sockets(r);
        node_drop_claims(r);
        json_decref(r->exit_body);
        json_decref(r->short_exit);
        port_ready_close(r);
        if (r->proc) {
            n->n_handles++;
            proc_close(r->proc, node_handle_closed, n);
        }
    }
    json_decref(n->passes);
    n->passes = NULL;
    uv_close((uv_handle_t *)&n->end_timer, on_handle_closed);
}

/* --- the job's folder --- */

/* The workspace's own output folder, if any, becomes the job's. workspace/output becomes a link to
 * the job's output folder. */
static int link_output(const struct node_paths *p, struct pd_err *err) {
    char ws[PATH_MAX], out[PATH_MAX];
    struct stat st;
    int rc = node_paths_join(p->dir, "workspace/output", ws, err);
    if (!rc)
        rc = node_paths_join(p->dir, "output", out, err);
    if (rc)
        return rc;
    if (!lstat(ws, &st)) {
        if (!S_ISDIR(st.st_mode))
            return pd_fail(err, PD_ECONF,
                           "the workspace's 'output' must be a folder, or not be there");
        if (rename(ws, out)) /* replaces the job's empty folder */
            return pd_fail_errno(err, PD_EIO, errno, "cannot move %s to %s", ws, out);
    }
    return symlink("../output", ws) ? pd_fail_errno(err, PD_EIO, errno, "cannot make link %s", ws)
                                    : 0;
}

/* Removes the data files of other shares. They came before a host was left out and the shares
 * changed. */
static int remove_other_shares(const struct node_paths *p, struct pd_err *err) {
    DIR *d = opendir(p->dir);
    int rc = 0;
    for (const struct dirent *e; d && !rc && (e = readdir(d));) {
        char path[PATH_MAX];
        if (!pd_starts_with(e->d_name, "data-"))
            continue;
        rc = node_paths_join(p->dir, e->d_name, path, err);
        rc = rc ? rc : pd_rm_tree(path, err);
    }
    pd_closedir(d);
    return rc;
}

/* Moves this node's data files, which came as a separate package, into the workspace. */
static int place_data(const struct node_paths *p, const char *hash, struct pd_err *err) {
    char from[PATH_MAX], to[PATH_MAX], name[80];
    snprintf(name, sizeof name, "data-%s", hash);
    int rc = node_paths_join(p->dir, name, from, err);
    rc = rc ? rc : node_paths_join(p->dir, "workspace", to, err);
    return rc ? rc : pd_merge_tree(from, to, err);
}

static int copy_file(const char *from, const char *to, struct pd_err *err) {
    char chunk[65536];
    ssize_t n = 0;
    int rc = 0, in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out = -1;
    if (in < 0 || (out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
        rc = -1;
    while (!rc && (n = read(in, chunk, sizeof chunk)) > 0)
        rc = pd_write_all(out, chunk, (size_t)n);
    if (rc || n < 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot copy %s to %s", from, to);
    pd_close(in);
    pd_close(out);
    return rc;
}

/* A link may be impossible: another file system (EXDEV), one without links (EPERM), too many links
 * (EMLINK), or a file of another user (EPERM). */
static int link_or_copy(const char *from, const char *to, struct pd_err *err) {
    const int cannot = link(from, to) && errno != EEXIST;
    if (!cannot)
        return 0;
    if (errno == EPERM || errno == EXDEV || errno == EMLINK)
        return copy_file(from, to, err);
    return pd_fail_errno(err, PD_EIO, errno, "cannot link %s to %s", from, to);
}

/* Links the files of a checkpoint of an earlier job into JOB/resume. A node without parts of it has
 * nothing to link. */
static int link_checkpoint(const struct node_paths *p, const struct spec *s, struct pd_err *err) {
    char from[PATH_MAX], to[PATH_MAX], a[PATH_MAX], b[PATH_MAX];
    const struct dirent *e;
    struct stat st;
    if (pd_fmt(from, sizeof from, "%s/%s/output/%s", p->root, s->resume_job, s->resume_name) ||
        pd_fmt(to, sizeof to, "%s/resume/%s", p->dir, s->resume_name))
        return pd_fail(err, PD_EIO, "path too long: %s", p->dir);
    DIR *d = opendir(from);
    int rc = d ? pd_mkdirs(to, 0755, err) : 0;
    while (d && !rc && (e = readdir(d))) {
        if (*e->d_name == '.')
            continue;
        rc = node_paths_join(from, e->d_name, a, err);
        rc = rc ? rc : node_paths_join(to, e->d_name, b, err);
        if (!rc && !lstat(a, &st) && S_ISREG(st.st_mode))
            rc = link_or_copy(a, b, err);
    }
    pd_closedir(d);
    return rc;
}

int node_lay_out(const struct node_paths *p, const struct spec *s, const uint8_t key[32],
                 struct pd_err *err) {
    char path[PATH_MAX];
    struct stat st;
    int rc = node_paths_join(p->dir, "workspace", path, err);
    if (rc)
        return rc;
    if (*s->workspace) {
        if (stat(s->workspace, &st) || !S_ISDIR(st.st_mode))
            return pd_fail(err, PD_ENOENT, "job_workspace %s is not a folder on this node",
                           s->workspace);
        if (symlink(s->workspace, path))
            return pd_fail_errno(err, errno == EEXIST ? PD_EEXIST : PD_EIO, errno,
                                 "cannot make link %s", path);
    } else if (lstat(path, &st) ? *s->worker || mkdir(path, 0755) : !S_ISDIR(st.st_mode)) {
        return pd_fail(err, PD_ENOENT,
                       /* A user's own command may run in an empty workspace. */
                       "no workspace was sent for this job");
    } else {
        rc = *s->data ? place_data(p, s->data, err) : 0;
        rc = rc ? rc : remove_other_shares(p, err);
        rc = rc ? rc : link_output(p, err);
    }
    if (!rc && *s->resume_job)
        rc = link_checkpoint(p, s, err);
    if (!rc && *s->worker) {
        char worker[PATH_MAX];
        if (pd_fmt(worker, sizeof worker, "%s/.paddlectl/bin/worker-%s", p->root, s->worker) ||
            access(worker, X_OK))
            rc = pd_fail(err, PD_ENOENT, "%s is not there: send the worker first", worker);
    }
    rc = rc ? rc : result_reserve(p, err);
    if (!rc)
        rc = node_paths_join(p->dir, ".agent/key", path, err);
    return rc ? rc : pd_write_file_atomic(path, key, 32, 0600, err);
}

/* --- HD_START --- */

static void log_trouble(struct ag_node *n, struct pd_err *err) {
    if (n->log_failed)
        return;
    n->log_failed = 1; /* report once; the output of the process is still read */
    pd_error(n->log, "%s", err->msg);
    n->io.send(n->arg, WIRE_HD_FAIL, 0,
               wire_put(&wire_hd_fail, &(struct hd_fail){.reason = err->msg}));
}

static void append(struct ag_node *n, enum log_stream s, const void *p, size_t len) {
    struct pd_err err = {0};
    if (logs_append(n->logs, s, pd_wall_us(), p, len, &err))
        log_trouble(n, &err);
    n->io.log_grew(n->arg);
}

static void on_output(struct proc *p, const void *bytes, size_t len, void *arg) {
    struct node_role *r = arg;
    (void)p;
    append(r->node, stream_of(r->role), bytes, len);
}

static void report_pass(struct ag_node *n, json_t *event) {
    const struct hd_pass x = {.number = ++n->n_passes, .event = event};
    json_t *body = wire_put(&wire_hd_pass, &x);
    if (!n->passes)
        n->passes = json_array();
    if (json_array_size(n->passes) == WIRE_MAX_PASSES)
        json_array_remove(n->passes, 0);
    json_array_append(n->passes, body);
    n->io.send(n->arg, WIRE_HD_PASS, 0, body);
}

/* {"ev":"failed","final":true,"from":"trainer 2 on 10.0.0.3","text":"..."}: a restart would fail,
 * too; that process has failed, and this one only ends because of it ("" or no key: this one has
 * failed); the error.
 * {"ev":"saved","path":...}: a model is complete. {"ev":"test",...}: a pass was tested.
 * {"ev":"progress", ...}: the trainer has completed steps. */
static void take_event(struct node_role *r, const char *line, size_t len) {
    r->trained |= memmem(line, len, "\"ev\":\"progress\"", 15) != NULL;
    if (!memmem(line, len, "\"failed\"", 8) && !memmem(line, len, "\"saved\"", 7) &&
        !memmem(line, len, "\"test\"", 6))
        return; /* most events report progress; they need no parsing here */
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    if (!strcmp(msg_str(o, "ev"), "failed")) {
        r->final = msg_bool(o, "final");
        snprintf(r->failed_from, sizeof r->failed_from, "%s", msg_str(o, "from"));
        snprintf(r->failed_text, sizeof r->failed_text, "%s", msg_str(o, "text"));
    }
    if (!strcmp(msg_str(o, "ev"), "saved") || !strcmp(msg_str(o, "ev"), "test"))
        report_pass(r->node, o);
    json_decref(o);
}

static void on_event(struct proc *p, const void *bytes, size_t len, void *arg) {
    struct node_role *r = arg;
    const char *s = bytes, *end = s + len;
    (void)p;
    append(r->node, LOG_EVENTS, bytes, len);
    while (s < end) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        take_event(r, s, (size_t)((nl ? nl : end) - s));
        s = nl ? nl + 1 : end;
    }
}

/* Writes a line of the agent into the log. It starts on a new line, even if the program's output
 * stopped in the middle of a line. */
static void log_notice(struct node_role *r, const char *text) {
    struct ag_node *n = r->node;
    char line[400], last[2];
    uint64_t size = n->logs->f[stream_of(r->role)].size;
    logs_tail(n->logs, stream_of(r->role), size ? size - 1 : 0, 1, last, sizeof last);
    snprintf(line, sizeof line, "%s--- %.350s ---\n", size && *last != '\n' ? "\n" : "", text);
    append(n, stream_of(r->role), line, strlen(line));
}

/* Exit status 2 of our own programs is an error in the user's input: a restart would fail in the
 * same way. */
static int is_final(const struct node_role *r, int exit_code) {
    return r->final || (exit_code == 2 && !*r->node->spec->command[r->role]);
}

/* Needs no memory. */
static json_t *short_exit(const struct node_role *r, int exit_code, int sig, int64_t time_us) {
    json_t *o = r->short_exit;
    json_integer_set(json_object_get(o, "exit_code"), exit_code);
    json_integer_set(json_object_get(o, "signal"), sig);
    json_integer_set(json_object_get(o, "time"), time_us);
    json_object_set_new(o, "ending", json_boolean(r->node->ending));
    json_object_set_new(o, "final", json_boolean(is_final(r, exit_code)));
    json_object_set_new(o, "trained", json_boolean(r->trained));
    return json_incref(o);
}

static void on_exit_of(struct proc *p, int exit_code, int sig, void *arg) {
    struct node_role *r = arg;
    struct ag_node *n = r->node;
    char text[LAST_BYTES], log[PATH_MAX];
    port_ready_stop(r);
    node_drop_claims(r);
    logs_tail(n->logs, stream_of(r->role), r->log_from, LAST_LINES, text, sizeof text);
    if (pd_fmt(log, sizeof log, "%s/log/%s", n->paths->dir, log_names[stream_of(r->role)]))
        *log = 0;
    pd_info(n->log, "%s %d ended: exit code %d, signal %d", role_names[r->role], r->rank, exit_code,
            sig);
    r->exit_body = wire_put(&wire_hd_exited, &(struct hd_exited){.role = role_names[r->role],
                                                                 .rank = r->rank,
                                                                 .exit_code = exit_code,
                                                                 .signal = sig,
                                                                 .time = (int64_t)proc_exit_us(p),
                                                                 .ending = n->ending,
                                                                 .final = is_final(r, exit_code),
                                                                 .trained = r->trained,
                                                                 .alone = r->alone,
                                                                 .from = r->failed_from,
                                                                 .reason = r->failed_text,
                                                                 .last_lines = text,
                                                                 .log = log});
    if (!r->exit_body)
        r->exit_body = short_exit(r, exit_code, sig, (int64_t)proc_exit_us(p));
    n->io.send(n->arg, WIRE_HD_EXITED, 0, json_incref(r->exit_body));
}

static int start_process(struct ag_node *n, struct node_role *r, const struct hd_start *start,
                         struct pd_err *err) {
    static const struct proc_events ev = {on_output, on_event, on_exit_of};
    const char *own = n->spec->command[r->role];
    char cwd[PATH_MAX], title[32];
    snprintf(title, sizeof title, "paddle_%s", role_names[r->role]);
    if (node_paths_join(n->paths->dir, "workspace", cwd, err))
        return err->code;
    if (!*own && !n->worker.begun)
        process_program_begin(&n->worker, n->paths->root, n->spec->worker, n->spec->worker_hash);
    if (!*own && process_program_result(&n->worker, err))
        return err->code;
    if (*own || r->role == ROLE_TRAINER)
        node_close_sockets(r); /* held until now; a user's program binds its port itself */
    int data = *own || r->role != ROLE_TRAINER || !n->io.data_channel
                   ? -1
                   : n->io.data_channel(n->arg, err);
    if (err->code)
        return err->code;
    const struct env_role er = {.role = r->role,
                                .rank = r->rank,
                                .port = r->ports[0],
                                .n_listen_fds = r->n_fds,
                                .has_data_fd = data >= 0,
                                .n_trainers = (int)start->trainers,
                                .job_env = start->env};
    char **envp = env_build(n->paths, n->spec, &er, environ);
    char *const shell[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)own, NULL};
    char *const ours[] = {title, (char *)(uintptr_t)role_names[r->role], NULL};
    if (data >= 0)
        r->fds[r->n_fds++] = data;
    const struct proc_command cmd = {
        .path = *own ? "/bin/sh" : n->worker.path,
        .argv = *own ? shell : ours,
        .envp = envp,
        .cwd = cwd,
        .fds = r->fds,
        .n_fds = r->n_fds,
        .block = *own ? 0 : SIGUSR1, /* the signal may come before the trainer waits for it */
        .bind = r->bind.on ? &r->bind : NULL};
    if (*start->note)
        log_notice(r, start->note);
    r->log_from = n->logs->f[stream_of(r->role)].size;
    json_decref(r->short_exit);
    r->short_exit =
        wire_put(&wire_hd_exited, &(struct hd_exited){.role = role_names[r->role],
                                                      .rank = r->rank,
                                                      .alone = r->alone,
                                                      .reason = "out of memory while its end was "
                                                                "reported"});
    int rc = envp && r->short_exit ? proc_start(&r->proc, n->loop, &cmd, &ev, r, err)
                                   : pd_oom(err, "the processes of a node");
    if (envp && r->short_exit)
        r->n_fds = 0; /* proc_start closed them */
    else if (data >= 0)
        node_close_sockets(r);
    env_free(envp);
    return rc;
}

/* 0: the process of this request was started before. */
static int start_is_new(struct node_role *r, int64_t alone) {
    if (alone > r->alone && r->exit_body) {
        node_forget_process(r);
        r->alone = (int)alone;
    }
    return !r->started;
}

static void on_start(struct ag_node *n, uint64_t req, const json_t *body) {
    struct pd_err err = {0};
    struct hd_start start;
    const int which = wire_get(&wire_hd_start, &start, body, &err) ? -1 : role_of(start.role);
    struct node_role *r = which < 0 ? NULL : &n->role[which];
    if (!err.code && (!r || !n->bound))
        pd_fail(&err, PD_EPROTO, "HD_START: no such role, or its ports are not bound");
    else if (!err.code && n->ending)
        pd_fail(&err, PD_ECANCELED, "the job is ending");
    else if (!err.code && env_check(start.env, &err))
        pd_warn(n->log, "refused: %s", err.msg);
    else if (!err.code && start_is_new(r, start.alone)) {
        r->rank = (int)start.rank;
        if (!start_process(n, r, &start, &err)) {
            r->started = 1;
            r->pid = proc_pid(r->proc);
            r->started_us = pd_wall_us();
            pd_info(n->log, "%s %d runs as process %d, port %d", role_names[which], r->rank,
                    (int)r->pid, r->ports[0]);
            if (which == ROLE_PSERVER)
                port_ready_start(r);
        }
    }
    if (err.code)
        n->io.refuse(n->arg, WIRE_HD_START, req, &err);
    else
        n->io.send(n->arg, WIRE_HD_START, req, json_object());
}

/* --- stopped processes --- */

/* For a user's program, only the first process is checked. If that process is stopped, its whole
 * group is killed. */
static void check_stopped(struct node_role *r, uint64_t passed_ms) {
    const struct ag_node *n = r->node;
    const pid_t pid = r->proc && !r->exit_body ? proc_pid(r->proc) : 0;
    char text[200];
    r->stopped_ms = pid && process_tree_stopped(pid) ? r->stopped_ms + passed_ms : 0;
    if (!pid || r->stopped_ms < n->spec->job.heartbeat_ms)
        return;
    r->stopped_ms = 0;
    snprintf(text, sizeof text,
             "%s %d was stopped (SIGSTOP) for %.4g s and is ended (heartbeat_timeout)",
             role_names[r->role], r->rank, (double)n->spec->job.heartbeat_ms / 1000);
    pd_warn(n->log, "%s", text);
    log_notice(r, text);
    /* not reaped yet, so the pid is still this process's */
    kill(*n->spec->command[r->role] ? -pid : pid, SIGKILL);
}

void node_tick(struct ag_node *n, uint64_t passed_ms) {
    enum { LOOK_MS = 1000 };
    n->unseen_ms += passed_ms;
    if (!n->spec->job.heartbeat_ms || n->ending || n->unseen_ms < LOOK_MS)
        return;
    for (int i = 0; i < N_ROLES; i++)
        check_stopped(&n->role[i], n->unseen_ms);
    n->unseen_ms = 0;
}

/* --- HD_SAVE --- */

/* Our trainer saves and ends on SIGUSR1. A user's program gets TERM with its whole group, and time
 * to save. */
static void on_save(struct ag_node *n, uint64_t req) {
    struct node_role *r = &n->role[ROLE_TRAINER];
    pid_t pid = r->proc ? proc_pid(r->proc) : 0;
    if (pid && !r->told_to_save) {
        int users = *n->spec->command[ROLE_TRAINER];
        r->told_to_save = 1;
        pd_info(n->log, "%s %d is asked to save and to end", role_names[r->role], r->rank);
        /* not reaped yet, so the pid is still this process's */
        kill(users ? -pid : pid, users ? SIGTERM : SIGUSR1);
        kill(users ? -pid : pid, SIGCONT);
    }
    n->io.send(n->arg, WIRE_HD_SAVE, req, json_object());
}

/* --- HD_STOP --- */

static void on_stop(struct ag_node *n, uint64_t req, const json_t *body) {
    const struct proc *p = n->role[ROLE_TRAINER].proc;
    const struct hd_stop_answer a = {.trainer = p && !n->role[ROLE_TRAINER].exit_body};
    struct hd_stop stop;
    struct pd_err err = {0};
    if (wire_get(&wire_hd_stop, &stop, body, &err)) {
        n->io.refuse(n->arg, WIRE_HD_STOP, req, &err);
        return;
    }
    node_end(n, NODE_STOP, (unsigned)stop.grace_ms, NULL);
    n->io.send(n->arg, WIRE_HD_STOP, req, wire_put(&wire_hd_stop_answer, &a));
}

/* --- HD_END, dispatch, reaping --- */

static void on_ended(void *arg) {
    struct end_request *e = arg;
    e->used = 0;
    e->n->io.send(e->n->arg, WIRE_HD_END, e->req, json_object());
}

/* The head repeats HD_END after each broken connection. So the oldest request is given up when as
 * many wait as may wait: nobody waits for its answer. */
static struct end_request *new_end_request(struct ag_node *n, uint64_t req) {
    struct end_request *e = &n->end_requests[0];
    for (int i = 0; i < END_REQUESTS_MAX && e->used; i++)
        if (!n->end_requests[i].used || n->end_requests[i].req < e->req)
            e = &n->end_requests[i];
    for (struct end_waiter **at = &n->waiters; e->used && *at; at = &(*at)->next)
        if (*at == &e->wait) {
            *at = e->wait.next;
            break;
        }
    *e = (struct end_request){.n = n, .req = req, .used = 1, .wait = {on_ended, e, 0, NULL}};
    return e;
}

/* Writes into the logs of the processes that end here because another process has failed, which
 * process this was. */
static void log_cause(struct ag_node *n, const char *cause) {
    char text[WIRE_MAX_CAUSE + 40], self[40];
    snprintf(text, sizeof text, "stopping: %s failed", cause);
    for (int i = 0; i < N_ROLES && *cause; i++) {
        struct node_role *r = &n->role[i];
        snprintf(self, sizeof self, "%s %d on ", role_names[i], r->rank);
        const int ended_itself = r->exit_body && !*r->failed_from;
        if (r->started && !ended_itself && !pd_starts_with(cause, self))
            log_notice(r, text);
    }
}

static void on_end(struct ag_node *n, uint64_t req, const json_t *body) {
    struct hd_end end;
    struct pd_err err = {0};
    if (wire_get(&wire_hd_end, &end, body, &err)) {
        n->io.refuse(n->arg, WIRE_HD_END, req, &err);
        return;
    }
    if (!n->ending)
        log_cause(n, end.cause);
    struct end_request *e = new_end_request(n, req);
    node_end(n, end.restart ? NODE_RESTART : NODE_END, (unsigned)end.grace_ms, &e->wait);
}

void node_message(struct ag_node *n, uint16_t type, uint64_t req, const json_t *body) {
    if (type == WIRE_HD_BIND) {
        node_on_bind(n, req, body);
    } else if (type == WIRE_HD_START) {
        on_start(n, req, body);
    } else if (type == WIRE_HD_SAVE) {
        on_save(n, req);
    } else if (type == WIRE_HD_STOP) {
        on_stop(n, req, body);
    } else if (type == WIRE_HD_END) {
        on_end(n, req, body);
    }
}

void node_reap(struct ag_node *n) {
    int status;
    siginfo_t si = {0};
    /* The time is read before the process is reaped. All consequences of its end then have a later
     * time on the same clock. */
    while (!waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid) {
        uint64_t now = pd_wall_us();
        int ours = 0;
        if (waitpid(si.si_pid, &status, WNOHANG) <= 0)
            break;
        for (int i = 0; i < N_ROLES && !ours; i++)
            ours = n->role[i].proc && proc_reaped(n->role[i].proc, si.si_pid, status, now);
        si.si_pid = 0;
    }
    process_end_check(n);
}
