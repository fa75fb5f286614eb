/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c - see connect.h. */
#include "launcher/transport/connect.h"

#include <pwd.h>
#include <sodium.h>

enum { MARK = 32, KNOCK_MS = 1000, END_MS = 2000, IDLE_MS = 20000, NOISE_MAX = 1 << 20 };

enum connect_step { STEP_TURN, STEP_KNOCK, STEP_LINE, STEP_OPEN, STEP_ENDED, STEP_CLOSED };

struct stream {
    struct transport base; /* must be first: the public pointer points here */
    struct connector *c;
    struct stream *next; /* of those that wait for their turn */
    struct transport *inner;
    uv_timer_t timer;
    char **argv;
    char *line;
    enum connect_step step;
    int plain, has_turn;
    uint64_t start_ms;
    char ready[MARK + 1], begun[MARK + 1], ended[MARK + 1];
    struct pd_buf in; /* bytes that may hold a mark */
    size_t noise;     /* bytes before READY */
    struct pd_err why;
};

struct connector {
    uv_loop_t *loop;
    char **words;
    size_t n_words;
    uint64_t timeout_ms;
    int fanout, active;
    struct stream *first, *last; /* waiting */
};

/* --- the command --- */

int connector_uses(const struct connector *c, char letter) {
    for (size_t i = 0; i < c->n_words; i++)
        for (const char *s = strchr(c->words[i], '%'); s; s = strchr(s + 2, '%'))
            if (s[1] == letter)
                return 1;
    return 0;
}

static int check_word(const char *word, struct pd_err *err) {
    for (const char *s = strchr(word, '%'); s; s = strchr(s + 2, '%'))
        if (!s[1] || !strchr("hupn%", s[1]))
            return pd_fail(err, PD_ECONF,
                           "connect: %%%.1s is not known: %%h is the host, %%u the user, %%p the "
                           "port, %%n the node id, %%%% a percent sign",
                           s + 1);
    return 0;
}

int connector_new(struct connector **out, uv_loop_t *loop, const char *command, uint64_t timeout_ms,
                  int fanout, struct pd_err *err) {
    struct connector *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_oom(err, "the words of connect");
    c->loop = loop;
    c->timeout_ms = timeout_ms;
    c->fanout = fanout;
    int rc = transport_words(&c->words, &c->n_words, "connect", command, err);
    for (size_t i = 0; i < c->n_words && !rc; i++)
        rc = check_word(c->words[i], err);
    if (!rc && !connector_uses(c, 'h') && !connector_uses(c, 'n'))
        rc = pd_fail(err, PD_ECONF,
                     "connect has neither %%h (the host) nor %%n (the node id), as in "
                     "connect = kubectl exec -i %%h --");
    if (rc)
        connector_free(c);
    else
        *out = c;
    return rc;
}

void connector_free(struct connector *c) {
    if (!c)
        return;
    transport_words_free(c->words);
    free(c);
}

static const char *own_name(void) {
    struct passwd *pw = getpwuid(getuid());
    return pw ? pw->pw_name : "";
}

