/* SPDX-License-Identifier: Apache-2.0 */
/* shell_run.c - see shell_run.h. */
#include "launcher/link/shell_run.h"

#include <sys/resource.h>

enum { KILL_MS = 1000, INPUT_PIECE = 256 << 10, N_SIGNALS = 3 };

/* Functions of both watches. f reads state, parent and session of a process: in stat(5) they follow
 * the name. k signals the processes of session $w, except the watch itself ($m). */
#define WATCH_FUNCTIONS                                                                         \
    "f() { read -r x </proc/$1/stat || return 1; x=${x##*) }; set -- $x; z=$1; p=$2; e=$4; }; " \
    "k() { for q in /proc/[0-9]*; do q=${q#/proc/}; "                                           \
    "case $q in $m) ;; *) f $q && case $e in $w) kill -$1 $q;; esac;; esac; done; }; "

/* Every shell understands `/bin/sh -c '...'; COMMAND`. So the user's own shell runs the command,
 * once, with the definitions of its start-up files. The text holds no single quote, backslash,
 * exclamation mark or newline, which shells treat differently. */
static const char watch[] =
    "/bin/sh -c 'umask 077; l=$PPID; " WATCH_FUNCTIONS
    "g() { f $l && [ $p = $s ] && case $z in Z|X) return 1;; esac; }; "
    "(trap \"\" HUP INT TERM; cd /; read -r m x </proc/self/stat; f $l || exit; s=$p; w=$e; t=.1; "
    "while g; do sleep $t || sleep 1; t=.4; done; "
    "f $l || exit; case $z in Z|X) exit;; esac; "
    "case $w in $l|$s) ;; *) kill $l; exit;; esac; k TERM; sleep 1; k KILL; k KILL"
    ") </dev/null >/dev/null 2>&1 &' ; ";

/* Behind `connect` (transport/connect.h) /bin/sh reads this line from stdin, whose end is the loss
 * of the connection: a container has no sshd. The first process passes the input on, N bytes. The
 * watch is its child. Behind the input paddlectl writes only empty lines, which the watch skips
 * until the end of stdin. If the shell still lives a second later, the watch ends the shell's
 * session, if the shell began it or the process that started the shell did: a container's session
 * 0, or that of a service, has other processes. Otherwise it ends the shell and its descendants. */
static const char connect_watch[] =
    "exec 3<&0; { head -c %zu <&3; (trap \"\" HUP INT TERM; umask 077; cd /; " WATCH_FUNCTIONS
    "d() { for q in /proc/[0-9]*; do q=${q#/proc/}; case $q in $m) ;; *) "
    "f $q && case \" $w \" in *\" $q \"*) ;; *\" $p \"*) w=\"$w $q\"; n=1;; esac;; esac; done; }; "
    "while read -r x <&3; do :; done; sleep 1; "
    "f $$ || exit; case $z in Z|X) exit;; esac; w=$e; l=$p; read -r m x </proc/self/stat; "
    "case $w in 0) ;; $$|$l) k TERM; sleep 1; k KILL; k KILL; exit;; esac; "
    "w=$$; n=1; while [ $n = 1 ]; do n=0; d; done; kill $w; sleep 1; kill -KILL $w"
    ") >/dev/null 2>&1 & } | /bin/sh -c %s 3<&-";

struct shell_run;

struct host_run {
    struct shell_run *run;
    size_t id;
    struct transport *t;
    /* the time limit; then the limit for a local command's end */
    uv_timer_t timer;
    uint64_t opened_ms;
    size_t written; /* of the input */
    int pid;        /* of a local command's shell */
};

struct shell_run {
    struct client_env *c;
    struct shell_job *job;
    const struct shell_events *ev;
    void *arg;
    struct host_run *v;
    size_t n_open;
    char *line;         /* the command behind the watch */
    char *connect_line; /* the same for hosts behind `connect` */
    int interrupted, stopped;
    uv_signal_t signals[N_SIGNALS];
};

