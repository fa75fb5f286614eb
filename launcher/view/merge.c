/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - see merge.h.
 *
 * A source has a list of pieces as they were fed, and a cursor in it. Its head is its next complete
 * line, found by searching the newline. The head stays in its piece (no copy) unless it began in an
 * earlier piece or holds a "\r": then it is put together in `part`.
 *
 * The heap holds the sources with a head, by (time, source). A source without a head bounds what
 * may be emitted, by the time of its last bytes: `hard` if these are history, `soft` if live. The
 * soft bound does not hold back heads that have waited hold_ms. */
#include "launcher/view/merge.h"

enum { PART_KEPT = 256 << 10, STALL_LOOK_MS = 500 };

enum state { WAITING, HISTORY, LIVE, AWAY, ENDED };

struct merge_piece {
    struct merge_piece *next;
    uint64_t offset, received_ms, time_us;
    uint64_t missing;     /* missing bytes before this piece */
    size_t n, n_times, t; /* times[0..t) begin at or before the cursor */
    const uint8_t *times; /* stored behind the bytes */
    uint8_t bytes[];
};

struct merge_source {
    enum state state;
    uint64_t next, history_end, last_ms;
    uint64_t live_from_us; /* live bytes came after this time */
    struct merge_piece *first, **last;
    size_t at;        /* the cursor: index in the first piece */
    uint64_t seen_us; /* time of the last bytes fed; never decreases */
    /* an incomplete line, or a head that does not lie in one piece */
    struct pd_buf part;
    uint64_t part_offset;
    int has_head, in_heap;
    struct merge_line head;
    /* the head's time; never decreases, even if the node's clock does */
    uint64_t key_us;
    uint64_t head_ms; /* when the head was received */
    /* bytes at the cursor that the head takes; 0: it is in `part` */
    size_t head_used;
};

struct bound { /* only heads before it may be emitted */
    uint64_t time_us;
    unsigned source;
};

struct merge {
    struct merge_opts o;
    struct merge_source *src;
    unsigned *heap, n_heap;
    size_t bytes, peak;
    uint64_t now_ms;
};

static const struct bound no_bound = {UINT64_MAX, UINT32_MAX};

static int before(uint64_t t, unsigned s, struct bound b) {
    return t < b.time_us || (t == b.time_us && s < b.source);
}
static struct bound least(struct bound a, struct bound b) {
    return before(a.time_us, a.source, b) ? a : b;
}
static struct bound most(struct bound a, struct bound b) {
    return before(a.time_us, a.source, b) ? b : a;
}

static void count(struct merge *m, size_t more, size_t less) {
    m->bytes += more - less;
    if (m->bytes > m->peak)
        m->peak = m->bytes;
}

int merge_new(struct merge **out, const struct merge_opts *o, struct pd_err *err) {
    struct merge *m = pd_calloc(1, sizeof *m);
    if (m) {
        m->o = *o;
        m->src = pd_calloc(o->n_sources ? o->n_sources : 1, sizeof *m->src);
        m->heap = pd_calloc(o->n_sources ? o->n_sources : 1, sizeof *m->heap);
    }
    if (!m || !m->src || !m->heap) {
        if (m)
            m->o.n_sources = 0;
        merge_free(m);
        return pd_oom(err, "log lines");
    }
    for (unsigned i = 0; i < o->n_sources; i++)
        m->src[i].last = &m->src[i].first;
    *out = m;
    return 0;
}

static void drop_first(struct merge *m, struct merge_source *s) {
    struct merge_piece *p = s->first;
    count(m, 0, sizeof *p + p->n + p->n_times * 16);
    s->first = p->next;
    if (!s->first)
        s->last = &s->first;
    s->at = 0;
    free(p);
}

void merge_free(struct merge *m) {
    if (!m)
        return;
    for (unsigned i = 0; m->src && i < m->o.n_sources; i++) {
        while (m->src[i].first)
            drop_first(m, &m->src[i]);
        pd_buf_release(&m->src[i].part);
    }
    free(m->src);
    free(m->heap);
    free(m);
}

/* --- the heap: sources with a head, the earliest on top --- */

static int earlier(const struct merge *m, unsigned a, unsigned b) {
    return before(m->src[a].key_us, a, (struct bound){m->src[b].key_us, b});
}

