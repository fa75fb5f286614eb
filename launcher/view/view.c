/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - see view.h. The loop's thread appends to a queue; the writing thread empties it and
 * draws the live block. */
#include "launcher/view/view.h"

#include <poll.h>
#include <pthread.h>

#include "launcher/text/term.h"

enum { PAUSING = 1, PAUSED }; /* values of view.paused: the block is to be wiped; it is */

struct view {
    int fd, tty, colour, says_to_stderr;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    /* under the lock: */
    struct pd_buf queue, live;
    /* bytes that the thread is writing; never 0 while it writes */
    size_t in_flight;
    int live_changed, block_shown, quit, broken, abandoned, paused, clear;
    int why; /* broken: an errno */
    uint64_t dropped;
    void (*room)(void *);
    void *room_arg;
    /* of the writing thread only: */
    struct pd_buf drawn; /* the block on the terminal */
    uint64_t drawn_ns;
};

/* Write all bytes, also if stdout is a pipe that another process has made non-blocking. */
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
    pd_buf_release(&v->live);
    pd_buf_release(&v->drawn);
    pthread_mutex_destroy(&v->lock);
    pthread_cond_destroy(&v->work);
    pthread_cond_destroy(&v->idle);
    free(v);
}

/* --- the live block --- */

/* Wipe the block on the terminal. A terminal that became narrower has wrapped its lines; what has
 * scrolled out of a lower one stays. */
static void put_wipe(struct view *v, struct pd_buf *out) {
    const size_t width = (size_t)term_width(v->fd), height = (size_t)term_height(v->fd);
    size_t rows = 0;
    if (!v->drawn.len)
        return;
    for (size_t at = 0, n; at <= v->drawn.len; at += n + 1) {
        const uint8_t *nl = memchr(v->drawn.data + at, '\n', v->drawn.len - at);
        n = nl ? (size_t)(nl - (v->drawn.data + at)) : v->drawn.len - at;
        size_t cols = term_columns((const char *)v->drawn.data + at, n);
        rows += cols > width ? (cols + width - 1) / width : 1;
    }
    pd_put_u8(out, '\r');
    rows = rows < height ? rows : height;
    if (rows > 1)
        pd_put_fmt(out, "\033[%zuA", rows - 1);
    pd_put(out, "\033[J", 3);
    pd_buf_clear(&v->drawn);
}

/* Write lines and block in one write, so that nothing flickers. `mine` holds the lines. */
static int write_with_block(struct view *v, struct pd_buf *mine, const struct pd_buf *live,
                            int clear) {
    struct pd_buf out = {0};
    if (clear) {
        pd_put(&out, "\033[H\033[J", 6);
        pd_buf_clear(&v->drawn);
    }
    put_wipe(v, &out);
    pd_put(&out, mine->data, mine->len);
    pd_put(&out, live->data, live->len);
    pd_put(&v->drawn, live->data, live->len);
    v->drawn_ns = pd_mono_ns();
    int bad = write_out(v->fd, out.data, out.len);
    pd_buf_release(&out);
    return bad;
}

/* --- the thread --- */

/* Wait for work. With a live block on the terminal, wake at most every VIEW_LIVE_MS. Call it
 * locked. */
static void wait_for_work(struct view *v) {
    while (!v->quit && ((!v->queue.len && !v->live_changed) || v->paused == PAUSED))
        pthread_cond_wait(&v->work, &v->lock);
    while (!v->quit && !v->paused && !v->clear && (v->live.len || v->drawn.len)) {
        uint64_t due = v->drawn_ns + VIEW_LIVE_MS * 1000000ull;
        struct timespec until = {.tv_sec = (time_t)(due / 1000000000u),
                                 .tv_nsec = (long)(due % 1000000000u)};
        if (pd_mono_ns() >= due || pthread_cond_timedwait(&v->work, &v->lock, &until) == ETIMEDOUT)
            break;
    }
}

