/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - see keys.h. */
#include "launcher/view/keys.h"

#include <sys/wait.h>
#include <termios.h>

#include "launcher/text/term.h"

struct keys {
    uv_poll_t poll;
    uv_timer_t alone; /* a key waits for another one */
    int fd;           /* the terminal, opened again: non-blocking without an effect on stdin */
    int active, closed, asked;
    struct termios before, during; /* modes while inactive and while active */
    int guard_fd;                  /* the guard ends with this pipe; -1: there is no guard */
    pid_t guard;
    char key; /* that waits; 0: none */
    uint64_t last_ms;
    void (*on_key)(void *arg, char key);
    void *arg;
};

/* --- modes --- */

enum { OURS = ICANON | IEXTEN | ECHO | ECHOE | ECHOK | ECHONL };

/* Equal in what keys_check changes. */
static int same_modes(const struct termios *a, const struct termios *b) {
    return (a->c_lflag & OURS) == (b->c_lflag & OURS) && a->c_cc[VMIN] == b->c_cc[VMIN] &&
           a->c_cc[VTIME] == b->c_cc[VTIME];
}

/* The guard: it restores the modes if paddlectl has not. It runs between fork and _exit in a copy
 * of a process with threads, so it calls only async-signal-safe functions. It has a session of its
 * own: no key and no hangup ends it. */
static void __attribute__((noreturn)) guard(int tty, int end, const struct keys *k) {
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTTOU, SIGTSTP, SIGPIPE};
    struct termios now;
    sigset_t none;
    char c;
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    dup2(tty, 0);
    dup2(end, 1);
    if (close_range(2, ~0u, 0)) /* kernels before 5.9 lack close_range */
        for (int fd = 2; fd < 65536; fd++)
            close(fd);
    ssize_t n;
    while ((n = read(1, &c, 1)) > 0 || (n < 0 && errno == EINTR))
        ;
    if (!tcgetattr(0, &now) && same_modes(&now, &k->during))
        tcsetattr(0, TCSANOW, &k->before);
    _exit(0);
}

/* Signals are blocked during the fork: the copy has paddlectl's handlers, which write to
 * paddlectl's loop. */
static int start_guard(struct keys *k) {
    int end[2];
    sigset_t all, old;
    if (pipe2(end, O_CLOEXEC))
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    k->guard = fork();
    if (!k->guard)
        guard(k->fd, end[0], k);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    close(end[0]);
    if (k->guard < 0)
        close(end[1]);
    else
        k->guard_fd = end[1];
    return k->guard < 0;
}

