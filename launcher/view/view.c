/* view.c - see view.h. The loop's thread appends to a queue, the writer's thread empties it. */
#include "launcher/view/view.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"

enum { PIPE_PROGRESS_MS = 5000 };

struct view {
    int fd, tty, colour;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    struct pd_buf queue; /* under the lock, as are the four below */
    int quit, busy, broken, abandoned;
    uint64_t dropped;
    char live[300];
    uint64_t last_progress_ms;
};

/* Our stdout may be a pipe that somebody made non-blocking. */
static int write_out(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EAGAIN) {
            struct pollfd f = {.fd = fd, .events = POLLOUT};
            poll(&f, 1, -1);
            continue;
        }
        if (k < 0 && errno != EINTR)
            return -1;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return 0;
}

static void destroy(struct view *v) {
    pd_buf_release(&v->queue);
    pthread_mutex_destroy(&v->lock);
    pthread_cond_destroy(&v->work);
    pthread_cond_destroy(&v->idle);
    free(v);
}

static void *writer(void *arg) {
    struct view *v = arg;
    struct pd_buf mine;
    pd_buf_init(&mine);
    pthread_mutex_lock(&v->lock);
    for (;;) {
        while (!v->queue.len && !v->quit)
            pthread_cond_wait(&v->work, &v->lock);
        if (!v->queue.len || v->broken)
            break;
        struct pd_buf full = v->queue;
        v->queue = mine;
        mine = full;
        v->busy = 1;
        pthread_mutex_unlock(&v->lock);
        int bad = write_out(v->fd, mine.data, mine.len);
        pd_buf_clear(&mine);
        pthread_mutex_lock(&v->lock);
        v->busy = 0;
        v->broken |= bad != 0; /* the reader is gone: the job goes on, Ctrl-C ends it */
        pthread_cond_broadcast(&v->idle);
    }
    int abandoned = v->abandoned;
    pthread_mutex_unlock(&v->lock);
    pd_buf_release(&mine);
    if (abandoned)
        destroy(v);
    return NULL;
}

int view_new(struct view **out, int fd, struct pd_err *err) {
    struct view *v = pd_calloc(1, sizeof *v);
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    if (!v)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    v->fd = fd;
    v->tty = isatty(fd) && term && strcmp(term, "dumb");
    v->colour = v->tty && !(no && *no);
    pd_buf_init(&v->queue);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->work, NULL);
    pthread_cond_init(&v->idle, NULL);
    int rc = pthread_create(&v->thread, NULL, writer, v);
    if (rc) {
        free(v);
        return pd_fail_errno(err, PD_EFAIL, rc, "cannot start a thread");
    }
    *out = v;
    return 0;
}

/* Append the pieces as one unit; the live line is wiped before and drawn again after. */
static void put(struct view *v, const char *prefix, const char *text, size_t n) {
    static const char wipe[] = "\r\033[K";
    pthread_mutex_lock(&v->lock);
    struct pd_buf *q = &v->queue;
    if (v->broken || q->len + n > VIEW_QUEUE_MAX) {
        v->dropped++;
    } else {
        if (v->dropped) {
            pd_put_fmt(q, "paddlectl | %llu lines are not shown here, the output was not read; they are in the nodes' logs\n",
                       (unsigned long long)v->dropped);
            v->dropped = 0;
        }
        if (v->tty && *v->live)
            pd_put(q, wipe, sizeof wipe - 1);
        if (prefix)
            pd_put_fmt(q, v->colour ? "\033[36m%s |\033[0m " : "%s | ", prefix);
        if (text) {
            pd_put(q, text, n);
            pd_put_u8(q, '\n');
        }
        if (v->tty && *v->live)
            pd_put(q, v->live, strlen(v->live));
        q->failed = 0; /* out of memory loses lines of the screen, not the job */
    }
    pthread_cond_signal(&v->work);
    pthread_mutex_unlock(&v->lock);
}

void view_line(struct view *v, const char *prefix, const char *text, size_t n) { put(v, prefix, text, n); }

