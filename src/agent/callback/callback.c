/* SPDX-License-Identifier: Apache-2.0 */
/* callback.c - see callback.h. One connection at a time waits for paddlectl; each command has one
 * of its own, which waits again behind a plain command that ends soon. */
#include "agent/callback/callback.h"

#include <sodium.h>
#include <sys/wait.h>

#include "agent/callback/callback_shell.h"
#include "agent/core/msg.h"
#include "agent/process/process_tree.h"
#include "wire/msg.h"

enum {
    TICK_MS = 100,
    CONNECT_MS = 3000,
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 1000,
    ANSWER_MS = 10000,
    BYE_MS = 1000,  /* so long processes may end before the answer says that they stay */
    LATER_MS = 200, /* behind the start of a plain command: most of them have ended then */
    COMMANDS_MAX = 64,
    FRAME_MAX = (2 << 20) + 1024
};

struct callback_command {
    struct callback *b;
    struct callback_shell *shell; /* NULL: this place is free */
    struct net_conn *c;           /* until the command has ended */
    struct call_arg *a;           /* its argument */
};

struct callback {
    uv_loop_t loop;
    uv_timer_t tick;
    uv_signal_t term, child;
    const struct callback_opts *o;
    const char *addrs[CALLBACK_MAX_ADDRS];
    int n_addrs, next_addr, port;
    struct wire_hs_opts hs;
    char token[65];        /* "": this node has not enrolled */
    struct net_conn *call; /* waits for paddlectl, or is under way */
    int is_open;           /* `call` is */
    uint64_t begin_ms, called_ms, retry_ms, heard_ms, bye_ms, lease_ms;
    int bye, answered, terminated, over;
    struct callback_command commands[COMMANDS_MAX];
    struct pd_err err; /* the last reason why a call failed, until the node has enrolled */
};

static void call(struct callback *b);

/* --- the end --- */

/* 1: there is no process below this one. Waits for orphans that have ended; libuv waits for the
 * commands. */
static int is_alone(const struct callback *b) {
    siginfo_t si = {0};
    while (!waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid) {
        for (int i = 0; i < COMMANDS_MAX; i++)
            if (b->commands[i].shell && callback_shell_is(b->commands[i].shell, si.si_pid))
                return 0;
        waitpid(si.si_pid, NULL, WNOHANG);
        si.si_pid = 0;
    }
    return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD;
}

static void on_walk(uv_handle_t *h, void *arg) {
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void finish(struct callback *b) {
    b->over = 1;
    if (b->call && !b->answered) /* else it closes when the answer is sent */
        net_close(b->call);
    for (int i = 0; i < 2; i++)
        on_walk((uv_handle_t *)(i ? &b->child : &b->term), NULL);
    on_walk((uv_handle_t *)&b->tick, NULL);
}

static void answer_bye(struct callback *b, int stays) {
    const struct cb_bye bye = {.stays = stays};
    b->answered = 1;
    if (!b->call)
        return;
    msg_send(b->call, WIRE_CB_BYE, 0, wire_put(&wire_cb_bye, &bye));
    net_close_after_flush(b->call);
}

static void look(struct callback *b) {
    if (b->over)
        return;
    const uint64_t now = uv_now(&b->loop);
    const int alone = is_alone(b);
    if (b->call && b->is_open)
        b->heard_ms = now;
    if (b->bye && !b->answered && (alone || now - b->bye_ms >= BYE_MS))
        answer_bye(b, !alone);
    if (!*b->token && now - b->begin_ms >= b->o->enrol_ms)
        finish(b);
    else if (*b->token && alone && (!b->bye || b->answered) &&
             (b->bye || b->terminated || now - b->heard_ms >= b->lease_ms))
        finish(b);
    else if (!b->call && !b->bye && now >= b->retry_ms)
        call(b);
}

static void on_tick(uv_timer_t *t) { look(t->data); }

/* The cluster ends this step, with KILL soon. paddlectl ends the job in order, if it is there. */
static void on_term(uv_signal_t *s, int signum) {
    struct callback *b = s->data;
    (void)signum;
    b->terminated = 1;
    if (!*b->token)
        finish(b);
    else if (b->call && b->is_open && !b->bye)
        msg_send(b->call, WIRE_CB_TERM, 0, json_object());
    else
        process_tree_signal_below(getpid(), 0, SIGTERM);
}

static void on_child(uv_signal_t *s, int signum) {
    (void)signum;
    look(s->data);
}

/* --- calls --- */

/* The connection's argument is the callback while it waits, then the command. */
struct call_arg {
    struct callback *b;
    struct callback_command *m; /* NULL: waits */
};

/* Saves a handshake if no other connection waits. */
static int on_command_end(void *arg) {
    struct callback_command *m = arg;
    struct callback *b = m->b;
    if (b->call || b->bye)
        return 0;
    b->call = m->c;
    b->is_open = 1;
    m->a->m = NULL;
    return 1;
}

static void on_command_over(void *arg) {
    struct callback_command *m = arg;
    m->shell = NULL;
    look(m->b);
}

static void on_command_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct callback_command *m = arg;
    (void)c;
    if (m->shell)
        callback_shell_frame(m->shell, f);
    wire_frame_free(f);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg);