static void sift_up(struct merge *m, unsigned i) {
    for (unsigned s = m->heap[i]; i; i = (i - 1) / 2) {
        unsigned up = (i - 1) / 2;
        if (!earlier(m, s, m->heap[up]))
            return;
        m->heap[i] = m->heap[up];
        m->heap[up] = s;
    }
}

static void sift_down(struct merge *m, unsigned i) {
    for (;;) {
        unsigned k = 2 * i + 1, s = m->heap[i];
        if (k + 1 < m->n_heap && earlier(m, m->heap[k + 1], m->heap[k]))
            k++;
        if (k >= m->n_heap || !earlier(m, m->heap[k], s))
            return;
        m->heap[i] = m->heap[k];
        m->heap[k] = s;
        i = k;
    }
}

static void push(struct merge *m, unsigned s) {
    m->src[s].in_heap = 1;
    m->heap[m->n_heap++] = s;
    sift_up(m, m->n_heap - 1);
}

static void pop(struct merge *m) {
    m->src[m->heap[0]].in_heap = 0;
    m->heap[0] = m->heap[--m->n_heap];
    sift_down(m, 0);
}

/* --- bytes into lines --- */

/* The time of the byte at index `i` of the piece. Callers ask with ascending i. */
static uint64_t time_at(struct merge_piece *p, size_t i) {
    struct pd_reader r;
    while (p->t < p->n_times) {
        pd_reader_init(&r, p->times + p->t * 16, 16);
        if (pd_get_u64(&r) > p->offset + i)
            break;
        p->time_us = pd_get_u64(&r);
        p->t++;
    }
    return p->time_us;
}

/* The last version of a line that "\r" has overwritten. */
static const char *last_version(const char *text, size_t *n) {
    while (*n && text[*n - 1] == '\r')
        --*n;
    const char *cr = *n ? memrchr(text, '\r', *n) : NULL;
    if (!cr)
        return text;
    *n -= (size_t)(cr + 1 - text);
    return cr + 1;
}

/* Drop overwritten text at once: a progress bar that never ends its line must not grow. */
static void part_add(struct merge *m, struct merge_source *s, const uint8_t *p, size_t n) {
    size_t old = s->part.len, end = n;
    while (end && p[end - 1] == '\r')
        end--;
    const uint8_t *cr = end ? memrchr(p, '\r', end) : NULL;
    int over = cr || (end && old && s->part.data[old - 1] == '\r');
    if (over) {
        pd_buf_clear(&s->part);
        n -= cr ? (size_t)(cr + 1 - p) : 0;
        p = cr ? cr + 1 : p;
    }
    pd_put(&s->part, p, n);
    /* out of memory loses a part of a line on the screen, nothing of the job */
    s->part.failed = 0;
    count(m, s->part.len, old);
}

static void set_head(struct merge_source *s, const char *text, size_t n, uint64_t offset,
                     uint64_t time_us, uint64_t received_ms) {
    s->has_head = 1;
    s->head.text = last_version(text, &n);
    s->head.n = n;
    s->head.offset = offset;
    s->head.time_us = time_us;
    s->head_ms = received_ms;
    if (time_us > s->key_us)
        s->key_us = time_us;
}

static void head_of_part(struct merge_source *s, uint64_t time_us, uint64_t received_ms) {
    set_head(s, (const char *)s->part.data, s->part.len, s->part_offset, time_us, received_ms);
    s->head_used = 0;
}

/* Bytes are missing before the first piece: emit the cut line, then a note. */
static void tell_missing(struct merge *m, struct merge_source *s) {
    struct merge_piece *p = s->first;
    if (!s->part.len) {
        pd_put_fmt(&s->part, "[%llu bytes are missing here]", (unsigned long long)p->missing);
        count(m, s->part.len, 0);
        s->part_offset = p->offset - p->missing;
        p->missing = 0;
    }
    head_of_part(s, p->time_us, p->received_ms);
}

