/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_view.c - what a hostile node sends of its logs and events: frames of AG_LOG through the
 * merger, lines as text for a terminal and as JSON, events of trainers as progress. No line is torn
 * or doubled, and nothing but tabs, newlines and colours reaches a terminal.
 *
 * Input: frames: u8 source (the third is the stream of events), u8 how, u8 time, u8 length and the
 * bytes. */
#include "launcher/view/merge.h"
#include "launcher/view/show_text.h"
#include "launcher/view/trainers.h"
#include "tests/support/fuzz/fuzz.h"

enum { SOURCES = 3, EVENTS = 2, FRAMES = 200 };

struct seen {
    struct merge *m;
    struct trainers *t;
    uint64_t now, next[SOURCES];
};

/* Only these may follow an ESC. */
static void check_terminal(const struct pd_buf *b) {
    for (size_t i = 0; i < b->len;) {
        const char *s = (const char *)b->data + i;
        size_t bad, n = pd_printable(s, b->len - i, &bad);
        i += n;
        if (!bad)
            return;
        s += n;
        if (*s == '\n' || *s == '\t') {
            i++;
            continue;
        }
        fuzz_check(*s == 27 && s[1] == '[');
        n = 2 + strspn(s + 2, "0123456789;:");
        fuzz_check(i + n < b->len && s[n] == 'm');
        i += n + 1;
    }
}

static void check_json(const struct pd_buf *inside) {
    struct pd_buf b = {0};
    json_error_t e;
    pd_put_fmt(&b, "[\"");
    pd_put(&b, inside->data, inside->len);
    pd_put_fmt(&b, "\"]");
    json_t *o = json_loadb((const char *)b.data, b.len, JSON_ALLOW_NUL, &e);
    fuzz_check(json_is_array(o));
    json_decref(o);
    pd_buf_release(&b);
}

static int on_line(void *arg, const struct merge_line *l) {
    struct seen *s = arg;
    struct pd_buf text = {0}, json = {0};
    enum show_level level;
    fuzz_check(l->source < SOURCES && !memchr(l->text, '\n', l->n));
    fuzz_check(show_prefix(l->text, l->n, &level) <= l->n);
    if (l->source == EVENTS) {
        (void)trainers_event(s->t, (unsigned)(l->offset % 4), l->text, l->n, s->now);
        return 0;
    }
    show_put_text(&text, l->text, l->n, level, 1);
    show_put_json(&json, l->text, l->n);
    pd_put_u8(&text, 0);
    text.len--;
    check_terminal(&text);
    check_json(&json);
    pd_buf_release(&text);
    pd_buf_release(&json);
    return 0;
}

static void look(struct seen *s) {
    struct trainers_summary sum;
    char text[300];
    if (!trainers_look(s->t, s->now, &sum))
        return;
    progress_text(&sum.p, text, sizeof text);
    fuzz_check(strlen(text) < sizeof text);
    fuzz_check(sum.p.fraction <= 1 && sum.n_waits_for <= 4);
}

FUZZ(in) {
    struct seen s = {.now = 1000};
    const struct merge_opts o = {.n_sources = SOURCES,
                                 .hold_ms = 50,
                                 .stall_ms = 500,
                                 .ev = {.on_line = on_line},
                                 .arg = &s};
    fuzz_check(!merge_new(&s.m, &o, NULL) && !trainers_new(&s.t, 4, NULL));
    for (unsigned i = 0; i < SOURCES; i++)
        merge_begin(s.m, i, 0, i * 100, 1000000, s.now);
    for (int i = 0; i < FRAMES && fuzz_left(in); i++) {
        const unsigned source = fuzz_u8(in) % SOURCES, how = fuzz_u8(in);
        const uint64_t at = (uint64_t)fuzz_u8(in) * 1000 * 20 + 900000;
        const size_t n = fuzz_u8(in), n_times = how & 1 ? how >> 4 & 3 : 0;
        const uint8_t *bytes = fuzz_bytes(in, n), *times = fuzz_bytes(in, 16 * n_times);
        const uint64_t back = how & 2 ? fuzz_u8(in) : 0, next = merge_next_offset(s.m, source);
        const uint64_t offset = how & 4 ? next + back : back < next ? next - back : 0;
        if (how == 8)
            merge_disconnect(s.m, source);
        else if (how == 16)
            merge_end(s.m, source);
        else
            (void)merge_feed(s.m, source, offset, at, bytes, n, times, n_times, s.now);
        fuzz_check(merge_next_offset(s.m, source) >= next);
        fuzz_check(merge_ack_offset(s.m, source) <= merge_next_offset(s.m, source));
        s.now += how & 32 ? 100 : 1;
        (void)merge_run(s.m, s.now);
        look(&s);
        while (fuzz_kept.n)
            free(fuzz_kept.p[--fuzz_kept.n]);
    }
    for (unsigned i = 0; i < SOURCES; i++)
        merge_end(s.m, i);
    (void)merge_run(s.m, s.now + 10000);
    merge_free(s.m);
    trainers_free(s.t);
}
