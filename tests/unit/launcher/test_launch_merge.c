/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_merge.c - merges the lines of many sources by time: partial reads, "\r", repeats,
 * gaps, slow history, the limited wait for live lines, and the use of memory. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/view/merge.h"

enum { HOLD = 200, STALL = 10000 };

struct out {
    struct merge *m;
    struct pd_buf text; /* "source:line|", or only the lines if `plain` */
    int plain, room, lines, stalled;
    uint64_t last_us, last_offset;
};

static int on_line(void *arg, const struct merge_line *l) {
    struct out *o = arg;
    if (!o->plain)
        pd_put_fmt(&o->text, "%u:", l->source);
    pd_put(&o->text, l->text, l->n);
    pd_put_u8(&o->text, '|');
    o->last_us = l->time_us;
    o->last_offset = l->offset;
    o->lines++;
    return o->room > 0 && --o->room == 0;
}

static void on_stall(void *arg, unsigned source) {
    struct out *o = arg;
    o->stalled = (int)source + 1;
}

static void begin(struct out *o, unsigned n) {
    memset(o, 0, sizeof *o);
    pd_buf_init(&o->text);
    const struct merge_opts opts = {
        .n_sources = n, .hold_ms = HOLD, .stall_ms = STALL, .ev = {on_line, on_stall}, .arg = o};
    assert_int_equal(merge_new(&o->m, &opts, NULL), 0);
}

static void end(struct out *o) {
    merge_free(o->m);
    pd_buf_release(&o->text);
}

static void said(struct out *o, const char *want) {
    pd_put_u8(&o->text, 0);
    if (strcmp((char *)o->text.data, want))
        fail_msg("'%s', not '%s'", (char *)o->text.data, want);
    pd_buf_clear(&o->text);
}

static void feed(struct out *o, unsigned s, uint64_t offset, uint64_t us, const char *text,
                 uint64_t now) {
    assert_int_equal(merge_feed(o->m, s, offset, us, text, strlen(text), NULL, 0, now), 0);
}

/* --- lines --- */

static const struct {
    const char *name, *in, *want;
} lines[] = {
    {"lines", "a\nbc\n", "a|bc|"},
    {"no newline at the end", "a\nbc", "a|bc|"},
    {"empty lines", "\n\na\n", "||a|"},
    {"crlf", "a\r\nb\r\n", "a|b|"},
    {"the last version of a progress bar", "10%\r50%\r100%\ndone\n", "100%|done|"},
    {"cr cr lf", "a\r\r\n", "a|"},
    {"cr cr text", "a\r\rb\n", "b|"},
    {"a bar that is not ended", "10%\r50%\r", "50%|"},
    {"only cr", "\r\n\r\n", "||"},
    {"utf-8", "h\xc3\xa4\xe2\x82\xac\n", "h\xc3\xa4\xe2\x82\xac|"},
};

/* The input is cut at every place, and into single bytes, and merged after each piece. The lines
 * stay the same. */
static void test_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t n = strlen(lines[i].in);
        for (size_t cut = 0; cut <= n + 1; cut++) {
            struct out o;
            begin(&o, 1);
            o.plain = 1;
            merge_begin(o.m, 0, 0, 0, 0, 0);
            size_t step = cut <= n ? (cut ? cut : n) : 1;
            for (size_t at = 0; at < n; at += step) {
                if (at && cut <= n)
                    step = n - at;
                assert_int_equal(merge_feed(o.m, 0, at, 1, lines[i].in + at, step, NULL, 0, 0), 0);
                merge_run(o.m, HOLD);
            }
            merge_end(o.m, 0);
            merge_run(o.m, HOLD);
            pd_put_u8(&o.text, 0);
            if (strcmp((char *)o.text.data, lines[i].want))
                fail_msg("%s, cut at %zu: '%s'", lines[i].name, cut, (char *)o.text.data);
            assert_true(merge_is_empty(o.m, 0));
            end(&o);
        }
    }
}

static void test_offsets(void **state) {
    (void)state;
    struct out o;
    begin(&o, 1);
    merge_begin(o.m, 0, 0, 0, 0, 0);
    feed(&o, 0, 0, 1, "abc\nde", 0);
    feed(&o, 0, 0, 1, "abc\nde", 0); /* a repeat */
    feed(&o, 0, 4, 2, "def\n", 0);   /* half of a repeat */
    merge_run(o.m, HOLD);
    assert_int_equal(o.last_offset, 4);
    assert_int_equal(o.last_us, 2);
    feed(&o, 0, 8, 3, "cut", 0);
    feed(&o, 0, 20, 4, "x\n", 0);
    merge_run(o.m, HOLD);
    assert_int_equal(o.last_offset, 20);
    said(&o, "0:abc|0:def|0:cut|0:[9 bytes are missing here]|0:x|");
    assert_int_equal(merge_next_offset(o.m, 0), 22);
    end(&o);
}