static void on_drain(struct net_conn *c, void *arg);
static void on_close(struct net_conn *c, const struct pd_err *why, void *arg);

static void begin_command(struct call_arg *a, struct net_conn *c, const struct cb_open *o) {
    static const struct callback_shell_events ev = {.on_end = on_command_end,
                                                    .on_over = on_command_over};
    struct callback *b = a->b;
    struct callback_command *m = b->commands;
    while (m < b->commands + COMMANDS_MAX && m->shell)
        m++;
    b->call = NULL;
    b->is_open = 0;
    b->retry_ms = o->plain ? uv_now(&b->loop) + LATER_MS : 0;
    if (m == b->commands + COMMANDS_MAX ||
        !(m->shell = callback_shell_new(&b->loop, c, o, &ev, m))) {
        net_close(c);
    } else {
        a->m = m;
        m->a = a;
        m->c = c;
    }
    if (!o->plain)
        call(b);
}

/* The first n of standard input, output and error become /dev/null. */
static void close_stdio(int n) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < n && null >= 0; i++)
        dup2(null, i);
    if (null > 2)
        close(null);
}

static int take_secrets(struct callback *b, const json_t *body, struct pd_err *err) {
    struct cb_enrolled e;
    int rc = wire_get(&wire_cb_enrolled, &e, body, err);
    if (rc)
        return rc;
    if (pd_unhex(b->hs.key, sizeof b->hs.key, e.key) ||
        pd_fmt(b->token, sizeof b->token, "%s", e.token) || !*b->token)
        return pd_fail(err, PD_EPROTO, "CB_ENROLLED has no secrets");
    b->port = (int)e.port;
    b->lease_ms = (uint64_t)e.lease_ms;
    close_stdio(3); /* what a command prints goes through its connection */
    return 0;
}

static void take(struct call_arg *a, struct net_conn *c, const struct wire_frame *f,
                 const json_t *body, struct pd_err *err) {
    struct callback *b = a->b;
    struct cb_open o;
    if (f->type == WIRE_CB_ENROLLED && !*b->token) {
        take_secrets(b, body, err);
    } else if (f->type == WIRE_CB_OPEN && *b->token && !b->bye) {
        if (!wire_get(&wire_cb_open, &o, body, err))
            begin_command(a, c, &o);
    } else if (f->type == WIRE_CB_BYE && *b->token) {
        b->bye = 1;
        b->bye_ms = uv_now(&b->loop);
        look(b);
    }
}

/* For a command that has just ended. */
static int is_input(const struct wire_frame *f) {
    return f->type == WIRE_CB_OUT || f->type == WIRE_CB_EOF;
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct call_arg *a = arg;
    struct pd_err err = {0};
    json_t *body = NULL;
    if (a->m) {
        on_command_frame(c, f, a->m);
        return;
    }
    if (f->flags & WIRE_F_ERROR)
        wire_error_get(f, &err);
    else if (!is_input(f) && !msg_body(f, &body, &err))
        take(a, c, f, body, &err);
    json_decref(body);
    if (err.code) {
        a->b->err = err;
        net_close(c);
    }
    net_forget(c);
    wire_frame_free(f);
}

static void on_open(struct net_conn *c, void *arg) {
    struct call_arg *a = arg;
    struct callback *b = a->b;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const struct cb_call body = {.node = b->o->node, .n = b->o->n, .host = host, .token = b->token};
    net_watch_host(c);
    b->is_open = 1;
    msg_send(c, WIRE_CB_CALL, 0, wire_put(&wire_cb_call, &body));
}

static void on_drain(struct net_conn *c, void *arg) {
    struct call_arg *a = arg;
    (void)c;
    if (a->m && a->m->shell)
        callback_shell_drained(a->m->shell);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct call_arg *a = arg;
    struct callback *b = a->b;
    (void)c;
    if (a->m && a->m->shell) {
        callback_shell_lost(a->m->shell);
    } else if (b->call == c) {
        const int unreached = why->code && !b->is_open;
        b->call = NULL;
        b->is_open = 0;
        if (unreached) {
            b->err = *why;
            b->next_addr = (b->next_addr + 1) % b->n_addrs;
        }
        b->retry_ms = uv_now(&b->loop);
        if (!unreached || !b->next_addr) /* all addresses were tried */
            b->retry_ms += RETRY_MIN_MS + randombytes_uniform(RETRY_MAX_MS);
    }
    free(a);
}