static void *writer(void *arg) {
    struct view *v = arg;
    struct pd_buf mine = {0}, live = {0};
    pthread_mutex_lock(&v->lock);
    for (;;) {
        wait_for_work(v);
        int last = v->quit && !v->queue.len;
        if (v->broken || (last && !v->drawn.len))
            break;
        struct pd_buf full = v->queue;
        v->queue = mine;
        mine = full;
        v->in_flight = mine.len + 1;
        v->live_changed = 0;
        int clear = v->clear;
        v->clear = 0;
        pd_buf_clear(&live);
        if (!v->quit && !v->paused && v->live.len && term_is_foreground(v->fd))
            pd_put(&live, v->live.data, v->live.len);
        pthread_mutex_unlock(&v->lock);
        int bad = v->tty && (live.len || v->drawn.len || clear)
                      ? write_with_block(v, &mine, &live, clear)
                      : write_out(v->fd, mine.data, mine.len);
        int e = errno;
        pd_buf_clear(&mine);
        pthread_mutex_lock(&v->lock);
        v->why = bad && !v->broken ? e : v->why;
        v->in_flight = 0;
        v->block_shown = v->drawn.len != 0;
        if (v->paused && !v->block_shown)
            v->paused = PAUSED;
        /* the reader is gone: the job goes on, Ctrl-C ends it */
        v->broken |= bad != 0;
        if (v->room && (v->broken || v->queue.len < VIEW_ROOM / 2))
            v->room(v->room_arg);
        pthread_cond_broadcast(&v->idle);
    }
    v->in_flight = 0;
    v->block_shown = 0;
    pd_buf_clear(&v->queue);
    pthread_cond_broadcast(&v->idle);
    int abandoned = v->abandoned;
    pthread_mutex_unlock(&v->lock);
    pd_buf_release(&mine);
    pd_buf_release(&live);
    if (abandoned)
        destroy(v);
    return NULL;
}

/* Time waits by the monotonic clock. */
static void init_conditions(struct view *v) {
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&v->work, &a);
    pthread_cond_init(&v->idle, &a);
    pthread_condattr_destroy(&a);
    pthread_mutex_init(&v->lock, NULL);
}

int view_new(struct view **out, int fd, enum view_colour colour, struct pd_err *err) {
    struct view *v = pd_calloc(1, sizeof *v);
    if (!v)
        return pd_oom(err, "the output");
    v->fd = fd;
    v->tty = term_is_live(fd);
    v->colour = colour == VIEW_COLOUR_ALWAYS || (colour == VIEW_COLOUR_AUTO && term_has_colour(fd));
    pd_buf_init(&v->queue);
    pd_buf_init(&v->live);
    pd_buf_init(&v->drawn);
    init_conditions(v);
    int rc = pthread_create(&v->thread, NULL, writer, v);
    if (rc) {
        destroy(v);
        return pd_fail_errno(err, PD_EFAIL, rc, "cannot start a thread");
    }
    *out = v;
    return 0;
}

static int has_more(const struct view *v) {
    return (v->queue.len || v->in_flight || v->block_shown) && !v->broken;
}

void view_free(struct view *v, uint64_t wait_ms) {
    uint64_t due = pd_mono_ns() + wait_ms * 1000000u;
    struct timespec until = {.tv_sec = (time_t)(due / 1000000000u),
                             .tv_nsec = (long)(due % 1000000000u)};
    if (!v)
        return;
    pthread_mutex_lock(&v->lock);
    v->quit = 1;
    v->room = NULL;
    pthread_cond_signal(&v->work);
    int rc = 0;
    while (has_more(v) && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&v->idle, &v->lock, &until);
    /* A thread stuck in a write ends with the process, or cleans up when the write returns. */
    int stuck = v->abandoned = has_more(v);
    pthread_t thread = v->thread;
    pthread_mutex_unlock(&v->lock);
    if (stuck) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    destroy(v);
}

/* --- from the loop's thread --- */

int view_is_live(const struct view *v) { return v->tty; }
int view_is_terminal(const struct view *v) { return isatty(v->fd); }
int view_has_colour(const struct view *v) { return v->colour; }
int view_width(const struct view *v) { return term_width(v->fd); }
int view_height(const struct view *v) { return term_height(v->fd); }