void view_say(struct view *v, const char *fmt, ...) {
    char text[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(v, "paddlectl", text, strlen(text));
}

static void progress_text(const json_t *e, char *out, size_t cap) {
    json_t *total = json_object_get(e, "num_passes"), *cost = json_object_get(e, "cost"), *rate = json_object_get(e, "rate");
    const char *unit = json_string_value(json_object_get(e, "unit"));
    char of[32] = "", c[48] = "", r[80] = "";
    if (json_is_integer(total))
        pd_fmt(of, sizeof of, "/%lld", (long long)json_integer_value(total));
    if (json_is_number(cost))
        pd_fmt(c, sizeof c, ", cost %.5g", json_number_value(cost));
    if (json_is_number(rate))
        pd_fmt(r, sizeof r, ", %.0f %.20s/s", json_number_value(rate), unit ? unit : "samples");
    snprintf(out, cap, "pass %lld%s, batch %lld%s%s", (long long)json_integer_value(json_object_get(e, "pass")) + 1, of,
             (long long)json_integer_value(json_object_get(e, "batch")), c, r);
}

void view_event(struct view *v, const char *json, size_t n, uint64_t now_ms) {
    json_t *e = json_loadb(json, n, 0, NULL);
    const char *ev = json_string_value(json_object_get(e, "ev"));
    char text[280];
    if (ev && !strcmp(ev, "progress")) {
        progress_text(e, text, sizeof text);
        if (v->tty) {
            struct winsize w;
            size_t cols = ioctl(v->fd, TIOCGWINSZ, &w) || !w.ws_col ? 80 : w.ws_col;
            text[cols - 1 < sizeof text ? cols - 1 : sizeof text - 1] = 0; /* a wrapped line can't be wiped */
            pthread_mutex_lock(&v->lock);
            snprintf(v->live, sizeof v->live, "%s", text);
            pthread_mutex_unlock(&v->lock);
            put(v, NULL, NULL, 0);
        } else if (!v->last_progress_ms || now_ms - v->last_progress_ms >= PIPE_PROGRESS_MS) {
            v->last_progress_ms = now_ms;
            put(v, "progress", text, strlen(text));
        }
    }
    json_decref(e);
}

void view_free(struct view *v, uint64_t wait_ms) {
    struct timespec until;
    if (!v)
        return;
    if (v->tty && *v->live) { /* leave its last state standing */
        char last[sizeof v->live];
        pthread_mutex_lock(&v->lock);
        memcpy(last, v->live, sizeof last);
        v->live[0] = 0;
        pd_put(&v->queue, "\r\033[K", 4);
        pthread_mutex_unlock(&v->lock);
        put(v, NULL, last, strlen(last));
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&v->lock);
    v->quit = 1;
    pthread_cond_signal(&v->work);
    int rc = 0;
    while ((v->queue.len || v->busy) && !v->broken && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&v->idle, &v->lock, &until);
    /* Inside a write that nobody reads the thread ends with the process, or cleans up when the write comes back. */
    int stuck = v->abandoned = (v->queue.len || v->busy) && !v->broken;
    pthread_t thread = v->thread;
    pthread_mutex_unlock(&v->lock);
    if (stuck) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    destroy(v);
}

/* --- bytes into lines ------------------------------------------------------------------------------------ */

static void emit(struct view_stream *s, view_on_line line, void *arg) {
    line(arg, (char *)s->part.data, s->part.len);
    pd_buf_clear(&s->part);
}

static void take(struct view_stream *s, const uint8_t *p, size_t n, view_on_line line, void *arg) {
    while (n) {
        if (s->skip_lf) { /* "\r\n" ends the line; "\r" alone begins its text anew */
            s->skip_lf = 0;
            if (*p == '\n') {
                emit(s, line, arg);
                p++;
                n--;
                continue;
            }
            if (*p != '\r')
                pd_buf_clear(&s->part);
        }
        size_t k = 0;
        while (k < n && p[k] != '\n' && p[k] != '\r')
            k++;
        pd_put(&s->part, p, k);
        if (s->part.failed || s->part.len > VIEW_LINE_MAX) {
            s->part.failed = 0;
            emit(s, line, arg); /* a line without end is shown in pieces */
        }
        p += k;
        n -= k;
        if (!n)
            break;
        if (*p == '\r')
            s->skip_lf = 1;
        else
            emit(s, line, arg);
        p++;
        n--;
    }
}

int view_stream_feed(struct view_stream *s, uint64_t offset, const uint8_t *p, size_t n, view_on_line line, void *arg) {
    int rc = 0;
    if (offset > s->next) {
        char note[100];
        view_stream_end(s, line, arg);
        snprintf(note, sizeof note, "[%llu bytes are missing here]", (unsigned long long)(offset - s->next));
        line(arg, note, strlen(note));
        s->next = offset;
        rc = PD_EDATA;
    }
    uint64_t old = s->next - offset; /* seen before */
    if (old >= n)
        return rc;
    take(s, p + old, n - (size_t)old, line, arg);
    s->next = offset + n;
    return rc;
}

void view_stream_end(struct view_stream *s, view_on_line line, void *arg) {
    if (s->part.len)
        emit(s, line, arg);
    s->skip_lf = 0;
}

void view_stream_release(struct view_stream *s) { pd_buf_release(&s->part); }