static const struct net_events events = {
    .on_open = on_open, .on_frame = on_frame, .on_drain = on_drain, .on_close = on_close};

static void call(struct callback *b) {
    const struct net_opts opts = {.max_frame = FRAME_MAX, .handshake_timeout_ms = ANSWER_MS};
    struct call_arg *a = pd_calloc(1, sizeof *a);
    struct pd_err err = {0};
    b->retry_ms = uv_now(&b->loop) + RETRY_MAX_MS;
    if (!a)
        return;
    a->b = b;
    if (net_connect(&b->call, &b->loop, b->addrs[b->next_addr], b->port, CONNECT_MS, &b->hs, &opts,
                    &events, a, &err)) {
        b->err = err;
        b->call = NULL;
        b->next_addr = (b->next_addr + 1) % b->n_addrs;
        free(a);
    }
}

/* --- the beginning --- */

/* Variables that describe this process to a library of MPI: the commands are no such processes. */
static void clean_environment(void) {
    static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", CALLBACK_SECRET};
    for (char **e = environ; *e;) {
        char name[256];
        size_t n = strcspn(*e, "=");
        int drop = 0;
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            drop |= pd_starts_with(*e, prefixes[i]);
        if (!drop || pd_fmt(name, sizeof name, "%.*s", (int)n, *e) || unsetenv(name))
            e++;
        else
            e = environ;
    }
}

static int read_secret(struct callback *b, struct pd_err *err) {
    char hex[2 * WIRE_KEY_BYTES + 1] = "";
    const char *text = getenv(CALLBACK_SECRET);
    size_t used = 0;
    if (text && !*text)
        text = NULL;
    if (text)
        snprintf(hex, sizeof hex, "%s", text);
    while (!text && used < sizeof hex - 1) {
        const ssize_t n = read(0, hex + used, sizeof hex - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    const int rc = pd_unhex(b->hs.key, sizeof b->hs.key, hex);
    sodium_memzero(hex, sizeof hex);
    return rc ? pd_fail(
                    err, PD_EAUTH,
                    "there is no secret: does the command pass on its environment (" CALLBACK_SECRET
                    ") or, like srun, its standard input?")
              : 0;
}

static void split_addrs(struct callback *b, char *text) {
    for (char *save, *a = strtok_r(text, ",", &save); a && b->n_addrs < CALLBACK_MAX_ADDRS;
         a = strtok_r(NULL, ",", &save))
        b->addrs[b->n_addrs++] = a;
}

static int start(struct callback *b, struct callback_opts *o, struct pd_err *err) {
    const char *home = getenv("HOME");
    b->o = o;
    b->port = o->port;
    split_addrs(b, o->addrs);
    if (!b->n_addrs)
        return pd_fail(err, PD_EUSAGE, "no address of paddlectl");
    pd_secret_pages(b, sizeof *b);
    int rc = read_secret(b, err);
    close_stdio(1);
    clean_environment();
    if (rc)
        return rc;
    b->hs.self = (struct wire_hello){.role = WIRE_ROLE_AGENT, .id = (uint32_t)o->node};
    randombytes_buf(&b->hs.self.incarnation, sizeof b->hs.self.incarnation);
    snprintf(b->hs.self.job, sizeof b->hs.self.job, "launch");
    if (process_tree_become_subreaper())
        return pd_fail_errno(err, PD_EFAIL, errno, "cannot become a sub-reaper");
    if (!home || chdir(home))
        (void)!chdir("/");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (int i = 0; i < COMMANDS_MAX; i++)
        b->commands[i].b = b;
    if (uv_loop_init(&b->loop))
        return pd_fail(err, PD_EFAIL, "cannot make an event loop");
    uv_timer_init(&b->loop, &b->tick);
    uv_signal_init(&b->loop, &b->term);
    uv_signal_init(&b->loop, &b->child);
    b->tick.data = b->term.data = b->child.data = b;
    uv_timer_start(&b->tick, on_tick, TICK_MS, TICK_MS);
    uv_signal_start(&b->term, on_term, SIGTERM);
    uv_signal_start(&b->child, on_child, SIGCHLD);
    b->begin_ms = b->heard_ms = uv_now(&b->loop);
    call(b);
    return 0;
}

int callback_run(struct callback_opts *o, struct pd_err *err) {
    struct callback *b = pd_secret_new(sizeof *b);
    if (!b)
        return pd_oom(err, "the callback");
    int rc = start(b, o, err);
    if (!rc) {
        uv_run(&b->loop, UV_RUN_DEFAULT);
        uv_loop_close(&b->loop);
        if (!*b->token)
            rc = pd_fail(err, PD_EHOST, "cannot call paddlectl back: %s",
                         *b->err.msg ? b->err.msg : "it was ended");
    }
    pd_secret_free(b, sizeof *b);
    return rc;
}
