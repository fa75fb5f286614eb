/* SPDX-License-Identifier: Apache-2.0 */
/* link_open.c - from a host to frames: the transport, the lines of the bootstrap, the agent's
 * bytes. See link_internal.h. */
#include <sys/utsname.h>

#include "agent/core/node_paths.h"
#include "launcher/link/link_internal.h"

enum { UPLOAD_PIECE = 256 << 10, FAIL_MS = 1000, STARTS = 16 };

/* --- boot --- */

static void upload_some(struct link *l) {
    while (l->uploaded < l->upload_size && transport_queued(l->t) < 2 * UPLOAD_PIECE) {
        size_t n = l->upload_size - l->uploaded;
        if (n > UPLOAD_PIECE)
            n = UPLOAD_PIECE;
        if (transport_write(l->t, l->upload + l->uploaded, n)) {
            link_break(l, PD_ENOMEM, "out of memory");
            return;
        }
        l->uploaded += n;
        seeding_count(l->env->seeding, n);
    }
}

/* The agent is not cached on the node: send the script that receives it. */
static void send_rest(struct link *l) {
    struct pd_buf b = {0};
    link_enter(l, PHASE_UPLOAD, l->env->upload_timeout_ms);
    if (boot_rest(l->env->agent, l->seedling != NULL, &b) || transport_write(l->t, b.data, b.len))
        link_break(l, PD_ENOMEM, "out of memory");
    pd_buf_release(&b);
}

static void begin_upload(struct link *l, int gzip) {
    const struct agent_image *img = l->env->agent;
    l->upload = gzip ? img->gzip : img->bytes;
    l->upload_size = gzip ? img->gzip_size : img->size;
    upload_some(l);
}

/* `text`: the architecture, perhaps followed by a blank and more. */
static int arch_fits(const char *text) {
    struct utsname u;
    return uname(&u) || (pd_starts_with(text, u.machine) && strchr(" ", text[strlen(u.machine)]));
}

static void begin_seed(struct link *l, const char *text) {
    const struct agent_image *img = l->env->agent;
    const char *connection = strchr(text, ' ');
    if (!l->seedling || transport_write(l->t, img->seed, img->seed_size))
        link_break(l, l->seedling ? PD_ENOMEM : PD_EPROTO,
                   l->seedling ? "out of memory" : "the host asks for a seed that was not offered");
    else
        seedling_begin(l->seedling, l->t, connection ? connection + 1 : "");
}

static void hear_seed(struct link *l, const char *words) {
    struct pd_err err = {0};
    if (l->seedling && seedling_message(l->seedling, words, &err))
        link_break(l, PD_EHOST, err.msg);
}

static void on_seed_broken(void *arg) { link_break(arg, PD_ENOMEM, "out of memory"); }

void link_leave_seeding(struct link *l) {
    seedling_free(l->seedling);
    l->seedling = NULL;
}

static void take_boot(struct link *l, const uint8_t *p, size_t n) {
    while (n && (l->phase == PHASE_BOOT || l->phase == PHASE_UPLOAD)) {
        size_t used;
        char text[BOOT_LINE], msg[BOOT_LINE + PATH_MAX + 100];
        enum boot_event e = boot_input(&l->boot, p, n, &used, text, sizeof text);
        p += used;
        n -= used;
        if (e != BOOT_MORE && l->phase == PHASE_BOOT) {
            l->facts.login_printed = l->boot.printed;
            l->facts.login_ms = uv_now(l->env->loop) - l->exec_ms;
        }
        int send = e == BOOT_SEND || e == BOOT_SEND_GZIP || e == BOOT_SEND_SEED;
        if (send && !arch_fits(text)) {
            pd_fmt(msg, sizeof msg, "the node is %.*s, but %s is not built for it",
                   (int)strcspn(text, " "), text, l->env->agent->path);
            link_break(l, PD_EHOST, msg);
        } else if (e == BOOT_REST) {
            send_rest(l);
        } else if (e == BOOT_SEND_SEED) {
            begin_seed(l, text);
        } else if (e == BOOT_SEED) {
            hear_seed(l, text);
        } else if (send) {
            link_leave_seeding(l);
            begin_upload(l, e == BOOT_SEND_GZIP);
        } else if (e == BOOT_RUN) {
            link_leave_seeding(l);
            link_enter(l, PHASE_HELLO, l->env->login_timeout_ms);
        } else if (e == BOOT_FAIL) {
            pd_fail(&l->why, PD_EHOST, "%s", text);
            l->boot_failed = 1;
            /* the reason may still arrive on stderr */
            link_enter(l, PHASE_BOOT_FAILED, FAIL_MS);
        }
    }
    if (n && l->phase == PHASE_HELLO)
        link_take_frames(l, p, n);
}