/* Find the source's next complete line. An incomplete line moves to `part`. */
static void find_head(struct merge *m, struct merge_source *s) {
    while (!s->has_head && s->first) {
        struct merge_piece *p = s->first;
        if (p->missing) {
            tell_missing(m, s);
            return;
        }
        const uint8_t *from = p->bytes + s->at, *nl = memchr(from, '\n', p->n - s->at);
        size_t n = nl ? (size_t)(nl - from) : p->n - s->at;
        uint64_t offset = p->offset + s->at, received_ms = p->received_ms,
                 time_us = time_at(p, s->at + n - !nl);
        if (nl && !s->part.len) {
            set_head(s, (const char *)from, n, offset, time_us, received_ms);
            s->head_used = n + 1;
            return;
        }
        if (!s->part.len)
            s->part_offset = offset;
        part_add(m, s, from, n);
        s->at += n + (nl != NULL);
        if (s->at == p->n)
            drop_first(m, s);
        if (nl || s->part.len > MERGE_LINE_MAX) /* an endless line is shown in pieces */
            head_of_part(s, time_us, received_ms);
    }
    if (!s->has_head && s->state == ENDED && s->part.len)
        head_of_part(s, s->seen_us, s->last_ms);
}

static void head_is_out(struct merge *m, struct merge_source *s) {
    s->has_head = 0;
    if (s->head_used) {
        s->at += s->head_used;
        if (s->at == s->first->n)
            drop_first(m, s);
        return;
    }
    count(m, 0, s->part.len);
    if (s->part.cap > PART_KEPT)
        pd_buf_release(&s->part);
    pd_buf_clear(&s->part);
}

/* --- from outside --- */

void merge_begin(struct merge *m, unsigned source, uint64_t start, uint64_t history_end,
                 uint64_t node_now_us, uint64_t now_ms) {
    struct merge_source *s = &m->src[source];
    s->state = s->state == AWAY || start >= history_end ? LIVE : HISTORY;
    s->next = start;
    s->history_end = history_end;
    s->live_from_us = node_now_us;
    s->last_ms = now_ms;
}

/* Check that the times ascend and lie within the bytes. *last_us is the time of the last bytes. */
static int check_times(uint64_t offset, size_t n, const uint8_t *times, size_t n_times,
                       uint64_t *last_us) {
    struct pd_reader r;
    uint64_t last = offset;
    pd_reader_init(&r, times, n_times * 16);
    for (size_t i = 0; i < n_times; i++) {
        uint64_t at = pd_get_u64(&r);
        if (at < last || at - offset >= n)
            return PD_EPROTO;
        last = at;
        *last_us = pd_get_u64(&r);
    }
    return 0;
}

int merge_feed(struct merge *m, unsigned source, uint64_t offset, uint64_t time_us,
               const void *bytes, size_t n, const uint8_t *times, size_t n_times, uint64_t now_ms) {
    struct merge_source *s = &m->src[source];
    uint64_t last_us = time_us,
             old = offset < s->next ? s->next - offset : 0; /* old: bytes that were fed before */
    s->last_ms = now_ms;
    if (s->state == ENDED || old >= n)
        return 0;
    if (check_times(offset, n, times, n_times, &last_us))
        return PD_EPROTO;
    n -= (size_t)old;
    struct merge_piece *p = pd_malloc(sizeof *p + n + n_times * 16);
    if (!p)
        return PD_ENOMEM;
    *p = (struct merge_piece){.offset = offset + old,
                              .received_ms = now_ms,
                              .time_us = time_us,
                              .n = n,
                              .n_times = n_times,
                              .times = p->bytes + n,
                              .missing = offset > s->next ? offset - s->next : 0};
    memcpy(p->bytes, (const uint8_t *)bytes + old, n);
    if (n_times)
        memcpy(p->bytes + n, times, n_times * 16);
    count(m, sizeof *p + n + n_times * 16, 0);
    *s->last = p;
    s->last = &p->next;
    s->next = p->offset + n;
    if (last_us > s->seen_us)
        s->seen_us = last_us;
    if (s->state == HISTORY && s->next >= s->history_end)
        s->state = LIVE;
    return 0;
}

void merge_end(struct merge *m, unsigned source) { m->src[source].state = ENDED; }

void merge_disconnect(struct merge *m, unsigned source) {
    if (m->src[source].state != ENDED)
        m->src[source].state = AWAY;
}

uint64_t merge_next_offset(const struct merge *m, unsigned source) { return m->src[source].next; }

uint64_t merge_ack_offset(const struct merge *m, unsigned source) {
    const struct merge_source *s = &m->src[source];
    return s->first ? s->first->offset + s->at : s->next;
}

int merge_is_empty(const struct merge *m, unsigned source) {
    return !m->src[source].has_head && !m->src[source].first;
}