/* A progress bar that runs for hours, and an endless line. */
static void test_memory_of_odd_lines(void **state) {
    (void)state;
    struct out o;
    char bar[100];
    static char big[1 << 20];
    uint64_t at = 0;
    begin(&o, 1);
    merge_begin(o.m, 0, 0, 0, 0, 0);
    memset(bar, '#', sizeof bar);
    for (int i = 0; i < 20000; i++, at += sizeof bar) {
        bar[i % 50] = '\r';
        assert_int_equal(merge_feed(o.m, 0, at, 1, bar, sizeof bar, NULL, 0, 0), 0);
        merge_run(o.m, HOLD);
        bar[i % 50] = '#';
    }
    assert_true(merge_peak_bytes(o.m) < 1000);
    assert_int_equal(merge_ack_offset(o.m, 0),
                     at); /* all bytes of an incomplete line are acknowledged */
    feed(&o, 0, at++, 1, "\n", 0);
    merge_run(o.m, HOLD);
    assert_int_equal(o.lines, 1);
    pd_buf_clear(&o.text);
    memset(big, 'x', sizeof big);
    for (int i = 0; i < 30; i++, at += sizeof big) {
        assert_int_equal(merge_feed(o.m, 0, at, 1, big, sizeof big, NULL, 0, 0), 0);
        merge_run(o.m, HOLD);
    }
    merge_end(o.m, 0);
    merge_run(o.m, HOLD);
    assert_true(o.lines > 3 && o.lines < 8);
    assert_int_equal(o.text.len, (size_t)30 * sizeof big + (size_t)(o.lines - 1) * 3);
    assert_true(merge_peak_bytes(o.m) < MERGE_LINE_MAX + 3 * sizeof big);
    end(&o);
}

/* --- the order --- */

static void test_history_waits(void **state) {
    (void)state;
    struct out o;
    begin(&o, 3);
    merge_begin(o.m, 0, 0, 6, 100, 0);
    feed(&o, 0, 0, 1, "a\n", 0);
    feed(&o, 0, 2, 50, "b\n", 0);
    feed(&o, 0, 4, 90, "c\n", 0);
    merge_begin(o.m, 1, 0, 6, 100, 0);
    merge_run(o.m, 4000);
    said(&o, ""); /* source 2 is not known yet */
    merge_begin(o.m, 2, 0, 0, 100, 0);
    merge_run(o.m, 5000);
    said(&o, ""); /* source 1 has history, so the merge waits without limit */
    feed(&o, 1, 0, 50, "B\n", 5000);
    feed(&o, 1, 2, 50, "C\n", 5000);
    merge_run(o.m, 5000);
    /* The order is stable for equal times; c waits for the rest of source 1. */
    said(&o, "0:a|0:b|1:B|1:C|");
    assert_true(merge_in_history(o.m));
    feed(&o, 1, 4, 95, "D\n", 5000);
    merge_run(o.m, 5000);
    /* The live source is silent, but these lines are older than its subscription. */
    said(&o, "0:c|1:D|");
    assert_false(merge_in_history(o.m));
    feed(&o, 0, 6, 101, "live\n", 5000);
    assert_int_equal(merge_run(o.m, 5050), 150);
    said(&o, "");
    assert_int_equal(merge_run(o.m, 5200), UINT64_MAX);
    said(&o, "0:live|");
    end(&o);
}

static void test_stall(void **state) {
    (void)state;
    struct out o;
    begin(&o, 2);
    merge_begin(o.m, 0, 0, 4, 100, 0);
    merge_begin(o.m, 1, 0, 4, 100, 0);
    feed(&o, 0, 0, 1, "a\nb\n", 0);
    feed(&o, 1, 0, 3, "C\n", STALL - 1);
    assert_true(merge_run(o.m, STALL + 100) <= 1000); /* the merge asks to be called again */
    assert_int_equal(o.stalled, 0);
    said(&o, "0:a|0:b|1:C|");
    feed(&o, 0, 4, 200, "c\n", STALL);
    merge_run(o.m, STALL + 300);
    said(&o, "");
    merge_run(o.m, 2 * STALL + 400);
    assert_int_equal(o.stalled, 2);
    said(&o, "0:c|");
    feed(&o, 1, 2, 4, "D\n", 3 * STALL); /* a late line is still shown */
    merge_run(o.m, 4 * STALL);
    said(&o, "1:D|");
    end(&o);
}