static void end_guard(struct keys *k) {
    if (k->guard_fd < 0)
        return;
    close(k->guard_fd);
    k->guard_fd = -1;
    while (waitpid(k->guard, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void release(struct keys *k) {
    struct termios now;
    if (!k->active)
        return;
    k->active = 0;
    k->key = 0;
    uv_poll_stop(&k->poll);
    uv_timer_stop(&k->alone);
    /* The shell may have set its own modes meanwhile. */
    if (!tcgetattr(k->fd, &now) && same_modes(&now, &k->during))
        tcsetattr(k->fd, TCSANOW, &k->before);
    end_guard(k);
}

/* --- keys --- */

static void on_alone(uv_timer_t *t) {
    struct keys *k = t->data;
    char key = k->key;
    k->key = 0;
    if (key)
        k->on_key(k->arg, key);
}

static void take(struct keys *k, const char *p, size_t n) {
    uint64_t now = uv_now(k->poll.loop), last = k->last_ms;
    k->last_ms = now;
    if (k->asked || (n == 1 && *p == '\f')) { /* Ctrl-L is no text */
        k->key = 0;
        k->on_key(k->arg, p[0]);
    } else if (n > 1 || k->key || now - last < KEYS_ALONE_MS) {
        k->key = 0;
        uv_timer_stop(&k->alone);
    } else {
        k->key = *p;
        uv_timer_start(&k->alone, on_alone, KEYS_ALONE_MS, 0);
    }
}

static void on_readable(uv_poll_t *h, int status, int events) {
    struct keys *k = h->data;
    struct termios now;
    char text[256];
    (void)events;
    /* Other modes: a question for a password, or the shell, reads the terminal now. */
    if (status < 0 || tcgetattr(k->fd, &now) || !same_modes(&now, &k->during)) {
        uv_poll_stop(h); /* until keys_check */
        return;
    }
    ssize_t n = read(k->fd, text, sizeof text);
    if (n > 0)
        take(k, text, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        uv_poll_stop(h); /* until keys_check */
}

int keys_check(struct keys *k) {
    struct termios now;
    if (!k || k->closed)
        return 0;
    if (!term_is_foreground(k->fd)) {
        release(k);
        return 0;
    }
    if (tcgetattr(k->fd, &now))
        return 0;
    if (k->active && same_modes(&now, &k->during)) {
        uv_poll_start(&k->poll, UV_READABLE, on_readable);
        return 1;
    }
    if (k->active) /* a question for a password has changed the modes for a while */
        return 0;
    if (!same_modes(&now, &k->during)) /* else: left by a stop that could not be handled */
        k->before = now;
    k->during = k->before;
    k->during.c_lflag &= ~(tcflag_t)OURS;
    k->during.c_cc[VMIN] = 1; /* fd does not block; another reader must wait, not see an end */
    k->during.c_cc[VTIME] = 0;
    if (start_guard(k))
        return 0;
    k->active = 1;
    k->last_ms = uv_now(k->poll.loop);
    tcsetattr(k->fd, TCSANOW, &k->during);
    uv_poll_start(&k->poll, UV_READABLE, on_readable);
    return 1;
}

void keys_question(struct keys *k, int asked) {
    if (k)
        k->asked = asked;
}

int keys_new(struct keys **out, uv_loop_t *loop, void (*on_key)(void *arg, char key), void *arg,
             struct pd_err *err) {
    *out = NULL;
    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) < 0)
        return 0;
    struct keys *k = pd_calloc(1, sizeof *k);
    if (!k)
        return pd_oom(err, "the keys");
    *k = (struct keys){.guard_fd = -1, .on_key = on_key, .arg = arg};
    k->fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (k->fd < 0 || uv_poll_init(loop, &k->poll, k->fd)) {
        pd_close(k->fd);
        free(k); /* a terminal that cannot be polled: there are no keys */
        return 0;
    }
    uv_timer_init(loop, &k->alone);
    k->poll.data = k->alone.data = k;
    *out = k;
    return 0;
}

void keys_close(struct keys *k) {
    if (!k || k->closed)
        return;
    release(k);
    k->closed = 1;
    uv_close((uv_handle_t *)&k->poll, NULL);
    uv_close((uv_handle_t *)&k->alone, NULL);
}

void keys_free(struct keys *k) {
    if (k)
        close(k->fd);
    free(k);
}

/* --- Ctrl-Z --- */

enum { PAUSE_WAIT_MS = 500 };

static void on_stop(uv_signal_t *h, int signum) {
    struct suspend *s = h->data;
    s->on_stop(s->arg, signum);
    view_pause(s->view, PAUSE_WAIT_MS);
    if (s->keys)
        release(s->keys);
    uv_signal_stop(h); /* the default action again */
    raise(signum);
    uv_signal_start(h, on_stop, signum);
    uv_update_time(h->loop);
    view_resume(s->view);
    s->on_resume(s->arg, 1);
}

static void on_resume(uv_signal_t *h, int signum) {
    struct suspend *s = h->data;
    (void)signum;
    uv_update_time(h->loop);
    s->on_resume(s->arg, 0);
}

void suspend_open(struct suspend *s, uv_loop_t *loop) {
    signal(SIGTTOU, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    uv_signal_init(loop, &s->stop);
    uv_signal_init(loop, &s->resume);
    s->stop.data = s->resume.data = s;
    if (view_is_live(s->view) && !pd_signal_is_ignored(SIGTSTP))
        uv_signal_start(&s->stop, on_stop, SIGTSTP);
    uv_signal_start(&s->resume, on_resume, SIGCONT);
    uv_unref((uv_handle_t *)&s->stop);
    uv_unref((uv_handle_t *)&s->resume);
}

void suspend_close(struct suspend *s) {
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->resume, NULL);
}