int merge_in_history(const struct merge *m) {
    for (unsigned i = 0; i < m->o.n_sources; i++) {
        const struct merge_source *s = &m->src[i];
        if (s->state == WAITING || s->state == HISTORY ||
            (s->has_head && s->head.offset < s->history_end) ||
            (s->first && s->first->offset + s->at < s->history_end))
            return 1;
    }
    return 0;
}

size_t merge_peak_bytes(const struct merge *m) { return m->peak; }

/* --- the order --- */

/* Lower the bounds to the earliest line that this source, which has no head, may still get. */
static void bound_of(struct merge *m, unsigned i, struct bound *hard, struct bound *soft) {
    struct merge_source *s = &m->src[i];
    uint64_t live_us = s->seen_us > s->live_from_us ? s->seen_us : s->live_from_us;
    if (s->state == WAITING)
        *hard = (struct bound){0, 0};
    else if (s->state == HISTORY)
        *hard = least(*hard, (struct bound){s->seen_us, i});
    else if (s->state == LIVE)
        *soft = least(*soft, (struct bound){live_us, i});
}

/* If a source's history does not arrive in time, stop waiting for it. Lines emitted so far stay in
 * order. */
static void check_stall(struct merge *m, unsigned i, uint64_t now_ms) {
    struct merge_source *s = &m->src[i];
    if (s->state != HISTORY || s->has_head || now_ms - s->last_ms < m->o.stall_ms)
        return;
    s->state = LIVE;
    if (m->o.ev.on_stall)
        m->o.ev.on_stall(m->o.arg, i);
}

/* Emit lines of the earliest source while they come before those of all others. 1: on_line takes no
 * more. */
static int emit_run(struct merge *m, struct bound limit) {
    unsigned i = m->heap[0];
    struct merge_source *s = &m->src[i];
    int full = 0;
    pop(m);
    if (m->n_heap)
        limit = least(limit, (struct bound){m->src[m->heap[0]].key_us, m->heap[0]});
    while (!full && s->has_head && before(s->key_us, i, limit)) {
        s->head.source = i;
        full = m->o.ev.on_line(m->o.arg, &s->head);
        head_is_out(m, s);
        find_head(m, s);
    }
    if (s->has_head)
        push(m, i);
    /* the source's window opens only now */
    s->last_ms = m->now_ms;
    return full;
}

static uint64_t next_wait(const struct merge *m, uint64_t now_ms, int waits_for_history) {
    uint64_t wait = waits_for_history ? STALL_LOOK_MS : UINT64_MAX;
    for (unsigned k = 0; k < m->n_heap && !waits_for_history; k++) {
        uint64_t due = m->src[m->heap[k]].head_ms + m->o.hold_ms;
        uint64_t left = due > now_ms ? due - now_ms : 1;
        wait = left < wait ? left : wait;
    }
    return wait;
}

uint64_t merge_run(struct merge *m, uint64_t now_ms) {
    struct bound hard = no_bound, soft = no_bound, held = {0, 0};
    m->now_ms = now_ms;
    for (unsigned i = 0; i < m->o.n_sources; i++) {
        struct merge_source *s = &m->src[i];
        if (!s->has_head)
            find_head(m, s);
        check_stall(m, i, now_ms);
        if (!s->has_head)
            bound_of(m, i, &hard, &soft);
        else if (!s->in_heap)
            push(m, i);
    }
    /* heads that have waited long enough may go, and all heads before them */
    for (unsigned k = 0; k < m->n_heap; k++) {
        const struct merge_source *s = &m->src[m->heap[k]];
        if (now_ms - s->head_ms >= m->o.hold_ms)
            held = most(held, (struct bound){s->key_us, m->heap[k] + 1});
    }
    while (m->n_heap) {
        unsigned i = m->heap[0];
        struct merge_source *s = &m->src[i];
        if (now_ms - s->head_ms >= m->o.hold_ms)
            held = most(held, (struct bound){s->key_us, i + 1});
        struct bound limit = least(hard, most(soft, held));
        if (!before(s->key_us, i, limit))
            break;
        if (emit_run(m, limit))
            return UINT64_MAX;
        if (!s->has_head)
            bound_of(m, i, &hard, &soft);
    }
    return next_wait(m, now_ms, hard.time_us != UINT64_MAX);
}