static void test_live_order(void **state) {
    (void)state;
    struct out o;
    begin(&o, 3);
    for (unsigned i = 0; i < 3; i++)
        merge_begin(o.m, i, 0, 0, 0, 0);
    feed(&o, 0, 0, 20, "late\n", 1000);
    feed(&o, 1, 0, 10, "early\n", 1150);
    merge_run(o.m, 1199);
    said(&o, "");
    merge_run(o.m,
              1200); /* the first line has waited long enough, and earlier lines come with it */
    said(&o, "1:early|0:late|");
    feed(&o, 0, 5, 30, "a\n", 2000);
    feed(&o, 1, 6, 31, "b\n", 2000);
    feed(&o, 2, 0, 32, "c\n", 2000);
    /* Every source has sent a line: a line that can't be overtaken does not wait. */
    merge_run(o.m, 2000);
    said(&o, "0:a|");
    merge_disconnect(o.m, 0);
    merge_run(o.m, 2001); /* the merge does not wait for a source that is gone */
    said(&o, "1:b|");
    merge_end(o.m, 1);
    merge_run(o.m, 2002);
    said(&o, "2:c|");
    merge_begin(o.m, 0, merge_next_offset(o.m, 0), 100, 0,
                3000); /* the source is back; it has no history, because it was live before */
    feed(&o, 2, 2, 40, "d\n", 3000);
    assert_int_equal(merge_run(o.m, 3000), HOLD);
    feed(&o, 0, 7, 33, "missed\n", 3100);
    merge_run(o.m, 3150);
    said(&o, "0:missed|");
    merge_run(o.m, 3200);
    said(&o, "2:d|");
    end(&o);
}

/* A node whose clock is slow or goes back loses no lines and does not delay others. */
static void test_clocks(void **state) {
    (void)state;
    struct out o;
    begin(&o, 2);
    merge_begin(o.m, 0, 0, 0, 0, 0);
    merge_begin(o.m, 1, 0, 0, 0, 0);
    feed(&o, 0, 0, 1000, "a\n", 0);
    feed(&o, 0, 2, 500, "b\n", 0);
    feed(&o, 1, 0, 7, "c\n", 0);
    feed(&o, 0, 4, 1500, "d\n", 0);
    merge_run(o.m, HOLD);
    said(&o, "1:c|0:a|0:b|0:d|");
    end(&o);
}

static void test_room(void **state) {
    (void)state;
    struct out o;
    begin(&o, 2);
    merge_begin(o.m, 0, 0, 0, 0, 0);
    merge_begin(o.m, 1, 0, 0, 0, 0);
    feed(&o, 0, 0, 1, "a\nb\nc\nhalf", 0);
    feed(&o, 1, 0, 2, "A\nB\n", 0);
    assert_int_equal(merge_ack_offset(o.m, 0), 0);
    o.room = 2;
    assert_int_equal(merge_run(o.m, HOLD), UINT64_MAX);
    said(&o, "0:a|0:b|");
    /* The rest still counts against the sender's window. */
    assert_int_equal(merge_ack_offset(o.m, 0), 4);
    assert_false(merge_is_empty(o.m, 0));
    o.room = 2;
    merge_run(o.m, HOLD);
    said(&o, "0:c|1:A|");
    merge_run(o.m, HOLD);
    said(&o, "1:B|");
    assert_int_equal(merge_ack_offset(o.m, 0), 10);
    assert_int_equal(merge_ack_offset(o.m, 1), 4);
    end(&o);
}

static void test_times(void **state) {
    (void)state;
    struct out o;
    struct pd_buf t;
    begin(&o, 2);
    pd_buf_init(&t);
    merge_begin(o.m, 0, 0, 0, 0, 0);
    merge_begin(o.m, 1, 0, 0, 0, 0);
    pd_put_u64(&t, 2);
    pd_put_u64(&t, 20);
    pd_put_u64(&t, 5); /* inside the third line, which is shown when its end comes */
    pd_put_u64(&t, 30);
    assert_int_equal(t.failed, 0);
    assert_int_equal(merge_feed(o.m, 0, 0, 10, "a\nb\nc\n", 6, t.data, 2, 0), 0);
    feed(&o, 1, 0, 15, "A\n", 0);
    feed(&o, 1, 2, 25, "B\n", 0);
    merge_run(o.m, HOLD);
    said(&o, "0:a|1:A|0:b|1:B|0:c|");
    assert_int_equal(o.last_us, 30);
    assert_int_equal(merge_feed(o.m, 0, 6, 10, "a\n", 2, t.data, 2, 0),
                     PD_EPROTO); /* the offset is outside the bytes */
    assert_int_equal(merge_next_offset(o.m, 0), 6);
    pd_buf_release(&t);
    end(&o);
}