/* --- the transport's events --- */

static int open_local(struct link *l, int start, struct pd_err *err);
static int open_process(struct link *l, int start, struct pd_err *err);

/* The agent has closed its socket without a word: it ends. A process of paddle_agent waits for its
 * end, and answers in its place. 0: it cannot be started. */
static int begin_process(struct link *l) {
    link_started(l);
    l->over_socket = 0;
    l->phase = PHASE_CONNECT;
    uv_timer_stop(&l->timer);
    return !open_process(l, 0, &l->why);
}

/* The process that has started the agent of a node on this machine has ended. */
static int begin_socket(struct link *l) {
    l->start = 0;
    l->phase = PHASE_CONNECT;
    uv_timer_stop(&l->timer);
    return !open_local(l, 0, &l->why);
}

static void on_open(void *arg) {
    struct link *l = arg;
    if (!l->keep.opened_ms)
        l->keep.opened_ms = uv_now(l->env->loop) - l->keep.try_ms + 1;
    l->exec_ms = uv_now(l->env->loop);
    int boots = l->boot.marker[0] != 0;
    link_enter(l, boots ? PHASE_BOOT : PHASE_HELLO, link_timeout_ms(l));
}

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct link *l = arg;
    l->silent = 0;
    if (l->phase == PHASE_OPEN)
        l->keep.heard_ms = uv_now(l->env->loop);
    if (l->phase == PHASE_BOOT || l->phase == PHASE_UPLOAD)
        take_boot(l, p, n);
    else if (l->phase == PHASE_HELLO || l->phase == PHASE_OPEN)
        link_take_frames(l, p, n);
}

static void on_drain(void *arg) {
    struct link *l = arg;
    if (l->phase == PHASE_UPLOAD && l->seedling)
        seedling_send(l->seedling);
    else if (l->phase == PHASE_UPLOAD)
        upload_some(l);
    else if (l->phase == PHASE_OPEN && l->drain)
        l->drain(l, l->drain_arg);
}

static void on_close(const struct pd_err *why, void *arg) {
    struct link *l = arg;
    struct pd_err end = l->why.code || l->own_close ? l->why : *why;
    enum link_phase was = l->phase;
    link_leave_seeding(l);
    if (l->boot_failed) {
        char tail[TRANSPORT_TAIL + 1];
        pd_fmt(tail, sizeof tail, "%s", transport_stderr(l->t));
        char *reason = pd_trim(tail);
        size_t n = strlen(reason);
        if (n)
            snprintf(end.msg + strlen(end.msg), sizeof end.msg - strlen(end.msg), ": %s",
                     reason + (n > 400 ? n - 400 : 0));
    }
    /* Until the agent has spoken, any end of the command makes the host unusable. */
    if (end.code == PD_ECLOSED && was != PHASE_OPEN && !l->keep.cut) {
        end.code = PD_EHOST;
        pd_err_prefix(&end, "while %s", link_doing(l, was));
    }
    const int has_started = l->start && transport_status(l->t) == 0;
    l->t = NULL;
    if (l->silent && was == PHASE_HELLO && end.code == PD_EHOST &&
        (l->over_socket ? begin_process(l) : has_started && begin_socket(l)))
        return;
    link_started(l);
    if (!link_lost(l, &end, was))
        link_finish(l, &end);
}

static const struct transport_events events = {
    .on_open = on_open, .on_bytes = on_bytes, .on_drain = on_drain, .on_close = on_close};

static int root_of(const struct link *l, char out[PATH_MAX], struct pd_err *err) {
    return root_for_local(l->host->root_dir ? l->host->root_dir : l->env->root_dir, l->node, out,
                          PATH_MAX, err);
}

static int start_local(struct link *l, struct pd_err *err) {
    char root[PATH_MAX], root_arg[PATH_MAX + 8], job_arg[80], node_arg[24], lease_arg[24],
        build_arg[80];
    int rc = root_of(l, root, err);
    if (rc)
        return rc;
    pd_fmt(root_arg, sizeof root_arg, "--root=%s", root);
    pd_fmt(job_arg, sizeof job_arg, "--job=%s", l->job);
    pd_fmt(node_arg, sizeof node_arg, "--node=%d", l->node);
    pd_fmt(lease_arg, sizeof lease_arg, "--lease=%u", l->env->lease_ms);
    pd_fmt(build_arg, sizeof build_arg, "--build=%s", l->env->agent->hash);
    char *argv[10] = {(char *)(uintptr_t)l->env->agent->path, (char *)(uintptr_t) "relay",
                      root_arg};
    size_t n = 3;
    if (agent_image_is_file(l->env->agent)) /* the agent need not hash itself */
        argv[n++] = build_arg;
    if (*l->job)
        argv[n++] = job_arg;
    if (*l->job && l->start) {
        argv[n++] = node_arg;
        argv[n++] = lease_arg;
        argv[n++] = (char *)(uintptr_t) "--start";
        argv[n++] = (char *)(uintptr_t) "--leave";
    }
    return transport_local(&l->t, l->env->loop, argv, &events, l, err);
}