static void maybe_end(struct shell_run *r) {
    if (r->n_open)
        return;
    for (size_t i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
}

static void host_over(struct shell_run *r, size_t id) {
    r->job->hosts[id].over = 1;
    if (r->ev->on_over)
        r->ev->on_over(r->arg, id);
}

/* --- ending a command --- */

/* On this machine paddlectl is the login shell's parent and does the watch's work. The session
 * keeps the shell's number after the shell has ended, and the kernel does not reuse the number
 * while the session has a process. */
static void signal_session(pid_t session, int sig) {
    DIR *d = opendir("/proc");
    struct dirent *e;
    int64_t pid;
    while (d && (e = readdir(d)))
        if (!pd_parse_i64(e->d_name, 1, INT32_MAX, &pid) && getsid((pid_t)pid) == session)
            kill((pid_t)pid, sig);
    pd_closedir(d);
}

/* A process that has left the session may still hold the pipes: do not wait for it. */
static void on_kill(uv_timer_t *t) {
    struct host_run *o = t->data;
    signal_session(o->pid, SIGKILL);
    if (o->t)
        transport_close(o->t);
}

/* Close the connection; the watch then ends the command. */
static void end_command(struct host_run *o) {
    if (!o->t)
        return;
    if (!o->pid) {
        transport_close(o->t);
        return;
    }
    signal_session(o->pid, SIGTERM);
    uv_timer_start(&o->timer, on_kill, KILL_MS, 0);
}

static void on_time(uv_timer_t *t) {
    struct host_run *o = t->data;
    struct shell_host *h = &o->run->job->hosts[o->id];
    h->timed_out = 1;
    pd_fail(&h->err, PD_ETIMEOUT, "timed out after %.3g s", (double)o->run->job->timeout_ms / 1000);
    end_command(o);
}

static void end_all(struct shell_run *r) {
    for (size_t i = 0; i < r->c->hosts.n; i++)
        end_command(&r->v[i]);
}

void shell_stop(struct shell_job *job) {
    job->run->stopped = 1;
    end_all(job->run);
}

static void on_signal(uv_signal_t *s, int signum) {
    struct shell_run *r = s->data;
    /* as the signal would end a program that does not catch it; the watch ends remote commands all
     * the same */
    if (r->interrupted) {
        signal(signum, SIG_DFL);
        raise(signum);
    }
    r->interrupted = 1;
    end_all(r);
}

/* --- one host --- */

static void send_input(struct host_run *o) {
    const struct shell_job *j = o->run->job;
    while (o->written < j->n_input && transport_queued(o->t) < INPUT_PIECE) {
        size_t n = j->n_input - o->written;
        if (n > INPUT_PIECE)
            n = INPUT_PIECE;
        if (transport_write(o->t, (const char *)j->input + o->written, n)) {
            pd_oom(&j->hosts[o->id].err, "the output of a command");
            end_command(o);
            return;
        }
        o->written += n;
        if (o->written == j->n_input)
            transport_eof(o->t);
    }
}

static void on_open(void *arg) {
    struct host_run *o = arg;
    const struct shell_job *j = o->run->job;
    o->opened_ms = uv_now(&o->run->c->loop);
    if (j->timeout_ms && !o->run->interrupted)
        uv_timer_start(&o->timer, on_time, j->timeout_ms, 0);
    if (j->n_input)
        send_input(o);
    else
        transport_eof(o->t);
}

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct host_run *o = arg;
    o->run->ev->on_output(o->run->arg, o->id, SHELL_OUT, p, n);
}

static void on_stderr(const uint8_t *p, size_t n, void *arg) {
    struct host_run *o = arg;
    o->run->ev->on_output(o->run->arg, o->id, SHELL_ERR, p, n);
}

static void on_drain(void *arg) {
    struct host_run *o = arg;
    if (o->t)
        send_input(o);
}

static int signal_number(const char *name) {
    for (int i = 1; i < NSIG; i++) {
        const char *s = sigabbrev_np(i);
        if (s && !strcmp(s, name))
            return i;
    }
    return 0;
}

static void on_timer_closed(uv_handle_t *t) {
    struct host_run *o = t->data;
    o->run->n_open--;
    maybe_end(o->run);
}