void view_put(struct view *v, const void *lines, size_t n) {
    pthread_mutex_lock(&v->lock);
    struct pd_buf *q = &v->queue;
    if (v->broken) {
        /* no reader */
    } else if (q->len + n > VIEW_QUEUE_MAX) {
        v->dropped++;
    } else {
        if (v->dropped)
            pd_put_fmt(q, "paddlectl | %llu messages are not shown here, the output was not read\n",
                       (unsigned long long)v->dropped);
        v->dropped = 0;
        pd_put(q, lines, n);
        q->failed = 0; /* out of memory loses lines on the screen, nothing of the job */
    }
    pthread_cond_signal(&v->work);
    pthread_mutex_unlock(&v->lock);
}

void view_printf_to_stderr(struct view *v) { v->says_to_stderr = 1; }

void view_printf(struct view *v, const char *fmt, ...) {
    char text[2100], line[2200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (v->says_to_stderr) {
        fprintf(stderr, "paddlectl: %s\n", text);
        return;
    }
    const int warns = v->colour && pd_starts_with(text, "warning: ");
    int n = snprintf(line, sizeof line, "paddlectl | %s%s%s\n", warns ? "\033[33m" : "", text,
                     warns ? "\033[m" : "");
    view_put(v, line, (size_t)n);
}

void view_live(struct view *v, const char *text, size_t n) {
    if (!v->tty)
        return;
    pthread_mutex_lock(&v->lock);
    if (v->live.len != n || (n && memcmp(v->live.data, text, n))) {
        pd_buf_clear(&v->live);
        pd_put(&v->live, text, n);
        v->live.failed = 0;
        v->live_changed = 1;
        pthread_cond_signal(&v->work);
    }
    pthread_mutex_unlock(&v->lock);
}

void view_clear(struct view *v) {
    pthread_mutex_lock(&v->lock);
    v->clear = v->live_changed = v->tty;
    pthread_cond_signal(&v->work);
    pthread_mutex_unlock(&v->lock);
}

void view_pause(struct view *v, uint64_t wait_ms) {
    uint64_t due = pd_mono_ns() + wait_ms * 1000000u;
    struct timespec until = {.tv_sec = (time_t)(due / 1000000000u),
                             .tv_nsec = (long)(due % 1000000000u)};
    pthread_mutex_lock(&v->lock);
    v->paused = PAUSING;
    v->live_changed = 1;
    pthread_cond_signal(&v->work);
    int rc = 0;
    while (v->paused != PAUSED && !v->broken && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&v->idle, &v->lock, &until);
    v->paused = PAUSED;
    pthread_mutex_unlock(&v->lock);
}

void view_resume(struct view *v) {
    pthread_mutex_lock(&v->lock);
    v->paused = 0;
    v->live_changed = 1;
    pthread_cond_signal(&v->work);
    pthread_mutex_unlock(&v->lock);
}

size_t view_backlog(struct view *v) {
    pthread_mutex_lock(&v->lock);
    size_t n = v->broken ? 0 : v->queue.len + v->in_flight;
    pthread_mutex_unlock(&v->lock);
    return n;
}

int view_is_broken(struct view *v) {
    pthread_mutex_lock(&v->lock);
    int broken = v->broken;
    pthread_mutex_unlock(&v->lock);
    return broken;
}

int view_why_broken(struct view *v) {
    pthread_mutex_lock(&v->lock);
    int why = v->broken ? v->why : 0;
    pthread_mutex_unlock(&v->lock);
    return why;
}

void view_on_room(struct view *v, void (*room)(void *arg), void *arg) {
    pthread_mutex_lock(&v->lock);
    v->room = room;
    v->room_arg = arg;
    pthread_mutex_unlock(&v->lock);
}

int view_colour_parse(enum view_colour *out, const char *text, struct pd_err *err) {
    static const char *const names[] = {"auto", "always", "never"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(text ? text : "auto", names[i])) {
            *out = (enum view_colour)i;
            return 0;
        }
    return pd_fail(err, PD_EUSAGE, "--color is auto, always or never, not '%s'", text);
}