/* --- many random sources, compared with a sorted list --- */

enum { N_SOURCES = 9, N_LINES = 3000 };

struct ref {
    uint64_t us;
    unsigned source, n;
};

static int by_time(const void *x, const void *y) {
    const struct ref *a = x, *b = y;
    if (a->us != b->us)
        return a->us < b->us ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return a->n < b->n ? -1 : a->n > b->n;
}

static unsigned rnd(uint64_t *seed, unsigned n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % n;
}

static void one_random(uint64_t seed, int is_history) {
    struct out o;
    struct pd_buf bytes[N_SOURCES], want;
    struct ref *refs = calloc(N_LINES, sizeof *refs);
    uint64_t *ends = calloc(N_LINES, sizeof *ends), us[N_SOURCES] = {0}, at[N_SOURCES] = {0},
             now = 0;
    unsigned n_of[N_SOURCES] = {0}, left = N_SOURCES;
    begin(&o, N_SOURCES);
    pd_buf_init(&want);
    for (unsigned s = 0; s < N_SOURCES; s++)
        pd_buf_init(&bytes[s]);
    for (unsigned i = 0; i < N_LINES; i++) {
        unsigned s = rnd(&seed, N_SOURCES), pad = rnd(&seed, 40) ? rnd(&seed, 30) : 5000;
        us[s] += rnd(&seed, 3) * 10;
        refs[i] = (struct ref){us[s], s, n_of[s]++};
        pd_put_fmt(&bytes[s], "%u %*s\n", refs[i].n, (int)pad, "x");
        ends[i] = bytes[s].len;
    }
    for (unsigned s = 0; s < N_SOURCES; s++)
        merge_begin(o.m, s, 0, is_history ? bytes[s].len : 0, 1u << 30, 0);
    while (left) { /* lines or parts of lines from random sources, each with its line's time */
        unsigned s = rnd(&seed, N_SOURCES), i = 0;
        if (at[s] == bytes[s].len)
            continue;
        while (refs[i].source != s || ends[i] <= at[s])
            i++;
        size_t n = ends[i] - at[s], k = 1 + rnd(&seed, 40) % n;
        assert_int_equal(
            merge_feed(o.m, s, at[s], refs[i].us, bytes[s].data + at[s], k, NULL, 0, now), 0);
        at[s] += k;
        if (at[s] == bytes[s].len) {
            left--;
            merge_end(o.m, s);
        }
        o.room = is_history ? (int)rnd(&seed, 3) : 0;
        if (is_history)
            merge_run(o.m, now += rnd(&seed, 100));
    }
    o.room = 0;
    merge_run(o.m, now + HOLD);
    qsort(refs, N_LINES, sizeof *refs, by_time);
    assert_int_equal(o.lines, N_LINES);
    const char *p = (const char *)o.text.data;
    for (unsigned i = 0; i < N_LINES; i++) {
        char head[40];
        int k = snprintf(head, sizeof head, "%u:%u ", refs[i].source, refs[i].n);
        if (strncmp(p, head, (size_t)k))
            fail_msg("line %u is '%.20s', not '%s'", i, p, head);
        p = strchr(p, '|') + 1;
    }
    for (unsigned s = 0; s < N_SOURCES; s++)
        pd_buf_release(&bytes[s]);
    pd_buf_release(&want);
    free(refs);
    free(ends);
    end(&o);
}

static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        one_random(seed, 1);
        one_random(seed, 0);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    struct out o;
    begin(&o, 1);
    merge_begin(o.m, 0, 0, 0, 0, 0);
    pd_fault_arm("alloc:1");
    assert_int_equal(merge_feed(o.m, 0, 0, 1, "a\n", 2, NULL, 0, 0), PD_ENOMEM);
    pd_fault_arm(NULL);
    feed(&o, 0, 0, 1, "a\n", 0); /* subscribed again, without a gap */
    merge_run(o.m, HOLD);
    said(&o, "0:a|");
    end(&o);
    for (int i = 1; i < 4; i++) {
        char arm[20];
        struct pd_err err = {0};
        const struct merge_opts opts = {.n_sources = 3};
        snprintf(arm, sizeof arm, "alloc:%d", i);
        pd_fault_arm(arm);
        assert_int_equal(merge_new(&o.m, &opts, &err), PD_ENOMEM);
        pd_fault_arm(NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_memory_of_odd_lines),
        cmocka_unit_test(test_history_waits),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_live_order),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