static char *replace_letters(const char *word, const struct connect_host *h) {
    struct pd_buf b = {0};
    for (const char *s = word; *s; s++) {
        if (*s != '%') {
            pd_put_u8(&b, (uint8_t)*s);
            continue;
        }
        switch (*++s) {
        case 'h':
            pd_put_fmt(&b, "%s", h->host);
            break;
        case 'u':
            pd_put_fmt(&b, "%s", h->user ? h->user : own_name());
            break;
        case 'p':
            pd_put_fmt(&b, "%d", h->port ? h->port : 22);
            break;
        case 'n':
            pd_put_fmt(&b, "%d", h->node);
            break;
        default:
            pd_put_u8(&b, '%');
        }
    }
    pd_put_u8(&b, 0);
    if (!b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

/* The words of the command for a host, and "/bin/sh". NULL: no memory. */
static char **make_argv(const struct connector *c, const struct connect_host *h) {
    char **v = pd_calloc(c->n_words + 2, sizeof *v);
    for (size_t i = 0; v && i <= c->n_words; i++)
        if (!(v[i] = i < c->n_words ? replace_letters(c->words[i], h) : pd_strdup("/bin/sh"))) {
            transport_words_free(v);
            v = NULL;
        }
    return v;
}

/* --- steps --- */

static void begin(struct stream *s);

static void leave_turn(struct stream *s) {
    struct connector *c = s->c;
    if (!s->has_turn)
        return;
    s->has_turn = 0;
    c->active--;
    while (c->first && c->active < c->fanout) {
        struct stream *next = c->first;
        c->first = next->next;
        if (!c->first)
            c->last = NULL;
        next->has_turn = 1;
        c->active++;
        begin(next);
    }
}

static void on_timer_closed(uv_handle_t *h) {
    struct stream *s = h->data;
    s->base.ev->on_close(&s->why, s->base.arg);
    transport_release(&s->base);
    pd_buf_release(&s->in);
    transport_words_free(s->argv);
    free(s->line);
    free(s);
}

static void finish(struct stream *s) {
    s->step = STEP_CLOSED;
    leave_turn(s);
    if (!uv_is_closing((uv_handle_t *)&s->timer))
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static void fail(struct stream *s, int code, const char *text) {
    if (s->step >= STEP_ENDED)
        return;
    pd_fail(&s->why, code, "%s", text);
    s->step = STEP_ENDED;
    transport_close(s->inner);
}

/* The shell gets each mark in two halves, so that an echo of the command is no mark. `print` is
 * echo, or `printf %s` for a mark without the end of a line. */
static void put_mark(struct pd_buf *b, const char *print, const char *mark) {
    pd_put_fmt(b, "%s %.16s\"\"%s", print, mark, mark + 16);
}

static void send_text(struct stream *s, struct pd_buf *b) {
    if (b->failed || transport_write(s->inner, b->data, b->len))
        fail(s, PD_ENOMEM, "out of memory");
    pd_buf_release(b);
}

static void knock(struct stream *s) {
    struct pd_buf b = {0};
    pd_put_fmt(&b, "\nif [ -t 0 ]; then ");
    put_mark(&b, "echo", s->ready);
    pd_put_fmt(&b, "tty; else ");
    put_mark(&b, "echo", s->ready);
    pd_put_fmt(&b, "; fi\n");
    send_text(s, &b);
}

static void on_time(uv_timer_t *t) {
    struct stream *s = t->data;
    char text[sizeof s->why.msg];
    if (s->step == STEP_ENDED) { /* the command does not end after its shell */
        transport_close(s->inner);
    } else if (uv_now(s->c->loop) - s->start_ms < s->c->timeout_ms) {
        if (s->step == STEP_KNOCK)
            knock(s);
    } else if (s->step == STEP_LINE) {
        pd_fmt(
            text, sizeof text,
            "a shell answered behind %s, but only with complete lines: connect needs a stream of "
            "bytes (for srun: --unbuffered)",
            s->argv[0]);
        fail(s, PD_ETIMEOUT, text);
    } else {
        pd_fmt(text, sizeof text, "no shell answered behind %s within %.3g s%s%s", s->argv[0],
               (double)s->c->timeout_ms / 1000, *s->base.tail ? ": " : "", s->base.tail);
        fail(s, PD_ETIMEOUT, pd_trim(text));
    }
}

static void on_open(void *arg) {
    struct stream *s = arg;
    s->start_ms = uv_now(s->c->loop);
    s->step = STEP_KNOCK;
    uv_timer_start(&s->timer, on_time, KNOCK_MS, KNOCK_MS);
    knock(s);
}

static void send_line(struct stream *s) {
    struct pd_buf b = {0};
    s->step = STEP_LINE;
    /* Without a newline, and the shell waits: nothing else can push the mark out. */
    put_mark(&b, "printf %s", s->begun);
    pd_put_fmt(&b, "; read -r x; %s", s->line);
    if (s->plain) {
        pd_put_fmt(&b, "; x=$?; ");
        put_mark(&b, "echo", s->ended);
        pd_put_fmt(&b, "\" $x\"; exit 0");
    }
    pd_put_u8(&b, '\n');
    send_text(s, &b);
}

/* The shell reads "go" and runs the line: the turn of the set-up ends. */
static void begin_line(struct stream *s) {
    static const char go[] = "go\n";
    if (transport_write(s->inner, go, sizeof go - 1)) {
        fail(s, PD_ENOMEM, "out of memory");
        return;
    }
    s->step = STEP_OPEN;
    uv_timer_stop(&s->timer);
    leave_turn(s);
    s->base.ev->on_open(s->base.arg);
}

/* ENDED: the shell is about to end, and the command with it. */
static void end_line(struct stream *s, const char *status) {
    int64_t n;
    if (!pd_parse_i64(status, 0, 255, &n))
        s->base.status = (int)n;
    s->step = STEP_ENDED;
    transport_eof(s->inner); /* some commands end only when both ends do */
    uv_timer_start(&s->timer, on_time, END_MS, 0);
}

/* The line of s->in that begins with `mark`, behind the mark, with its end replaced by NUL; *next
 * is the offset behind it. NULL: not there yet. */
static char *marked_line(struct stream *s, const char *mark, size_t *next) {
    if (!s->in.len)
        return NULL;
    char *at = memmem(s->in.data, s->in.len, mark, MARK), *end = NULL;
    if (at)
        end = memchr(at, '\n', s->in.len - (size_t)(at - (char *)s->in.data));
    if (!end)
        return NULL;
    *end = 0;
    if (end[-1] == '\r')
        end[-1] = 0;
    *next = (size_t)(end + 1 - (char *)s->in.data);
    return at + MARK;
}

static void drop_front(struct stream *s, size_t n) {
    memmove(s->in.data, s->in.data + n, s->in.len - n);
    s->in.len -= n;
}

/* Bytes at the end of s->in that may be the beginning of ENDED; all from a whole mark on. */
static size_t bytes_to_hold(const struct stream *s) {
    const char *p = (const char *)s->in.data, *at = memmem(p, s->in.len, s->ended, MARK);
    size_t n = s->in.len < MARK - 1 ? s->in.len : MARK - 1;
    if (at)
        return s->in.len - (size_t)(at - p);
    while (n && memcmp(p + s->in.len - n, s->ended, n) != 0)
        n--;
    return n;
}

static void pass_on(struct stream *s, size_t n) {
    if (n)
        s->base.ev->on_bytes(s->in.data, n, s->base.arg);
    if (s->step != STEP_CLOSED)
        drop_front(s, n);
}

static void take_plain(struct stream *s) {
    size_t next, hold = s->in.len ? bytes_to_hold(s) : 0;
    char *status = marked_line(s, s->ended, &next);
    if (status) {
        end_line(s, *status == ' ' ? status + 1 : status);
        s->in.len -= hold;
        hold = 0;
    }
    pass_on(s, s->in.len - hold);
}

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct stream *s = arg;
    size_t next;
    char *text;
    if (s->step == STEP_OPEN && !s->plain) {
        s->base.ev->on_bytes(p, n, s->base.arg);
        return;
    }
    if (s->step >= STEP_ENDED)
        return;
    pd_put(&s->in, p, n);
    if (s->in.failed) {
        fail(s, PD_ENOMEM, "out of memory");
        return;
    }
    if (s->step == STEP_KNOCK && (text = marked_line(s, s->ready, &next))) {
        if (*text) {
            fail(s, PD_EHOST,
                 "connect gives the shell a terminal, which changes bytes: leave out "
                 "its option for a terminal (-t)");
            return;
        }
        drop_front(s, next);
        send_line(s);
    }
    if (s->step == STEP_LINE && s->in.len &&
        (text = memmem(s->in.data, s->in.len, s->begun, MARK))) {
        drop_front(s, (size_t)(text - (char *)s->in.data) + MARK);
        begin_line(s);
    }
    if (s->step < STEP_OPEN && (s->noise += n) > NOISE_MAX)
        fail(s, PD_EHOST, "the shell behind connect prints without end");
    else if (s->step == STEP_OPEN && s->plain)
        take_plain(s);
    else if (s->step == STEP_OPEN)
        pass_on(s, s->in.len);
}

static void on_stderr(const uint8_t *p, size_t n, void *arg) {
    transport_add_stderr(&((struct stream *)arg)->base, p, n);
}

static void on_drain(void *arg) {
    struct stream *s = arg;
    s->base.queued = transport_queued(s->inner);
    if (s->step == STEP_OPEN && s->base.ev->on_drain)
        s->base.ev->on_drain(s->base.arg);
}

/* The command on this machine is gone. */
static void on_close(const struct pd_err *why, void *arg) {
    struct stream *s = arg;
    int status = transport_status(s->inner);
    const char *signal = transport_signal(s->inner);
    if (s->step == STEP_OPEN && s->plain)
        pass_on(s, s->in.len);
    if (s->step == STEP_ENDED && !s->why.code && s->base.status >= 0) {
        pd_fail(&s->why, PD_ECLOSED, "the command has ended");
    } else if (!s->why.code && s->step != STEP_CLOSED && why->code != PD_ECLOSED) {
        s->why = *why;
    } else if (!s->why.code && s->step != STEP_CLOSED) {
        char how[100], text[700];
        if (signal)
            pd_fmt(how, sizeof how, "was ended by signal %s", signal);
        else
            pd_fmt(how, sizeof how, "ended with exit status %d", status);
        pd_fmt(text, sizeof text, "%s",
               s->base.tail + (s->base.tail_len > 600 ? s->base.tail_len - 600 : 0));
        char *said = pd_trim(text);
        pd_fail(&s->why, s->step < STEP_OPEN ? PD_EHOST : PD_ECLOSED, "%s %s%s%s%s", s->argv[0],
                how, s->step < STEP_OPEN ? " before a shell answered" : "", *said ? ": " : "",
                said);
    }
    s->inner = NULL;
    finish(s);
}

static const struct transport_events events = {.on_open = on_open,
                                               .on_bytes = on_bytes,
                                               .on_drain = on_drain,
                                               .on_close = on_close,
                                               .on_stderr = on_stderr};

static void begin(struct stream *s) {
    s->step = STEP_KNOCK;
    if (transport_local(&s->inner, s->c->loop, s->argv, &events, s, &s->why))
        finish(s);
    else
        transport_local_end_group(s->inner);
}

/* --- the transport --- */

static int stream_write(struct transport *t, const void *p, size_t n) {
    struct stream *s = (struct stream *)t;
    if (s->step != STEP_OPEN)
        return 0;
    int rc = transport_write(s->inner, p, n);
    t->queued = transport_queued(s->inner);
    return rc;
}

/* A command such as kubectl cuts a stream without bytes. The watch of a plain command (shell_run.c)
 * reads lines behind the input. */
static void on_idle(uv_timer_t *t) {
    struct stream *s = t->data;
    if (s->step == STEP_OPEN)
        transport_write(s->inner, "\n", 1); /* without memory for it the next one may do */
}

/* Stdin of a plain command ends by its length, since not every command passes on an end. */
static void stream_eof(struct transport *t) {
    struct stream *s = (struct stream *)t;
    if (s->step == STEP_OPEN && s->plain)
        uv_timer_start(&s->timer, on_idle, IDLE_MS, IDLE_MS);
    else if (s->step == STEP_OPEN)
        transport_eof(s->inner);
}

static void leave_queue(struct stream *s) {
    struct stream **p = &s->c->first, *before = NULL;
    for (; *p && *p != s; p = &(*p)->next)
        before = *p;
    if (*p)
        *p = s->next;
    if (s->c->last == s)
        s->c->last = before;
}

static void stream_close(struct transport *t) {
    struct stream *s = (struct stream *)t;
    if (s->step == STEP_CLOSED)
        return;
    if (s->step == STEP_TURN)
        leave_queue(s);
    pd_err_clear(&s->why);
    s->step = STEP_CLOSED;
    if (s->inner)
        transport_close(s->inner);
    else
        finish(s);
}

static void make_mark(char mark[MARK + 1]) {
    uint8_t random[MARK / 2];
    randombytes_buf(random, sizeof random);
    pd_hex(mark, random, sizeof random);
}

int connector_open(struct transport **out, struct connector *c, const struct connect_host *host,
                   const char *line, const struct transport_events *ev, void *arg,
                   struct pd_err *err) {
    struct stream *s = pd_calloc(1, sizeof *s);
    if (!s || !(s->line = pd_strdup(line)) || !(s->argv = make_argv(c, host))) {
        if (s)
            free(s->line);
        free(s);
        return pd_oom(err, "a connection");
    }
    transport_init(&s->base, ev, arg);
    s->base.write = stream_write;
    s->base.eof = stream_eof;
    s->base.close = stream_close;
    s->c = c;
    s->plain = ev->on_stderr != NULL;
    make_mark(s->ready);
    make_mark(s->begun);
    make_mark(s->ended);
    uv_timer_init(c->loop, &s->timer);
    s->timer.data = s;
    *out = &s->base;
    if (c->active < c->fanout) {
        s->has_turn = 1;
        c->active++;
        begin(s);
    } else {
        if (c->last)
            c->last->next = s;
        else
            c->first = s;
        c->last = s;
    }
    return 0;
}