static void on_close(const struct pd_err *why, void *arg) {
    struct host_run *o = arg;
    struct shell_host *h = &o->run->job->hosts[o->id];
    const char *sig = transport_signal(o->t);
    int status = transport_status(o->t);
    if (o->opened_ms)
        h->ms = uv_now(&o->run->c->loop) - o->opened_ms;
    if (h->timed_out) {
        h->status = SHELL_TIMED_OUT;
    } else if ((o->run->interrupted || o->run->stopped) &&
               !(why->code == PD_ECLOSED && status >= 0)) {
        pd_fail(&h->err, PD_ECANCELED, "interrupted");
        h->status = SHELL_NO_HOST;
    } else if (sig) {
        snprintf(h->signal, sizeof h->signal, "%s", sig);
        h->status = 128 + signal_number(sig);
    } else if (why->code == PD_ECLOSED && status >= 0 && !h->err.code) {
        h->status = status & 255;
    } else {
        pd_fail(&h->err, why->code ? why->code : PD_ECLOSED, "%s",
                why->code ? why->msg : "the connection was closed");
        h->status = SHELL_NO_HOST;
    }
    o->t = NULL;
    host_over(o->run, o->id);
    uv_close((uv_handle_t *)&o->timer, on_timer_closed);
}

static const struct transport_events events = {.on_open = on_open,
                                               .on_bytes = on_bytes,
                                               .on_drain = on_drain,
                                               .on_close = on_close,
                                               .on_stderr = on_stderr};

static void begin(struct shell_run *r, size_t i) {
    struct host_run *o = &r->v[i];
    struct shell_host *h = &r->job->hosts[i];
    const struct host *host = &r->c->hosts.v[i];
    int rc;
    uv_timer_init(&r->c->loop, &o->timer);
    o->timer.data = o;
    o->run = r;
    o->id = i;
    r->n_open++;
    if (host->local) {
        char sh[] = "/bin/sh", flag[] = "-c";
        char *const argv[] = {sh, flag, r->line, NULL};
        rc = transport_local(&o->t, &r->c->loop, argv, &events, o, &h->err);
        o->pid = rc ? 0 : transport_local_pid(o->t);
    } else { /* a callback of `launch` ends its commands by itself */
        rc = link_stream(&o->t, &r->c->env, host, (int)i,
                         r->c->env.launch ? r->job->command : r->line, r->connect_line, &events, o,
                         &h->err);
    }
    if (!rc)
        return;
    o->t = NULL;
    h->status = SHELL_NO_HOST;
    host_over(r, i);
    uv_close((uv_handle_t *)&o->timer, on_timer_closed);
}

/* Each host needs a connection, and two files for output that does not fit into memory. */
static void raise_limit(void) {
    struct rlimit l;
    if (!getrlimit(RLIMIT_NOFILE, &l) && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

int shell_run(struct client_env *c, struct shell_job *job, const struct shell_events *ev,
              void *arg) {
    static const int signums[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    struct shell_run r = {.c = c, .job = job, .ev = ev, .arg = arg};
    size_t n = strlen(watch) + strlen(job->command) + 1;
    struct pd_buf quoted = {0}, line = {0};
    job->run = &r;
    r.v = pd_calloc(c->hosts.n, sizeof *r.v);
    r.line = pd_malloc(n);
    pd_put_quoted(&quoted, job->command);
    pd_put_u8(&quoted, 0);
    if (!quoted.failed)
        pd_put_fmt(&line, connect_watch, job->n_input, (char *)quoted.data);
    pd_put_u8(&line, 0);
    r.connect_line = line.failed || quoted.failed ? NULL : (char *)line.data;
    int ready = r.v && r.line && r.connect_line;
    for (size_t i = 0; i < c->hosts.n && !ready; i++) {
        job->hosts[i].status = SHELL_NO_HOST;
        pd_oom(&job->hosts[i].err, "the output of a command");
    }
    if (ready) {
        raise_limit();
        pd_fmt(r.line, n, "%s%s", watch, job->command);
        for (size_t i = 0; i < N_SIGNALS; i++) {
            uv_signal_init(&c->loop, &r.signals[i]);
            r.signals[i].data = &r;
            if (signums[i] != SIGHUP || !pd_signal_is_ignored(SIGHUP))
                uv_signal_start(&r.signals[i], on_signal, signums[i]);
        }
        r.n_open = 1; /* until all hosts have begun */
        for (size_t i = 0; i < c->hosts.n; i++)
            if (job->hosts[i].asked)
                begin(&r, i);
        r.n_open--;
        maybe_end(&r);
        uv_run(&c->loop, UV_RUN_DEFAULT);
    }
    free(r.v);
    free(r.line);
    pd_buf_release(&line);
    pd_buf_release(&quoted);
    job->run = NULL;
    return r.interrupted;
}