/* A thousand agents that start at once would keep the machine busy for many seconds, in which
 * paddlectl and the agents could not hear of each other. */
static int open_process(struct link *l, int start, struct pd_err *err) {
    struct link_starts *s = l->env->starts;
    l->start = start;
    l->next = NULL;
    if (!s || l->starts)
        return start_local(l, err);
    if (s->n < STARTS) {
        l->starts = 1;
        s->n++;
        return start_local(l, err);
    }
    l->queued = 1;
    if (s->last)
        s->last->next = l;
    else
        s->first = l;
    s->last = l;
    return 0;
}

/* The socket of the job's agent, if it is one of this user and listens. -1: there is none. */
static int connect_agent(const struct link *l) {
    char root[PATH_MAX];
    struct node_paths p;
    return !*l->job || root_of(l, root, NULL) || node_paths_init(&p, root, l->job, NULL) ||
                   node_paths_check_private(p.root, 0, NULL)
               ? -1
               : node_paths_connect_own(&p);
}

/* A process of paddle_agent costs some milliseconds, which a thousand nodes on this machine would
 * make seconds: an agent that runs already is asked without one. */
static int open_local(struct link *l, int start, struct pd_err *err) {
    const int fd = start ? -1 : connect_agent(l);
    l->over_socket = fd >= 0;
    return fd < 0 ? open_process(l, start, err)
                  : transport_socket(&l->t, l->env->loop, fd, &events, l, err);
}

static void leave_queue(struct link *l) {
    struct link_starts *s = l->env->starts;
    struct link *before = NULL;
    for (struct link *at = s->first; at && at != l; at = at->next)
        before = at;
    *(before ? &before->next : &s->first) = l->next;
    if (s->last == l)
        s->last = before;
    l->queued = 0;
}

void link_started(struct link *l) {
    struct link_starts *s = l->env->starts;
    if (l->queued)
        leave_queue(l);
    if (!l->starts)
        return;
    l->starts = 0;
    s->n--;
    while (s->first && s->n < STARTS) {
        struct link *next = s->first;
        leave_queue(next);
        next->starts = 1;
        s->n++;
        if (!start_local(next, &next->why))
            continue;
        next->t = NULL; /* on_close comes from its timer */
        next->starts = 0;
        s->n--;
        link_close(next);
    }
}

int link_stream(struct transport **out, const struct link_env *env, const struct host *host,
                int node, const char *line, const char *connect_line,
                const struct transport_events *ev, void *arg, struct pd_err *err) {
    if (env->launch)
        return launch_open(out, env->launch, node, line, ev, arg, err);
    if (!env->connector)
        return ssh_pool_open(out, env->ssh, host, line, ev, arg, err);
    const struct connect_host at = {.host = host->address ? host->address : host->addr,
                                    .user = host->user,
                                    .port = host->port,
                                    .node = node};
    return connector_open(out, env->connector, &at, connect_line, ev, arg, err);
}

static int open_remote(struct link *l, int start, struct pd_err *err) {
    char root[PATH_MAX];
    struct pd_buf command = {0};
    int rc = root_for_node(l->host->root_dir ? l->host->root_dir : l->env->root_dir, l->node, root,
                           sizeof root, err);
    if (rc)
        return rc;
    /* a seed has its address from sshd */
    if (!l->seedling && l->env->ssh)
        l->seedling = seedling_new(l->env->seeding, l->node, on_seed_broken, l);
    if (boot_command(&l->boot, root, l->env->agent, *l->job ? l->job : NULL, start ? l->node : -1,
                     l->env->lease_ms, &command))
        rc = pd_oom(err, "a connection");
    else
        rc = link_stream(&l->t, l->env, l->host, l->node, (char *)command.data,
                         (char *)command.data, &events, l, err);
    pd_buf_release(&command);
    return rc;
}

int link_connect(struct link *l, int start, struct pd_err *err) {
    wire_decoder_free(l->dec);
    memset(&l->boot, 0, sizeof l->boot);
    l->phase = PHASE_CONNECT;
    l->uploaded = l->upload_size = 0;
    l->boot_failed = 0;
    l->silent = 1;
    if (!(l->dec = wire_decoder_new(LINK_FRAME_MAX)))
        return pd_oom(err, "a connection");
    return l->host->local ? open_local(l, start, err) : open_remote(l, start, err);
}
